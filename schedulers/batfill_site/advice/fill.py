"""The answer about other orders of a pool's queue: what `WhatIf` found, as a table, lines and details."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.words import in_a_row, things
from batfill.base.words import percent as in_percent
from batfill.model.options import Options
from batfill.workloads.swf_log import FIELD
from batfill_pages.comparison import CHANGED_S, FEWEST_JOBS
from batfill_pages.comparison_page import STARVED
from batfill_pages.stats import BETTER, CONFIDENCE, UNCLEAR, Paired
from batfill_pages.words import count, interval_text, log_name, signed, slowdown
from batfill_site.advice.choices import KILLS, NEEDS, THRESHOLD, THRESHOLDS_S, TODAY
from batfill_site.advice.configuration import SYSTEMS, configuration
from batfill_site.advice.found import (
    ADVICE,
    GENTLE,
    MACHINE_FILE,
    REFERENCE,
    UNSURE,
    stated,
)
from batfill_site.advice.payers import KINDS, Cost, OneGroup, Payers, most_changed
from batfill_site.answer import (
    NB,
    Answer,
    Bar,
    Detail,
    Picture,
    Point,
    Screen,
    Share,
    Stop,
    Table,
    change,
    dates_text,
    duration,
)
from batfill_site.fidelity import PLAIN, Fidelity, holds_text, machine_text
from batfill_site.machine import REST
from batfill_site.score import ratio_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from batfill_site.advice.found import ChoiceFigures, Limit, Row, WhatIf

HEAD = ("", "mean wait", f"its change (95{NB}%)", "longest", "slowdown")
LONGER = f"{CHANGED_S / 60:g}{NB}min"
FIGURES = ("mean wait", "longest", "slowdown")
MOST_WORDS = 12  # of a headline
MOST_PERIODS = 6  # in a line
CAPTION = "Shaded: above the limit, or without one above twice fcfs's longest wait."
TERMS = (
    "**Slowdown**: wait plus run time, over the run time, which below {0:g} s counts as {0:g} s; the mean over all "
    "jobs, and 1 is the best. **Try**: a first short run of a job; a **kill** ends it, and the job starts again "
    "from its beginning. fcfs is EASY backfilling in order of arrival, simulated: it is not what the cluster ran."
)
EQUALS = (
    "Of equals within chance a limit takes the one that asks least of a site. Any amount takes the one with the "
    "shortest longest wait, and also allows orders without a threshold whose longest wait is over fcfs's."
)
UNBOUNDED = "nothing in it bounds a wait, and its longest is over fcfs's"
SURE = (
    "Intervals and p swap whole weeks at random, and p is corrected for all choices compared; the user or group that "
    "changes most is tested among all of its kind. docs/how-to/what-if.md has the rule by which a choice is advised, "
    "and what each confidence means."
)
PART_FILE = "part.swf"  # what the commands call the log of a part
SHOWN_BY = {".swf": "cat", ".gz": "gzip -dc", ".xz": "xz -dc", ".bz2": "bzip2 -dc"}  # logs of SWF, by suffix
BESIDE = (
    "No real run checks these figures: try the lines on a test partition first. What holds whatever the order, such as "
    "pools, calendars, gates and budgets, is set in the batch system itself."
)
SLURM_MODEL = "; with `sacct -P` as LOG and `--slurm-conf slurm.conf` they are"


def answer_of(found: WhatIf, log: str = "LOG") -> Answer:
    picture = Picture(
        [point(found, k) for k in range(len(found.outcomes))],
        found.shown(found.limit),
        *("fcfs's", "simulated", CAPTION),
        stops=stops_of(found),
        given=found.given,
        sure=not found.undecided,
    )
    workload, of, jobs = found.workload, len(found.comparison.at), things(found.site.jobs, "job")
    jobs = jobs if of == found.site.jobs else f"{count(of)} of {jobs}"
    dates = found.periods[-1].submitted if found.whole else dates_text(workload.jobs.submit_s, workload.clock)
    fit = "; of those that fit the cap, in each row" * (found.cost is not None and found.cost.left_out > 0)
    return Answer(
        title=f"{log_name(workload.name)}: what another queue order would change",
        about=f"{jobs} on {things(workload.size or 0, 'processor')}, {dates}{fit}",
        screen=screen(found, found.limit),
        picture=picture,
        details=details(found, log),
        data=found.figures(),
        cautions=[*workload.size_warnings, *overload(found.cost), *found.invented],
        terms=TERMS.format(found.settings["tau_s"]),
        guide="how-to/what-if",
    )


def screen(found: WhatIf, limit: Limit, k: int | None = None) -> Screen:
    rows, shown = found.rows(limit, k), found.shown(limit) if k is None else k
    taken = shown and (k is not None or not found.undecided)  # nothing is said of a choice that is not advised
    table = Table(HEAD, [cells(found, limit, row) for row in rows], [row.choice for row in rows])
    lines = {
        found.cost.label if found.cost else "Cap": cap(found.cost) if found.cost else "",
        "Why": why(found, limit) if k is None else tested(found, k),
        "Who pays": who_pays(found, shown) if taken else "",
        "Confidence": confidence(found, limit) if k is None else "",
        f"By {found.periods[0].unit if found.periods else ''}": by_period(found) if k is None else "",
        "Needs": needs(found, shown) if taken else "",
        "Without effect": never_applied(found) if found.settings["thresholds_s"] != [*THRESHOLDS_S] else "",
        "Real waits": real_waits(found, shown),
        "Machine": machine(found),
    }
    if k is not None:
        return Screen(headed("If you took", found.outcomes[k]), table, lines)
    return Screen(headline(found, limit), table, lines, taken=bool(limit.advised and not found.cautions))


def headline(found: WhatIf, limit: Limit) -> str:
    """The advice under a limit in at most `MOST_WORDS` words; what forbids to trust it, if anything does."""
    system = found.settings["system"]
    of = f"of what {SYSTEMS[system]} can do, " if system else ""
    if found.undecided:
        return fitting(f"Cannot tell: {found.undecided.partition(':')[0]}", "Cannot tell: the log is too short")
    if found.invented:
        jobs = found.workload.jobs
        share = percent(jobs.n_missing(found.workload.unrequested) / len(jobs))
        return f"Do not trust this advice: {share} of the requests are invented"
    taken, within = found.outcomes[limit.advised], " within the limit" * bool(found.limits[-1].advised)
    lead = f"{of}{'take' if limit.advised else 'keep'}"
    lead = f"Last {found.periods[0].unit}: {lead}" if found.whole else first_upper(lead)
    if found.whole:
        other = found.whole.outcomes[found.whole.limits[found.limits.index(limit)].advised]
        differs = f", not **{short(other)}**" * (taken.name != other.name)
        return fitting(f"{lead} **{short(taken)}**{differs}", f"{lead} **{short(taken)}**")
    if not found.offered:
        return f"Keep **fcfs**: {SYSTEMS[system]} can do none of the other choices"
    if limit.advised:
        return headed(lead, taken)
    why = f"no choice that was tested is better{within}"
    why = "less slowdown would cost longer waits" if limit.by_slowdown else why
    return fitting(f"{lead} **fcfs**: {why}", f"{lead} **fcfs**")


def fitting(text: str, shorter: str) -> str:
    return text if len(text.replace(NB, " ").split()) <= MOST_WORDS else shorter


def headed(lead: str, o: ChoiceFigures) -> str:
    return fitting(f"{lead} **{short(o)}**: {lower(o.words)}", f"{lead} **{short(o)}**")


def cells(found: WhatIf, limit: Limit, row: Row) -> tuple[str, ...]:
    name, differs = row.role, ""
    if (k := row.choice) is not None:
        name = short(found.outcomes[k]) if k else f"fcfs with {found.cost.name}" if found.cost else REFERENCE
        if row.role == GENTLE:
            kills = found.outcomes[found.shown(limit)].effort == KILLS
            name = f"{'no kills' if kills else 'next'}: {name}"
        name = f"**{name}**" if row.role in (ADVICE, UNSURE) else name
        differs = wait_change(found, k) if k else ""
    mean, *others = figures(found, row)
    return name, mean, differs, *others


def wait_change(found: WhatIf, k: int) -> str:
    one = found.waits[k - 1]
    chance = found.undecided is not None or one.verdict == UNCLEAR or not one.bounded
    return "may be chance" if chance else interval(one)


def interval(one: Paired) -> str:
    step_s = 60 if max(abs(one.low), abs(one.high)) >= 600 else 1
    return interval_text(one, lambda longer_s: change(step_s * round(longer_s / step_s)))


def why(found: WhatIf, limit: Limit) -> str:
    if found.undecided:
        cause = found.undecided.partition(": ")[2] or found.undecided  # the headline has what is before
        if found.unseen and not found.too_short:
            return f"{cause}."
        return f"{cause}; {short(found.outcomes[found.best_seen])} has the least slowdown seen, perhaps by chance."
    mine, least = found.outcomes[limit.advised], found.outcomes[limit.by_slowdown]
    said = []
    if found.whole:
        o, first = found.whole.advice, found.whole.outcomes[0]
        over = f"slowdown {slowdown(o.mean_bsld)} (fcfs {slowdown(first.mean_bsld)}), longest wait "
        over += f"{duration(o.max_wait_s)} ({duration(first.max_wait_s)})"
        said.append(f"all figures are of the last {found.periods[0].unit}; over the whole log {short(o)}, {over}")
    within = "whatever the longest wait"
    if limit.growth is not None:
        within = f"longest wait up to {duration(limit.longest_s)} (fcfs's + {setting(limit.growth)})"
    nothing = f"nothing is lower by at least {setting(found.settings['min_gain'])}"
    said.append(f"{'least slowdown' if limit.advised else nothing} beyond chance, {within}")
    if not limit.advised and (best := found.limits[-1].advised):
        o = found.outcomes[best]
        said.append(f"{short(o)} is, with a longest wait of {duration(o.max_wait_s)}")
    if limit.by_slowdown != limit.advised:
        other = found.outcomes[found.outdoing(limit)]
        least_text = f"{short(least)} has less ({slowdown(least.mean_bsld)})"
        said.append(
            f"{least_text}, but {short(other)} asks less of a site, and jobs wait less on average and no longer at most"
        )
    elif (k := passed_over(found, limit)) is not None:
        doubt = "its gain may be chance" if found.allowed(limit, k) else UNBOUNDED
        if k in found.withheld:
            doubt = f"no option of the batch system makes it: {found.withheld[k]}"
        said.append(f"{short(found.outcomes[k])} would be lower ({slowdown(found.outcomes[k].mean_bsld)}), but {doubt}")
    if limit.equals:
        others = [found.outcomes[k] for k in limit.equals]
        least_s = limit.growth is None or any(o.effort == mine.effort for o in others)
        shortest = all(mine.max_wait_s < o.max_wait_s for o in others)
        longest = "the shortest longest wait of these" if shortest else "no longer a longest wait than these"
        cause = f"has {longest}" if least_s else "asks least"
        less = min(others, key=lambda o: o.mean_wait_s)
        waits = f", whose mean wait is {duration(mine.mean_wait_s - less.mean_wait_s)} shorter"
        waits = waits if less.mean_wait_s < mine.mean_wait_s and len(others) == 1 else ""
        equal = in_a_row([short(o) for o in others])
        said.append(f"its slowdown is within chance of that of {equal}{waits}; it {cause}")
    other_k = found.runner_up(limit)
    other = mine if other_k is None else found.outcomes[other_k]
    if mine.effort == KILLS and other_k is not None and other.mean_wait_s < mine.mean_wait_s:
        but = f"a longest wait of {duration(other.max_wait_s)}"
        but = f"more slowdown ({slowdown(other.mean_bsld)})" if other.mean_bsld > mine.mean_bsld else but
        if (gain := found.gain(other_k)).verdict != BETTER:
            but = f"a slowdown below fcfs's perhaps by chance (p {gain.corrected_p:.2g})"
        said.append(f"{short(other)} has the shorter mean wait and kills nothing, but has {but}")
    return f"{'; '.join(said)}."


def passed_over(found: WhatIf, limit: Limit) -> int | None:
    """The choice within the limit with the least slowdown, if that is less than the advised one's and not taken."""
    most = found.outcomes[limit.advised].mean_bsld
    within = [k for k, o in enumerate(found.outcomes) if k and o.mean_bsld < most and o.max_wait_s <= limit.longest_s]
    out = [k for k in within if not found.allowed(limit, k) or k in found.withheld or found.gain(k).verdict != BETTER]
    return min(out, key=lambda k: found.outcomes[k].mean_bsld, default=None)


