"""The answer of `what_if` in sentences, and as text for the terminal.

In sentences **bold** and `code` are marked, and durations hold no-break spaces; `wrapped` takes that out.
"""

from __future__ import annotations

import shlex
import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from batfill.base.stats import CONFIDENCE
from batfill.base.words import percent as in_percent
from batfill.model.options import FIRST_TRIES, REPLAYED, arguments_of
from batfill.reports.siteconfig import APPROXIMATE, EXPRESSIBLE, IMPOSSIBLE, SYSTEMS, site_config
from batfill.reports.what_if import CHANGED_S, FEWEST_JOBS, KILLS, STARVED, stated
from batfill.reports.words import count, interval_text, slowdown, submission_dates
from batfill.reports.words import duration_html as duration
from batfill.search.promise import BUSY_BSLD, MOVED_S, OVERLOADED, OVERLOADED_S, QUIET, QUIET_S, WORDS, Figures
from batfill.search.promise import TAU_S as BSLD_TAU_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.base.stats import Paired
    from batfill.reports.siteconfig import SiteConfig
    from batfill.reports.what_if import Changed, ChoiceFigures, Limit, WhatIf

MINUS = "\u2212"
NB = "\u00a0"  # keeps a number and its unit on one line
COLUMNS = 100  # of the terminal
MOST_NAMES = 5  # of choices in a sentence
LONGER = f"{CHANGED_S / 60:g} min"
RESERVED = (
    "Reservations: on six logs of the archive every one beyond the first lengthened the mean wait, to 1.1 to 1.5 times "
    "with one for every job, and shortened the longest by a tenth at most; the step that matters is from none to one. "
    "Single replays differ by up to 15 %."
)


def percent(share: float) -> str:
    """A share in per cent, on one line."""
    return in_percent(share).replace(" ", NB)


def setting(share: float) -> str:
    """A limit, or another setting, in per cent as it was given."""
    return f"{100 * share:.6g}{NB}%"


def listed(names: Sequence[str]) -> str:
    """The names in a sentence, the first few of many."""
    names = names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def named(outcome: ChoiceFigures) -> str:
    """The choice in words within a sentence, with its name: smallest area first (saf)."""
    words = f"{outcome.words[:1].lower()}{outcome.words[1:]}"
    return f"**{words} ({outcome.name.replace(' ', NB)})**"


def figures_text(answer: WhatIf, k: int) -> str:
    """Mean wait, longest wait and slowdown of a choice, with fcfs's."""
    o, today = answer.outcomes[k], answer.outcomes[0]
    grown = growth_of(answer, k)
    more = "" if grown.endswith("%") or o.max_wait_s == today.max_wait_s else f"; {grown}"
    return (
        f"mean wait {duration(o.mean_wait_s)} (today {duration(today.mean_wait_s)}), longest "
        f"{duration(o.max_wait_s)} ({duration(today.max_wait_s)}{more}), slowdown "
        f"{slowdown(o.mean_bsld)}{NB}({slowdown(today.mean_bsld)})"
    )


def growth_of(answer: WhatIf, k: int) -> str:
    """How much longer than fcfs's the longest wait is: a percentage, or a duration where that rounds to 0 %."""
    today_s, more_s = answer.outcomes[0].max_wait_s, answer.outcomes[k].max_wait_s - answer.outcomes[0].max_wait_s
    if 0 < abs(more_s) < 0.005 * today_s or not today_s:
        return longer_text(more_s)
    return f"{100 * more_s / today_s:+.0f}{NB}%".replace("-", MINUS)


def longer_text(seconds: float) -> str:
    """A difference of waits, to the minute if it is that long."""
    size_s = abs(seconds)
    return f"{MINUS if seconds < 0 else '+'}{duration(60 * round(size_s / 60) if size_s >= 60 else size_s)}"


def today_text(answer: WhatIf) -> str:
    """The figures of fcfs."""
    o = answer.outcomes[0]
    return f"mean wait {duration(o.mean_wait_s)}, longest {duration(o.max_wait_s)}, slowdown {slowdown(o.mean_bsld)}"


