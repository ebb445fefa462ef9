"""A site's slurm.conf, with topology.conf and gres.conf beside it, and windows of nodes, as a `Site`."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from batfill.base.errors import BatfillError, WorkloadError
from batfill.model.given import stamp_of
from batfill.model.limits.dates import date_of, read_rows
from batfill_site.accounting.record_text import lines_of
from batfill_site.slurm.accounts import read_accounts
from batfill_site.slurm.hosts import MOST, by_name, expand, numbers
from batfill_site.slurm.named import row_of
from batfill_site.slurm.options import (
    DROPPED,
    HARMLESS,
    PARTITION_ROWS,
    Option,
    listed,
    off,
    rows,
    settings_of,
    value,
    whole,
    words,
)
from batfill_site.slurm.site import Leaf, Node, Part, Partition, Site, Window

COMMENT = re.compile(r"(?<!\\)#.*")
PAIR = re.compile(r"([A-Za-z]\w*)\s*[+-]?=+(?:\s+(?!\w+\s*=))?(\"[^\"]*\"|\S*)(?:\s+|$)")  # a text may be empty
TEMPLATE = re.compile(r"\{[{%\w].*|\$[{(A-Za-z].*|@\w+@|<[^<>]*>")
IN_PARENTHESES = re.compile(r"\(.*?\)")
GRES = re.compile(  # a name, a type, which is no number, and a number
    r"([\w.-]+)(?::(?!no_consume)(?![0-9]+[kmgtp]?$)([^:]+))?(?::no_consume)?(?::([0-9]{1,9})([kmgtp]?))?",
    re.IGNORECASE,
)
DOWN = ("down", "drain", "fail", "future")  # how the states of nodes begin that take no jobs


def gres(text: str) -> dict[tuple[str, str], int]:
    """The amounts of generic resources by name and type: gpu:2, gpu:1g.10gb:4(S:0-1), gpu:no_consume:2, local:2T."""
    found: dict[tuple[str, str], int] = {}
    for item in filter(None, IN_PARENTHESES.sub("", text).split(",")):
        if (match := GRES.fullmatch(item)) is None:
            raise ValueError("is not a list such as gpu:2 or gpu:a100:4")
        key = (match[1].lower(), match[2] or "")
        found[key] = found.get(key, 0) + int(match[3] or 1) * 1024 ** " kmgtp".index((match[4] or " ").lower())
    return found


def cpu_list(text: str) -> frozenset[int]:
    try:
        return frozenset(map(int, numbers(text)))
    except ValueError:
        raise ValueError("is not a list of CPUs such as 0-1,16") from None


PARTS = ("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "corespeccount", "memspeclimit")
NODE_ROWS = rows(
    *(Option(name, name, whole) for name in PARTS),
    Option("CpuSpecList", "cpuspeclist", cpu_list),
    Option("CPUs Procs", "cpus", whole),
    Option("RealMemory", "memory_mb", whole),
    Option("Weight", "weight", whole),
    Option("Gres", "gres", gres),
    Option("Feature Features", "features", lambda text: frozenset(IN_PARENTHESES.sub("", text).split(",")) - {""}),
)
ROWS_OF = {"nodename": NODE_ROWS, "partitionname": PARTITION_ROWS}
VERSION = "22.05"
NO_GPUS = (
    "nodes have GPUs (Gres), but AccountingStorageTRES lacks gres/gpu: sacct prints jobs' GPUs in SubmitLine alone; "
    "set AccountingStorageTRES=gres/gpu"
)
MOST_FILES = 300  # that a configuration includes
MOST_CPUS = 20_000_000  # and GPUs: more is a typing error, and would fill the memory
REMEDY = "write the columns nodes,begin,end, and announced if it is known before; a list of nodes in double quotes"
LIMITS = ("group", "each", "per_user", "per_account", "per_job", "max_wall_s")


class Line(NamedTuple):
    """A line of a configuration."""

    where: str
    kind: str  # the first name, such as nodename
    pairs: dict[str, tuple[str, str]]  # names as they are written, and texts, by lower-case names

    def text(self, key: str) -> str:
        return self.pairs[key][1] if key in self.pairs else ""

    def hosts(self, key: str) -> list[str]:
        return expand(self.text(key), self.where) if self.text(key) not in ("", "(null)") else []

    def fields(self) -> dict[str, Any]:
        """The fields that a line of nodes or a partition sets, and for each name the part that is not modelled."""
        found: dict[Any, Any] = {}
        known, harmless, kind = ROWS_OF[self.kind], {*HARMLESS[self.kind].split()}, self.kind.removesuffix("name")
        pairs = sorted(self.pairs.items(), key=lambda pair: pair[0] != "priority")  # parts override it
        for key, (name, text) in pairs:
            part = Part(kind, name, text)
            odd = not {key, f"{key}={text}".lower()} & harmless and not off(text)
            row, field = row_of(part) if odd else None, known[key].field if key in known else key
            counted = row is not None and row.touches is not None
            found["not modelled", field] = part if odd and (counted or key not in known) else None
            if counted and key in known:
                found[field] = Partition._field_defaults[field]
            elif key in known and text not in ("", "(null)"):
                found |= value(known[key], self.where, text)
        return found


def lines_in(path: Path, within: tuple[Path, ...] = (), found: list[Path] | None = None) -> Iterator[Line]:
    """The lines of a configuration and of what it includes, from the first file's folder; adds the files to `found`."""
    begun, start, found = "", 0, [] if found is None else found
    found.append(path)
    for number, raw in chain(lines_of(path), [(0, "")]):  # the last line may end with a backslash, too
        text, start = COMMENT.sub("", raw).rstrip(), start if begun else number
        if text.endswith("\\"):
            begun += text[:-1] + " "
            continue
        text, begun, where = (begun + text).strip(), "", f"{path}:{start}"
        if template := TEMPLATE.search(text):
            raise WorkloadError(f"{where}: {template[0]!r:.40} is to be filled in; give the file that Slurm reads")
        if match := re.fullmatch(r"include\s+(\S+)", text, re.IGNORECASE):
            other = (*within, path)[0].parent / match[1]
            if not os.path.isfile(other):  # noqa: PTH113 - Path's raises an OSError for a name that is too long
                wrong = f"{other!s:.200}, which it includes, does not exist"
            elif other in (*within, path):
                wrong = "includes itself"
            elif len(found) > MOST_FILES:
                wrong = f"more than {MOST_FILES} files are included"
            else:
                yield from lines_in(other, (*within, path), found)
                continue
            raise WorkloadError(f"{where}: {wrong}; copy the site's files into one folder")
        pairs, place = dict[str, tuple[str, str]](), 0
        while place < len(text):
            if (pair := PAIR.match(text, place)) is None:
                raise WorkloadError(f"{where}: {text[place:][:40]!r} is not NAME=VALUE; correct the line")
            pairs[pair[1].lower()], place = (pair[1], pair[2].strip('"')), pair.end()
        if pairs:
            yield Line(where, next(iter(pairs)), pairs)