def tested(found: WhatIf, k: int) -> str:
    if not k:
        return "all other choices are compared with this one."
    verdict = found.gain(k).verdict
    unclear = "its slowdown may differ from that of fcfs by chance."
    return unclear if verdict == UNCLEAR else f"its slowdown is {verdict} than fcfs's beyond chance."


def groups_of(found: WhatIf, k: int) -> list[OneGroup]:
    """The jobs by width and run time: chance is as among all choices, or as the largest of all groups of the kind."""
    payers, groups = found.outcomes[k].payers, []
    ends = {(one.by, one.name) for one in (*payers.losers, *payers.gainers) if one.chance}
    for one in found.groups:
        more, words, before_s = one.differences[k - 1].wait_s, KINDS[one.by].format(one.name), one.mean_wait_s
        chance = found.undecided is not None or more.verdict == UNCLEAR or (one.by, one.name) in ends
        groups.append(OneGroup(one.by, one.name, words, one.jobs, before_s, before_s + more.value, chance))
    return groups


def who_pays(found: WhatIf, k: int) -> str:
    o = found.outcomes[k]
    said, killed = [longer_text(o.payers)], o.payers.killed
    if (job := o.payers.job) is not None:
        said.append(f"job {job.job} most, waiting {duration(job.after_s)} (fcfs: {duration(job.before_s)})")
    users = [one for one in (*o.payers.losers, *o.payers.gainers) if one.by in ("user", "group")]
    said += ends_text([*users, *groups_of(found, k)])
    if killed is not None:
        after = Options.of(o.options).divider_s
        when = f" after {duration(after)}" if math.isfinite(after) else ""
        lost = f"{percent(o.wasted)} of processor time; {percent(killed.longer)} of them wait over {LONGER} longer"
        said.append(f"{count(killed.jobs)} jobs ({percent(killed.share)}) are killed once{when}, {lost}")
    return f"{'; '.join(said)}."


