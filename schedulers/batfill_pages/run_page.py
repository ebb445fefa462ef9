"""The page of one run: the answer, the queue over time with the longest waits, why these waited, and the explorer.

Its words are in `assets/run.html.j2`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.sums import mean_of
from batfill.base.words import duration, in_a_row, percent, things
from batfill.model.jobs import DAY_S, HOUR_S
from batfill.model.metrics import utilisation
from batfill.model.option_texts import policy_words
from batfill.model.states import CUT, REQUEUED, STATES
from batfill_pages.panels import caption_of, in_words
from batfill_pages.sample import BINS, out_of_use_proc_s, span_s
from batfill_pages.single import TIME_BINS, course, longest_waits, wait_grid
from batfill_pages.words import date_text, duration_html, html_of, log_name, submission_dates, units_kept, zone_text

if TYPE_CHECKING:
    from batfill.model.metrics import Summary
    from batfill_pages.runs import ReportedRun
    from batfill_pages.sample import Sample
    from batfill_pages.uses import Uses

HEAT_S = [600, HOUR_S, 6 * HOUR_S, DAY_S]  # mean waits at which the next of five colours begins
SHARES = {"Half of the": 1 / 2, "Two of three": 2 / 3, "Three of four": 3 / 4, "Four of five": 4 / 5}
SHARES |= {"Nine of ten": 9 / 10}
TOOLS = {"in": "Zoom in", "out": "Zoom out", "left": "Earlier", "right": "Later", "back": "Back", "all": "Show all"}
TOOLS |= {"previous": "Previous job", "next": "Next job"}


def run_title(run: ReportedRun) -> str:
    """The log and the policy in words, such as "KTH-SP2 under smallest area first (saf)"."""
    if not run.about.given:
        return run.title
    long, short = policy_words(run.about.given)
    words = f"{long} ({short.partition(',')[0]})" if short != long else long
    return f"{log_name(run.about.log)} under {words[0].lower()}{words[1:]}" if run.about.log else words


def run_line(run: ReportedRun) -> str:
    jobs = len(set(run.job.tolist()))
    when = submission_dates(run.submit_s[run.final], run.about.clock) if run.final.any() else "no job ran"
    line = f"{things(jobs, 'job')} on {things(run.size, 'processor')}, {when}"
    made = " ".join(word for word in (run.about.engine, run.about.version) if word)
    return f"{line}; {made}" if made else line


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
    """The section of one run, with its sample or all jobs; `explained`: what slowdowns and tries are stands above."""
    figures, waits, over_time, clock = run.summary(tau_s), waits_of(run), course(run), run.about.clock
    begin_s, end_s = span_s(run)
    named = [name for name, _ in in_words(uses)]
    longest_words = {1: "longest wait", 10: "ten longest waits"}.get(len(waits), f"{len(waits)} longest waits")
    shown = [f"the {longest_words}"] * bool(waits) + ["the queue", "the machine"]
    fates = [("backfilled", "started by backfilling")] * run.backfilling_known + [("overdue", "overdue")]
    known = {"run": run, "number": number, "sample": sample, "alone": alone, "explained": explained, "clock": clock}
    known |= {"figures": figures, "waits": waits, "HEAT_S": HEAT_S, "REQUEUED": REQUEUED, "TOOLS": TOOLS} | answer(run)
    known |= {
        "title": run_title(run),
        "line": run_line(run),
        "tau": f"{tau_s:g} s",
        "longest_words": longest_words,
        "shown": in_a_row(shown + (named if len(named) <= 4 else ["the pools"])),
        "each": TIME_BINS[over_time.step_s],
        "most": int(over_time.queue.max()),
        "longest_at_s": over_time.longest_at_s,
        "away": run.about.windows_of(),
        "caption": caption_of(uses, TIME_BINS[over_time.step_s]),
        "bin_s": (end_s - begin_s) / BINS,
        "moment": lambda at_s: moment(run, at_s),
        "zone": zone_text(clock) if clock else "",
        "fates": fates + [(k, words) for k, words in enumerate(STATES.values()) if (run.state == k).any()],
        "overdue_h": "" if overdue_s is None else f"{overdue_s / HOUR_S:g}",
        "grid": wait_grid(run),
        "heat": lambda mean_s: 1 + int(np.searchsorted(HEAT_S, mean_s, "right")),
        "about": about_rows(run, figures, uses, overdue_s),
    }
    return units_kept(html_of("run.html.j2", known))


def answer(run: ReportedRun) -> dict[str, Any]:
    """How long jobs wait, how many start at once, in words, and what those with a killed try pay."""
    wait_s, killed = run.wait_s[run.final], run.attempt[run.final] > 0
    if not len(wait_s):
        return {"jobs": 0, "kills": None}
    at_once = float((wait_s < 1).mean())
    name = min(SHARES, key=lambda words: abs(SHARES[words] - at_once))
    kills = {"share": float(killed.mean()), "jobs": int(killed.sum())}
    if killed.any():
        kills |= {"mean_s": mean_of(wait_s[killed]), "others_s": mean_of(wait_s[~killed]) if not killed.all() else 0.0}
    return {
        "jobs": len(wait_s),
        "median_s": float(np.median(wait_s)),
        "mean_s": mean_of(wait_s),
        "share": name if abs(SHARES[name] - at_once) < 0.02 else f"{percent(at_once)} of the",
        "kills": kills if killed.any() else None,
    }


def waits_of(run: ReportedRun) -> list[dict[str, Any]]:
    found = []
    for row, later, _ in longest_waits(run):
        asked, limit = asked_and_limit(run, row)
        one = {"job": run.ids[row], "waited_s": run.wait_s[row], "procs": int(run.procs[row]), "asked": asked}
        one |= {"limit": limit, "ran_s": run.runtime_s[row], "user": int(run.facts.user[row]), "later": later}
        found.append(one | {"submit_s": run.submit_s[row], "start_s": run.start_s[row]})
    return found


def asked_and_limit(run: ReportedRun, row: int) -> tuple[str, str]:
    """The time that the log says the job asked for, and, if the scheduler read another limit, that one in words."""
    asked_s = run.facts.asked_s[row]
    limit = duration_html(run.walltime_s[row]) if np.isfinite(run.walltime_s[row]) else "no limit"
    if np.isnan(asked_s):
        return limit, ""
    if np.isinf(asked_s):
        return "no time", f"the log has no request; {limit} stood in for it"
    return duration_html(asked_s), f"raised to {limit}" if asked_s < run.walltime_s[row] else f"the limit was {limit}"


def about_rows(run: ReportedRun, f: Summary, uses: Uses, overdue_s: float | None) -> list[tuple[str, str]]:
    final, out_proc_s = run.final, out_of_use_proc_s(run) if run.about.windows_of() else 0.0
    used_proc_s = f.utilisation * run.size * f.makespan_s
    in_service = float(utilisation(run.size, f.makespan_s, used_proc_s, out_proc_s))
    rows = [
        *run.about.rows(),
        ("dates", zone_text(run.about.clock) if run.about.clock else "no clock: counted from 0"),
        (f"utilisation{' of what was in service' * bool(out_proc_s)}", percent(in_service)),
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
    return rows


def moment(run: ReportedRun, at_s: float) -> str:
    """A date, to the minute unless the run is short, on one line."""
    begin_s, end_s = span_s(run)
    text = date_text(at_s, run.about.clock)
    return (text[:-3] if end_s - begin_s > DAY_S else text).replace(" ", "\u00a0")
