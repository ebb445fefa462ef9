"""One version and one description in every file that names them."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import yaml

import batfill

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
ZENODO = json.loads((ROOT / ".zenodo.json").read_text())
CODEMETA = json.loads((ROOT / "codemeta.json").read_text())
RECIPE = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text())
FLAKE = (ROOT / "flake.nix").read_text()


def script(path):
    spec = importlib.util.spec_from_file_location("script", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_flake(pattern):
    (found,) = re.findall(pattern, FLAKE, re.DOTALL)
    return found


def test_every_file_names_the_version_of_the_package():
    of_flake = in_flake(r'pname = "batfill";\s+version = "(.+?)"')
    cited = [CITATION["version"], ZENODO["version"], CODEMETA["version"], RECIPE["context"]["version"], of_flake]
    for path in ("docker/ci/github.yml", "docker/ci/gitlab.yml"):
        cited += re.findall(r"batfill==([\d.]+)", (ROOT / path).read_text())
    assert cited == [batfill.__version__] * 7


def test_every_file_has_the_name_description_licence_authors_and_keywords_of_the_project():
    assert CODEMETA["name"] == RECIPE["package"]["name"] == PROJECT["name"]
    assert CITATION["title"] == ZENODO["title"] == f"{PROJECT['name']}: {PROJECT['description']}"
    assert CODEMETA["description"] == RECIPE["about"]["summary"] == PROJECT["description"]
    assert in_flake(r'description = "(.+?)"') == PROJECT["description"]
    licences = [CITATION["license"], ZENODO["license"], CODEMETA["license"], RECIPE["about"]["license"]]
    assert {name.removeprefix("https://spdx.org/licenses/") for name in licences} == {PROJECT["license"]}
    assert CITATION["authors"] == ZENODO["creators"] == PROJECT["authors"]
    assert [author["name"] for author in CODEMETA["author"]] == [author["name"] for author in PROJECT["authors"]]
    assert CITATION["keywords"] == ZENODO["keywords"] == CODEMETA["keywords"] == PROJECT["keywords"]


def spaced(requirement):
    """A requirement as conda writes it."""
    return re.sub(r"(?<=[\w])(?=[<>=])", " ", requirement.lower(), count=1)


def test_conda_and_nix_install_what_pip_does():
    python = f"python {PROJECT['requires-python']}"
    libraries = [spaced(requirement) for requirement in PROJECT["dependencies"]]
    assert RECIPE["requirements"]["run"] == [python, *libraries]
    build = [*PYPROJECT["build-system"]["requires"], script("scripts/kernels.py").NUMBA]
    assert RECIPE["requirements"]["host"] == [python, "pip", *map(spaced, build)]
    assert yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"][0] == python
    assert CODEMETA["runtimePlatform"].lower() == python
    names = [library.split()[0] for library in libraries]
    assert in_flake(r"ps: with ps; \[(.+?)\]").replace("(procset ps)", "procset").split() == names
    for_tests = [re.match(r"[\w-]+", requirement)[0] for requirement in PROJECT["optional-dependencies"]["test-core"]]
    assert in_flake(r"\(with ps; \[(.+?)\]\)").split() == sorted([*for_tests, "numba"])
