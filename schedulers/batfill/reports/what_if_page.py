"""The answer of `what_if` for people: tables and advice for the terminal, and an HTML page."""

from __future__ import annotations

import math
import re
import shlex
from html import escape
from typing import TYPE_CHECKING

from batfill.base.stats import BETTER, CONFIDENCE, WORSE, decidable
from batfill.base.version import ENGINE, __version__
from batfill.base.words import duration
from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.metrics import TAU_S
from batfill.model.options import FIRST_TRIES, OPTIONS, PRESETS, REPLAYED, arguments_of
from batfill.reports.charts import sample, styles_of
from batfill.reports.sections import comparison_section
from batfill.reports.siteconfig import APPROXIMATE, EXPRESSIBLE, IMPOSSIBLE, SYSTEMS, site_config
from batfill.reports.what_if import (
    FEWEST_JOBS,
    KILLS,
    MAX_WAIT_GROWTH,
    MIN_GAIN,
    THRESHOLDS_S,
    USUAL,
    gains,
    stated,
    threshold_text,
)
from batfill.reports.words import date_text, interval_text, table, zone_text
from batfill.reports.write import html_page, made_from
from batfill.search.promise import (
    BUSY_BSLD,
    MOVED_S,
    OVERLOADED,
    OVERLOADED_S,
    QUIET,
    QUIET_S,
    WORDS,
    Figures,
)
from batfill.search.promise import TAU_S as BSLD_TAU_S

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.base.stats import Paired
    from batfill.reports.what_if import ChoiceFigures, Limit, WhatIf

UNITS = ((DAY_S, "d", 1), (HOUR_S, "h", 1), (60, "min", 0), (1, "s", 0))  # seconds, name, decimals
ASSUMED = (
    "Jobs, times and users are as in the log: users do not change their jobs or requests with the scheduler, machines "
    "do not fail, and only processors are scarce. fcfs is EASY backfilling in order of arrival; it represents today's "
    "scheduler, not what the cluster actually ran."
)
CHOSEN = (
    "How the advice is chosen: among the choices whose longest wait is within the limit and that gain over fcfs, the "
    "one that requires least of a site (an order, then a threshold, then a classifier, then kills) and over which the "
    "best of them does not gain, unless another of them is better in both figures; ties go to the shortest longest "
    "wait. A gain is a mean bounded slowdown lower by at least {:.3g} %, beyond chance: the p-value is at most 5 %, "
    "over fcfs after the correction for the planned comparisons. The choice is evaluated on the log that selected it: "
    "expect slightly less on next year's jobs."
)
CLASSIFIED = (
    "Small first: fcfs, but jobs that an online classifier predicts to be small go first. No kill: they run to "
    "completion. Kill: a small job still running at the divider (the median of the known run times) is killed and "
    "restarted from its beginning as a large job; its wait lasts until that last start."
)
TRIES = f"First tries: {PRESETS[FIRST_TRIES].meaning} A job's wait lasts until its last start."
RESERVED = (
    "Reservations: on six logs of the archive every one beyond the first lengthened the mean wait, to 1.1 to 1.5 times "
    "with one for every job, and shortened the longest by a tenth at most; the step that matters is from none to one. "
    "Single replays differ by up to 15 %."
)
WAITS = (
    "Small jobs ran for less than the median, {:g} s, large ones are the others; large, later: the share of the large "
    "jobs that wait over an hour longer than under fcfs."
)


def advice_lines(answer: WhatIf) -> list[str]:
    """The advice and the reasons, a paragraph each, doubts first."""
    doubts = [f"Warning: do not trust this advice: {caution}." for caution in answer.invented]
    if answer.undecided:
        return [*doubts, undecided_text(answer), graded_text(answer)]
    return [*doubts, *(taken_lines(answer) if answer.limit.advised else kept_lines(answer)), graded_text(answer)]


def graded_text(answer: WhatIf) -> str:
    """The grade of the log as a sentence."""
    return f"{answer.grade[:1].upper()}{answer.grade[1:]}."


