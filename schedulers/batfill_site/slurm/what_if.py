"""What changes of a site's Slurm would do to its log: each against the site as configured, over many runs of the model.

Waits count from a job's eligibility. Differences are told from Slurm's own noise, see `ensemble.Difference`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.files import digest
from batfill.base.progress import patient_progress
from batfill.base.sums import mean_of
from batfill.model.metrics import TAU_S, bounded_slowdown
from batfill.model.values import number_from, seed_of, tau_of
from batfill_site.advice.payers import Changed, Payers, added, most_changed
from batfill_site.score import Whose, score
from batfill_site.slurm.accounts import ASSOCIATION_ROWS, QOS_ROWS, column, with_texts, without_loop
from batfill_site.slurm.arrays import possible
from batfill_site.slurm.conf import read_site
from batfill_site.slurm.ensemble import (
    FEWEST_RUNS,
    RUNS,
    USER,
    Difference,
    Figure,
    Ran,
    by_group,
    clocks,
    kinds,
    ran,
    users,
)
from batfill_site.slurm.found import Group, Logged, Outcome, SlurmWhatIf, changes
from batfill_site.slurm.hosts import by_name, expand
from batfill_site.slurm.jobs import read_jobs
from batfill_site.slurm.named import touched
from batfill_site.slurm.options import PARTITION_ROWS, ROWS, listed, off, refusal, settings_of, unpacked, value
from batfill_site.slurm.site import Floats, Ints, Site, SlurmJobs

AS_CONFIGURED = "as configured"
ADD_NODES = "AddNodes"  # in a change: AddNodes=g2=g1
NO_USAGE = "nothing is assumed to have been used before the log: give --sshare, what `sshare -l` prints"
PARTS = {
    "partition": ("partitions", PARTITION_ROWS),
    "qos": ("qos", QOS_ROWS),
    "account": ("associations", ASSOCIATION_ROWS),
}
CHANGES_S = (600.0, 60.0, 10.0, 1.0)  # longer by the first that is a tenth of the longest wait
HALF_LIVES = 10  # after as many, what was used before a log decides next to nothing in it


def slurm(
    log: str | Path | Iterable[str | Path],
    slurm_conf: str | Path,
    changes: Sequence[str] = (),
    *,
    runs: int = RUNS,
    accounts: Sequence[str | Path] = (),
    sshare: str | Path | None = None,
    windows: str | Path | None = None,
    slurm_version: str | None = None,
    timezone: str | None = None,
    tau_s: float = TAU_S,
    seed: int = 0,
) -> SlurmWhatIf:
    """Run a site's log in a model of its Slurm, as configured and under changes, many times each.

    Args:
        log: what `sacct -P` prints, a file or several.
        slurm_conf: the site's. Included files, topology.conf and gres.conf are found beside it.
        changes: each is compared with the site as configured and with the others: "PriorityWeightAge=200000", several
            options together, as "bf_interval=60 bf_max_job_test=1000", and more nodes, each like one that is there, as
            "AddNodes=g2=g1".
        runs: of each configuration, at least 5.
        accounts: what `sacctmgr dump` and `sacctmgr -P show qos` print: shares and limits.
        sshare: what `sshare -l` printed when the log begins: the usage before.
        windows: nodes that were reserved or down, as CSV with the columns nodes,begin,end and announced.
        slurm_version: the site's, whose rules and defaults hold; by default 22.05, or the last with all of its options.
        timezone: the cluster's, of dates without one; by default UTC.
        tau_s: the bound of the bounded slowdown.
        seed: of what differs between runs.

    Raises:
        BatfillError: a file or an option is unusable, is not modelled, or changes nothing.
    """
    number_from("runs", runs, FEWEST_RUNS)
    tau_of(tau_s)
    seed_of("seed", seed)
    logs = list(map(Path, [log] if isinstance(log, (str, Path)) else log))
    site = read_site(slurm_conf, accounts=accounts, sshare=sshare, windows=windows, slurm_version=slurm_version)
    sites = {AS_CONFIGURED: site}
    for change in [changes] if isinstance(changes, str) else changes:
        if change in sites:
            raise BatfillError(f"--set {change!r}: it is given twice; give it once")
        sites[change] = changed(site, change)
    jobs = read_jobs(logs, timezone=timezone, limits=site.max_times_s, cred_expire_s=site.settings.cred_expire_s)
    files = [*logs, *(Path(file) for file in (slurm_conf, *accounts, sshare, windows) if file is not None)]
    version = slurm_version or "{}.{:02}".format(*site.settings.version)
    settings = {"runs": runs, "slurm_version": version, "timezone": timezone, "tau_s": tau_s, "seed": seed}
    return compared(logs[0].name, sites, jobs, settings, {str(file): digest(file) for file in files})


def changed(site: Site, change: str) -> Site:
    for option in change.split() or [""]:
        before, site = site, apply(site, option.split())
        if site == before:
            raise BatfillError(f"--set {option!r}: it changes nothing; give a value that slurm.conf does not have")
    return site


def compared(
    name: str, sites: Mapping[str, Site], jobs: SlurmJobs, settings: dict[str, Any], inputs: dict[str, str]
) -> SlurmWhatIf:
    """The answer about the log of this name under these configurations, the site's own first."""
    first, runs, tau_s = next(iter(sites.values())), settings["runs"], settings["tau_s"]
    fair = any(site.settings.multifactor and site.settings.weight_fairshare for site in sites.values())
    decayed = 0 < HALF_LIVES * first.settings.half_life_s < np.ptp(jobs.submit_s)
    used = decayed or not first.associations or any(each.usage for each in first.associations)
    jobs, left_out = possible(first, jobs)
    if not len(jobs):
        raise WorkloadError(f"{name}: none of its jobs can start: {'; '.join(left_out)}; is this its slurm.conf?")
    with patient_progress("runs", runs * len(sites)) as advance:
        found = [ran(site, jobs, clocks(site, jobs, runs, settings["seed"]), advance) for site in sites.values()]
    stayed = np.isinf(jobs.leave_s)
    jobs, found = jobs.select(np.flatnonzero(stayed)), [one.of(stayed) for one in found]
    stuck = [np.isnan(one.wait_s).any(axis=0) for one in found]
    never = np.any(stuck, axis=0)
    if never.all():
        worst = list(sites)[int(np.argmax([one.sum() for one in stuck]))]
        raise WorkloadError(f"{name}: no job starts under every configuration, least under {worst}; leave that out")
    jobs, found = jobs.select(np.flatnonzero(~never)), [one.of(~never) for one in found]
    slowdowns = [bounded_slowdown(one.wait_s, jobs.run_s, tau_s) for one in found]
    logged_s = np.where(jobs.held, np.nan, np.maximum(jobs.started_s - jobs.eligible_s, 0.0))
    by, (lines, _) = [*kinds(jobs, first.cpus), *users(jobs)], touched(first, jobs)
    groups = [group for kind in by for group in grouped(*kind, found, slowdowns, logged_s)]
    return SlurmWhatIf(
        name,
        tuple(sites),
        first,
        jobs,
        groups=groups,
        payers=[payers_of(groups, k, found[0].wait_s, found[k].wait_s) for k in range(1, len(found))],
        never=[int(one.sum()) for one in stuck],
        mean_wait_s=np.array([[mean_of(row) for row in one.wait_s] for one in found]),
        logged=logged_of(jobs, found[0].wait_s, logged_s),
        assumed="; ".join(dict.fromkeys(text for site in sites.values() for text in site.supposed)),
        settings=settings,
        inputs=inputs,
        warnings=(*left_out, *[NO_USAGE] * (fair and not used), *jobs.warnings, *lines, *first.warnings),
    )


