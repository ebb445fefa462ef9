"""The sections of the page, as HTML: a run's figures, tables and explorer, and a comparison of runs."""

from __future__ import annotations

import math
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from batfill.base.stats import RESAMPLES, comparison_warnings
from batfill.base.words import duration
from batfill.model.jobs import HOUR_S
from batfill.model.metrics import class_figures, overtaking
from batfill.model.schedule import CUT, STATES
from batfill.reports.charts import (
    box_chart,
    classes_chart,
    cumulative_chart,
    difference_chart,
    front_chart,
    sample,
    styles_of,
)
from batfill.reports.palette import BEST, DISTINCT, JOBS, MEAN_BSLD
from batfill.reports.sample import BINS, span_s
from batfill.reports.single import slowdown_classes, wait_grid
from batfill.reports.words import date_text, interval_text, table, warning_paragraphs, zone_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.base.stats import Paired
    from batfill.reports.comparison import Comparison, Difference
    from batfill.reports.runs import ReportedRun
    from batfill.reports.sample import Sample


def asset(name: str) -> str:
    """The text of a file in the assets folder."""
    return files("batfill.reports").joinpath("assets", name).read_text("utf-8")


def run_section(
    run: ReportedRun, number: int, *, tau_s: float, overdue_s: float | None, sample: Sample | None = None
) -> str:
    """The section of one run; of its jobs the page holds the sample, or all of them."""
    f = run.summary(tau_s)
    final = run.final
    together, out_of_turn = overtaking(run.submit_s[final], run.start_s[final])
    overdue = final & (run.wait_s > (math.inf if overdue_s is None else overdue_s))
    pairs = [
        ("jobs", f"{f.jobs:,}"),
        ("mean wait", duration(f.mean_wait_s)),
        ("longest wait", duration(f.max_wait_s)),
        (f"mean bsld (tau {tau_s:g} s)", f"{f.mean_bsld:,.2f}"),
        ("utilisation", f"{f.utilisation:.1%}"),
        ("makespan", duration(f.makespan_s)),
        ("ended at their walltime", f"{int((run.state[final] == CUT).sum()):,}"),
        ("started out of turn", f"{out_of_turn / together:.1%}" if together else "0%"),
    ]
    if run.backfilling_known:
        pairs.append(("started by backfilling", f"{f.backfilled:,} ({f.backfilled / max(f.jobs, 1):.1%})"))
    if overdue_s is not None:
        pairs.append((f"waited over {duration(overdue_s)}", f"{int(overdue.sum()):,}"))
    if f.requeued:
        pairs.append(("tries killed and requeued", f"{f.requeued:,} ({f.wasted:.1%} of the work)"))
    if f.rejected:
        pairs.append(("rejected", f"{f.rejected:,}"))
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    parts = [
        f'<details class="run" id="run-{number}"{" open" * (number == 0)}>',
        f"<summary><h2>{escape(run.title)}</h2></summary>",
        warning_paragraphs(run.about.warnings),
        made_of([*run.about.rows(), ("dates", dates(run))]),
        f'<dl class="figures">{figures}</dl>',
        '<p class="note">Started out of turn: of all pairs of jobs that were in the queue at once, those in which the '
        "later submitted one started first. 0% is strict order of arrival.</p>",
        explorer(run, number, f.utilisation, overdue_s, sample),
        '<div class="columns tables"><div>',
        wait_table(run),
        "</div><div>",
        class_table(run, tau_s),
        "</div></div></details>",
    ]
    return "\n".join(parts)


def dates(run: ReportedRun) -> str:
    """The run's first and last date, and the time zone."""
    ran = run.final
    if not ran.any():
        return "no job ran"
    begin_s, end_s = float(run.submit_s[ran].min()), float((run.start_s + run.runtime_s)[ran].max())
    clock = run.about.clock
    zone = zone_text(clock) if clock else "the log has no dates"
    return f"{date_text(begin_s, clock)} to {date_text(end_s, clock)} ({zone})"