def undecided_text(answer: WhatIf) -> str:
    """That the log cannot decide, why, and what it shows."""
    offered = [o for k, o in enumerate(answer.outcomes) if k not in answer.withheld]
    best = min(offered, key=lambda o: o.mean_bsld, default=answer.outcomes[0])
    shown = [
        f"{o.name} has a mean bounded slowdown of {o.mean_bsld:,.2f} and a longest wait of {duration(o.max_wait_s)}"
        for o in (best, *answer.outcomes[:1])[: 1 + (best is not answer.outcomes[0])]
    ]
    return f"Cannot tell: {answer.undecided}. In this log {'; '.join(shown)}."


def taken_lines(answer: WhatIf) -> list[str]:
    """The advised choice, its gain and cost, and the next step."""
    fcfs, advice, limit = answer.outcomes[0], answer.advice, answer.limit
    lines = [
        f"Take {advice.name}: mean bounded slowdown {advice.mean_bsld:,.2f} instead of fcfs's {fcfs.mean_bsld:,.2f} "
        f"({difference_text(answer.bsld[0][limit.advised])}), mean wait {duration(advice.mean_wait_s)} instead of "
        f"{duration(fcfs.mean_wait_s)}, longest wait {duration(advice.max_wait_s)} instead of "
        f"{duration(fcfs.max_wait_s)} (limit: {limit_text(limit)})."
    ]
    if answer.reaction is not None:
        lines.append(
            f"If users react, submitting a job within 20 min of the end of another of theirs, as in the log (feedback "
            f"{answer.reaction.feedback}), its mean bounded slowdown is {answer.reaction.closed:.2f} of fcfs's, not "
            f"{answer.reaction.open:.2f}."
        )
    if advice.losers is not None:
        lines.append(
            f"Of the users with at least {FEWEST_JOBS} jobs, {advice.losers:.1%} would wait longer on average than "
            "under fcfs."
        )
    if advice.kills:
        lines.append(
            f"{advice.kills:,} of {len(answer.comparison.at):,} jobs would start twice, the second time from their "
            "beginning: tell users before, and let jobs that must not start twice go without a try."
        )
    best = min(
        (k for k, o in enumerate(answer.outcomes) if limit.allows(o) and k not in answer.withheld),
        key=lambda k: answer.outcomes[k].mean_bsld,
    )
    if best != limit.advised:
        other = answer.outcomes[best]
        lines.append(
            f"{other.name} reaches {other.mean_bsld:,.2f} within the limit "
            f"({difference_text(answer.bsld[limit.advised][best])}): {short_of(answer, limit.advised, best)}. "
            f"{advice.name} {'requires less' if advice.effort < other.effort else 'has the shorter longest wait'}."
        )
    lines.append(export_text(answer))
    return lines


def export_text(answer: WhatIf) -> str:
    """Which batch systems can be configured for the advised choice, and the command."""
    advice, system = answer.advice, answer.settings["system"]
    advice = advice._replace(options={name: value for name, value in advice.options.items() if name not in REPLAYED})
    found = {name: site_config(name, **arguments_of(advice.options)) for name in SYSTEMS}
    able = [system] if system else [name for name, one in found.items() if one.verdict == EXPRESSIBLE]
    near = [name for name, one in found.items() if one.verdict == APPROXIMATE]
    if not able and not near:
        divider = f"--small class --divider {answer.outcomes[0].waits['small_below_s']:.12g}"
        return (
            "No batch system can be configured for this; `batfill schedule` runs it under Batsim. Nearest to it, "
            f"`batfill export-config SYSTEM {divider} --approximate` puts those jobs first that request little."
        )
    words = options_words(advice)
    if not able:
        nearest = [
            f"`batfill export-config {name} {words} --approximate` prints its configuration but in part "
            f"({'; '.join(found[name].lacks)})"
            for name in near
        ]
        return "; ".join([*nearest, *(f"{name} cannot do it" for name in found if name not in near)]) + "."
    text = f"`batfill export-config {system or 'SYSTEM'} {words}` prints its configuration"
    if system:
        return f"{text}."
    partly = [f"{name} only in part ({'; '.join(found[name].lacks)})" for name in near]
    never = [f"{name} cannot do it" for name in found if found[name].verdict == IMPOSSIBLE]
    return "; ".join([f"{text} for {' or '.join(able)}", *partly, *never]) + "."