def files_of(slurm_conf: Path) -> list[Path]:
    found: list[Path] = []
    for path in (slurm_conf, slurm_conf.with_name("topology.conf"), slurm_conf.with_name("gres.conf")):
        if path == slurm_conf or path.is_file():
            for _ in lines_in(path, (), found):
                pass
    return found


def version_of(text: str) -> tuple[int, int]:
    first, second = [*str(text).split("."), "", ""][:2]
    if not (first.isdecimal() and second.isdecimal()):
        raise BatfillError(f"option slurm-version: {text!r:.40} is no version of Slurm; give it as 22.05")
    return int(first), int(second)


def read_site(
    slurm_conf: Path | str,
    *,
    accounts: Iterable[Path | str] = (),
    sshare: Path | str | None = None,
    windows: Path | str | None = None,
    slurm_version: str | None = None,
) -> Site:
    """The site that a slurm.conf describes; the files are those of `batfill.slurm`."""
    version = None if slurm_version is None else version_of(slurm_version)
    path, known = Path(slurm_conf), read_accounts(accounts, [] if sshare is None else [sshare])
    described, lines, down = dict[str, dict[str, Any]](), dict[str, tuple[Line, dict[str, Any]]](), set[str]()
    usual: dict[str, dict[str, Any]] = {"nodename": {}, "partitionname": {}}  # of DEFAULT lines
    given, sets = list[tuple[str, str, str]](), dict[str, Line]()
    for line in lines_in(path):
        name = line.text(line.kind)
        if line.kind in usual:
            fields = usual[line.kind] | line.fields()
            if name.upper() == "DEFAULT":
                usual[line.kind] = fields
            elif line.kind == "partitionname":
                lines[name] = (line, fields)
            else:
                described |= dict.fromkeys(line.hosts("nodename"), fields)
                if len(described) > MOST:
                    raise WorkloadError(f"{line.where}: the site has more than {MOST:,} nodes; correct its lists")
        elif line.kind == "nodeset":
            sets[name] = line
        elif line.kind != "downnodes":
            given += [(line.where, name, text) for name, text in line.pairs.values()]
        if line.kind == "downnodes" or (line.kind == "nodename" and line.text("state").lower().startswith(DOWN)):
            down |= {*line.hosts(line.kind)}
    if not described or not lines:
        raise WorkloadError(f"{path}: it has no {'partitions' if described else 'nodes'}; give the whole slurm.conf")
    groups = {"ALL": list(described)}
    for name, line in sets.items():
        having = [host for host in described if line.text("feature") in described[host].get("features", ())]
        groups[name] = line.hosts("nodes") + having
    types = types_of(path.with_name("gres.conf"), described)
    texts = {name.lower(): text for _, name, text in given}
    whole_cores = bool({"cr_core", "cr_core_memory"} & {*words(texts.get("selecttypeparameters", "cr_core_memory"))})
    names = sorted({*described} - down, key=by_name)
    nodes = tuple(node_of(name, described[name], types[name], whole_cores=whole_cores) for name in names)
    if sum(node.cpus + node.gpus for node in nodes) > MOST_CPUS:
        raise WorkloadError(f"{path}: its nodes have more than {MOST_CPUS:,} CPUs and GPUs; correct their numbers")
    partitions, among = [], defaultdict[Part, dict[str, None]](dict)
    for name, (line, fields) in lines.items():
        hosts = {host for item in line.hosts("nodes") for host in groups.get(item, [item])}
        if unknown := sorted(hosts - {*described}, key=by_name):
            raise WorkloadError(f"{line.where}: partition {name} has {listed(unknown)}, which no NodeName line has")
        for part in chain(fields.values(), *(described[host].values() for host in hosts)):
            if isinstance(part, Part):
                among[part][name] = None
        fields = {key: each for key, each in fields.items() if isinstance(key, str)}
        default = line.text("default").lower() == "yes"
        partitions.append(Partition(name, tuple(sorted(hosts - down, key=by_name)), default=default, **fields))
    dated = {DROPPED[key]: name for _, name, _ in given if (key := name.lower()) in DROPPED}
    latest = min(dated, default=VERSION)
    of = f", the last with {dated[latest]}" if dated else ""
    topology = path.with_name("topology.conf")
    plugin = texts.get("topologyplugin", "none")
    if plugin.lower().endswith("tree") and not topology.is_file():
        given.append((str(path), "TopologyPlugin", plugin := f"{plugin} without topology.conf"))
    settings, named, warnings = settings_of(given, version or version_of(latest), str(path))
    switches = switches_of(topology, plugin, nodes)
    associations, qos = tuple(known.associations.values()), tuple(known.qos.values())
    usual_mb: dict[str, Any] = {}  # of all partitions that have none
    for where, name, text in given:
        if name.lower() in ("defmempercpu", "defmempernode"):
            usual_mb |= value(PARTITION_ROWS[name.lower()], where, text)
    filled = tuple(x if x.memory_per_cpu_mb or x.memory_per_node_mb else x._replace(**usual_mb) for x in partitions)
    enforced = {"limits", "safe", "all"} & {*words(texts.get("accountingstorageenforce", ""))}
    limited = {str(each[0]): None for each in (*associations, *qos) if not enforced and each != unlimited(each)}
    if limited:
        associations, qos = tuple(map(unlimited, associations)), tuple(map(unlimited, qos))
    used = {name for each in partitions for name in each.nodes}
    below = {name for leaf in switches for name in leaf.nodes}
    several = [name for name, kinds in types.items() if len(kinds) > 1]
    said = {
        "nodes with several types of GPUs, which count as one": several,
        "nodes that are down, left out": sorted(down & {*described}, key=by_name),
        "nodes that no partition has": [node.name for node in nodes if node.name not in used],
        "nodes below no switch": [node.name for node in nodes if switches and node.name not in below],
        "limits that AccountingStorageEnforce does not enforce, left out": limited,
    }
    warnings += tuple(f"{path}: {what}: {listed(names)}" for what, names in said.items() if names)
    if "gres/gpu" not in texts.get("accountingstoragetres", "").lower() and any(node.gpus for node in nodes):
        warnings += (f"{path}: {NO_GPUS}",)
    mixed = frozenset[str]().union(*(types[node.name] for node in nodes if len(types[node.name]) > 1)) - {""}
    assumed = "" if version else f"Slurm {latest}{of}: give --slurm-version if it is another"
    site = Site(nodes=nodes, partitions=filled, switches=switches, settings=settings, mixed=mixed, assumed=assumed)
    named += tuple(part._replace(of=tuple(names)) for part, names in among.items()) + tuple(known.named)
    suspended = [each.name for each in qos if "suspend" in (each.preempt_mode or settings.preempt_mode)]
    if settings.preempt == "qos" and suspended:
        named += (Part("qos", "PreemptMode", "SUSPEND", tuple(suspended)),)
    site = replace(site, associations=associations, qos=qos, named=named, warnings=(*warnings, *known.warnings))
    return site if windows is None else replace(site, windows=read_windows(Path(windows), site))