def ends_text(groups: Sequence[OneGroup], *, counted: bool = False) -> list[str]:
    """Which groups wait longer and which shorter on average beyond chance: of each kind the one that changes most.

    Of groups of the same jobs the first is named. Those of the first kind that may be chance are named at the end.
    """
    said, perhaps = [], list[OneGroup]()
    kind = next((one.by for one in groups if abs(one.longer_s) >= 1), "")
    if not any(one.longer_s for one in groups):
        return []
    for sign in (1, -1):
        most = {(one.jobs, one.after_s): one for one in reversed(most_changed(groups, sign).values())}
        said.append(named(reversed(most.values()), counted))
        first = [one for one in groups if one.by == kind and sign * one.longer_s >= 1]
        perhaps += [one for one in sorted(first, key=lambda one: -sign * one.longer_s)[:1] if one.chance]
    longer, shorter = said
    texts = [f"longer on average: {longer or 'none beyond chance'}", f"shorter: {shorter}" * bool(shorter)]
    return [*filter(None, texts), *[f"perhaps most: {named(perhaps)}"] * bool(perhaps)]


def named(groups: Iterable[OneGroup], counted: bool = False) -> str:
    shown = [(one.words.replace(" ", NB), f"{things(one.jobs, 'job')}, " * counted, one.longer_s) for one in groups]
    return ", ".join(f"{words} ({jobs}{change(longer_s)})" for words, jobs, longer_s in shown)