def kept_lines(answer: WhatIf) -> list[str]:
    """That nothing gains, why, and the least growth of the longest wait at which something would."""
    outcomes, limit = answer.outcomes, answer.limit
    fcfs = outcomes[0]
    offered = [k for k in range(1, len(outcomes)) if k not in answer.withheld]
    if not offered:
        return [f"{answer.settings['system']} can do none of the other choices: stay with fcfs."]
    within = [k for k in offered if limit.allows(outcomes[k])]
    gain = [k for k in offered if gains(outcomes, answer.bsld, 0, k, answer.settings["min_gain"])]
    lines = [
        f"Nothing to gain within the limit on the longest wait ({limit_text(limit)}): stay with fcfs."
        if gain
        else "Nothing to gain, whatever the limit on the longest wait: stay with fcfs."
    ]
    tried = within if gain else offered
    if tried:
        best = min(tried, key=lambda k: outcomes[k].mean_bsld)
        lines.append(
            f"The best other choice{' within it' * bool(gain)} is {outcomes[best].name}: mean bounded slowdown "
            f"{outcomes[best].mean_bsld:,.2f}, fcfs {fcfs.mean_bsld:,.2f} "
            f"({difference_text(answer.bsld[0][best])}): {short_of(answer, 0, best)}."
        )
    else:
        lines.append("Under every other choice some job waits longer than that.")
    if gain:
        next_up = min(gain, key=lambda k: (outcomes[k].max_wait_s, outcomes[k].mean_bsld))
        other = outcomes[next_up]
        growth = math.ceil(100 * (other.max_wait_s / fcfs.max_wait_s - 1))
        lines.append(
            f"The nearest choice beyond the limit that gains is {other.name}: mean bounded slowdown "
            f"{other.mean_bsld:,.2f} ({difference_text(answer.bsld[0][next_up])}), "
            f"longest wait {duration(other.max_wait_s)} instead of "
            f"{duration(fcfs.max_wait_s)} (--max-wait-growth {growth}%)."
        )
    return lines


def short_of(answer: WhatIf, old: int, new: int) -> str:
    """Why the new choice is not a gain over the old one."""
    difference = answer.bsld[old][new]
    if difference.value >= 0:
        return "no lower"
    reasons = []
    if -difference.value < answer.settings["min_gain"] * answer.outcomes[old].mean_bsld:
        reasons.append(f"lower by less than {percent(answer.settings['min_gain'])}")
    if difference.verdict != BETTER:
        able = decidable(difference, len(answer.chains) if old == 0 else 1)
        reasons.append("it may be chance" if able else f"{difference.blocks} independent groups of weeks cannot tell")
    return " and ".join(reasons) or "but its gain over fcfs may be chance"


def difference_text(found: Paired) -> str:
    """A difference of bounded slowdowns with its interval."""
    ends = interval_text(found, lambda value: f"{value:+,.2f}")
    return f"{found.value:+,.2f}, {percent(CONFIDENCE)} interval {ends}, p {found.corrected_p:.2g}"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.4g} %"


def limit_text(limit: Limit) -> str:
    """A limit on the longest wait as text."""
    if limit.growth is None:
        return "none"
    return (
        f"{duration(limit.longest_s)}, {percent(limit.growth)} over fcfs's"
        if limit.growth
        else (f"{duration(limit.longest_s)}, as fcfs's")
    )


def choice_notes(answer: WhatIf) -> list[str]:
    """Notes on some rows: thresholds that never apply, and the cost of kills."""
    idle = [o for o in answer.outcomes if o.overdue == 0 and "threshold" in o.options]
    system = answer.settings["system"]
    notes = [
        f"{'; '.join(o.name for k, o in enumerate(answer.outcomes) if answer.withheld.get(k) == why)}: "
        f"not offered for {system}: {why}."
        for why in dict.fromkeys(answer.withheld.values())
    ]
    for name in dict.fromkeys(o.name.partition(", threshold ")[0] for o in idle):
        named = [o.options["threshold"] for o in idle if o.name.partition(", threshold ")[0] == name]
        thresholds = ", ".join(map(threshold_text, named))
        notes.append(f"No job waits as long as {thresholds} under {name}: such a threshold never applies.")
    notes += [
        f"{o.name}: {o.kills:,} tries are killed at the divider and restarted, {o.wasted:.2%} of the processor time"
        f"{'' if o.most_wasted is None else f'; whatever is killed, it is at most {o.most_wasted:.2%} of the work'}."
        for o in answer.outcomes
        if o.effort == KILLS
    ]
    if answer.settings["reservations"]:
        notes.append(RESERVED)
    return [*notes, *promise_texts(answer)]


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