def advice_text(answer: WhatIf, limit: Limit) -> str:
    """The advice under a limit, first sentence of the page and last but few of the terminal's text."""
    k = limit.advised
    if answer.undecided:
        k = best_seen(answer)
        seen = f"Least slowdown seen: {named(answer.outcomes[k])}, {figures_text(answer, k)}; it may be chance."
        told = [seen, *notes_on(answer, k)[: starves(answer, k)]] if k else [f"Today: {today_text(answer)}."]
        return " ".join([f"Cannot tell: {answer.undecided}.", *told])
    if k:
        return " ".join([f"Take {named(answer.outcomes[k])}: {figures_text(answer, k)}.", *notes_on(answer, k)])
    tried, within = "no choice tried is better", " beyond chance"
    if best := answer.limits[-1].advised:
        more = f"{answer.outcomes[best].name.replace(' ', NB)}: {growth_of(answer, best)}"
        within = f" and keeps the longest wait within {duration(limit.longest_s)} ({more})"
    if len(answer.withheld) == len(answer.outcomes) - 1:
        tried, within = f"{answer.settings['system']} can do none of the other choices", ""
    figures = today_text(answer)
    return f"Keep {named(answer.outcomes[0])}: {tried}{within}. {figures[0].upper()}{figures[1:]}."


def best_seen(answer: WhatIf) -> int:
    """The choice with the least slowdown."""
    offered = [k for k in range(len(answer.outcomes)) if k not in answer.withheld]
    return min(offered, key=lambda k: answer.outcomes[k].mean_bsld)


def trial_text(answer: WhatIf, k: int) -> str:
    """What a choice would do that is not the advice."""
    o = answer.outcomes[k]
    if not k:
        return f"Today, {named(o)}: {today_text(answer)}."
    return " ".join([f"If you took {named(o)}: {figures_text(answer, k)}.", *notes_on(answer, k)])


def notes_on(answer: WhatIf, k: int) -> list[str]:
    """What to know about a choice beside its figures: starvation and kills."""
    o = answer.outcomes[k]
    return [
        *(["▲" + NB + "Some jobs may starve."] if starves(answer, k) else []),
        *(
            [f"It kills and restarts {count(o.kills)} tries, {percent(o.wasted)} of the processor time."]
            if o.kills
            else []
        ),
    ]


def starves(answer: WhatIf, k: int) -> bool:
    """Whether the longest wait is so much longer than fcfs's that some jobs may starve."""
    return answer.outcomes[k].max_wait_s > STARVED * answer.outcomes[0].max_wait_s


def tie_text(answer: WhatIf, limit: Limit) -> str:
    """Which choices cannot be told from the advised one, and why that one is taken; "" if there are none."""
    mine, others = answer.outcomes[limit.advised], [answer.outcomes[k] for k in limit.equals]
    if not others:
        return ""
    harder = [o for o in others if limit.growth is not None and o.effort > mine.effort]
    longer = [o for o in others if o not in harder]
    parts = [
        *(
            [f"{listed([o.name for o in harder])}, which ask{'s' * (len(harder) == 1)} more of a site"]
            if harder
            else []
        ),
        *(
            [
                f"{listed([f'{o.name} ({duration(o.max_wait_s)})' for o in longer])}, whose longest wait"
                f"{' is' if len(longer) == 1 else 's are'} no shorter"
            ]
            if longer
            else []
        ),
    ]
    return f"Cannot be told from {'; nor from '.join(parts)}."


def confidence_text(answer: WhatIf, limit: Limit) -> str:
    """How sure the gain of the advised choice is, and whether chance can take it above the limit; "" without one."""
    found, made = answer.confidence(limit), answer.promise
    if not found:
        return ""
    said = f"**Confidence: {found}.**"
    if made is None or answer.outcomes[limit.advised].options != {"preset": FIRST_TRIES}:
        return said
    longest = made.ratios[:, Figures._fields.index("longest")]
    if longest.max() * answer.outcomes[0].max_wait_s <= limit.longest_s:
        return said
    over = f"{longest.min():.2f} to {longest.max():.2f}"
    return f"{said} With submissions moved by up to a minute its longest wait was {over} times fcfs's."


