"""The answer about changes of a site's Slurm: what `SlurmWhatIf` found, as a table, lines and details."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from batfill.base.words import things
from batfill.model.jobs import Clock
from batfill_pages.words import count, slowdown
from batfill_site.advice.fill import first_upper, percent, shares, users_text
from batfill_site.answer import (
    NB,
    Answer,
    Bar,
    Detail,
    Picture,
    Point,
    Screen,
    Table,
    dates_text,
    duration,
)
from batfill_site.answer import change as signed
from batfill_site.slurm.ensemble import OTHERS, USER, Difference
from batfill_site.slurm.found import ends_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill_site.slurm.found import Group, Outcome, SlurmWhatIf

NOISE = "Slurm's own noise"
NOT = "not modelled"  # as notes on the configuration begin
HEAD = ("", "mean wait", "change", "longest", "slowdown")
MOST_ROWS = 12  # of a kind of groups beside bars
MOST_PARTS = 6  # that are not modelled, on the first screen
CAPTION = "Means over the runs. Shaded: over twice the longest wait as configured."
RULE = (
    "Two runs of one configuration of Slurm differ, so each is run {} times here, with cycles at other dates. A figure "
    "is the mean over the runs, ± half of its 95 % interval. A difference is within Slurm's own noise, and stands in "
    "brackets, if its interval holds 0, or if two runs of one configuration differ by more on average. An interval "
    "says nothing of the jobs of another day, and is for its comparison alone. Waits count from a job's eligibility. "
    "Users do not react to a change."
)


def answer_of(found: SlurmWhatIf) -> Answer:
    dates = dates_text(found.jobs.submit_s, Clock(0, UTC))
    size = f"{count(len(found.jobs))} jobs on {things(len(found.site.nodes), 'node')} ({count(found.site.cpus)} CPUs)"
    figures = found.figures()
    options = {**found.settings, **figures["slurm"]}
    return Answer(
        title=f"{found.name}: what changes of slurm.conf would do",
        about=f"{size}, {dates}; means of {found.settings['runs']} runs (±{NB}95{NB}%: Slurm's cycles alone)",
        screen=screen(found, found.best, headline(found)),
        picture=Picture(
            [point(found, k) for k in range(len(found.names))],
            found.best,
            *("as configured", "reference", CAPTION, f"within {NOISE}"),
            least_s=1.0,
        ),
        details=[
            *(Detail(f"All groups of jobs, {name}", [], groups_table(found, k)) for k, name in enumerate(found.names)),
            Detail("Noise: runs, intervals, brackets", [RULE.format(found.settings["runs"])]),
            Detail("Notes on the log and the configuration", [first_upper(text) + "." for text in found.warnings]),
            Detail(
                "Options in force as configured",
                [],
                code="\n".join(f"{name} {value}" for name, value in options.items()),
            ),
        ],
        data=figures,
        assumed=found.assumed,
        guide="how-to/slurm",
    )


def screen(found: SlurmWhatIf, k: int, said: str) -> Screen:
    rows = [
        (f"**{name}**" if j == k else name, *cells(one))
        for j, (name, one) in enumerate(zip(found.names, found.all, strict=True))
    ]
    more, stuck = found.all[k].wait_s.more, [*zip(found.never, found.names, strict=True)]
    never = [f"{things(n, 'job')} under {name}" for n, name in stuck if n]
    lines = {"Never start": f"{', '.join(never)}; no figure counts them." if never else ""}
    if found.logged is not None and found.logged.unlike:
        lines["Real waits"] = f"{real_waits(found)} `batfill fidelity` looks for causes."
    lines["Not modelled"] = not_modelled(found)
    if more is not None:
        others = sorted({*range(1, len(found.names))} - {k}, key=lambda j: found.all[j].wait_s.mean)
        pairs = [f"mean wait {change(found.pair(j, k))} against {found.names[j]}" for j in others]
        lines["Longest wait"] = f"{'; '.join([change(found.all[k].longest_s.more), *pairs])}."
        lines["By group"] = by_group(found, k)
        lines["Preempted"] = preempted(found, k)
        lines["Who pays"] = who_pays(found, k)
        apart = duration(float(more.noise))
        lines["Noise"] = f"two runs of one configuration differ by {apart} in the mean wait; in brackets: within noise."
    lines.setdefault("Preempted", preempted(found, k))
    lines.setdefault("Real waits", real_waits(found))
    return Screen(said, Table(HEAD, rows, range(len(rows))), lines)


def headline(found: SlurmWhatIf) -> str:
    """What the best change does to the mean wait, behind a warning if the model or the log does not decide that."""
    best, several = found.best, len(found.names) > 2
    more, stuck = found.all[best].wait_s.more, found.never[best] > found.never[0]
    good = more is not None and more.beyond and more.value < 0 and not stuck
    said = verdict(found, best) if good or not several else f"no change shortens the mean wait beyond {NOISE}"
    if found.cautions and not stuck:
        return f"Cannot tell: {found.cautions[0].partition(':')[0]}. Simulated, {said}"
    return first_upper(said)


def verdict(found: SlurmWhatIf, k: int) -> str:
    more, today, name = found.all[k].wait_s.more, found.all[0].wait_s.mean, f"**{found.names[k]}**"
    if more is None:
        return f"the mean wait is {duration(today)} {name}"
    if found.never[k] > found.never[0]:
        return f"under {name} {things(found.never[k] - found.never[0], 'job')} would never start"
    size, margin = abs(float(more.value)), float(more.margin)
    if size <= margin:
        return f"{name} does not move the mean wait beyond {NOISE}"
    share = f" ({percent(size / today)})" if today else ""
    does = f"{'shortens' if more.value < 0 else 'lengthens'} the mean wait"
    return f"{name} {does} by {around(size, margin)}{share}{'' if more.beyond else f': within {NOISE}'}"


def by_group(found: SlurmWhatIf, k: int) -> str:
    """Of each kind of groups the one that gains most, and the one that loses most."""
    said = []
    for name, most in ends_of(found, k).items():
        each = [f"{one.by} {one.name} ({change(more).partition(' ±')[0]})" for one, more in most]
        said += [f"{name.replace('_', ' ')}: {', '.join(each)}"] * bool(each)
    return f"{'; '.join(said) or 'none changes beyond noise'}." if found.groups[1:] else ""


def preempted(found: SlurmWhatIf, k: int) -> str:
    """How often jobs are preempted, whose, and what is lost."""
    one = found.all[k]
    if one.stops is None or one.killed is None or one.lost_h is None:
        return ""
    most: dict[str, tuple[float, str]] = {}
    work_h, base = float((found.jobs.run_s * found.jobs.cpus).sum()) / 3600, found.all[0]
    said = f"jobs {slowdown(one.stops.mean)} times a run"
    said += f" ({slowdown(one.killed.mean)} for good)" if one.killed.mean else ""
    said += f", {slowdown(one.lost_h.mean)} processor-hours of work lost, {percent(one.lost_h.mean / work_h)} of all"
    if k and base.stops and base.lost_h:
        said += f"; as configured {slowdown(base.stops.mean)} times, {slowdown(base.lost_h.mean)} hours"
    for group in found.groups[1:]:
        stops = group.outcomes[k].stops
        if group.by in ("partition", "QOS", USER) and group.name != OTHERS and stops and stops.mean > 0:
            most[group.by] = max(most.get(group.by, (0.0, "")), (stops.mean, group.name))
    whose = ", ".join(f"{by} {name} ({percent(stops / one.stops.mean)})" for by, (stops, name) in most.items())
    return f"{said}{f'; most often of {whose}' if whose else ''}."


def who_pays(found: SlurmWhatIf, k: int) -> str:
    by_s, jobs, users = found.payers[k - 1]
    if not any(one and (one.longer or one.less) for one in (jobs, users)):
        return f"no job waits over {duration(by_s)} longer, or less, on average over the runs."
    longer, less = f"{percent(jobs.share)} of jobs", percent(jobs.less / len(found.jobs))
    if users is not None:
        longer += f" and {users_text(users)}"
        less += f" and {count(users.less)}"
    return f"{longer} wait over {duration(by_s)} longer, on average over the runs; {less} less."


def not_modelled(found: SlurmWhatIf) -> str:
    parts = [text.removeprefix(NOT).lstrip(":; ") for text in found.warnings if text.startswith(NOT)]
    more = f"; {len(parts) - MOST_PARTS} more with --details" * (len(parts) > MOST_PARTS)
    return f"{'; '.join(parts[:MOST_PARTS])}{more}." if parts else ""


def real_waits(found: SlurmWhatIf) -> str:
    log = found.logged
    if log is None:
        return "the log has none to compare."
    longest = f"longest {duration(log.score.logged_longest_s)}, {log.whose}"
    runs = f"{duration(log.lowest_s)} to {duration(log.highest_s)}"
    unlike = f"; {why.partition(': ')[2]}" if (why := log.unlike) else ""
    return f"mean {duration(log.score.logged_mean_s)} ({longest}). Simulated ones, {runs}, are {log.score}{unlike}."


def point(found: SlurmWhatIf, k: int) -> Point:
    one, bars = found.all[k], []
    for by in dict.fromkeys(group.by for group in found.groups[1:]):
        those = [group for group in found.groups if group.by == by]
        kind = f"{by}: {MOST_ROWS} of {len(those)}, all with --details" if len(those) > MOST_ROWS else by
        bars += [bar(kind, group, k) for group in those[:MOST_ROWS]]
    payers = found.payers[k - 1] if k else None
    return Point(
        *(found.names[k], one.bsld.mean, one.longest_s.mean, screen(found, k, first_upper(verdict(found, k)))),
        shares=shares(*payers) if payers else [],
        bars=bars,
        note="" if payers else "All changes are compared with this one.",
    )


def bar(kind: str, group: Group, k: int) -> Bar:
    """A group's change of the mean wait; beside a bar is no room for the interval."""
    wait_s, longest_s, *_ = group.outcomes[k]
    more, words = wait_s.more, change(wait_s.more).strip("()") or around(*wait_s[:2])
    value, unclear = (0.0, False) if more is None else (float(more.value), not more.beyond)
    return Bar(kind, group.name, value, unclear, words.partition(" ±")[0], duration(longest_s.mean))


