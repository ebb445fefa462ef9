"""Changes of a site: what --set and --add-nodes do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from batfill.base.errors import WorkloadError
from batfill_site.slurm.accounts import ASSOCIATION_ROWS, QOS_ROWS, changed, column
from batfill_site.slurm.hosts import by_name, expand
from batfill_site.slurm.options import PARTITION_ROWS, ROWS, listed, refusal, value
from batfill_site.slurm.site import Site

PARTS = {
    "partition": ("partitions", PARTITION_ROWS),
    "qos": ("qos", QOS_ROWS),
    "account": ("associations", ASSOCIATION_ROWS),
}


def apply(site: Site, changes: Iterable[str]) -> Site:
    """The site with options changed; a WorkloadError if one is unknown or not modelled, or its value is wrong.

    A change is NAME=VALUE, or PART.NAME.OPTION=VALUE of a partition, qos or account.

    Examples:
        >>> from batfill_site.slurm.site import Node, Partition, Site
        >>> site = Site(nodes=(Node("g1"),), partitions=(Partition("gpu", ("g1",)),))
        >>> apply(site, ["bf_interval=60", "partition.gpu.MaxTime=1-0"]).partitions[0].max_time_s
        86400.0
    """
    for change in changes:
        name, equals, text = change.strip().partition("=")
        where, (kind, dot, rest) = f"--set {change}", name.partition(".")
        if dot:
            site = with_part(site, where, kind.lower(), *rest.rpartition(".")[::2], text)
        elif (row := ROWS.get(name.lower())) is None:
            raise refusal(where, name, ROWS)
        else:
            site = replace(site, settings=replace(site.settings, **value(row, where, text if equals else "yes")))
    return site


def with_part(site: Site, where: str, kind: str, owner: str, option: str, text: str) -> Site:
    """The site with an option of a partition, QOS or account changed."""
    if kind not in PARTS:
        raise WorkloadError(f"{where}: write partition.NAME.OPTION, qos.NAME.OPTION or account.NAME.OPTION")
    part, rows = PARTS[kind]
    old: list[Any] = list(getattr(site, part))
    names = ["" if kind == "account" and each.user else each[0] for each in old]
    if not owner or owner not in names:
        known = listed(filter(None, names)) or "none, give the files of accounts"
        raise WorkloadError(f"{where}: no {kind} {owner!r}; known: {known}")
    if column(option) not in rows:
        raise refusal(where, option, rows)
    at = names.index(owner)
    old[at], others = changed(old[at], rows, where, {column(option): text})
    if others:
        raise WorkloadError(f"{where}: {others[0]} is not modelled; cpu, mem, node and gres/gpu are")
    new: dict[str, Any] = {part: tuple(old)}
    return replace(site, **new)


def add_nodes(site: Site, text: str) -> Site:
    """The site with nodes like a known one, in its partitions and below its switch: g2=g1, or n[9-16]=n1.

    Raises:
        WorkloadError: a new node exists, or the other one does not.
    """
    where, (new, _, like) = f"--add-nodes {text}", text.replace(" ", "").partition("=")
    model = next((node for node in site.nodes if node.name == like), None)
    if model is None:
        raise WorkloadError(f"{where}: no node {like!r}; write it as NEW=KNOWN, such as g2=g1 or n[9-16]=n1")
    added = expand(new, where)
    if twice := [name for name, n in Counter([*(node.name for node in site.nodes), *added]).items() if n > 1]:
        raise WorkloadError(f"{where}: {listed(twice)} would be there twice; choose other names")

    def grown(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted((*names, *added), key=by_name)) if like in names else names

    nodes = sorted((*site.nodes, *(model._replace(name=name) for name in added)), key=lambda node: by_name(node.name))
    partitions = tuple(each._replace(nodes=grown(each.nodes)) for each in site.partitions)
    return replace(site, nodes=tuple(nodes), partitions=partitions, switches=tuple(map(grown, site.switches)))
