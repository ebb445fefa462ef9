"""SimGrid platforms: which hosts there are, in Batsim's order, and what is refused."""

from __future__ import annotations

import csv
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.batsim_files.platform import homogeneous_platform, read_platform, split_instants_warning
from batfill.simulator.command import main as batsim
from batfill.simulator.wire import SimulationSettings, simulation_begins
from golden import RUNS, recording
from golden_text import check

MASTER = '<host id="master_host" speed="1Gf"/>'
CLUSTER = '<cluster id="c" prefix="n" suffix=".site" radical="0-2,7, 10-11" speed="2.5Gf" bw="1GBps" lat="0"/>'


def put(folder, text):
    """A file with this text."""
    path = folder / "p.xml"
    path.write_text(text)
    return path


def write(folder, body):
    return put(folder, platform_file(zone(body)))


def names(hosts):
    return [host.name for host in hosts]


@pytest.mark.parametrize("name", RUNS)
def test_resource_ids_are_batsims(name):
    recorded = recording(name)
    told = json.loads(recorded.exchanges[0][0])["events"][0]["data"]["compute_resources"]
    platform = read_platform(recorded.folder / "platform.xml")
    assert names(platform.machines) == [host["name"] for host in told]


def test_storage_hosts_come_after_all_others(tmp_path):
    twice = '<prop id="role" value="storage"/><prop id="role" value="second"/>'  # of which the first counts
    disk = f'<host id="a_disk" speed="0f">{twice}</host>'
    path = write(tmp_path, f'{MASTER}{disk}<host id="b" speed="1Gf"/><host id="c" speed="1Gf"/>')
    platform = read_platform(path)
    assert (names(platform.compute), names(platform.storage)) == (["b", "c"], ["a_disk"])
    platform = read_platform(path, roles={"b": "storage"})
    assert names(platform.machines) == ["c", "a_disk", "b"]


def zone(body, routing="Full", name="z"):
    return f'<zone id="{name}" routing="{routing}">{body}</zone>'


def host(name, *, speed="1Gf", **properties):
    inside = "".join(f'<prop id="{key}" value="{value}"/>' for key, value in properties.items())
    return f'<host id="{name}" speed="{speed}">{inside}</host>'


def route(start, end, more=""):
    return f'<link id="{start}{end}" bandwidth="1GBps" latency="0"/><route src="{start}" dst="{end}" {more}/>'


def zone_route(start, end, more="", tag="zoneRoute"):
    return f'<{tag} src="{start}" dst="{end}" gw_src="{start}_router" gw_dst="{end}_router" {more}/>'


def platform_file(body, *, version="4.1", head="<?xml version='1.0'?>\n"):
    return f'{head}<platform version="{version}">{body}</platform>'


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
# What describes no platform: files, and what is in the one zone of a file.
BOGUS = {
    "empty": "",
    "cut": "\n<?xml version='1.0'?>\n<platform>\n<zone",
    "encoding": platform_file(zone(MASTER), head='<?xml version="1.0" encoding="foo"?>'),
    "deep": platform_file('<zone id="z" routing="Full">' * 20_000 + MASTER + "</zone>" * 20_000),
    "root": "<cluster/>",
    "bomb": f'<!DOCTYPE p [<!ENTITY l0 "ha">{LAUGHS}]><platform>&l9;</platform>',
}
BOGUS_ZONES = {
    "no host": "",
    "the master alone": MASTER,
    "no master": CLUSTER,
    "two masters": MASTER + host("x", role="master"),
    "role": MASTER + host("x", role="chief"),
    "twice": MASTER + CLUSTER + zone(host("n2.site"), name="y"),
    "no id": '<host speed="1Gf"/>',
    "speed": MASTER + CLUSTER.replace("2.5Gf", "fast"),
    "endless speed": MASTER + CLUSTER.replace("2.5Gf", "1e400f"),
    "pstate": MASTER + host("x", speed="1Gf,2Gf").replace("speed", 'pstate="2" speed'),
    "cores": MASTER + CLUSTER.replace("speed", 'core="no" speed'),
    "no core": MASTER + CLUSTER.replace("speed", 'core="0" speed'),
    "still": MASTER + CLUSTER.replace("2.5Gf", "0Gf"),
} | {
    f"radical {radical:.14}": MASTER + CLUSTER.replace("0-2,7, 10-11", radical)
    for radical in ("2-0", "1-", "0,,1", "0-99999999999", "9" * 5000, "\u0663")
}
BOGUS |= {name: platform_file(zone(body)) for name, body in BOGUS_ZONES.items()}


