"""The answer of `what_if` for people: a table to read in the terminal, and one page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from batfill import __version__
from batfill.report.sections import comparison_section
from batfill.report.what_if import CLASSIFIED, FEWEST_JOBS, TOLERANCE
from batfill.report.words import duration, table, warning_paragraphs
from batfill.report.write import html_page, provenance

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.report.comparison import Interval
    from batfill.report.what_if import WhatIf

UNITS = ((86400, "d", 1), (3600, "h", 1), (60, "min", 0), (1, "s", 0))  # seconds, name, decimals
SMALL_FIRST = "Small first: fcfs, with the jobs that a classifier takes for small before the others, none killed."
LIMITS = (
    "The jobs, their times and their users are taken as the log has them: nobody would have submitted other jobs or "
    "asked for other times because of another scheduler, no machine fails, and only processors are scarce. fcfs here "
    "is EASY backfilling in order of arrival, not what the cluster really ran."
)


def advice_text(answer: WhatIf) -> str:
    """What threshold to take, and why."""
    fcfs, advice = answer.outcomes[0], answer.advice
    kept = f"the longest wait within {TOLERANCE - 1:.0%} of fcfs's {duration(fcfs.max_wait_s)}"
    if advice is None:
        return f"No threshold tried keeps {kept}; try shorter ones."
    return (
        f"{advice.name}: the lowest mean bounded slowdown ({advice.mean_bsld:,.2f}, fcfs {fcfs.mean_bsld:,.2f}) among "
        f"the thresholds that keep {kept} (it is {duration(advice.max_wait_s)})."
    )


def as_text(answer: WhatIf) -> str:
    """The choices in a table, then the advice."""
    width = max(len(outcome.name) for outcome in answer.outcomes)
    lines = [f"{'':{width}}  mean bsld     mean wait      99 % wait   longest wait  users who lose"]
    lines += [
        f"{o.name:{width}}  {o.mean_bsld:9,.2f}  {duration(o.mean_wait_s):>12}  {duration(o.p99_wait_s):>13}"
        f"  {duration(o.max_wait_s):>13}  {o.losers:14.1%}"
        for o in answer.outcomes
    ]
    warnings = [f"Warning: {warning}." for warning in answer.workload.warnings]
    return "\n".join([*lines, "", advice_text(answer), *warnings])


def as_page(answer: WhatIf, path: Path, command: str) -> str:
    """One HTML page; `path` is the log's."""
    workload = answer.workload
    choices = table(
        ("", "mean bsld", "mean wait", "99 % wait less than", "longest wait", "users who lose"),
        [
            (
                f"{escape(o.name)}{' (advised)' * (o is answer.advice)}",
                f"{o.mean_bsld:,.2f}",
                duration(o.mean_wait_s),
                duration(o.p99_wait_s),
                duration(o.max_wait_s),
                f"{o.losers:.1%}",
            )
            for o in answer.outcomes
        ],
    )
    names = [d.name for d in answer.groups[0].differences]
    changes = table(
        ("", "jobs", "mean wait, fcfs", *(escape(name) for name in names)),
        [
            (
                escape(group.name),
                f"{group.jobs:,}",
                duration(group.mean_wait_s),
                *(change(d.wait_s) for d in group.differences),
            )
            for group in answer.groups
        ],
    )
    small_first = SMALL_FIRST if answer.comparison.names[-1] == CLASSIFIED else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in workload.notes)
    warnings = warning_paragraphs(workload.warnings)
    answered = "\n".join(
        [
            f'<section id="answer"><h2>{len(answer.comparison.at):,} jobs on {workload.procs:,} processors</h2>',
            f"<p><strong>Threshold to take.</strong> {escape(advice_text(answer))}</p>{warnings}{choices}",
            f'<p class="note">Users who lose: of those with at least {FEWEST_JOBS} jobs, the share who wait longer on '
            f"average than under fcfs. {small_first}</p><p class=note>{escape(LIMITS)}</p><ul class=note>{notes}</ul>",
            "</section>",
            '<section id="groups"><h2>Who gains, who loses</h2>',
            f'<div class="dense">{changes}</div><p class="note">Change of the mean wait from fcfs with its 95 % '
            "confidence interval, by the percentile bootstrap over weeks (days, where they are few). ▲ waits longer, "
            f"▼ waits less, beyond chance. Groups of fewer than {FEWEST_JOBS} jobs are left out.</p></section>",
        ]
    )
    sections = [answered, comparison_section(answer.comparison, 0, seed=answer.seed)]
    links = [("answer", "The answer"), ("groups", "Who gains, who loses"), ("comparison-0", "All jobs in detail")]
    origin = f"batfill {__version__} what-if, tau {answer.tau_s:g} s, seed {answer.seed}"
    footer = provenance(origin, command, [(path, workload.digest)])
    return html_page(f"What if: {workload.name}", links, sections, [], footer)


def change(interval: Interval) -> str:
    """A difference of waits, its interval, and a mark where the interval leaves 0 out."""
    mark = "▲ " if interval.low > 0 else "▼ " if interval.high < 0 else ""
    unit_s, unit, decimals = next((one for one in UNITS if abs(interval.mean) >= 2 * one[0]), UNITS[-1])
    mean, low, high = (f"{seconds / unit_s:+,.{decimals}f}" for seconds in interval)
    return f"{mark}{mean} {unit}<br><small>{low} to {high}</small>"