def fidelity_text(answer: WhatIf) -> str:
    """How near simulated waits are to those in the log; "" if that cannot be known."""
    score = answer.fidelity.plain
    if score is None or score.ratio is None:
        return ""
    return (
        f"This machine as simulated: waits are **{score.ratio:.2f}** of the logged ones. Compare the choices; do not "
        "expect these durations."
    )


def difference_text(found: Paired) -> str:
    """A difference of slowdowns with its interval and p-value."""
    ends = interval_text(found, difference)
    interval = f"{percent(CONFIDENCE)} interval {ends}" if found.bounded else "too few weeks for an interval"
    return f"slowdown {difference(found.value)}, {interval}, p {found.corrected_p:.2g}"


def difference(value: float) -> str:
    """A difference of slowdowns."""
    return f"{value:+,.2f}".replace("-", MINUS)


def plan_text(answer: WhatIf) -> str:
    """The comparisons with fcfs, planned before the log is read, and their number."""
    chains = [", then ".join(answer.outcomes[k].name for k in chain) for chain in answer.chains]
    counted = f"{len(chains)} planned comparison{'s' * (len(chains) != 1)} with fcfs"
    if not chains:
        return f"{counted}."
    return f"{counted}, for which p is corrected: {'; '.join(chains)}. The next of each only if the one before gains."


def reaction_text(answer: WhatIf) -> str:
    """What the advice gains if users react; "" if that is not known."""
    found = answer.reaction
    if found is None:
        return ""
    return (
        "If users react, submitting a job within 20 min of the end of another of theirs, as in the log (feedback "
        f"{found.feedback}), its slowdown is {found.closed:.2f} of fcfs's, not {found.open:.2f}."
    )


def notes(answer: WhatIf) -> list[str]:
    """Notes on some choices: those a system cannot do, thresholds that never apply, and the cost of kills."""
    system = answer.settings["system"]
    found = [
        f"{'; '.join(o.name for k, o in enumerate(answer.outcomes) if answer.withheld.get(k) == why)}: "
        f"not offered for {system}: {why}."
        for why in dict.fromkeys(answer.withheld.values())
    ]
    idle = [o.name for o in answer.outcomes if o.overdue == 0 and "threshold" in o.options]
    found += [f"{listed(idle)}: no job waits as long as the threshold, which never applies."] if idle else []
    found += [kills_text(o) for o in answer.outcomes if o.effort == KILLS]
    if answer.settings["reservations"]:
        found.append(RESERVED)
    return [*found, *promise_texts(answer)]


def kills_text(o: ChoiceFigures) -> str:
    """The cost of a choice's kills."""
    most = "" if o.most_wasted is None else f"; at most {percent(o.most_wasted)} of the work, whatever is killed"
    return (
        f"{o.name}: {count(o.kills)} tries are killed at the divider and restarted, {percent(o.wasted)} of "
        f"the processor time{most}. Tell users before, and let jobs that must not start twice go without a try."
    )


def promise_texts(answer: WhatIf) -> list[str]:
    """Whether first tries keep their promise on this log, with the spread over the seeds; a sentence or two."""
    made = answer.promise
    if made is None:
        return []
    seeds = f"{len(made.base)} pairs of replays whose submissions are moved by up to {MOVED_S} s"
    fcfs = Figures(*made.base.mean(axis=0))
    log = f"fcfs's mean bounded slowdown is {fcfs.bsld:.1f} (tau {BSLD_TAU_S:g} s), its mean wait {duration(fcfs.wait)}"
    if made.kind == OVERLOADED:
        return [f"First tries promise nothing on this log: {log}, and the promise ends at {duration(OVERLOADED_S)}."]
    if made.kind == QUIET:
        most = f"at most {QUIET_S:g} s longer is promised where the mean bounded slowdown is at most {BUSY_BSLD:g}"
        found = [f"mean wait {made.longer_s:+.1f} s ({most})"]
    else:
        found = [
            f"{WORDS[name]} {column.mean():.3f} ({column.min():.3f} to {column.max():.3f}; at most {most:g})"
            for name, most in made.promised.items()
            for column in [made.ratios[:, Figures._fields.index(name)]]
        ]
    verdict = f"broken on this log ({'; '.join(made.broken.values())})" if made.broken else "kept on this log"
    return [f"First tries' promise is {verdict}. Over fcfs's, in {seeds}: {', '.join(found)}. There {log}."]