def test_what_describes_no_platform_is_refused_in_one_line(tmp_path, capsys):
    refused = []
    for name, content in BOGUS.items():
        path = put(tmp_path, content)
        assert run_batsim(path, tmp_path) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        refused.append(f"{name}: {err.removeprefix(f'batfill batsim: {path}: ')}")
    assert not (tmp_path / "out_jobs.csv").exists()
    check("refused-platforms", "".join(refused))


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def run_batsim(path, folder, *, hosts=1, options=()):
    """The exit status of a run of one job on that many hosts, without a scheduler."""
    job = {"id": "1", "subtime": 0, "res": hosts, "profile": "d"}
    workload = {"nb_res": 1, "jobs": [job], "profiles": {"d": {"type": "delay", "delay": 10}}}
    (folder / "w.json").write_text(json.dumps(workload))
    words = ["-p", path, "-w", folder / "w.json", "-e", folder / "out", "--no-sched", "-q", *options]
    return batsim([str(word) for word in words])


@settings(deadline=None)
@given(st.integers(1, 300))
def test_a_written_platform_is_read_back(tmp_path_factory, n_hosts):
    text = homogeneous_platform(n_hosts, prefix="host-", speed="3Gf", master_host="boss")
    platform = read_platform(put(tmp_path_factory.mktemp("platforms"), text), "boss")
    assert names(platform.compute) == sorted(f"host-{i}" for i in range(n_hosts))
    assert {host.speed for host in platform.compute} == {3e9}


def test_a_written_platform_is_the_one_that_batsim_ran_but_for_its_links():
    recorded = (recording("fcfs").folder / "platform.xml").read_text()
    assert recorded.count("1.25GBps") == recorded.count("1TBps") == recorded.count("12.5GBps") == 1
    assert homogeneous_platform(100) == re.sub(r'(bw|bandwidth)="[^"]*"', r'\1="1e21Bps"', recorded)


def links_between(names):
    """Routes between all of these, and from the first to itself."""
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    return "".join(route(a, b) for a, b in [(names[0], names[0]), *pairs])


def clusters(*rows):
    """Clusters, each with a route to every other: (id, prefix, radical, properties)."""
    body = "".join(
        f'<cluster id="{name}" prefix="{prefix}" suffix="" radical="{radical}" speed="1Gf" bw="125MBps" lat="50us" '
        f'bb_bw="2.25GBps" bb_lat="500us">{props}</cluster>'
        for name, prefix, radical, props in rows
    )
    pairs = [(a[0], b[0]) for i, a in enumerate(rows) for b in rows[i + 1 :]]
    return zone(body + "".join(zone_route(a, b) for a, b in pairs))


