"""The page of one run: the answer, the queue over time with the longest waits, why these waited, and the explorer."""

from __future__ import annotations

from html import escape
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from batfill.base.sums import mean_of
from batfill.base.words import duration, in_a_row, percent, things
from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.option_texts import policy_words
from batfill.model.schedule import CUT, REQUEUED, STATES
from batfill_pages.panels import caption_of, in_words
from batfill_pages.sample import BINS, span_s
from batfill_pages.single import TIME_BINS, course, longest_waits, wait_grid
from batfill_pages.words import (
    asset,
    count,
    date_text,
    described,
    duration_html,
    job_link,
    slowdown,
    submission_dates,
    table,
    terms,
    units_kept,
    warning_paragraphs,
    zone_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.model.metrics import Summary
    from batfill_pages.runs import ReportedRun
    from batfill_pages.sample import Sample
    from batfill_pages.single import LongWait
    from batfill_pages.uses import Uses

HEAT_S = (600, HOUR_S, 6 * HOUR_S, DAY_S)  # mean waits at which the next of five colours begins
UNPLACED = '<p class="note">The results do not say on which machines jobs ran, so the machines are blank.</p>'
SHARES = {"Half of the": 1 / 2, "Two of three": 2 / 3, "Three of four": 3 / 4, "Four of five": 4 / 5}
SHARES |= {"Nine of ten": 9 / 10}


def run_title(run: ReportedRun) -> str:
    """The log and the policy in words, such as "KTH-SP2 under smallest area first (saf)"."""
    if not run.about.given:
        return run.title
    long, short = policy_words(run.about.given)
    words = f"{long} ({short.partition(',')[0]})" if short != long else long
    return f"{run.about.log_name} under {words[0].lower()}{words[1:]}" if run.about.log else words


def run_line(run: ReportedRun) -> str:
    """The jobs, the machine, the dates, and what made the run, as HTML."""
    jobs = len(set(run.job.tolist()))
    when = submission_dates(run.submit_s[run.final], run.about.clock) if run.final.any() else "no job ran"
    parts = [f"{things(jobs, 'job')} on {things(run.size, 'processor')}", when]
    made = " ".join(word for word in (run.about.engine, run.about.version) if word)
    return escape("; ".join([", ".join(parts), *([made] if made else [])]))


def run_section(
    run: ReportedRun,
    number: int,
    uses: Uses,
    *,
    tau_s: float,
    overdue_s: float | None,
    sample: Sample | None = None,
    alone: bool = True,
    explained: bool = False,
) -> str:
    """The section of one run; of its jobs the page holds the sample, or all of them.

    On a page of several runs the section is folded and has a title of its own. `explained`: what slowdowns and tries
    are stands above it.
    """
    figures, waits = run.summary(tau_s), longest_waits(run)
    h = "h2" if alone else "h4"
    begin, end = f'<section class="run" id="run-{number}">', "</section>"
    if not alone:
        begin = f'<details class="run" id="run-{number}"><summary><h3>{escape(run_title(run))}</h3></summary>'
        begin, end = f'{begin}<p class="log">{run_line(run)}</p>', "</details>"
    parts = [
        begin,
        answer(run, number, figures, waits),
        kills(run, number, figures),
        "" if explained else terms(f"{tau_s:g} s", tries=bool(figures.requeued)),
        warning_paragraphs(run.about.warnings),
        explorer(run, number, figures, waits, uses, overdue_s, sample, h),
        about_part(run, figures, uses, overdue_s, h),
        end,
    ]
    return units_kept("\n".join(part for part in parts if part))


def answer(run: ReportedRun, number: int, figures: Summary, waits: Sequence[LongWait]) -> str:
    """How long most jobs wait, how long they wait on average, and how long at most."""
    wait_s = run.wait_s[run.final]
    if not len(wait_s):
        refused = f": {count(figures.rejected)} {'was' if figures.rejected == 1 else 'were'} rejected"
        return f'<p class="answer">No job ran{refused * bool(figures.rejected)}.</p>'
    said = f"slowdown {slowdown(figures.mean_bsld)}"
    if not waits:
        every = "The job starts" if len(wait_s) == 1 else f"All {count(len(wait_s))} jobs start"
        return f'<p class="answer">{every} at once; {said}.</p>'
    row = waits[0].row
    user = int(run.facts.user[row])
    who = [
        job_link(run.ids[row], number),
        f"{things(int(run.procs[row]), 'processor')}".replace(" ", "&nbsp;"),
        *([f"user&nbsp;{user}"] if user >= 0 else []),
    ]
    end = f"{duration_html(wait_s.max())}</strong> ({', '.join(who)}); {said}.</p>"
    if len(wait_s) == 1:
        return f'<p class="answer">The only job waits <strong class="pays">{end}'
    median_s, at_once = float(np.median(wait_s)), float((wait_s < 1).mean())
    name = min(SHARES, key=lambda words: abs(SHARES[words] - at_once))
    share = name if abs(SHARES[name] - at_once) < 0.02 else f"{percent(at_once)} of the"
    typical = (
        f"Half of the jobs wait under {duration_html(median_s)}" if median_s >= 1 else f"{share} jobs start at once"
    )
    mean = f"{typical}; the mean wait is {duration_html(mean_of(wait_s))}"
    return f'<p class="answer">{mean}, <strong class="pays">the longest {end}'


def kills(run: ReportedRun, number: int, figures: Summary) -> str:
    """How many jobs had a try killed, how long they wait, and a link to these tries; "" without any."""
    killed, wait_s = run.attempt[run.final] > 0, run.wait_s[run.final]
    if not killed.any():
        return ""
    jobs, tries = int(killed.sum()), figures.requeued
    pays = f"{duration_html(mean_of(wait_s[killed]))} on average"
    others = f", the others {duration_html(mean_of(wait_s[~killed]))}" if jobs < len(killed) else ""
    place = f"&amp;run={number}" if number else ""
    together = f", {count(tries)} tries together" if tries > jobs else ""
    lost = f"these tries took {percent(figures.wasted)} of the work"
    return (
        f'<p class="log">{percent(jobs / len(killed))} of the jobs ({count(jobs)}) had a try killed and ran again later'
        f"{together}; {lost}. Jobs with a killed try wait {pays}{others}. "
        f'<a class="controls" href="#outcome={REQUEUED}{place}">Show the killed tries</a></p>'
    )


def course_figure(run: ReportedRun, number: int, waits: Sequence[LongWait], uses: Uses) -> str:
    """The place of the picture, which the page's script draws, and what it shows in words."""
    over_time, away = course(run), run.about.windows_of()
    each = TIME_BINS[over_time.step_s]
    most = int(over_time.queue.max())
    longest = f"it was longest with {things(most, 'job')}, on {moment(run, over_time.longest_at_s)}" if most else ""
    words = [
        "Bars: from submission to start. " * bool(waits),
        f"Queue: the most jobs that waited at one time, per {each}; {longest or 'no job waited'}. ",
        f"Utilisation: the mean per {each}. ",
        f"Hatched: {things(len(away), 'time')} out of service."
        if away
        else "No time out of service was given (batfill fidelity looks for outages in the log).",
        caption_of(uses, each),
    ]
    click = '<span class="controls"> · click a wait to see why</span>' if waits else ""
    shown = [f"the {longest_words(len(waits))}"] * bool(waits) + ["the queue", "the machine"]
    named = [name for name, _ in in_words(uses)]
    shown += named if len(named) <= 4 else ["the pools"]
    return (
        f'<figure aria-labelledby="course-{number}"><p class="chart-title" id="course-{number}">'
        f"Over time: {escape(in_a_row(shown))}{click}</p>"
        '<div class="chart course"><noscript>The picture needs JavaScript.</noscript></div>'
        f"<figcaption>{''.join(words)}</figcaption></figure>"
    )


def longest_words(waits: int) -> str:
    """The name of the table of the longest waits."""
    return {1: "longest wait", 10: "ten longest waits"}.get(waits, f"{waits} longest waits")


def waits_part(run: ReportedRun, number: int, waits: Sequence[LongWait], h: str) -> str:
    """The longest waits in a table; the page's script says why each job waited."""
    users = bool((run.facts.user[[wait.row for wait in waits]] >= 0).any())
    head = ["Job", "Waited", "Processors", "Asked for", "Ran", *(["User"] if users else [])]
    head += ["Submitted", "Started", "Later jobs that<br>started before it"]
    rows = []
    for k, wait in enumerate(waits):
        row = wait.row
        user, (said, limit) = int(run.facts.user[row]), asked(run, row)
        rows.append(
            (
                f'<span class="rank">{k + 1}</span> {job_link(run.ids[row], number)}',
                duration_html(run.wait_s[row]),
                count(run.procs[row]),
                said + (f'<span class="sub">{limit}</span>' if limit else ""),
                duration_html(run.runtime_s[row]),
                *([str(user) if user >= 0 else ""] if users else []),
                moment(run, run.submit_s[row]),
                moment(run, run.start_s[row]),
                count(wait.later),
            )
        )
    title = f"The {longest_words(len(waits))}"
    marks = [f'data-row="{k}"{" class=chosen" if k == 0 else ""}' for k in range(len(waits))]
    return f'<{h}>{title}</{h}><div class="bare">{table(head, rows, title, marks=marks)}</div>'


def asked(run: ReportedRun, row: int) -> tuple[str, str]:
    """The time that the log says the job asked for, and, if the scheduler read another limit, that one in words."""
    asked_s = run.facts.asked_s[row]
    limit = duration_html(run.walltime_s[row]) if np.isfinite(run.walltime_s[row]) else "no limit"
    if np.isnan(asked_s):
        return limit, ""
    if np.isinf(asked_s):
        return "no time", f"the log has no request; {limit} stood in for it"
    return duration_html(asked_s), f"raised to {limit}" if asked_s < run.walltime_s[row] else f"the limit was {limit}"


def explorer(
    run: ReportedRun,
    number: int,
    figures: Summary,
    waits: Sequence[LongWait],
    uses: Uses,
    overdue_s: float | None,
    sample: Sample | None,
    h: str,
) -> str:
    """The pictures, tables, and filter; the page's script draws and makes them interactive."""
    fates = "".join(
        f'<option value="{k}">{words}</option>' for k, words in enumerate(STATES.values()) if (run.state == k).any()
    )
    return Template(asset("explorer.html")).substitute(
        number=number,
        h=h,
        course=course_figure(run, number, waits, uses),
        waits=waits_part(run, number, waits, h) if waits else "",
        grid=grid_part(run, h),
        sample=("" if sample is None else sample_part(run, sample)) + UNPLACED * (not len(run.machines.first)),
        name=escape(run.title, quote=True),
        rush='<option value="rush">the chosen job</option>' if waits else "",
        user='<label>User <input name="user" inputmode="numeric"></label>' if (run.facts.user >= 0).any() else "",
        day='type="date"' if run.about.clock else 'type="number" step="any"',
        days="" if run.about.clock else ", day",
        fates=fates,
        backfilled='<option value="backfilled">started by backfilling</option>' if run.backfilling_known else "",
        zone=escape(f"dates in {zone_text(run.about.clock)}" if run.about.clock else "days from the log's second 0"),
        overdue="" if overdue_s is None else f"{overdue_s / HOUR_S:g}",
        utilisation=percent(figures.utilisation),
    )


def sample_part(run: ReportedRun, sample: Sample) -> str:
    """What the explorer shows if the page holds a sample of the run's jobs."""
    begin_s, end_s = span_s(run)
    of = f"{sample.jobs:,} of {sample.of_jobs:,} jobs, seed {sample.seed}"
    bin_s = (end_s - begin_s) / BINS
    return (
        f'<p class="note sample"><strong>A sample of {of}</strong>: the {sample.longest:,} with the longest waits, and '
        "others drawn at random, each as likely. Machines, filter, table, numbers of jobs and download are of the "
        "sample: where no job is drawn, machines need not be idle. Means of matching jobs are of those drawn at "
        f"random. The curves of utilisation and of waiting jobs are of all jobs, as means over {duration(bin_s)}, and "
        "so are the figures and tables before and after.</p>"
    )


def grid_part(run: ReportedRun, h: str) -> str:
    """Mean and longest wait by width and run time."""
    grid = wait_grid(run)
    rows = []
    for width, *row in zip(grid.widths, grid.jobs, grid.mean_wait_s, grid.max_wait_s, strict=True):
        cells = []
        for jobs, mean_s, longest_s in zip(*row, strict=True):
            heat = 1 + int(np.searchsorted(HEAT_S, mean_s, "right"))
            cells.append(
                f'<span class="heat-{heat}"><b>{duration_html(mean_s)}</b>'
                f"<small>longest {duration_html(longest_s)}</small><small>{things(int(jobs), 'job')}</small></span>"
                if jobs
                else ""
            )
        rows.append((width, *cells))
    steps = [f"under {duration_html(HEAT_S[0])}", *(f"from {duration_html(step)}" for step in HEAT_S)]
    key = " ".join(f'<span class="heat-{k}">mean {step}</span>' for k, step in enumerate(steps, 1))
    name = "Waits by width and run time"
    return (
        f"<{h}>{name}</{h}>"
        f'<p class="note">Mean wait, longest wait, and number of jobs. {key}</p><div class="bare heat">'
        f"{table(('Processors', *(f'ran {length}' for length in grid.lengths)), rows, name)}</div>"
    )


def about_part(run: ReportedRun, figures: Summary, uses: Uses, overdue_s: float | None, h: str) -> str:
    """What made the run, and its other figures."""
    f, final = figures, run.final
    rows = [
        *run.about.rows(),
        ("dates", zone_text(run.about.clock) if run.about.clock else "no clock: counted from 0"),
        ("utilisation", percent(f.utilisation)),
        ("from the first submission to the last end", duration(f.makespan_s)),
        ("ended at their walltime", f"{int((run.state[final] == CUT).sum()):,}"),
        *in_words(uses),
    ]
    if run.backfilling_known:
        rows.append(("started by backfilling", f"{f.backfilled:,} ({percent(f.backfilled / max(f.jobs, 1))})"))
    if overdue_s is not None:
        late = int((run.wait_s[final] > overdue_s).sum())
        rows.append((f"waited over {duration(overdue_s)}", f"{late:,}"))
    if f.requeued:
        rows.append(("tries killed", f"{f.requeued:,} ({percent(f.wasted)} of the work)"))
    if f.rejected:
        rows.append(("rejected", f"{f.rejected:,}"))
    return f"<{h}>About this run</{h}>{described(rows)}"


def moment(run: ReportedRun, at_s: float) -> str:
    """A date, to the minute unless the run is short, on one line."""
    begin_s, end_s = span_s(run)
    text = date_text(at_s, run.about.clock)
    return (text[:-3] if end_s - begin_s > DAY_S else text).replace(" ", "&nbsp;")
