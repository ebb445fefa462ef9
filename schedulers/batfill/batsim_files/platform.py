"""SimGrid platforms: reads a file's hosts in Batsim's order, and writes files of homogeneous clusters."""

from __future__ import annotations

import re
from collections import Counter
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from batfill.base.errors import PlatformError
from batfill.base.files import file_bytes
from batfill.model.values import PREFIXES, SPEED_UNITS, quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path
    from xml.etree.ElementTree import Element

COMPUTE, STORAGE, MASTER = "compute_node", "storage", "master"
MASTER_HOST = "master_host"
BINARY = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPEZY", 1)}
BANDWIDTH_UNITS = {
    prefix + unit: scale * size
    for unit, size in (("Bps", 1.0), ("bps", 0.125))
    for prefix, scale in (PREFIXES | BINARY).items()
}
LATENCY_UNITS = {"m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}
MAX_HOSTS = 10_000_000
DEEPEST = 100  # zones inside each other
BLANK_FIRST = re.compile(rb"\A([ \t\r\n]+)(<\?xml\b.*?\?>)", re.DOTALL)
ZONES, CLUSTERS, HOSTS = {"zone", "AS"}, {"cluster", "cabinet"}, {"host", "peer"}
# In lower case: files have ASroute and ASRoute.
ROUTES = {"route", "zoneroute", "asroute"}
# Kinds of routing without a path unless the file describes one; others compute paths by themselves.
ROUTED = {"full", "floyd", "dijkstra", "dijkstracache"}
# So wide that a message between Batsim's processes takes no time that a date in seconds can hold.
BANDWIDTH, LATENCY = "1e21Bps", "0us"
WIDE = 1e21
LINKS = {
    "link": ("bandwidth", "latency"),
    "backbone": ("bandwidth", "latency"),
    "cluster": ("bw", "lat", "bb_bw", "bb_lat", "loopback_bw", "loopback_lat", "limiter_link"),
    "cabinet": ("bw", "lat"),
    "peer": ("bw_in", "bw_out"),
}
LATENCIES = {"latency", "lat", "bb_lat", "loopback_lat"}
WITHOUT_NETWORK = {"delay", "composed"}  # types of profiles; a composition is of others in its workload


class PlatformHost(NamedTuple):
    """One host: its name, its speed in flop/s, and what else Batsim sends to the scheduler."""

    name: str
    speeds: tuple[float, ...]  # of a core, in each power state
    properties: Mapping[str, str]
    zone_properties: Mapping[str, str]
    pstate: int = 0  # the power state, in which it stays
    cores: int = 1

    @property
    def speed(self) -> float:
        return self.speeds[self.pstate]


class Platform(NamedTuple):
    """The machines of a simulation, compute hosts and storage hosts in the order of their ids."""

    compute: tuple[PlatformHost, ...]
    storage: tuple[PlatformHost, ...]
    master_host: str

    @property
    def speed(self) -> float | None:
        """The speed at which a job computes on any compute host, on one core of it, in flop/s; None if they differ."""
        speeds = {host.speed for host in self.compute}
        return speeds.pop() if len(speeds) == 1 else None

    @property
    def machines(self) -> tuple[PlatformHost, ...]:
        return self.compute + self.storage

    @property
    def storage_ids(self) -> list[int]:
        storage = {host.name for host in self.storage}
        return [number for number, host in enumerate(self.machines) if host.name in storage]


def read_platform(
    path: Path,
    master_host: str = MASTER_HOST,
    *,
    roles: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> Platform:
    """The platform in this SimGrid XML file, with Batsim's resource ids.

    Zones, plain hosts and clusters (radical "0-9,15") are read, and not the network. Ids follow the host names in the
    order of strings, storage hosts last; `limit` is the number of compute hosts to keep, from the first on. The host
    `master_host` runs no jobs, nor does one of role "master"; `roles` by host name are added to those in the file.
    """
    roles = roles or {}
    found = sorted(_hosts(path, _root(path), 0, {}), key=attrgetter("name"))
    names = Counter(host.name for host in found)
    if twice := next((name for name, count in names.items() if count > 1), None):
        raise PlatformError(f"{path}: host {twice!r} is described {names[twice]} times; names must be unique")
    if unknown := next((name for name in roles if name not in names), None):
        raise PlatformError(f"{path}: there is no host {unknown!r} for the role {roles[unknown]!r}")
    kinds: dict[str, list[PlatformHost]] = {COMPUTE: [], STORAGE: [], MASTER: []}
    for host in found:
        stated = host.properties.get("role", "")
        named = host.name == master_host and not (stated == MASTER and master_host == MASTER_HOST)
        given = dict.fromkeys((roles.get(host.name, ""), MASTER if named else ""))
        role = ",".join(filter(None, (stated, *given)))
        if (role or COMPUTE) not in kinds:
            raise PlatformError(
                f"{path}: host {host.name!r} has the role {role!r}; give it one of {', '.join(kinds)}, in the file or "
                "by an option"
            )
        kinds[role or COMPUTE].append(host._replace(properties={**host.properties, "role": role}))
    compute, storage, masters = kinds.values()
    if not masters:
        raise PlatformError(f"{path}: no host is called {master_host!r}; name the master host with --master-host")
    first, *others = (host.name for host in masters)
    if others:
        raise PlatformError(f"{path}: {first!r} and {others[0]!r} are both master hosts; keep one")
    if not compute:
        raise PlatformError(f"{path}: no host but the master in it, so that no job can run; describe one that computes")
    if slow := next((host.name for host in compute if host.speed <= 0), None):
        raise PlatformError(f"{path}: host {slow!r} has no computing speed; give a speed above 0, such as 1Gf")
    if limit is not None and limit > len(compute):
        raise PlatformError(f"{path}: {limit} machines are requested and it describes {len(compute)}; lower the limit")
    return Platform(tuple(compute[:limit]), tuple(storage), first)


def split_instants_warning(path: Path, profile_types: Collection[str]) -> tuple[str, ...]:
    """One line if Batsim splits instants on this platform and jobs gain nothing from its network, else none.

    That is: all hosts that compute are equal, every profile is a delay, and a link takes time. A file that cannot be
    read from here, or is no platform, gives none: Batsim judges it.
    """
    if not profile_types or not WITHOUT_NETWORK.issuperset(profile_types):
        return ()
    try:
        root = _root(path)
        hosts = list(_hosts(path, root, 0, {}))
    except PlatformError:
        return ()
    speeds = {host.speed for host in hosts if host.name != MASTER_HOST and "role" not in host.properties}
    slow = _slow_link(root)
    if len(speeds) != 1 or slow is None:
        return ()
    return (
        f"{path}: links take time ({slow}), so Batsim delivers events of one second in several messages, which may "
        "change starts; jobs of delays need no network: write 1e21Bps and no latency, as `batfill platform` does",
    )


def _slow_link(root: Element) -> str | None:
    """The first link of this platform on which a message takes time, in words; None if there is none."""
    for element in root.iter():
        for name in LINKS.get(element.tag, ()):
            text = element.get(name, "")
            if name in LATENCIES:
                slow = (quantity(text, {**LATENCY_UNITS, "": 1.0}) or 0) > 0
            else:
                bandwidths = (quantity(part, {**BANDWIDTH_UNITS, "": 1.0}) for part in re.split("[;,]", text))
                slow = any(value is not None and value < WIDE for value in bandwidths)
            if slow:
                return f"<{element.tag}> {element.get('id')}: {name} {text}"
        # A host without a route to itself has one of SimGrid's, unless there are zones beside it.
        if element.get("routing", "").lower() in ROUTED:
            looped = {
                part.get("src") for part in element if part.tag.lower() in ROUTES and part.get("src") == part.get("dst")
            }
            alone = not any(part.tag in ZONES | CLUSTERS for part in element)
            for part in element:
                if alone and part.tag in HOSTS and _is_master(part) and part.get("id") not in looped:
                    return f"{part.get('id')!r} has no route to itself, so SimGrid's own loopback counts"
    return None


def _is_master(host: Element) -> bool:
    return host.get("id") == MASTER_HOST or _properties(host).get("role") == MASTER


def homogeneous_platform(
    n_hosts: int,
    *,
    prefix: str = "node",
    speed: str = "1Gf",
    master_host: str = MASTER_HOST,
    bandwidth: str = BANDWIDTH,
    latency: str = LATENCY,
) -> str:
    """The XML of a cluster of identical hosts, called `prefix` and a number from 0 on, and a master host.

    Batsim's own processes talk over these links. With latency or a common bandwidth each of their messages takes
    simulated time, and events of one second reach the scheduler in several messages; with the defaults in one.
    """
    if n_hosts < 1:
        raise PlatformError(f"a platform of {n_hosts} hosts: at least one is needed")
    if _speed(speed) <= 0:
        raise PlatformError(f"a platform of hosts of speed {speed!r}: give a speed above 0, such as 1Gf")
    if not 0 < (quantity(bandwidth, BANDWIDTH_UNITS) or 0) < inf:
        raise PlatformError(
            f"bandwidth {bandwidth!r} is not a number above 0 with a unit; write it like 1.25GBps (bytes) or 10Gbps "
            "(bits)"
        )
    latency_s = 0.0 if quantity(latency, {"": 1.0}) == 0 else quantity(latency, LATENCY_UNITS)
    if latency_s is None or not latency_s < inf:
        raise PlatformError(f"latency {latency!r} is not a number with a unit; write it like 50us or 1ms, or 0")
    bandwidth, latency = bandwidth.strip(), latency.strip()
    return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="main" routing="Full">
 <cluster id="compute" prefix="{prefix}" suffix="" radical="0-{n_hosts - 1}" speed="{speed}" bw="{bandwidth}" lat="{latency}"/>
 <zone id="master" routing="Full">
  <host id="{master_host}" speed="{speed}"/>
  <link id="loopback" bandwidth="{bandwidth}" latency="{latency}"/>
  <route src="{master_host}" dst="{master_host}"><link_ctn id="loopback"/></route>
 </zone>
 <link id="uplink" bandwidth="{bandwidth}" latency="{latency}"/>
 <zoneRoute src="compute" dst="master" gw_src="{prefix}compute_router" gw_dst="{master_host}"><link_ctn id="uplink"/></zoneRoute>
</zone>
</platform>
"""  # noqa: E501


def _root(path: Path) -> Element:
    try:
        # SimGrid skips blank lines before the declaration, which XML forbids; behind it they keep errors' line numbers.
        content = BLANK_FIRST.sub(rb"\2\1", file_bytes(path), count=1)
        root: Element = fromstring(content)
    except OSError as error:
        raise PlatformError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    except DefusedXmlException as error:
        raise PlatformError(f"{path}: refused, it defines or fetches entities ({error}); remove them") from None
    except (ParseError, ValueError, LookupError) as error:  # LookupError: of an encoding
        raise PlatformError(f"{path}: not XML ({error}); give a SimGrid platform file") from None
    if root.tag != "platform":
        raise PlatformError(f"{path}: its root is <{root.tag}>, not <platform>; give a SimGrid platform file")
    return root


def _hosts(path: Path, zone: Element, depth: int, zone_properties: Mapping[str, str]) -> Iterator[PlatformHost]:
    """The hosts of this zone, `depth` zones deep, and of its subzones; the properties of inner zones come first.

    As in SimGrid a cluster's properties are those of its hosts and of its zone, unless it has a topology.
    """
    if depth > DEEPEST:
        raise PlatformError(f"{path}: zones are nested more than {DEEPEST} deep; write it flatter")
    for element in zone:
        if element.tag in ZONES:
            yield from _hosts(path, element, depth + 1, {**zone_properties, **_properties(element)})
        elif element.tag in HOSTS | CLUSTERS:
            if element.tag in HOSTS:
                names = [_attribute(path, element, "id")]
            else:
                prefix, suffix = element.get("prefix", ""), element.get("suffix", "")
                numbers = _radical(path, _attribute(path, element, "radical"))
                names = [f"{prefix}{number}{suffix}" for number in numbers]
            around = zone_properties
            speeds, properties = _speeds_of(path, element), _properties(element)
            pstate = _whole(path, element, "pstate", "0", range(len(speeds)))
            cores = _whole(path, element, "core", "1", range(1, MAX_HOSTS))
            if element.tag == "cluster" and element.get("topology", "FLAT") == "FLAT":
                around = {**zone_properties, **properties}
            for name in names:
                yield PlatformHost(name, speeds, properties, around, pstate, cores)


def _radical(path: Path, text: str) -> Iterator[int]:
    """The numbers of a cluster's hosts: "0-9,15" is 0 to 9, and 15."""
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,18})\s*(?:-\s*([0-9]{1,18})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last - first >= MAX_HOSTS:
            raise PlatformError(f'{path}: radical {text!r:.60} is not a list of numbers and ranges such as "0-9,15"')
        yield from range(first, last + 1)


def _attribute(path: Path, element: Element, name: str) -> str:
    value = element.get(name)
    if not value:
        raise PlatformError(f"{path}: a <{element.tag}> ({element.get('id', 'no id')}) has no {name}; add it")
    return value


def _properties(element: Element) -> dict[str, str]:
    """The properties of this element; of two with one name the first, as in SimGrid."""
    return {prop.get("id", ""): prop.get("value", "") for prop in reversed(element.findall("prop"))}


def _speeds_of(path: Path, element: Element) -> tuple[float, ...]:
    text = _attribute(path, element, "speed")
    try:
        return tuple(map(_speed, text.split(",")))
    except PlatformError as error:
        raise PlatformError(f"{path}: <{element.tag}> {element.get('id')}: {error}") from None


def _whole(path: Path, element: Element, name: str, default: str, bounds: range) -> int:
    text = element.get(name, default).strip()
    if not re.fullmatch("[0-9]{1,18}", text, re.ASCII) or int(text) not in bounds:
        what = f"is not a whole number from {bounds[0]} to {bounds[-1]}"
        raise PlatformError(f"{path}: <{element.tag}> {element.get('id')}: {name} {text!r:.40} {what}")
    return int(text)


def _speed(text: str) -> float:
    value = quantity(text, SPEED_UNITS)
    if value is None or value == inf:
        raise PlatformError(f"speed {text!r:.60} is not a finite number with a unit; write it like 1Gf")
    return value