def grouped(
    by: str, names: list[str], group: Ints, found: list[Ran], slowdowns: list[Floats], logged_s: Floats
) -> list[Group]:
    jobs, waits, known = np.bincount(group), [one.wait_s for one in found], np.isfinite(logged_s)
    of, sides = np.maximum(np.bincount(group[known], minlength=len(jobs)), 1), (waits[0].mean(axis=0), logged_s)
    compared_s = np.array([np.bincount(group[known], one[known], len(jobs)) / of for one in sides]).T.tolist()
    means, longest = ([by_group(one, group, function) for one in waits] for function in (np.add, np.maximum))
    figures = [means, longest, [by_group(one, group, np.add) for one in slowdowns]]
    if any(one.stops.any() for one in found):
        several = zip(*(one[1:] for one in found), strict=True)
        figures += [[by_group(each, group, np.add) * jobs for each in some] for some in several]

    def outcome(k: int, c: int) -> Outcome:
        return Outcome(*(Figure.of(one[c][:, k], one[0][:, k] if c else None) for one in figures))

    rows = enumerate(zip(names, jobs.tolist(), strict=True))
    return [Group(by, name, n, [outcome(k, c) for c in range(len(found))], *compared_s[k]) for k, (name, n) in rows]


def payers_of(groups: list[Group], k: int, base: Floats, other: Floats) -> Payers:
    """Who gains and who pays, of the waits (runs, jobs) as configured and under the k-th configuration."""
    changed = changes(groups, k)
    sure = np.array([one.longer_s * (not one.chance) for one in changed if one.by == USER])
    by_s = next((s for s in CHANGES_S if 10 * s <= groups[0].outcomes[0].longest_s.mean), CHANGES_S[-1])
    of_users, longer_s = Changed.of(sure, by_s) if len(sure) else None, Difference.of(base, other).sure
    losers, gainers = ([*most_changed(changed, sign).values()] for sign in (1, -1))
    return Payers(Changed.of(longer_s, by_s), of_users, added(longer_s, by_s), None, losers, gainers, by_s=by_s)


