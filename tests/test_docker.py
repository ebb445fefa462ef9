"""The container files, as far as text can be checked: nothing here starts a container."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from batfill.batsim.descriptor import read_descriptor

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
CI = sorted((DOCKER / "ci").glob("*.yml"))


def test_what_the_dockerfile_copies_is_there_and_let_through():
    copied = [source for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]]
    let_through = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert len(copied) == 6
    for source in copied:
        assert (ROOT / source).exists()
        assert f"!{source}" in let_through


def test_compose_starts_the_two_processes_of_the_sample():
    descriptor = read_descriptor(ROOT / "expe/sample_saf.yaml").descriptor
    batcmd, schedcmd = (
        re.sub(r"\$\{BATSIM_PORT:-(\d+)\}", r"\1", text) for text in (descriptor.batcmd, descriptor.schedcmd)
    )
    simulator = shlex.split(COMPOSE["batsim"]["command"].replace("//scheduler:", "//localhost:"))
    assert simulator == shlex.split(batcmd)[1:]
    assert COMPOSE["scheduler"]["command"] == shlex.split(schedcmd)
    assert Path(COMPOSE["scheduler"]["build"]["context"], "docker/Dockerfile") == Path(
        "..", COMPOSE["scheduler"]["build"]["dockerfile"]
    )


def test_every_image_is_named_with_its_version():
    texts = [DOCKERFILE, *(path.read_text() for path in (DOCKER / "compose.yaml", *CI))]
    image = re.compile(r"(?:(?:image: |FROM )[\w/]+|oarteam/\w+)(:\d[\w.-]*)?")
    versions = [version for text in texts for version in image.findall(text)]
    assert ":4.2.0" in versions
    assert "" not in versions


@pytest.mark.parametrize("path", CI, ids=lambda path: path.stem)
def test_a_ci_example_runs_every_experiment_and_keeps_what_it_writes(path):
    written = yaml.safe_load(path.read_text())
    jobs = written["jobs"] if path.stem == "github" else written
    for job in jobs.values():
        text = yaml.safe_dump(job)
        assert "for experiment in expe/*.yaml; do batfill run" in text
        assert "expe-out" in text
        assert "timeout" in text