def users_text(outcome: ChoiceFigures) -> str:
    """The share of users who lose."""
    return "unknown" if outcome.losers is None else f"{outcome.losers:.1%}"


def class_texts(outcome: ChoiceFigures) -> tuple[str, str, str, str]:
    """The mean wait of small jobs; the mean, the 99.9 % quantile and the delayed share of large ones."""
    small_s = outcome.small_mean_wait_s
    return (
        "-" if small_s is None else duration(small_s),
        duration(outcome.large_mean_wait_s),
        duration(outcome.large_p999_wait_s),
        f"{outcome.large_delayed:.1%}",
    )


def divider_text(answer: WhatIf) -> str:
    """Which jobs are small and large, and which are later."""
    return WAITS.format(answer.outcomes[0].waits["small_below_s"])


def answer_text(answer: WhatIf) -> str:
    """The choices in a table, then the limits, then the advice."""
    width = max(len(outcome.name) for outcome in answer.outcomes) + 2
    lines = [
        f"{'':{width}}  mean bsld     mean wait      99 % wait   longest wait  users who lose"
        "    small, mean    large, mean  large, 99.9 %  large, later"
    ]
    lines += [
        f"{'* ' if o is answer.advice and not answer.undecided else '  '}{o.name:{width - 2}}  {o.mean_bsld:9,.2f}"
        f"  {duration(o.mean_wait_s):>12}  {duration(o.p99_wait_s):>13}  {duration(o.max_wait_s):>13}"
        f"  {users_text(o):>14}  {class_texts(o)[0]:>13}  {class_texts(o)[1]:>13}  {class_texts(o)[2]:>13}"
        f"  {class_texts(o)[3]:>12}"
        for o in answer.outcomes
    ]
    lines += [divider_text(answer), *choice_notes(answer), plan_text(answer)]
    if not answer.undecided:
        lines += ["", f"{'limit on the longest wait':30}  {'take':{width}}  mean bsld   longest wait"]
    for k, limit in enumerate(() if answer.undecided else answer.limits):
        o = answer.outcomes[limit.advised]
        mark = "* " if k == answer.given else "  "
        lines.append(
            f"{mark}{limit_text(limit):28}  {o.name:{width}}  {o.mean_bsld:9,.2f}  {duration(o.max_wait_s):>13}"
        )
    return "\n".join([*lines, "", *advice_lines(answer)])


def plan_text(answer: WhatIf) -> str:
    """The comparisons with fcfs, planned before the log is read, and their number."""
    chains = [", then ".join(answer.outcomes[k].name.replace(", ", " with ") for k in chain) for chain in answer.chains]
    count = f"{len(chains)} planned comparison{'s' * (len(chains) != 1)} with fcfs"
    return (
        f"{count}, for which p is corrected: {'; '.join(chains)}. The next of each only if the one before gains."
        if (chains)
        else f"{count}."
    )