def longer_text(payers: Payers) -> str:
    """Which share of jobs, and how many users, wait longer by so much, how much these do, and which less."""
    jobs, users, added, *_, by_s = payers
    some = f"users with at least {FEWEST_JOBS} jobs"
    by = " (median {}, one in 20 over {})".format(*map(duration, added.values())) if added else ""
    less = f"{percent(jobs.less / sum(jobs))} less"
    of = f"; the log names no {some.replace('at least ', '')}"
    of = f"; {count(users.longer)} of {count(sum(users))} {some} longer" if users else of
    return f"{percent(jobs.share)} of jobs wait over {duration(by_s)} longer{by}, {less}{of}"


def confidence(found: WhatIf, limit: Limit) -> str:
    sure = found.confidence(limit)
    if sure is None:
        return ""
    gain = found.gain(limit.advised)
    said = f"**{sure}** that slowdown is below fcfs's (p {gain.corrected_p:.2g})"
    if gain.bounded:
        value, high, low = (slowdown(-one) for one in (gain.value, gain.low, gain.high))
        said += f", by {value} (95{NB}%: {low} to {high}), less in another year"
    return f"{'; '.join([said, *(why for _, why in found.doubts(limit))])}."


def by_period(found: WhatIf) -> str:
    shown = found.periods[-MOST_PERIODS:] if not found.undecided else ()
    if not shown:
        return ""
    figures = [one.figures for one in shown]  # of the advice there, of the whole log's, and of fcfs
    whole = figures[0][1].choice
    if whole:
        ends = [f"{slowdown(fcfs.mean_bsld)} to {slowdown(mine.mean_bsld)}" for _, mine, fcfs in figures]
        said = f"oldest first, {short(found.outcomes[whole])} takes fcfs's slowdown from {', from '.join(ends)}"
        said += " (each alone may be chance)"
    else:
        said = f"oldest first, fcfs's slowdown is {', '.join(slowdown(fcfs.mean_bsld) for *_, fcfs in figures)}"
    others = [one for one, mine, _ in figures if one.choice != mine.choice]
    least = [f"{short(found.outcomes[one.choice or 0])} ({slowdown(one.mean_bsld)})" for one in others]
    other = f"; in {len(least)} of them the rule would advise another choice, perhaps by chance: {in_a_row(least)}"
    return f"{said}{other * bool(least)}."


