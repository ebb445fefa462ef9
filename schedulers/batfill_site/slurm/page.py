"""The answer about changes of a site's Slurm as an HTML page, like that about orders of the queue."""

from __future__ import annotations

from html import escape
from pathlib import Path

from batfill.base.version import __version__
from batfill_pages.words import asset, described, folded, guide, table
from batfill_pages.write import html_page, made_from
from batfill_site.advice import page as shared
from batfill_site.advice.text import first_upper
from batfill_site.slurm import answer as say
from batfill_site.slurm.answer import ENGINE, SlurmWhatIf

MOST_ROWS = 12  # of a kind of groups, beside bars
STYLE = (
    "#choices tr { grid-template-columns: repeat(4, minmax(0, 1fr)); } "
    "#choices :is(th, td) { padding: 4px 6px; font-size: 14px; white-space: normal; }"
)
LEAST_S = 1.0  # a change that has a bar
RULE = (
    "Two runs of one configuration of Slurm differ, so each is run {} times here, with cycles at other dates. A figure "
    "is the mean over the runs, ± half of its 95 % interval. A difference is within Slurm's own noise, and stands in "
    "brackets, if its interval holds 0, or if two runs of one configuration differ by more on average. An interval "
    "says nothing of the jobs of another day, and is for its comparison alone. Waits count from a job's eligibility. "
    "Users do not react to a change."
)


def as_page(answer: SlurmWhatIf, command: str) -> str:
    """The HTML page."""
    shown, each = answer.best, range(len(answer.names))
    first = shared.frame(
        screen(answer, shown),
        "",
        choices_table(answer, shown),
        "Means over the runs. Shaded: over twice the longest wait as configured.",
        "\n".join(shared.of_choice(k, shown, gains_panel(answer, k)) for k in each),
        guide("how-to/slurm", "What all of this means"),
        "configuration",
    )
    points = [
        shared.as_choice(name, one.bsld.mean, one.longest_s.mean, screen(answer, k, chosen=True))
        for k, name, one in zip(each, answer.names, answer.all, strict=True)
    ]
    made = made_from(f"{ENGINE} {__version__}", command, [(Path(name), sum_) for name, sum_ in answer.inputs.items()])
    return html_page(
        f"{answer.name}: what changes of slurm.conf would do",
        [shared.unbroken("\n".join([first, sure_section(answer), made]))],
        log=shared.marked(say.log_text(answer)),
        data=[shared.as_script(points, shown, {"whose": "as configured", "name": "reference"})],
        scripts=[asset("what-if.js", "batfill_site.advice")],
        styles=[asset("what-if.css", "batfill_site.advice"), STYLE],
    )


def screen(answer: SlurmWhatIf, k: int, *, chosen: bool = False) -> dict[str, str]:
    """The headline and the lines beside the table as HTML; a change that is `chosen` has its own headline."""
    words = first_upper(say.verdict(answer, k)) if chosen else say.headline(answer)
    before = "".join(f"<p><b>{name}:</b> {shared.marked(text)}</p>" for name, text in say.cautions(answer).items())
    return shared.as_screen(f'<p class="answer">{shared.marked(words)}</p>{before}', "", say.brief(answer, k))


def gains_panel(answer: SlurmWhatIf, k: int) -> str:
    """Who gains and who pays under a change: jobs and users in bars, then the change of each group of jobs."""
    under = f'<span class="soft">under {escape(answer.names[k])}</span>'
    head = f'<h2>Who gains, <span class="pays">who pays</span> {under}</h2>'
    rows = []
    for by in dict.fromkeys(group.by for group in answer.groups[1:]):
        those = [group for group in answer.groups if group.by == by]
        kind = f"{by}: {MOST_ROWS} of {len(those)}, all with --details" if len(those) > MOST_ROWS else by
        for group in those[:MOST_ROWS]:
            wait_s, longest_s, _ = group.outcomes[k]
            more, words = wait_s.more, say.change(wait_s.more).strip("()") or say.around(*wait_s[:2])
            value, unclear = (0.0, False) if more is None else (float(more.value), not more.beyond)
            short = words.partition(" ±")[0]  # beside a bar is no room for the interval
            rows.append(shared.Bar(kind, escape(group.name), value, unclear, longest_s.mean, short))
    names = ("Change of the mean wait", "longest wait under it") if k else ("Mean wait", "longest wait")
    change = shared.bars(rows, names, f"within {say.NOISE}", LEAST_S) if rows else ""
    if not k:
        return f"{head}<p>All changes are compared with this one.</p>{change}"
    payers = answer.payers[k - 1]
    return f"{head}{shared.share_bars(payers.jobs, payers.users, shared.NOBODY)}{change}"


def choices_table(answer: SlurmWhatIf, shown: int) -> str:
    """All configurations."""
    rows = [
        (shared.pick(escape(name).replace("=", "=<wbr>")), *map(shared.marked, figures))
        for name, *figures in say.table_rows(answer)
    ]
    marks = [f"data-pick={k}{' class=chosen' * (k == shown)}" for k in range(len(rows))]
    head = ("Configuration", *(each.capitalize() for each in say.HEAD[1:]))
    return f'<div id="choices">{table(head, rows, marks=marks)}</div>'


def sure_section(answer: SlurmWhatIf) -> str:
    """What is noise, what was assumed, and the options in force."""
    options = {**answer.settings, **answer["slurm"]}
    parts = {
        "Noise: runs, intervals, brackets": f"<p>{escape(RULE.format(answer.settings['runs']))}</p>",
        "Notes on the log and the configuration": shared.items(map(shared.marked, answer.warnings)),
        "Options in force as configured": described([(name, str(value)) for name, value in options.items()]),
    }
    details = "\n".join(folded(name, content) for name, content in parts.items())
    return f'<section id="sure"><h2>How sure is that?</h2>{details}</section>'