def unlimited(entry: Any) -> Any:
    usual = entry._field_defaults
    return entry._replace(**{name: usual[name] for name in LIMITS if name in usual})


def node_of(name: str, fields: Mapping[str, Any], types: Iterable[str], *, whole_cores: bool) -> Node:
    """The node with these fields of its line; `whole_cores`: whether jobs take whole cores."""
    get, (gpu_type, *others) = fields.get, types or [""]
    threads = get("threadspercore", 1)
    sockets = get("sockets", get("boards", 1) * get("socketsperboard", 1))
    cores = sockets * get("corespersocket", 1)
    cpus = get("cpus", cores * threads)
    per_core = max(min(threads, cpus // max(cores, 1)), 1)
    cpus -= per_core * max(get("corespeccount", 0), len({cpu // per_core for cpu in get("cpuspeclist", ())}))
    gpus = sum(amount for (what, _), amount in get("gres", {}).items() if what == "gpu")
    known = {key: fields[key] for key in ("features", "weight") if key in fields}
    known |= {"threads": per_core} if whole_cores else {}
    memory_mb = get("memory_mb", 1) - get("memspeclimit", 0)
    return Node(name, max(cpus, 1), max(memory_mb, 1), gpus, "" if others else gpu_type, **known)


def types_of(path: Path, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    """The types of each node's GPUs: those of slurm.conf, or of gres.conf if that has none."""
    types = {name: {kind for what, kind in fields.get("gres", {}) if what == "gpu"} for name, fields in nodes.items()}
    untyped = {name for name, kinds in types.items() if kinds == {""}}
    for line in lines_in(path) if untyped and path.is_file() else ():
        if line.text("name").lower() == "gpu" and line.text("type"):
            for name in untyped.intersection(line.hosts("nodename")) if line.text("nodename") else untyped:
                types[name] = types[name] - {""} | {line.text("type")}
    return types


def switches_of(path: Path, plugin: str, nodes: tuple[Node, ...]) -> tuple[Leaf, ...]:
    """The leaf switches of topology.conf that have nodes; () if the plug-in reads none."""
    lines = [*lines_in(path)] if plugin.lower().endswith("tree") else []
    given, parents, leaves = {line.text("switchname") for line in lines}, dict[str, str](), []
    for line in lines:
        for name in line.hosts("switches"):
            if name not in given or name in parents:
                raise WorkloadError(f"{line.where}: switch {name} has no line, or is below two switches; correct it")
            parents[name] = line.text("switchname")
    for line in lines:
        above, below = [line.text("switchname")], {*line.hosts("nodes")}
        while (parent := parents.get(above[-1])) is not None:
            if parent in above:
                raise WorkloadError(f"{line.where}: switch {parent} is above itself; correct the lines of switches")
            above.append(parent)
        leaves.append(Leaf(tuple(node.name for node in nodes if node.name in below), tuple(above[1:])))
    return tuple(leaf for leaf in leaves if leaf.nodes)


def read_windows(path: Path, site: Site) -> tuple[Window, ...]:
    """The windows in a CSV file: nodes as Slurm writes them, and dates, ISO or Unix; UTC if they name no zone."""
    windows = []
    for row in read_rows(path, None, ("nodes", "begin", "end"), REMEDY)[0]:
        where = f"{path}: line {row['line']}"
        nodes = tuple(expand(row["nodes"], where))
        if unknown := [name for name in nodes if name not in site.place]:
            raise WorkloadError(f"{where}: slurm.conf has no node {unknown[0]}; correct its name")
        dates = (date_of(where, name, row.get(name)) for name in ("begin", "end", "announced"))
        begin_s, end_s, announced_s = (
            math.inf if date is None else stamp_of(date) if isinstance(date, datetime) else date for date in dates
        )
        if not begin_s < end_s < math.inf:
            wrong = f"its end, {row['end']}, is not after its begin, {row['begin']}; correct them"
            raise WorkloadError(f"{where}: {wrong}")
        windows.append(Window(nodes, begin_s, end_s, announced_s))
    return tuple(windows)
