"""Shares, limits and usage from what `sacctmgr dump`, `sacctmgr -P show qos` and `sshare -l -a -P` print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

from batfill.base.errors import WorkloadError
from batfill_site.accounting.record_text import lines_of
from batfill_site.slurm.options import (
    OFF,
    Option,
    by_tres,
    limit,
    listed,
    longest,
    preempt_mode,
    rows,
    seconds,
    value,
    whole,
    words,
)
from batfill_site.slurm.site import Association, Limits, Part, Qos

Columns = dict[str, str]  # texts by `column`
DUMPED = re.compile(r"(Cluster|Parent|Account|User)\s+-\s+(['\"]?)(.*?)\2(?::(.*))?")
SPECIFICATION = re.compile(r"((?:'[^']*'|\"[^\"]*\"|(?<=gres/gpu):|[^:])+)")  # a type of GPU follows a colon, too
TRES = {"cpu": "cpus", "node": "nodes", "mem": "memory_mb", "gres/gpu": "gpus"}
WRITE = {"accounts": "`sacctmgr dump CLUSTER File=FILE` or `sacctmgr -P show qos`", "sshare": "`sshare -l -a -P`"}
NOT_MODELLED = re.compile(
    "grpwall|(grp|max)(tres[mr]|jobsacc|cpu|node|mem).*|minprio.*"  # others of a job alone let it run, or be refused
)


def tres(text: str) -> dict[str, int | None]:
    """The most of each resource, None if that is -1, by the field of `Limits`, or by its name if that has none."""
    return {TRES.get(name, name): None if most < 0 else int(most) for name, most in by_tres(text).items()}


def amount(text: str) -> float:
    if not re.fullmatch(r"[0-9]+\.?[0-9]*(e[+-]?[0-9]{1,2})?", text):
        raise ValueError("is not a number from 0 on")
    return float(text)


FLAGS = {"noreserve": "no_reserve", "overpartqos": "over_partition_qos"}
FLAGS |= {"partitiontimelimit": "over_time", "partitionmaxnodes": "over_nodes"}


def flags(text: str) -> dict[str, bool]:
    return {field: flag in words(text) for flag, field in FLAGS.items()}


BOTH = (
    Option("GrpJobs", "group", limit),
    Option("GrpTRES", "group", tres),
    Option("MaxTRES MaxTRESPJ MaxTRESPerJob", "per_job", tres),
    Option("MaxWall MaxWallDurationPerJob MaxWallPJ", "max_wall_s", longest),
)
ASSOCIATION_ROWS = rows(
    Option("Fairshare RawShares", "shares", lambda text: 1 if text.lower() == "parent" else whole(text)),
    Option("Priority", "priority", whole),
    Option("RawUsage", "usage", amount),
    Option("MaxJobs", "each", limit),
    *BOTH,
)
QOS_ROWS = rows(
    Option("Priority", "priority", whole),
    Option("UsageFactor", "usage_factor", amount),
    Option("Flags", "", flags),
    Option("Preempt", "preempts", lambda text: tuple(words(text))),
    Option("PreemptMode", "", preempt_mode),
    Option("PreemptExemptTime", "preempt_exempt_s", longest),
    Option("GraceTime", "grace_s", seconds),
    Option("MaxJobsPU", "per_user", limit),
    Option("MaxTRESPU", "per_user", tres),
    Option("MaxJobsPA", "per_account", limit),
    Option("MaxTRESPA", "per_account", tres),
    *BOTH,
)


def column(name: str) -> str:
    """The key of a column or option: MaxTRESPerUser and MaxTRESPU are both maxtrespu."""
    return re.sub("per(u|a)(ser|ccount)$", r"p\1", re.sub("[^a-z]", "", name.lower()))


def with_texts(old: Any, known: Mapping[str, Option], where: str, columns: Columns) -> tuple[Any, list[str]]:
    """The partition, association or QOS with what its columns say, and the TRES limits that are not modelled."""
    others: list[str] = []
    for row, text in ((known[key], text) for key, text in columns.items() if key in known):
        for name, new in value(row, where, text).items():
            if isinstance(before := getattr(old, name), Limits):
                most = new if row.read is tres else {"jobs": new}
                others += [f"{row.name}={resource}" for resource in most if resource not in Limits._fields]
                new = before._replace(**{key: n for key, n in most.items() if key in Limits._fields})
            old = old._replace(**{name: new})
    return old, others


class Accounts(NamedTuple):
    """What the files say."""

    associations: dict[tuple[str, str], Association]  # by account and user
    qos: dict[str, Qos]
    warnings: list[str]
    named: list[Part]


def without_loop(qos: Mapping[str, Qos], where: str) -> None:
    """Refuse QOS that may preempt themselves, or each other in a circle, as sacctmgr does."""
    try:
        TopologicalSorter({name: each.preempts for name, each in qos.items()}).prepare()
    except CycleError as error:
        line = " preempts ".join(reversed(error.args[1]))
        raise WorkloadError(f"{where}: QOS {line}: a QOS may not preempt itself; correct the Preempt lists") from None


def read_accounts(accounts: Iterable[Path | str], sshare: Iterable[Path | str] = ()) -> Accounts:
    """The associations and QOS of several files, each adding to those before; sshare's shares count last."""
    read, shareless, missing = Accounts({}, {}, [], []), list[str](), dict[str, None]()
    given = list[tuple[str, str, Columns]]()
    for path, option in chain(product(accounts, ["accounts"]), product(sshare, ["sshare"])):
        found = [*records(Path(path))]
        if not found or (found[0][1] == "sshare") != (option == "sshare"):
            raise WorkloadError(f"{path}: it has no line for --{option}; give what {WRITE[option]} writes")
        given += found
    for where, kind, every in given:
        columns = {key: text for key, text in every.items() if text}
        missing |= {key: None for key, text in columns.items() if NOT_MODELLED.fullmatch(key) and text not in OFF}
        if kind == "qos":
            name = columns["name"]
            own = (flag.strip() for flag in columns.get("flags", "").split(",") if flag)
            read.named.extend(Part("qos", flag, "yes", (name,)) for flag in own if flag.lower() not in FLAGS)
            read.qos[name], others = with_texts(read.qos.get(name, Qos(name)), QOS_ROWS, where, columns)
            without_loop(read.qos, where)
        else:
            account, user = every["account"], every["user"]
            if account == "root" and user in ("", "root"):  # every site has these
                continue
            if kind == "sshare" and (account, user) in read.associations:
                columns = {"rawusage": columns.get("rawusage", "0")}
            elif (columns.get("fairshare") or columns.get("rawshares", "parent")).lower() == "parent":
                shareless.append(f"{account}/{user}".strip("/"))
            parent = columns.get("parent", "")
            old = read.associations.get((account, user), Association(account, user, parent * (parent != "root")))
            read.associations[account, user], others = with_texts(old, ASSOCIATION_ROWS, where, columns)
        missing |= dict.fromkeys(others)
    parents = dict.fromkeys(name for each in read.associations.values() for name in (each.account, each.parent))
    shareless += [name for name in parents if name not in ("", "root") and (name, "") not in read.associations]
    if missing:
        read.named.append(Part("", "limits", ", ".join(missing)))
    if shareless:
        read.warnings.append(f"associations: without shares of their own, 1 assumed: {listed(shareless)}")
    return read