def needs(found: WhatIf, k: int) -> str:
    o, said = found.outcomes[k], list[str]()
    if o.effort == TODAY:
        return ""
    for name, title in SYSTEMS.items():
        if found.settings["system"] in (None, name):
            lacks = configuration(name, o.options)[1]
            near = [one for one in found.outcomes if one.effort < THRESHOLD and one.options.get("policy") == "saf"]
            if lacks and o.effort == THRESHOLD and near:
                lacks += f"; without one, {short(near[0])} has a longest wait of {duration(near[0].max_wait_s)}"
            said.append(f"{title}: {lacks or 'a few lines (Configuration)'}")
    return f"{'. '.join([NEEDS[o.effort], *said])}."


def real_waits(found: WhatIf, k: int) -> str:
    score, first, taken, near = found.logged, found.outcomes[0], found.outcomes[k], found.fidelity
    longest = f"fcfs's longest is {first.whose}"
    longest += f", {short(taken)}'s {taken.whose}" if taken.whose != first.whose else ""
    if score is None or score.ratio is None:
        whose = f" ({longest})" * bool(max(first.max_wait_s, taken.max_wait_s))
        return f"all waits are simulated{whose}; {lower(str(near))}."
    bsld = "" if found.logged_bsld is None else f", slowdown {slowdown(found.logged_bsld)}"
    said = f"mean {duration(score.logged_mean_s)}{bsld}, longest {duration(score.logged_longest_s)}"
    whose = f" ({found.logged_whose})" if found.logged_whose else ""
    whose += f"; {of_log}" if near.site and (of_log := near.site.logged.longest(score.logged_longest_s)) else ""
    held = f". What held jobs: {holds_text(near)}" if near.held else ""
    if found.cost:  # the score is without the limits, and whose waits are longest is not
        longest = "both are without the limits"
    return f"{said}{whose}. Simulated ones are {score}; {longest}{held}."


