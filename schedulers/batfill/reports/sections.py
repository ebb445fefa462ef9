"""The sections of the page, as HTML: a run's figures, tables and explorer, and a comparison of runs."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from batfill.base.stats import RESAMPLES, comparison_warnings
from batfill.base.words import duration
from batfill.model.metrics import class_figures
from batfill.reports.charts import (
    box_chart,
    classes_chart,
    cumulative_chart,
    difference_chart,
    front_chart,
    sample,
    styles_of,
)
from batfill.reports.palette import BEST, DISTINCT, MEAN_BSLD
from batfill.reports.words import interval_text, table, warning_paragraphs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill.base.stats import Paired
    from batfill.reports.comparison import Comparison, Difference


def asset(name: str) -> str:
    """The text of a file in the assets folder."""
    return files("batfill.reports").joinpath("assets", name).read_text("utf-8")


def made_of(rows: Sequence[tuple[str, str]]) -> str:
    """The provenance of the figures, by name."""
    return (
        f'<dl class="made">{"".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in rows)}</dl>'
    )


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
