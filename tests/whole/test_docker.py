"""The container files, as far as text can be checked: nothing here starts a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")


COPIED = [source for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]]


def test_what_the_dockerfile_copies_is_let_through_and_nothing_else():
    let_through = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert sorted(line[1:] for line in let_through if line.startswith("!")) == sorted(COPIED)


def test_what_the_container_files_name_exists():
    assert not [source for source in COPIED if not (ROOT / source).exists()]
    compose = (DOCKER / "compose.yaml").read_text()
    named = re.findall(r"^ +(?:-[pw]|dockerfile:) (\S+)", compose, re.MULTILINE)
    assert len(named) == 3
    assert not [source for source in named if not (ROOT / source).exists()]


def test_what_the_dockerfile_copies_is_enough_to_build_batfill(tmp_path):
    for source in COPIED:
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).symlink_to((ROOT / source).resolve(strict=True))
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "dist").glob("batfill-*.whl"))


def steps():
    """The Dockerfile's ENV, COPY and RUN, in order: (word, rest of the line)."""
    return re.findall(r"^(ENV|COPY|RUN) (.+)$", DOCKERFILE, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(
    "BATFILL_INSTALLS" not in os.environ, reason="takes minutes and the network: set BATFILL_INSTALLS=1"
)
def test_the_dockerfiles_steps_install_everything_in_a_fresh_environment(tmp_path):
    """Every step in order, in a virtual environment instead of an image, with the image's folders elsewhere."""
    image, venv = tmp_path / "image", tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=100)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PATH"] = f"{venv}/bin{os.pathsep}{env['PATH']}"
    here = image / re.search(r"^WORKDIR /(.+)$", DOCKERFILE, re.MULTILINE)[1]
    here.mkdir(parents=True)

    def inside(text):
        return re.sub(r"(?<![\w.])/(tmp|var|usr)/", rf"{image}/\1/", text)

    ran = 0
    for word, rest in steps():
        if word == "ENV":
            name, _, value = rest.partition("=")
            env[name] = inside(value)
        elif word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                place = here / inside(target)
                whole = (ROOT / source).is_dir()
                to = place if whole or not target.endswith("/") else place / source
                to.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if whole else shutil.copy)(ROOT / source, to)
        else:
            command = ["sh", "-c", inside(rest)]
            done = subprocess.run(command, cwd=here, env=env, capture_output=True, text=True, timeout=900)
            if "pip install" in rest and re.search("NewConnectionError|ConnectTimeoutError", done.stderr):
                pytest.skip("the Dockerfile's libraries cannot be fetched here: the network is not reached")
            assert done.returncode == 0, done.stderr
            ran += 1
    assert ran == DOCKERFILE.count("\nRUN ") > 0
    extras = [str(venv / "bin/python"), "-c", "import dask_jobqueue, distributed, matplotlib, pyarrow, sklearn"]
    assert subprocess.run(extras, env=env, capture_output=True, timeout=300).returncode == 0
    assert subprocess.run(["pybatsim", "--help"], env=env, capture_output=True, timeout=100).returncode == 0