def made_of(rows: Sequence[tuple[str, str]]) -> str:
    """The provenance of the figures, by name."""
    return (
        f'<dl class="made">{"".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in rows)}</dl>'
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


def explorer(run: ReportedRun, number: int, utilisation: float, overdue_s: float | None, sample: Sample | None) -> str:
    """Gantt, curves and filter; the page's script makes them interactive."""
    fates = "".join(
        f'<option value="{k}">{words}</option>' for k, words in enumerate(STATES.values()) if (run.state == k).any()
    )
    return Template(asset("explorer.html")).substitute(
        number=number,
        sample="" if sample is None else sample_part(run, sample),
        name=escape(run.title, quote=True),
        fates=fates,
        backfilled='<option value="backfilled">started by backfilling</option>' if run.backfilling_known else "",
        zone=escape(f"dates in {zone_text(run.about.clock)}" if run.about.clock else "days from the log's second 0"),
        overdue="" if overdue_s is None else f"{overdue_s / HOUR_S:g}",
        utilisation=f"{utilisation:.1%}",
    )


def wait_table(run: ReportedRun) -> str:
    """Mean waiting time by width and length, darker for longer waits."""
    grid = wait_grid(run)
    longest = max(float(grid.mean_wait_s[grid.jobs > 0].max(initial=0.0)), 1.0)
    rows = []
    columns = (grid.jobs.tolist(), grid.mean_wait_s.tolist(), grid.max_wait_s.tolist())
    for width, *row in zip(grid.widths, *columns, strict=True):
        cells = []
        for count, wait_s, most_s in zip(*row, strict=True):
            if not count:
                cells.append("")
                continue
            depth = 0.75 * math.log1p(wait_s) / math.log1p(longest)
            cells.append(
                f'<span class="cell" style="--depth:{depth:.2f}">{duration(wait_s)}'
                f"<small>longest {duration(most_s)}<br>{count:,} job{'s' * (count != 1)}</small></span>"
            )
        rows.append((width, *cells))
    caption = f"{run.title}: mean and longest wait, by processors (rows) and time run (columns)"
    return f'<h3>Waiting by width and length</h3><div class="heat">{table(("", *grid.lengths), rows, caption)}</div>'


def class_table(run: ReportedRun, tau_s: float) -> str:
    """The number of jobs in each class of bounded slowdown."""
    classes = slowdown_classes(run, tau_s)
    total = max(sum(row.jobs for row in classes), 1)
    rows = [
        (
            row.bsld,
            f'<span class="bar" style="width:{9 * row.jobs / total:.2f}em;background:{JOBS[k]}"></span>',
            f"{row.jobs:,}",
            f"{row.jobs / total:.1%}",
            duration(row.mean_wait_s),
            duration(row.max_wait_s),
            *([f"{row.backfilled:,}"] if run.backfilling_known else []),
        )
        for k, row in enumerate(classes)
    ]
    head = ["bsld", '<span class="sr">share</span>', "jobs", "share", "mean wait", "longest wait"]
    head += ["backfilled"] if run.backfilling_known else []
    caption = f"{run.title}: jobs by bounded slowdown (tau {tau_s:g} s)"
    return f"<h3>Slowdown classes</h3>{table(head, rows, caption)}"


def comparison_section(comparison: Comparison, number: int, *, seed: int) -> str:
    """Ranking, paired differences, cumulative curves and boxes by period."""
    differences = comparison.differences(seed)
    ranking = comparison.ranking()
    first, items, periods = escape(comparison.names[0]), comparison.items, comparison.periods
    drawn = styles_of(comparison)
    doubts = comparison_warnings(
        {
            f"{d.name} ({figure})": found
            for d in differences
            for figure, found in (("bsld", d.bsld), ("wait", d.wait_s))
        },
        comparison.n_blocks,
        comparison.blocks,
    )
    few = f" In colour are {first}, the {BEST} with the lowest means, and the advised one."
    whole = f"; neighbouring jobs are dependent, so whole {comparison.blocks} are swapped" if items == "jobs" else ""
    ranks = table(
        ("", "mean bsld", "mean wait", "longest wait", f"{periods} in which it is best", f"mean rank over {periods}"),
        [
            (
                sample(drawn[comparison.names.index(row.name)]) + escape(row.name),
                f"{row.mean_bsld:,.2f}",
                duration(row.mean_wait_s),
                duration(row.max_wait_s),
                f"{row.best_in} of {comparison.n_periods}",
                f"{row.mean_rank:.2f}",
            )
            for row in ranking
        ],
        f"{comparison.title}, ranked by {MEAN_BSLD}",
    )
    return "\n".join(
        [
            f'<section id="comparison-{number}">',
            f"<h2>{escape(comparison.title)}</h2>",
            warning_paragraphs(comparison.warnings),
            made_of(comparison.made),
            f"<h3>Ranking by mean bounded slowdown</h3>{ranks}",
            f"<h3>Differences from {first}, {items} paired</h3>",
            difference_chart(comparison, differences),
            difference_table(comparison, differences),
            f'<p class="note">The same {items} under both. 95 % confidence intervals over {comparison.n_blocks} '
            f"{comparison.blocks}, as if the two were swapped at random ({RESAMPLES:,} resamples, seed {seed}){whole}. "
            "p is corrected for all differences of the table.</p>",
            warning_paragraphs(doubts),
            who_pays_part(comparison) if comparison.waits else "",
            '<div class="columns"><div>',
            "<h3>Cumulative bounded slowdown</h3>",
            cumulative_chart(comparison),
            f'<p class="note">The bounded slowdowns of the {items} so far, divided by the number of all {items}: '
            "each curve ends at the mean, and climbs where the mean comes from."
            f"{few if len(comparison.names) > DISTINCT else ''}</p>",
            "</div><div>",
            f"<h3>Means of {periods}</h3>",
            box_chart(comparison),
            f'<p class="note">Mean bounded slowdown by {periods}: median, quartiles, and from the 5th to the 95th '
            "percentile.</p></div></div></section>",
        ]
    )


def who_pays_part(comparison: Comparison) -> str:
    """The waits of small and large jobs, and the mean bounded slowdown over the longest wait."""
    figures = [class_figures(waits) for waits in comparison.waits]
    drawn = styles_of(comparison)
    rows = [
        (
            sample(style) + escape(name),
            "-" if f["small_mean_wait_s"] is None else duration(f["small_mean_wait_s"]),
            *(duration(f[key]) for key in ("large_mean_wait_s", "large_p999_wait_s", "large_max_wait_s")),
            f"{f['large_delayed']:.1%}",
            "-" if f["large_mean_delay_s"] is None else duration(f["large_mean_delay_s"]),
        )
        for style, name, f in zip(drawn, comparison.names, figures, strict=True)
    ]
    first, small_below_s = escape(comparison.names[0]), comparison.waits[0]["small_below_s"]
    head = ("", "small, mean wait", "large, mean wait", "large, 99.9 %", "large, longest", "large, later", "by, mean")
    return "\n".join(
        [
            "<h3>Small and large jobs</h3>",
            classes_chart(comparison, [(f["small_mean_wait_s"], f["large_mean_wait_s"]) for f in figures]),
            table(head, rows, f"{comparison.title}, waits of small and of large jobs"),
            f'<p class="note">Small jobs ran for less than the median, {small_below_s:g} s, large ones are the others. '
            f"Later: those that wait over an hour longer than under {first}, and by how much.</p>",
            f"<h3>By width</h3>{width_table(comparison)}",
            f'<p class="note">Mean wait; ≤ is the longest; later: over an hour longer than under {first}.</p>',
            "<h3>Slowdown against the longest wait</h3>",
            front_chart(comparison),
            '<p class="note">No choice is below and left of the line.</p>',
        ]
    )


def width_table(comparison: Comparison) -> str:
    """The waits of jobs of up to 1, 2, 4, ... processors under every choice."""
    widths = [row["procs_up_to"] for row in comparison.waits[0]["waits_by_width"]]
    rows = [
        (
            f"up to {width:,}",
            f"{of_width[0]['jobs']:,}",
            *(
                f"<span>{duration(row['mean_wait_s'])}<br><small>≤ {duration(row['max_wait_s'])}<br>"
                f"{row['delayed']:.1%} later</small></span>"
                for row in of_width
            ),
        )
        for i, width in enumerate(widths)
        for of_width in ([waits["waits_by_width"][i] for waits in comparison.waits],)
    ]
    head = ("processors", "jobs", *(escape(name) for name in comparison.names))
    return f'<div class="dense">{table(head, rows, f"{comparison.title}, waits by width")}</div>'


def difference_table(comparison: Comparison, differences: Sequence[Difference]) -> str:
    """The differences in a table."""
    items = comparison.items
    head = ("", "bsld", "95 % interval", "p", "wait", "95 % interval", "p", f"{items} that wait less", "more")
    rows = [
        (
            escape(d.name),
            f"{d.bsld.value:+,.2f}",
            interval_text(d.bsld, lambda value: f"{value:+,.2f}"),
            chance_text(d.bsld),
            duration(d.wait_s.value),
            interval_text(d.wait_s, duration),
            chance_text(d.wait_s),
            f"{d.better:.1%}",
            f"{d.worse:.1%}",
        )
        for d in differences
    ]
    return table(head, rows, f"{comparison.title}, mean differences from {comparison.names[0]}")


def chance_text(found: Paired) -> str:
    """The corrected p-value, and the verdict."""
    return f"{found.corrected_p:.2g} ({found.verdict})"
