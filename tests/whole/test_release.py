"""One version and one description in every file that names them, and a tag that names that version."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import batfill

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
ZENODO = json.loads((ROOT / ".zenodo.json").read_text())
CODEMETA = json.loads((ROOT / "codemeta.json").read_text())
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())


def script(path):
    spec = importlib.util.spec_from_file_location("script", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_names_the_version_of_the_package():
    cited = [CITATION["version"], ZENODO["version"], CODEMETA["version"]]
    for path in ("docker/ci/github.yml", "docker/ci/gitlab.yml"):
        cited += re.findall(r"batfill==([\d.]+)", (ROOT / path).read_text())
    assert cited == [batfill.__version__] * 5


def test_every_file_has_the_name_description_licence_authors_and_keywords_of_the_project():
    assert CODEMETA["name"] == PROJECT["name"]
    assert CITATION["title"] == ZENODO["title"] == f"{PROJECT['name']}: {PROJECT['description']}"
    assert CODEMETA["description"] == PROJECT["description"]
    licences = [CITATION["license"], ZENODO["license"], CODEMETA["license"]]
    assert {name.removeprefix("https://spdx.org/licenses/") for name in licences} == {PROJECT["license"]}
    assert CITATION["authors"] == ZENODO["creators"] == PROJECT["authors"]
    assert [author["name"] for author in CODEMETA["author"]] == [author["name"] for author in PROJECT["authors"]]
    assert CITATION["keywords"] == ZENODO["keywords"] == CODEMETA["keywords"] == PROJECT["keywords"]


@pytest.mark.parametrize(
    ("tag", "heading", "why"),
    [
        ("v1.2.0", "1.2.0, 2026-11-25", None),
        ("v1.2.1", "1.2.0, 2026-11-25", "version.py says 1.2.0"),
        ("1.2.0", "1.2.0, 2026-11-25", "version.py says 1.2.0"),
        ("v1.2.0", "1.2.0, not released yet", "no heading with a date"),
        ("v1.2.0", "1.2.0.1, 2026-11-25", "no heading with a date"),
    ],
)
def test_a_tag_is_refused_unless_it_names_the_version_and_the_changelog_dates_it(tmp_path, tag, heading, why):
    source = tmp_path / "schedulers/batfill/base/version.py"
    source.parent.mkdir(parents=True)
    source.write_text('"""The version."""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n")
    said = script(".ci/version.py").refusal(tag, tmp_path)
    assert said is None if why is None else why in said


def steps(job):
    return WORKFLOW["jobs"][job].get("steps", [])


def before(job):
    """The jobs that end well before this one starts."""
    needs = WORKFLOW["jobs"][job].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*map(before, direct))


def test_nothing_is_published_before_the_tag_is_checked_and_all_tests_pass():
    assert WORKFLOW["permissions"] == {}
    for name, job in WORKFLOW["jobs"].items():
        if "write" in job["permissions"].values():
            assert before(name) >= {"version", "ci"}, name
    assert steps("version")[-1]["run"].startswith("make version-check ")
    assert "workflow_call" in (ROOT / ".github/workflows/ci.yml").read_text()