def as_page(answer: WhatIf, path: Path, command: str) -> str:
    """The HTML page; `path` is the log's."""
    workload = answer.workload
    advice = "".join(
        f"<p{' class=warning' if k < len(answer.cautions) else ''}>{coded(line)}</p>"
        for k, line in enumerate(advice_lines(answer))
    )
    notes = "".join(
        f"<li>{escape(note)}</li>" for note in (divider_text(answer), *choice_notes(answer), plan_text(answer))
    )
    small_first = "".join(
        f" {text}"
        for text, tried in ((TRIES, answer.settings["small_first"]), (CLASSIFIED, answer.settings["classifier"]))
        if tried
    )
    limits = (
        f"<h3>What the limit on the longest wait costs</h3>{limits_table(answer)}"
        f'<p class="note">{escape(CHOSEN.format(100 * answer.settings["min_gain"]))}</p>'
    )
    answered = "\n".join(
        [
            f'<section id="answer"><h2>{escape(headline(answer))}</h2>',
            f'<p class="note">{escape(log_text(answer))}</p>{advice}{choices_table(answer)}',
            f'<ul class="note">{notes}</ul>',
            f'<p class="note">Users who lose: of those with at least {FEWEST_JOBS} jobs, the share who wait longer on '
            f"average than under fcfs.{escape(small_first)}</p>",
            f"{'' if answer.undecided else limits}</section>",
        ]
    )
    groups = "\n".join(
        [
            '<section id="groups"><h2>Who gains, who loses</h2>',
            groups_table(answer),
            f'<p class="note">Change of the mean wait from fcfs with its {percent(CONFIDENCE)} confidence interval '
            f"over {answer.comparison.blocks}; ▲ waits longer, ▼ waits less, beyond chance for all choices of a group "
            "together; ≤ is the longest wait. "
            f"Groups of fewer than {FEWEST_JOBS} jobs are left out.</p>"
            "</section>",
        ]
    )
    sections = [
        answered,
        groups,
        comparison_section(answer.comparison, 0, seed=answer.settings["seed"]),
        made(answer, path),
    ]
    links = [
        ("answer", "The answer"),
        ("groups", "Who gains, who loses"),
        ("comparison-0", "The choices compared"),
        ("made", "How this was made"),
    ]
    sections.append(made_from(f"batfill {__version__} what-if", command, [(path, workload.digest)]))
    return html_page(f"What if: {workload.name}", sections, links=links)