def machine(found: WhatIf) -> str:
    near, site = found.fidelity, found.site
    part, parts, gone = near.part, len(near.machine.parts), sum(site.left_out.values())
    said = [machine_text(near)] if found.logged else []
    said += [f"all figures are of {part.name}, with {percent(part.waiting)} of the waiting time"] * (parts > 1)
    said += [f"replayed with {near.factors}"] * (near.factors != PLAIN)
    said += [f"{count(gone)} of {count(site.rows)} rows are dropped"] * bool(gone)
    more = SLURM_MODEL * (site.slurm and found.cost is None)
    said += [f"not modelled: {', '.join(site.unmodelled)} (one queue, one machine){more}"] * bool(site.unmodelled)
    return f"{'; '.join(said)}." if said else ""


def cap(cost: Cost) -> str:
    longer, name = cost.longer, f"{cost.text}{f' ({in_a_row(cost.processors)})' * bool(cost.processors)}"
    said = [f"{name} leaves fcfs's mean wait as it is"]
    if longer.value or cost.payers.jobs.longer:
        between = f"{percent(CONFIDENCE)}: {interval(longer)}"
        few = f"{longer.blocks} groups of correlated weeks"
        between += f", which may be too narrow: it rests on {few}" * longer.narrow
        between = between if longer.bounded else "too few weeks for an interval"
        said = [
            f"{name}: fcfs's mean wait **{change(longer.value)}** ({between})",
            longer_text(cost.payers._replace(added={})),
        ]
    work = f"{percent(cost.left_work)} of processor time"
    said += [f"left out: {things(cost.left_out, 'job')} that would never fit, {work}"] * bool(cost.left_out)
    used = in_a_row(list(cost.used.values()))
    said += [cost.rushed.as_text()] if cost.rushed is not None else []
    drawn = cost.limits.get("urgent", "").startswith("share:")
    said += ["they are drawn at random: another seed may give other costs, and other advice"] * drawn
    said += [f"the log's own starts used up to {used}"] * bool(used)
    return f"{'; '.join(said)}."


def overload(cost: Cost | None) -> list[str]:
    if cost is None or cost.load < 1:
        return []
    more = f"the jobs want {percent(cost.load)} of what {cost.name} allows while they arrive, so waits grow"
    undone, without = map(percent, cost.undone)
    left = f": when the last one arrives, {undone} of their processor time is not run ({without} without {cost.name})"
    return [f"{more}{left * ('energy-budget' not in cost.limits)}"]  # a budget may end before


def point(found: WhatIf, k: int) -> Point:
    o, longest = found.outcomes[k], [duration(one.max_wait_s[k]) for one in found.groups]
    if k:
        bars = [(one.by, one.name, one.longer_s, one.chance, change(one.longer_s)) for one in groups_of(found, k)]
    else:
        bars = [(one.by, one.name, 0.0, False, duration(one.mean_wait_s)) for one in found.groups]
    return Point(
        *(o.name, o.mean_bsld, o.max_wait_s, screen(found, found.limit, k)),
        shares=shares(o.payers) if k else [],
        bars=[Bar(*bar, longest_s) for bar, longest_s in zip(bars, longest, strict=True)],
    )


def shares(payers: Payers) -> list[Share]:
    found, users = [], f"users with at least {FEWEST_JOBS} jobs"
    for what, changed, mean in (("jobs", payers.jobs, ""), (users, payers.users, "mean ")):
        if changed is not None:
            total = sum(changed)
            said = [percent(n / total) if changed is payers.jobs else count(n) for n in changed]
            of = f"{count(total)} {what}, those whose {mean}wait changes by more than {duration(payers.by_s)}"
            found.append(Share(of, changed, said))
    return found