def groups_table(found: SlurmWhatIf, k: int) -> Table:
    head = (*HEAD, "preempted", "hours lost") if found.all[k].stops else HEAD
    rows = []
    for one in found.groups:
        _, _, _, stops, _, lost_h = outcome = one.outcomes[k]
        more = (slowdown(stops.mean), slowdown(lost_h.mean)) if stops and lost_h else ()
        rows.append((f"{one.by} {one.name} ({count(one.jobs)})".lstrip(), *cells(outcome), *more))
    return Table(head, rows)


# Words


def cells(one: Outcome) -> tuple[str, ...]:
    wait = one.wait_s
    return around(*wait[:2]), change(wait.more), duration(one.longest_s.mean), slowdown(one.bsld.mean)


def around(mean: float, margin: float, write: Callable[[float], str] = duration) -> str:
    step_s = 60 if margin >= (60 if abs(mean) >= 1800 else 300) else 0.1
    mean, margin = (step_s * round(seconds / step_s) for seconds in (mean, margin))
    return f"{write(mean)} ±{NB}{duration(margin)}"


def change(more: Difference | None) -> str:
    """A difference of durations, and half of its interval; in brackets if it is noise, "" without one."""
    if more is None:
        return ""
    said = around(float(more.value), float(more.margin), signed)
    return said if more.beyond else f"({said})"