PAIR = ["master_host", *"wxyz"]
USAGE = {"wattage_per_state": "40.0:90:180.0", "wattage_off": "5.0"}
SPEEDS = {"w": "1e2f", "x": "100f", "y": "50f", "z": "50"}
USED = "".join(host(name, speed=speed, **USAGE) for name, speed in SPEEDS.items())
USED = USED.replace('id="w"', 'id="w" core="100" pstate="0"')
STATES = {"watt_per_state": "30.0:100.0, 9.75:9.75, 200.9:200.9", "watt_off": "4", "sleep_pstates": "1:2:2"}
STATED = "".join(
    host(name, speed="100.0Mf, 1e-9Mf, 0.333333f", **STATES)
    for name in ("master_host", *(f"host{n}" for n in range(11)))
).replace(" speed", ' coordinates="0 0 0" speed')
MASTERS = ("ms", "master_host", "0-0", '<prop id="role" value="master"/>')
NODES = ("ns", "a", "0-511", "")
DISKS = ("ds", "pfs", "0-0", '<prop id="role" value="storage"/>')
NAMES_512 = sorted(f"a{n}" for n in range(512))
# The shapes of platforms that Batsim's own runs use: (file, compute hosts, storage hosts, speeds, properties of one).
SHAPES = {
    "usage replay": (
        platform_file(zone(host(PAIR[0]) + USED + links_between(PAIR))),
        ["w", "x", "y", "z"],
        [],
        {100.0, 50.0},
        ("z", USAGE, {}),
    ),
    "512 hosts and storage": (
        platform_file(clusters(NODES, MASTERS, DISKS)),
        NAMES_512,
        ["pfs0"],
        {1e9},
        ("pfs0", {"role": "storage"}, {"role": "storage"}),
    ),
    "energy without a network": (
        "\n"
        + platform_file(
            '<config id="General"><prop id="network/coordinates" value="yes"></prop></config>'
            + zone(STATED, "Vivaldi").replace("zone ", "AS ").replace("/zone>", "/AS>"),
            version="4",
        ),
        sorted(f"host{n}" for n in range(11)),
        [],
        {1e8},
        ("host10", STATES, {}),
    ),
    "properties": (
        "\n"
        + platform_file(
            zone(
                '<prop id="site" value="here"/><prop id="net" value="slow"/>'
                + zone(MASTER, name="m")
                + '<cluster id="c" prefix="n-" suffix=".s" radical="0-2" speed="1Gf" bw="1GBps" lat="0">'
                '<prop id="net" value="fast"/></cluster>'
                + zone(
                    '<prop id="kind" value="old"/><prop id="site" value="there"/>'
                    + host("h1", disk="180")
                    + host("h2")
                    + route("h1", "h2"),
                    name="b",
                )
                + zone_route("m", "c")
                + zone_route("m", "b")
                + zone_route("b", "c")
            )
        ),
        ["h1", "h2", "n-0.s", "n-1.s", "n-2.s"],
        [],
        {1e9},
        ("h1", {"disk": "180"}, {"site": "there", "net": "slow", "kind": "old"}),  # the inner zone's for what both have
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_platforms_of_batsims_shapes_are_read_and_run(shape, tmp_path):
    text, compute, storage, speeds, (name, own, zones) = SHAPES[shape]
    path = put(tmp_path, text)
    master = "master_host0" if "512" in shape else "master_host"
    options = [] if "512" in shape else ["-m", master]
    platform = read_platform(path)
    assert (names(platform.compute), names(platform.storage), platform.master_host) == (compute, storage, master)
    assert {host.speed for host in platform.compute} == speeds
    one = next(host for host in platform.machines if host.name == name)
    assert (one.properties, one.zone_properties) == ({"role": "", **own}, zones)
    assert run_batsim(path, tmp_path, hosts=len(compute), options=options) == 0
    (row,) = rows(tmp_path / "out_jobs.csv")
    assert (row["final_state"], row["finish_time"]) == ("COMPLETED_SUCCESSFULLY", "10.000000")
    (totals,) = rows(tmp_path / "out_schedule.csv")
    assert totals["nb_computing_machines"] == str(len(compute) + len(storage))


@pytest.mark.parametrize(
    ("roles", "options", "given"),
    [
        ({"m0": "master"}, ["-m", "m0"], "m0.*master,master"),
        ({"m0": "master", "x": "storage"}, ["-r", "x:storage"], "x.*storage,storage"),
        ({"m0": "master"}, [], ""),
        ({"master_host": "master"}, [], ""),
        ({"m0": ""}, ["-m", "m0", "-r", "m0:master"], ""),
    ],
)
def test_a_role_in_the_file_and_by_an_option_is_refused_as_by_batsim(roles, options, given, tmp_path, capsys):
    hosts = "".join(host(name, **({"role": role} if role else {})) for name, role in {"x": "", **roles}.items())
    path = put(tmp_path, platform_file(zone(hosts + host("y"))))
    assert run_batsim(path, tmp_path, hosts=1, options=options) == (1 if given else 0)
    assert re.search(given, capsys.readouterr().err)


def test_a_schedulers_first_message_has_the_properties(tmp_path):
    platform = read_platform(put(tmp_path, SHAPES["properties"][0]))
    sent = json.loads(simulation_begins(platform, SimulationSettings(), {}, {}))["compute_resources"]
    assert [machine["zone_properties"] for machine in sent[1:3]] == [
        {"site": "there", "net": "slow", "kind": "old"},
        {"site": "here", "net": "fast"},
    ]
    assert sent[2]["properties"] == {"net": "fast", "role": ""}


SLOW = homogeneous_platform(4, bandwidth="1.25GBps")
WIDE = homogeneous_platform(4)


@pytest.mark.parametrize(
    ("text", "profiles", "slow"),
    [
        (WIDE, {"delay"}, None),
        (SLOW, {"delay"}, "<cluster> compute: bw 1.25GBps"),
        (SLOW, {"delay", "composed"}, "<cluster> compute: bw 1.25GBps"),
        (SLOW, {"delay", "parallel_homogeneous"}, None),  # their jobs use the network
        (SLOW, set(), None),
        (SLOW, {"None"}, None),
        (WIDE.replace('latency="0us"', 'latency="1ps"', 1), {"delay"}, "<link> loopback: latency 1ps"),
        (WIDE.replace('lat="0us"', 'lat="0us" bb_lat="5"'), {"delay"}, "<cluster> compute: bb_lat 5"),
        (WIDE.replace('1e21Bps" latency', '999EBps" latency', 1), {"delay"}, "<link> loopback: bandwidth 999EBps"),
        (WIDE.replace("1e21Bps", "8e21bps"), {"delay"}, None),
        (WIDE.replace("1e21Bps", "1ZBps").replace("0us", "0"), {"delay"}, None),
        (
            re.sub("<route .*</route>", "", WIDE),
            {"delay"},
            "'master_host' has no route to itself, so SimGrid's own loopback counts",
        ),
        (SHAPES["512 hosts and storage"][0], {"delay"}, "<cluster> ns: bw 125MBps"),
        (SHAPES["usage replay"][0], {"delay"}, None),  # hosts of several speeds
        ("<platform/>", {"delay"}, None),
        ("{}", {"delay"}, None),
    ],
)
def test_links_that_split_instants_for_nothing_are_warned_of(text, profiles, slow, tmp_path):
    path = put(tmp_path, text)
    warned = split_instants_warning(path, profiles)
    if slow is None:
        assert warned == ()
    else:
        (line,) = warned
        assert line.startswith(f"{path}: links take time ({slow}), so Batsim delivers events of one second in several")
        assert "\n" not in line