def details(found: WhatIf, log: str) -> list[Detail]:
    order = sorted(range(len(found.outcomes)), key=lambda k: found.outcomes[k].mean_bsld)
    shown, rows, tests, settings = found.shown(found.limit), [], [], found.settings
    for k in order:
        o, users = found.outcomes[k], found.outcomes[k].payers.users
        of_users = f"{count(users.longer)} of {count(sum(users))}" if users else ""
        pays = (percent(o.payers.jobs.share), of_users) if k else ("", "")
        rows.append((o.name, *figures(found, o), *pays, count(o.kills) if o.kills else ""))
        if k:
            one = found.gain(k)
            ends = (signed(one.value), interval_text(one, signed), f"{one.corrected_p:.2g}")
            tests.append((o.name, *ends, wait_change(found, k)))
    head = ("choice", *FIGURES, "jobs longer", "users longer", "kills")
    stops = stops_of(found)
    limits = [(one.grown, (o := found.outcomes[one.take]).name, *figures(found, o)) for one in stops]
    by_limit = Table(("longest wait may grow by", "take", *FIGURES), limits, [one.take for one in stops], 1, stops=True)
    mine = found.outcomes[shown]
    made = {title: configuration(name, mine.options) for name, title in SYSTEMS.items()}
    configured = [f"# {title}{f': {lacks}' if lacks else ''}\n{lines}" for title, (lines, lacks) in made.items()]
    longer = (
        f"Longer: jobs by over {LONGER}, and users with at least {FEWEST_JOBS} jobs whose mean wait grows by as much."
    )
    return [
        Detail(
            "All choices, lowest slowdown first",
            [f"{longer} ▲: over {STARVED:g} times fcfs's longest wait."],
            Table(head, rows, order),
        ),
        Detail("The advice at each limit", [EQUALS], by_limit),
        Detail("The advice in each period", [], by_periods(found)),
        Detail(f"Configuration of {mine.name}", [BESIDE], code="\n".join(configured)),
        Detail(
            "Statistics: intervals, p, what the confidence means",
            [SURE],
            Table(
                ("choice", "slowdown", f"{percent(CONFIDENCE)} interval", "corrected p", f"mean wait, 95{NB}%"), tests
            ),
        ),
        Detail("The log and the choices: what is left out, and notes", [f"{first_upper(n)}." for n in notes(found)]),
        Detail(
            f"Commands: {mine.name}, then the other choices",
            ["The jobs, and the figures, are of all periods."] * bool(found.whole)
            + [", ".join(f"{name} {value}" for name, value in stated(settings).items() if value is not None)],
            code=commands(found, log),
        ),
    ]


def by_periods(found: WhatIf) -> Table:
    rows = []
    for one in found.periods:
        about = one.submitted, count(one.rows.sum()), ratio_text(one.ratio)
        for row in {each.choice: each for each in one.figures}.values():
            rows.append((*about, found.outcomes[row.choice or 0].name, *figures(found, row)))
            about = ("", "", "")
    return Table(("submitted", "jobs", "sim/log", "advice, then others", *FIGURES), rows, left=3)


def notes(found: WhatIf) -> list[str]:
    site, grade = found.site, f"{'over the whole log and without options, ' * bool(found.logged)}{found.fidelity}"
    said = [f"{count(number)} of {count(site.rows)} rows dropped: {reason}" for reason, number in site.left_out.items()]
    said += [f"{count(site.cancelled)} of them cancelled"] * bool(site.cancelled)
    said += [*site.imported, *found.workload.notes, *found.workload.warnings, grade]
    if not found.undecided:
        compared = zip(found.comparison.names, found.bsld[0], strict=True)
        said += found.comparison.doubts({name: one for name, one in compared if one is not None})
    said += [
        f"{found.outcomes[k].name} is not offered for {found.settings['system']}: {why}"
        for k, why in found.withheld.items()
    ]
    said += ["inform users before jobs are killed, and exempt those that must not start twice"] * any(
        o.effort == KILLS for o in found.outcomes
    )
    said += filter(None, [never_applied(found)])
    return list(dict.fromkeys(said))