def coded(line: str) -> str:
    """The line as HTML, with backquoted parts as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(line))


def headline(answer: WhatIf) -> str:
    """The advice in a few words."""
    if answer.undecided:
        return f"Cannot tell: {answer.undecided}"
    doubt = " (not to be trusted)" if answer.cautions else ""
    return f"{f'Take {answer.advice.name}' if answer.limit.advised else 'Nothing to gain: stay with fcfs'}{doubt}"


def log_text(answer: WhatIf) -> str:
    """Log, machine, jobs, dates, engine and the options that are not the defaults, in one line."""
    workload, jobs = answer.workload, len(answer.comparison.at)
    first_s, last_s = (float(workload.jobs.submit_s[k]) for k in (0, -1))
    dates = f"submitted {date_text(first_s, workload.clock)} to {date_text(last_s, workload.clock)}"
    zone = f" ({zone_text(workload.clock)})" if workload.clock else " (the log has no dates)"
    other = ", ".join(f"{name} {text}" for name, text, usual in options_in_force(answer) if not usual)
    return (
        f"{workload.name}: {jobs:,} jobs on {workload.procs:,} processors, {dates}{zone}. {ENGINE} {__version__}; "
        f"{f'options other than the defaults: {other}' if other else 'all options have their defaults'}."
    )


def options_in_force(answer: WhatIf) -> list[tuple[str, str, bool]]:
    """Every option in force: its name, its value as text, and whether that is the default."""
    settings = stated(answer.settings)
    thresholds = settings["thresholds_s"]
    return [
        ("thresholds", ", ".join(map(threshold_text, thresholds)) or "none", tuple(thresholds) == THRESHOLDS_S),
        *(
            (name, OPTIONS[name].with_unit(value), value in (None, usual))
            for name, usual in USUAL.items()
            for value in (settings[OPTIONS[name].argument],)
        ),
        ("small-first", "yes" if settings["small_first"] else "no", settings["small_first"]),
        ("classifier", "yes" if settings["classifier"] else "no", not settings["classifier"]),
        ("max-wait-growth", percent(settings["max_wait_growth"]), settings["max_wait_growth"] == MAX_WAIT_GROWTH),
        ("min-gain", percent(settings["min_gain"]), settings["min_gain"] == MIN_GAIN),
        ("system", str(settings["system"] or "any"), settings["system"] is None),
        ("overrun", settings["overrun"], settings["overrun"] == "keep"),
        ("unrequested", str(settings["unrequested"]), settings["unrequested"] == "refuse"),
        ("tau", f"{settings['tau_s']:g} s", settings["tau_s"] == TAU_S),
        ("seed", str(settings["seed"]), settings["seed"] == 0),
    ]


def choices_table(answer: WhatIf) -> str:
    """The figures of every choice, the advised one marked."""
    lines = styles_of(answer.comparison)
    return table(
        (
            *("", "mean bsld", "mean wait", "99 % wait less than", "longest wait", "users who lose"),
            *("small, mean", "large, mean", "large, 99.9 %", "large, later"),
        ),
        [
            (
                f"{sample(lines[k])}{escape(answer.comparison.names[k])}",
                f"{o.mean_bsld:,.2f}",
                duration(o.mean_wait_s),
                duration(o.p99_wait_s),
                duration(o.max_wait_s),
                users_text(o),
                *class_texts(o),
            )
            for k, o in enumerate(answer.outcomes)
        ],
    )


def limits_table(answer: WhatIf) -> str:
    """The advice under half the limit, the given one, its double, and none."""
    rows = []
    for k, limit in enumerate(answer.limits):
        o = answer.outcomes[limit.advised]
        given = " (given)" if k == answer.given else ""
        rows.append((f"{limit_text(limit)}{given}", escape(o.name), f"{o.mean_bsld:,.2f}", duration(o.max_wait_s)))
    return table(("limit on the longest wait", "choice", "mean bsld", "longest wait"), rows)


def groups_table(answer: WhatIf) -> str:
    """The effect of every choice on each group of jobs."""
    rows = table(
        ("", "jobs", "wait, fcfs", *(escape(name) for name in answer.comparison.names[1:])),
        [
            (
                escape(group.name),
                f"{group.jobs:,}",
                f"<span>{duration(group.mean_wait_s)}<br><small>≤ {duration(group.max_wait_s[0])}</small></span>",
                *(
                    f"<span>{change(d.wait_s)}<br><small>≤ {duration(longest_s)}</small></span>"
                    for d, longest_s in zip(group.differences, group.max_wait_s[1:], strict=True)
                ),
            )
            for group in answer.groups
        ],
    )
    return f'<div class="dense">{rows}</div>'


def made(answer: WhatIf, path: Path) -> str:
    """Assumptions, every option in force, and the command that repeats each choice."""
    workload = answer.workload
    options = [(name, f"{escape(text)}{' (default)' * usual}") for name, text, usual in options_in_force(answer)]
    shared = shlex.join(
        [
            *("--procs", str(workload.procs)),
            *("--overrun", answer.settings["overrun"]),
            *("--unrequested", str(answer.settings["unrequested"])),
            *("--tau", f"{answer.settings['tau_s']:.12g}"),
        ]
    )
    log = shlex.quote(str(path))
    replays = [
        (escape(o.name), f"<code>{escape(f'batfill replay {log} {options_words(o)} {shared}')}</code>")
        for o in answer.outcomes
    ]
    notes = "".join(f"<li>{escape(note)}</li>" for note in workload.notes)
    return (
        f'<section id="made"><h2>How this was made</h2><p>{escape(ASSUMED)}</p><ul class="note">{notes}</ul>'
        f"<h3>Options</h3>{table(('option', 'value'), options)}"
        f"<h3>Each choice alone</h3>{table(('choice', 'command'), replays)}</section>"
    )


def change(found: Paired) -> str:
    """A difference of waits, its interval, and a mark if it is beyond chance."""
    mark = {WORSE: "▲ ", BETTER: "▼ "}.get(found.verdict, "")
    figures = [abs(value) for value in (found.value, found.low, found.high) if math.isfinite(value)]
    unit_s, unit, decimals = next((one for one in UNITS if max(figures) >= 2 * one[0]), UNITS[-1])

    def text(seconds: float) -> str:
        return f"{seconds / unit_s:+,.{decimals}f}"

    return f"{mark}{text(found.value)} {unit}<br><small>{interval_text(found, text)}</small>"
