"""The platforms that come with the project are what the generator writes, and of the size their README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from batfill.batsim.platform import homogeneous_platform, read_platform
from batfill.cli import main

FOLDER = Path(__file__).parents[1] / "platforms"
ROW = re.compile(r"\| `([\w.-]+)` \| ([\d,]+) \|")
HOSTS = {name: int(number.replace(",", "")) for name, number in ROW.findall((FOLDER / "README.md").read_text())}


def test_the_readme_lists_every_platform():
    assert sorted(HOSTS) == sorted(path.name for path in FOLDER.glob("*.xml"))


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_a_platform_is_what_the_generator_writes(name):
    assert (FOLDER / name).read_text() == homogeneous_platform(HOSTS[name])


def test_the_command_writes_a_platform_of_that_many_hosts(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["platform", "7", "-o", str(tmp_path / "p.xml")])
    assert exit_.value.code == 0
    assert len(read_platform(tmp_path / "p.xml").compute) == 7
    with pytest.raises(SystemExit):
        main(["platform", "7"])
    assert capsys.readouterr().out == (tmp_path / "p.xml").read_text()


def test_a_platform_of_no_host_is_refused(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["platform", "0"])
    assert exit_.value.code == 2
    assert "at least one" in capsys.readouterr().err