def options_words(outcome: ChoiceFigures) -> str:
    """The choice's options on batfill's command line."""
    words = []
    for name, value in stated(outcome.options).items():
        if value is False:  # a flag that is not given
            continue
        words += (
            [f"--{name}"] if value is True else [f"--{name}", f"{value:.12g}" if name == "threshold" else str(value)]
        )
    return shlex.join(words)


def configurable(outcome: ChoiceFigures) -> ChoiceFigures:
    """The choice without what only replays take."""
    return outcome._replace(options={name: value for name, value in outcome.options.items() if name not in REPLAYED})


def configurations(outcome: ChoiceFigures) -> dict[str, SiteConfig]:
    """The choice's configuration for every batch system, by name."""
    return {name: site_config(name, **arguments_of(configurable(outcome).options)) for name in SYSTEMS}


def export_text(answer: WhatIf) -> str:
    """Which batch systems can be configured for the advised choice, and the command."""
    system, found = answer.settings["system"], configurations(answer.advice)
    words = options_words(configurable(answer.advice))
    able = [system] if system else [name for name, one in found.items() if one.verdict == EXPRESSIBLE]
    partly = [name for name, one in found.items() if one.verdict == APPROXIMATE]
    if not able and not partly:
        divider = f"--small class --divider {answer.outcomes[0].waits['small_below_s']:.12g}"
        return (
            "No batch system can be configured for this; `batfill schedule` runs it under Batsim. Nearest to it, "
            f"`batfill export-config SYSTEM {divider} --approximate` puts those jobs first that request little."
        )
    said = []
    if able:
        said.append(f"in full: `batfill export-config {able[0]} {words}`")
        said[0] += f", and for {listed(able[1:])}" if able[1:] else ""
    if partly and not system:
        commands = [
            f"`batfill export-config {name} {words} --approximate` ({'; '.join(found[name].lacks)})" for name in partly
        ]
        said.append(f"in part: {', '.join(commands)}")
    if (never := [name for name, one in found.items() if one.verdict == IMPOSSIBLE]) and not system:
        said.append(f"not at all: {listed(never)}")
    return f"Configuration {'; '.join(said)}."


def log_text(answer: WhatIf) -> str:
    """The log's jobs, machine and dates, and today's order."""
    workload = answer.workload
    dates = submission_dates(workload.jobs.submit_s, workload.clock).replace(" ", NB).replace(f"{NB}to{NB}", " to ")
    return (
        f"{count(len(answer.comparison.at))} jobs on {count(workload.procs or 0)} processors, {dates}; today's order: "
        f"{answer.outcomes[0].words.lower()} (fcfs) with EASY backfilling"
    )


def by_slowdown(answer: WhatIf) -> list[int]:
    """The choices, lowest slowdown first."""
    return sorted(range(len(answer.outcomes)), key=lambda k: answer.outcomes[k].mean_bsld)


def share_text(changed: Changed | None, *, shares: bool) -> str:
    """How many wait longer, as a share or of how many; "" if it is not known."""
    if changed is None:
        return ""
    total = sum(changed)
    return f"{100 * changed.longer / total:.0f}{NB}%" if shares else f"{count(changed.longer)} of {count(total)}"


