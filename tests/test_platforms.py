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
    (tmp_path / "a.swf").write_text("; MaxProcs: 3\n1 0 0 10 3 -1 -1 3 20 -1 1 1 1 1 1 -1 -1 -1\n")
    files = (tmp_path / "a.swf", "--out", tmp_path / "a.json", "--platform", tmp_path / "p.xml")
    assert run(capsys, "workload", "convert", *files, *given)[0] == 0
    assert (tmp_path / "p.xml").read_text() == out


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (("--bandwidth", "fast"), "bandwidth 'fast' is not a number above 0 with a unit; write it like 1.25GBps"),
        (("--bandwidth", "0Bps"), "bandwidth '0Bps' is not a number above 0"),
        (("--bandwidth", "1KBps"), "bandwidth '1KBps' is not a number above 0 with a unit"),  # SimGrid knows k only
        (("--bandwidth", "125000000"), "bandwidth '125000000' is not a number above 0 with a unit"),
        (("--bandwidth", "1e400Bps"), "bandwidth '1e400Bps' is not a number above 0"),
        (("--bandwidth", "-1GBps"), "bandwidth '-1GBps' is not a number above 0"),
        (("--bandwidth", '1GBps" x="'), "is not a number above 0 with a unit"),
        (("--latency", "1 fortnight"), "latency '1 fortnight' is not a number with a unit; write it like 50us"),
        (("--latency", "5"), "latency '5' is not a number with a unit"),
        (("--latency", "nan"), "latency 'nan' is not a number with a unit"),
    ],
)
def test_other_words_for_links_are_refused_in_one_line(tmp_path, capsys, given, complaint):
    convert = ("workload", "convert", tmp_path / "none.swf", "--out", tmp_path / "a.json", "--platform", tmp_path / "p")
    for command in (("platform", 3), convert):
        status, out, err = run(capsys, *command, *given)
        assert (status, out) == (2, "")
        assert complaint in err
        assert err.count("\n") == 1
