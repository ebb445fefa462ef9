"""SimGrid platforms: which hosts there are, in Batsim's order, and what is refused."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.batsim.platform import homogeneous_platform, read_platform
from batfill.errors import PlatformError
from golden import RUNS, recording

MASTER = '<host id="master_host" speed="1Gf"/>'
CLUSTER = '<cluster id="c" prefix="n" suffix=".site" radical="0-2,7, 10-11" speed="2.5Gf" bw="1GBps" lat="0"/>'


def write(folder, body, *, head=""):
    path = folder / "p.xml"
    path.write_text(
        f'<?xml version="1.0"?>{head}<platform version="4.1"><zone id="z" routing="Full">{body}</zone></platform>'
    )
    return path


def names(hosts):
    return [host.name for host in hosts]


def test_a_clusters_hosts_come_in_the_order_of_strings(tmp_path):
    platform = read_platform(write(tmp_path, MASTER + CLUSTER))
    assert names(platform.compute) == [f"n{i}.site" for i in ("0", "1", "10", "11", "2", "7")]
    assert {host.speed for host in platform.compute} == {2.5e9}
    assert platform.master_host == "master_host"


@pytest.mark.parametrize("name", RUNS)
def test_resource_ids_are_batsims(name):
    recorded = recording(name)
    told = json.loads(recorded.exchanges[0][0])["events"][0]["data"]["compute_resources"]
    platform = read_platform(recorded.folder / "platform.xml")
    assert names(platform.machines) == [host["name"] for host in told]


def test_hosts_are_found_in_nested_zones_with_their_properties(tmp_path):
    host = '<host id="b" speed="1e9,5e8"><prop id="k" value="v"/></host>'
    inner = f'<AS id="a" routing="Full"><prop id="rack" value="7"/>{host}</AS>'
    platform = read_platform(write(tmp_path, f'{MASTER}<host id="a" speed="100Mf"/>{inner}'))
    a, b = platform.compute
    assert (a.name, a.speed, a.properties, a.zone_properties) == ("a", 1e8, {"role": ""}, {})
    assert (b.name, b.speed, b.properties, b.zone_properties) == ("b", 1e9, {"k": "v", "role": ""}, {"rack": "7"})


def test_storage_hosts_come_after_all_others(tmp_path):
    disk = '<host id="a_disk" speed="0f"><prop id="role" value="storage"/></host>'
    path = write(tmp_path, f'{MASTER}{disk}<host id="b" speed="1Gf"/><host id="c" speed="1Gf"/>')
    platform = read_platform(path)
    assert (names(platform.compute), names(platform.storage)) == (["b", "c"], ["a_disk"])
    platform = read_platform(path, roles={"b": "storage"})
    assert names(platform.machines) == ["c", "a_disk", "b"]


def test_the_master_may_be_named_or_have_the_role(tmp_path):
    path = write(tmp_path, '<host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>')
    assert read_platform(path, "a").master_host == "a"
    assert read_platform(path, roles={"b": "master"}).master_host == "b"


def test_a_limit_keeps_the_first_hosts(tmp_path):
    assert names(read_platform(write(tmp_path, MASTER + CLUSTER), limit=3).compute) == [
        "n0.site",
        "n1.site",
        "n10.site",
    ]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("", "no host in it"),
        (MASTER, "no compute host besides 'master_host'"),
        (CLUSTER, "no host is called 'master_host'; name the master host with --master-host"),
        (MASTER + CLUSTER + CLUSTER, "host 'n0.site' is described 2 times"),
        (MASTER + CLUSTER.replace("7", "7-"), "is not a list of numbers and ranges"),
        (MASTER + CLUSTER.replace("0-2", "2-0"), "is not a list of numbers and ranges"),
        (MASTER + CLUSTER.replace("0-2", "0-99999999999"), "is not a list of numbers and ranges"),
        (MASTER + CLUSTER.replace("radical", "radix"), "a <cluster> (c) has no radical; add it"),
        (MASTER + CLUSTER.replace("2.5Gf", "fast"), "<cluster> c: speed 'fast' is not a number with a unit"),
        (MASTER + CLUSTER.replace("2.5Gf", "0Gf"), "host 'n0.site' has no computing speed"),
        (f'{MASTER}<host id="x" speed="1Gf"><prop id="role" value="chief"/></host>', "has the role 'chief'; known:"),
        (
            f'{MASTER}<host id="x" speed="1Gf"><prop id="role" value="master"/></host>',
            "'master_host' and 'x' are both master hosts",
        ),
    ],
)
def test_what_describes_no_machine_is_refused_in_one_line(body, complaint, tmp_path):
    path = write(tmp_path, body)
    with pytest.raises(PlatformError) as refused:
        read_platform(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not XML"),
        (b"{}", "not XML"),
        (b"\xff\xfe\x00", "not XML"),
        (b"<cluster/>", "its root is <cluster>, not <platform>"),
        (b'<!DOCTYPE p [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><platform>&b;</platform>', "entities"),
        (b'<!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/passwd">]><platform>&a;</platform>', "entities"),
    ],
)
def test_what_is_no_platform_file_or_dangerous_is_refused(content, complaint, tmp_path):
    (tmp_path / "p.xml").write_bytes(content)
    with pytest.raises(PlatformError, match=complaint):
        read_platform(tmp_path / "p.xml")


def test_a_role_for_no_host_is_refused(tmp_path):
    with pytest.raises(PlatformError, match="there is no host 'x' for the role 'storage'"):
        read_platform(write(tmp_path, MASTER + CLUSTER), roles={"x": "storage"})
    with pytest.raises(PlatformError, match=r"absent.xml: no such file or directory"):
        read_platform(tmp_path / "absent.xml")


@settings(deadline=None)
@given(st.integers(1, 300))
def test_a_written_platform_is_read_back(tmp_path_factory, n_hosts):
    path = tmp_path_factory.mktemp("platforms") / "p.xml"
    path.write_text(homogeneous_platform(n_hosts, prefix="host-", speed="3Gf", master_host="boss"))
    platform = read_platform(path, "boss")
    assert names(platform.compute) == sorted(f"host-{i}" for i in range(n_hosts))
    assert {host.speed for host in platform.compute} == {3e9}


def test_a_written_platform_is_the_one_that_batsim_ran_but_for_its_links():
    recorded = (recording("fcfs").folder / "platform.xml").read_text()
    assert recorded.count("1.25GBps") == recorded.count("1TBps") == recorded.count("12.5GBps") == 1
    assert homogeneous_platform(100) == re.sub(r'(bw|bandwidth)="[^"]*"', r'\1="1e21Bps"', recorded)


def test_a_platform_without_hosts_or_speed_is_refused():
    with pytest.raises(PlatformError, match="at least one is needed"):
        homogeneous_platform(0)
    with pytest.raises(PlatformError, match="give a speed above 0"):
        homogeneous_platform(1, speed="0Gf")
    with pytest.raises(PlatformError, match="not a number with a unit"):
        homogeneous_platform(1, speed='1Gf" hack="')
