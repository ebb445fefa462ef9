"""The platforms that come with the project are what the generator writes, and of the size their README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from batfill.batsim_files.platform import homogeneous_platform
from batfill.cli import main

FOLDER = Path(__file__).parents[2] / "platforms"
ROW = re.compile(r"\| `([\w.-]+)` \| ([\d,]+) \|")
HOSTS = {name: int(number.replace(",", "")) for name, number in ROW.findall((FOLDER / "README.md").read_text())}


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_a_platform_is_what_the_generator_writes(name):
    assert (FOLDER / name).read_text() == homogeneous_platform(HOSTS[name])


def links(text):
    return set(re.findall(r'\b(?:bw|bandwidth)="([^"]*)"', text)), set(re.findall(r'\b(?:lat|latency)="([^"]*)"', text))


def run(capsys, *words):
    with pytest.raises(SystemExit) as exit_:
        main([str(word) for word in words])
    return exit_.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("given", "bandwidth", "latency"),
    [
        ((), "1e21Bps", "0us"),
        (("--bandwidth", "1.25GBps"), "1.25GBps", "0us"),
        (("--bandwidth", "125MBps", "--latency", "50us"), "125MBps", "50us"),
        (("--bandwidth", "10Gbps", "--latency", "1ms"), "10Gbps", "1ms"),
        (("--bandwidth", "1.5MiBps", "--latency", "0"), "1.5MiBps", "0"),
    ],
)
def test_the_links_are_as_requested(tmp_path, capsys, given, bandwidth, latency):
    status, out, _ = run(capsys, "platform", 3, *given)
    assert (status, links(out)) == (0, ({bandwidth}, {latency}))
    assert run(capsys, "platform", 3, *given, "--out", tmp_path / "p.xml") == (0, "", "")
    assert (tmp_path / "p.xml").read_text() == out
    (tmp_path / "p.xml").unlink()
    (tmp_path / "a.swf").write_text("; MaxProcs: 3\n1 0 0 10 3 -1 -1 3 20 -1 1 1 1 1 1 -1 -1 -1\n")
    files = (tmp_path / "a.swf", "--out", tmp_path / "a.json", "--platform", tmp_path / "p.xml")
    assert run(capsys, "workload", "convert", *files, *given)[0] == 0
    assert (tmp_path / "p.xml").read_text() == out