def records(path: Path) -> Iterator[tuple[str, str, Columns]]:
    """Each record of a file: where it stands, its kind (qos, assoc or sshare), its texts."""
    lines = [(f"{path}:{number}", text) for number, text in lines_of(path) if not text.startswith("#")]
    names = [column(name) for name in lines[0][1].rstrip("|").split("|")] if lines else []
    if lines and DUMPED.fullmatch(lines[0][1].strip()):
        yield from dumped(lines)
        return
    kind, key = ("sshare", "account") if "rawshares" in names else ("qos", "name")
    needed = {key, "priority"} if kind == "qos" else {key, "user", "rawusage"}
    above: list[str] = []  # the accounts above the row, which has as many spaces before its name
    for where, text in lines[1:] if {*names} >= needed else ():
        texts = text.split("|")
        columns = {name: text.strip() for name, text in zip(names, texts, strict=False)}
        if len(texts) < len(names) or not columns[key]:
            raise WorkloadError(f"{where}: it has no {key}, or fewer columns than the line of names; print it again")
        if kind == "sshare" and not columns["user"]:
            spaced = texts[names.index("account")]
            above = [*above[: len(spaced) - len(spaced.lstrip())], columns["account"]]
            columns["parent"] = "".join(above[-2:-1])
        yield where, kind, columns


def dumped(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, Columns]]:
    parent = ""
    for where, text in lines:
        found = DUMPED.fullmatch(text.strip())
        if found is None:
            raise WorkloadError(f"{where}: {text.strip()[:60]!r} is not a line of `sacctmgr dump`")
        pairs = (each.partition("=") for each in SPECIFICATION.findall(found[4] or ""))
        columns = {column(key): text.strip("'\"") for key, _, text in pairs}
        if found[1] == "Parent":
            parent = found[3]
        elif found[1] == "Account":
            yield where, "assoc", columns | {"account": found[3], "user": "", "parent": parent}
        elif found[1] == "User":
            yield where, "assoc", columns | {"account": parent, "user": found[3], "parent": ""}