def answer_text(answer: WhatIf) -> str:
    """For a terminal: the choices and the advice at each limit in tables, notes, and the advice."""
    width = max(len(outcome.name) for outcome in answer.outcomes) + 2
    lines = [
        *wrapped(f"{answer.workload.name}: {log_text(answer)}."),
        "",
        f"{'':{width}}  {'mean wait':>12}  {'longest wait':>14}  slowdown  jobs longer  users longer",
    ]
    for k in by_slowdown(answer):
        o, advised = answer.outcomes[k], k == answer.limit.advised and not answer.undecided
        longest = f"{duration(o.max_wait_s)}{' ▲' if starves(answer, k) else '  '}"
        longer = f"{share_text(o.jobs, shares=True):>11}  {share_text(o.users, shares=False):>12}" if k else ""
        lines.append(
            f"{'* ' if advised else '  '}{o.name:{width - 2}}  {duration(o.mean_wait_s):>12}  {longest:>14}"
            f"  {slowdown(o.mean_bsld):>8}  {longer}".rstrip()
        )
    flagged = any(starves(answer, k) for k in by_slowdown(answer))
    marks = [
        "* the advice" if not answer.undecided else "",
        f"▲ over {STARVED:g} times fcfs's longest wait" if flagged else "",
        f"longer: by over {LONGER}, users with at least {FEWEST_JOBS} jobs on average",
        "" if answer.outcomes[0].users else "the log names no such users",
    ]
    lines += wrapped("; ".join(filter(None, marks)))
    if not answer.undecided:
        lines += ["", *limit_lines(answer, width)]
    told = [
        *(f"Warning: do not trust this advice: {caution}." for caution in answer.invented),
        advice_text(answer, answer.limit),
        " ".join(filter(None, [confidence_text(answer, answer.limit), fidelity_text(answer)])),
    ]
    if not answer.undecided:
        told += [tie_text(answer, answer.limit)]
        if answer.limit.advised:
            difference = difference_text(answer.bsld[0][answer.limit.advised])
            told += [f"Against fcfs: {difference}; {plan_text(answer)}", reaction_text(answer), export_text(answer)]
    grade = str(answer.fidelity)
    told.append(f"{grade[:1].upper()}{grade[1:]}.")
    noted = [line for text in notes(answer) for line in wrapped(text)]
    lines += [*(["", *noted] if noted else []), "", *(line for text in filter(None, told) for line in wrapped(text))]
    return "\n".join(lines).replace(NB, " ")


def wrapped(text: str) -> list[str]:
    """The lines of a paragraph in the terminal; what stands in backquotes is not torn."""
    parts = text.replace("**", "").replace(NB, "\0").split("`")
    kept = "`".join(part.replace(" ", "\0") if k % 2 else part for k, part in enumerate(parts))
    lines = textwrap.wrap(kept, COLUMNS, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def equal_limits(answer: WhatIf) -> list[tuple[list[int], str]]:
    """The limits, neighbours with the same advice together, each time with the growths that they allow."""
    found = []
    for _, group in groupby(enumerate(answer.limits), lambda one: (one[1].advised, one[1].growth is None)):
        (run, limits) = map(list, zip(*group, strict=True))
        first, last = limits[0].growth, limits[-1].growth
        grown = "any" if first is None else setting(first)
        found.append((run, grown if first == last else f"{grown.removesuffix(f'{NB}%')} to {setting(last or 0)}"))
    return found


def limit_lines(answer: WhatIf, width: int) -> list[str]:
    """The advice at each limit, a line for neighbouring limits with the same advice."""
    head = "the longest wait may grow by"
    lines = [f"{head:30}  {'take':{width}}  {'mean wait':>12}  {'longest wait':>12}  slowdown"]
    for run, grown in equal_limits(answer):
        o = answer.outcomes[answer.limits[run[0]].advised]
        lines.append(
            f"{'* ' if answer.given in run else '  '}{grown:28}  {o.name:{width}}  {duration(o.mean_wait_s):>12}"
            f"  {duration(o.max_wait_s):>12}  {slowdown(o.mean_bsld):>8}"
        )
    return lines