def never_applied(found: WhatIf) -> str:
    idle = [short(o) for o in found.outcomes if o.overdue == 0 and "threshold" in o.options]
    return f"{in_a_row(idle)}: no job waits as long as the threshold, which never applies." * bool(idle)


def figures(found: WhatIf, one: Row | ChoiceFigures) -> tuple[str, str, str]:
    flag = " ▲" * (one.max_wait_s > STARVED * found.outcomes[0].max_wait_s)
    return duration(one.mean_wait_s), f"{duration(one.max_wait_s)}{flag}", slowdown(one.mean_bsld)


def commands(found: WhatIf, log: str) -> str:
    """What replays each choice, that which is shown first."""
    settings, machine, part, where = found.settings, found.fidelity.machine, found.fidelity.part, shlex.quote(log)
    its = {"procs": machine.header, "machine": settings["machine"], **found.workload.choices}
    made = stated(settings).get("calendar") == MACHINE_FILE
    lines = [f"batfill fidelity {where} {options_words(its)} --calendar {MACHINE_FILE}  # makes {MACHINE_FILE}"] * made
    if (select := selection(found.fidelity, log)) is None:
        return f"# No command selects the jobs of {part.name or 'this machine'}; batfill what-if repeats the figures."
    if select:
        lines, where = [*lines, f"{select} > {PART_FILE}  # the jobs of {part.name}"], PART_FILE
    words = options_words({"procs": found.workload.size, **found.workload.choices, "tau": settings["tau_s"]})
    mine = found.outcomes[found.shown(found.limit)]
    order = [mine, *(o for o in found.outcomes if o is not mine)]
    return "\n".join([*lines, *(f"batfill replay {where} {options_words(o.options)} {words}" for o in order)])


def selection(near: Fidelity, log: str) -> str | None:
    """The command that prints the rows of the part; "" if all jobs are its own, and None if there is none."""
    part, parts, show = near.part, near.machine.parts, SHOWN_BY.get(Path(log).suffix)
    lost = not show or ".json" in log or (near.options.get("calendar") and not part.rows[0])  # whose dates would move
    if (len(part.steps) > 1 and (near.machine.wide & part.rows).any()) or (part.name and lost):
        return None
    if not part.name:
        return ""
    sign, named = ("!=", parts[1:]) if part.name == REST else ("==", parts[:1])
    tests = [f"${FIELD[place] + 1} {sign} {label}" for place, label in (one.name.split() for one in named)]
    return f"{show} {shlex.quote(log)} | awk '/^;/ || {' && '.join(tests)}'"


def options_words(options: Mapping[str, Any]) -> str:
    words: list[str] = []
    for name, value in stated(options).items():
        words += [f"--{name}"] * (value is not False)  # a flag that is not given
        words += [] if isinstance(value, bool) else [f"{value:.12g}" if name in ("threshold", "tau") else str(value)]
    return shlex.join(words)


# Words


def percent(share: float) -> str:
    return in_percent(share).replace(" ", NB)


def stops_of(found: WhatIf) -> list[Stop]:
    stops = []
    for limit in found.limits if not found.undecided else ():
        grown = f"any{NB}amount" if limit.growth is None else setting(limit.growth)
        stops.append(Stop(grown, None if limit.growth is None else limit.longest_s, limit.advised))
    return stops


def setting(share: float) -> str:
    return f"{100 * share:.6g}{NB}%"


def short(o: ChoiceFigures) -> str:
    return o.name.replace(" ", NB)


def lower(words: str) -> str:
    return f"{words[:1].lower()}{words[1:]}"


def first_upper(text: str) -> str:
    name = "." in text.partition(" ")[0]  # of a file, which keeps its letters
    return (text if name else f"{text[:1].upper()}{text[1:]}").removesuffix(".")