def logged_of(jobs: SlurmJobs, wait_s: Floats, logged_s: Floats) -> Logged | None:
    known = np.isfinite(logged_s)
    if not known.any():
        return None
    waited_s = logged_s[known]
    means = [mean_of(row) for row in wait_s[:, known]]
    found = score(jobs.submit_s[known], waited_s, wait_s[:, known].mean(axis=0), jobs.cpus[known])
    found = found._replace(off_s=float(np.abs(wait_s[:, known] - waited_s).mean()))  # of a job's wait in a run
    most = np.flatnonzero(known)[int(np.argmax(waited_s))]
    return Logged(found, Whose(jobs.ids[most], jobs.user[most] or None), min(means), max(means))


def apply(site: Site, changes: Iterable[str]) -> Site:
    """The site with options changed; a WorkloadError if one is unknown or not modelled, or its value is wrong.

    A change is NAME=VALUE, PART.NAME.OPTION=VALUE of a partition, qos or account, or AddNodes=NEW=KNOWN.

    Examples:
        >>> from batfill_site.slurm.site import Node, Partition, Site
        >>> site = Site(nodes=(Node("g1"),), partitions=(Partition("gpu", ("g1",)),))
        >>> apply(site, ["bf_interval=60", "partition.gpu.MaxTime=1-0"]).partitions[0].max_time_s
        86400.0
    """
    for change in changes:
        name, equals, text = change.strip().partition("=")
        before, site = site, without(site, name)
        where, (kind, dot, rest) = f"--set {change}", name.partition(".")
        if name.lower() == ADD_NODES.lower():
            site = add_nodes(site, text)
        elif dot:
            site = with_part(site, where, kind.lower(), *rest.rpartition(".")[::2], text)
        elif (row := ROWS.get(name.lower())) is not None:
            if odd := [word for _, word, _ in unpacked([(where, name, text)]) if word != name]:
                raise refusal(where, odd[0], ROWS)
            given, usual = text if equals else "yes", settings_of((), site.settings.version, "")[0]
            new = value(row, where, given) if given or not row.field else {row.field: getattr(usual, row.field)}
            site = replace(site, settings=replace(site.settings, **new))
        elif site == before or not off(text):
            raise refusal(where, name, ROWS)
    return site


def without(site: Site, option: str, kind: str = "", of: str = "") -> Site:
    """The site without what is not modelled of an option, of one partition or QOS if it is named."""
    fields = {name: row.field for name, row in PARTITION_ROWS.items()} if kind == "partition" else {}
    named, key = [], option.lower()
    for part in site.named:
        name = "flags" if kind == "qos" and part.text == "yes" else part.name.lower()
        if part.kind == kind and fields.get(name, name) == fields.get(key, key):
            part = part._replace(of=tuple(each for each in part.of if each != of))
            named += [part] * bool(part.of)
        else:
            named.append(part)
    return replace(site, named=tuple(named))


def with_part(site: Site, where: str, kind: str, owner: str, option: str, text: str) -> Site:
    if kind not in PARTS:
        raise WorkloadError(f"{where}: write partition.NAME.OPTION, qos.NAME.OPTION or account.NAME.OPTION")
    part, rows = PARTS[kind]
    old: list[Any] = list(getattr(site, part))
    names = ["" if kind == "account" and each.user else each[0] for each in old]
    known = listed(filter(None, names)) or "none, give the files of accounts"
    if not owner or owner not in names:
        raise WorkloadError(f"{where}: no {kind} {owner!r}; known: {known}")
    before, site = site, without(site, option, kind, owner)
    if column(option) not in rows:
        if site != before and off(text):
            return site
        raise refusal(where, option, rows)
    at = names.index(owner)
    old[at], others = with_texts(old[at], rows, where, {column(option): text})
    if others:
        raise WorkloadError(f"{where}: {others[0]} is not modelled; cpu, mem, node and gres/gpu are")
    if kind == "qos":
        if unknown := [name for name in old[at].preempts if name not in names]:
            raise WorkloadError(f"{where}: no qos {unknown[0]!r}; known: {known}")
        without_loop({each.name: each for each in old}, where)
    new: dict[str, Any] = {part: tuple(old)}
    return replace(site, **new)


def add_nodes(site: Site, text: str) -> Site:
    """The site with nodes like a known one, in its partitions and below its switch: g2=g1, or n[9-16]=n1."""
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
    switches = tuple(leaf._replace(nodes=grown(leaf.nodes)) for leaf in site.switches)
    return replace(site, nodes=tuple(nodes), partitions=partitions, switches=switches)
