"""The answer of `what_if` as an HTML page: the advice at each limit, who gains and who pays, and how to configure it.

Tables and bars are HTML, so that they need no script; `assets/what-if.js` draws the trade-off, moves the limit, and
shows the parts of the chosen choice (`data-choice`).
"""

from __future__ import annotations

import json
import re
import shlex
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.version import ENGINE, __version__
from batfill.model.options import FIRST_TRIES, PRESETS
from batfill_pages.comparison import FEWEST_JOBS
from batfill_pages.comparison_page import STARVED
from batfill_pages.stats import CONFIDENCE, FEWEST_BLOCKS, UNCLEAR
from batfill_pages.words import (
    asset,
    code,
    count,
    folded,
    growth,
    guide,
    interval_text,
    log_name,
    policy_html,
    slowdown,
    table,
    units_kept,
    warning_paragraphs,
)
from batfill_pages.words import duration_html as duration
from batfill_pages.write import html_page, made_from
from batfill_site.advice import text as say
from batfill_site.advice.what_if import ADVICE, CHOSEN, HIGH_P, HIGH_WEEKS, SLOWDOWN, UNSURE, stated
from batfill_site.score import FAR, LEAST_RANK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from batfill_pages.stats import Paired
    from batfill_site.advice.payers import Changed
    from batfill_site.advice.what_if import Limit, WhatIf

NOBODY = "The log names no users with so many jobs."
CHANCE = ' class="chance" role="img" aria-label="{}"'  # of a bar whose corrected interval includes 0
ASSUMED = (
    "Jobs, times and users are as in the log: users do not change their jobs or requests with the scheduler, machines "
    "do not fail, and only processors{} are scarce. fcfs is EASY backfilling in order of arrival, simulated: it is not "
    "what the cluster ran. The choice is tested on the log that selected it: expect slightly less on next year's jobs."
)
RULE = (
    "The best has the lowest slowdown (mean bounded slowdown, tau {:g} s) of the choices within the limit that gain "
    "over fcfs, so a looser limit can lengthen the mean wait. A gain is a slowdown lower by at least {}, with a "
    "p of at most 5 %, corrected for all choices compared. If the best does not gain over some others, these are "
    "equals, unless another equal is better in both slowdown and longest wait. Of equals, the advice is the "
    "one that asks least of a site (an order, then a threshold, then kills); ties go to the shorter longest wait. "
    "Without a limit, the shorter longest wait decides first.{}"
)
SURE = (
    "It is the confidence that slowdown is lower than under fcfs, both simulated on this log; it says nothing of other "
    f"figures. **High**: p below {HIGH_P:g}, over at least {HIGH_WEEKS} weeks. **Medium**: p at most 0.05, over "
    f"at least {FEWEST_BLOCKS} weeks; at most medium if first tries break their promise here or at 10 % more load, or "
    f"if correlated weeks leave fewer than {FEWEST_BLOCKS} groups of them. **Low**: requests are invented. With fewer "
    f"weeks, or if simulated waits are over {FAR:g} times the logged ones, less than that part of them, or those of "
    f"other jobs (a rank correlation below {LEAST_RANK:g}), the page says that it cannot tell. Intervals and p swap "
    "whole weeks at random."
)


def as_page(answer: WhatIf, path: Path, command: str) -> str:
    """The HTML page; `path` is the log's."""
    shown = answer.shown(answer.limit)
    parts = [first_screen(answer, shown), limits_section(answer), configuration_section(answer, shown)]
    parts += [choices_section(answer, shown), sure_section(answer, shown, path)]
    parts.append(made_from(f"batfill {__version__} what-if", command, [(path, answer.workload.digest)]))
    return html_page(
        f"{log_name(answer.workload.name)}: what another queue order would change",
        [unbroken("\n".join(parts))],
        log=marked(say.log_text(answer)),
        data=[script_data(answer)],
        scripts=[asset("what-if.js", __package__)],
        styles=[asset("what-if.css", __package__)],
    )


def marked(text: str) -> str:
    """The sentence as HTML, with **bold**, `code`, and its flag in colour."""
    coded = re.sub("`([^`]+)`", r"<code>\1</code>", units_kept(escape(text)))
    flagged = coded.replace("▲", '<span class="pays">▲</span>')
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", flagged)


def unbroken(html: str) -> str:
    """The page with each number and its unit on one line, except in files and commands."""
    return "".join(
        part if part.startswith("<pre") else units_kept(part) for part in re.split("(?s)(<pre.*?</pre>)", html)
    )


def growth_text(growth: float | None, unlimited: str = "any amount") -> str:
    """A limit on the growth of the longest wait."""
    return unlimited if growth is None else say.setting(growth)


def of_choice(k: int, shown: int, content: str) -> str:
    """A part of the page that is there while the choice is the chosen one."""
    return f"<div data-choice={k}{' hidden' * (k != shown)}>{content}</div>"


def first_screen(answer: WhatIf, shown: int) -> str:
    """The answer, how sure it is, the limit with the trade-off, and who gains and who pays."""
    ticks = "".join(f"<span>{growth_text(limit.growth, 'any')}</span>" for limit in answer.limits)
    control = (
        '<div class="limit controls live" hidden><label for="grow">The longest wait may grow by '
        f'<output id="grown" for="grow">{growth_text(answer.limit.growth)}</output> <span class="soft" id="up-to">to '
        f'{duration(answer.limit.longest_s)}</span></label><input type="range" id="grow" min="0" '
        f'max="{len(answer.limits) - 1}" step="1" value="{answer.given}">'
        f'<div class="ticks" aria-hidden="true">{ticks}</div></div>'
    )
    starved = "above twice fcfs's longest wait"
    caption = (
        f"Shaded: {starved}."
        if answer.undecided
        else f"Shaded: above the limit, or without one {starved}. Why lower points are not advised: see Why."
    )
    panels = "\n".join(of_choice(k, shown, gains_panel(answer, k)) for k in range(len(answer.outcomes)))
    about = guide("how-to/what-if", "What all of this means", "#the-advice")
    return frame(
        screen(answer, answer.limit),
        warning_paragraphs(answer.workload.size_warnings),
        "" if answer.undecided else control,
        caption,
        panels,
        f"{marked(say.terms_text(answer))} {about}",
    )


def frame(
    said: dict[str, str], warnings: str, control: str, caption: str, panels: str, terms: str, what: str = "choice"
) -> str:
    """The first screen: what `as_screen` made, the trade-off below its `control`, and who gains and who pays."""
    return "\n".join(
        [
            f'<div id="advice" aria-live="polite" aria-atomic="true">{said["advice"]}</div>',
            warnings,
            f'<div class="two"><div><div id="four">{said["four"]}</div>',
            f'<section id="limit" aria-label="Limit and trade-off">{control}',
            f'<figure><p class="chart-title">Slowdown and longest wait of each {what}</p>',
            '<div class="chart" id="tradeoff">',
            f"<noscript>The chart needs a script; the table of all {what}s has its values.</noscript></div>",
            f'<figcaption>{caption} <span class="live controls" hidden>Choose a point, or a row of a table, '
            "to see who gains and who pays under it.</span></figcaption></figure></section></div>",
            f'<div><div id="brief">{said["brief"]}</div>',
            f'<section id="pays" aria-label="Who gains, who pays">{panels}</section></div></div>',
            f'<p class="note terms">{terms}.</p>',
        ]
    )


def screen(answer: WhatIf, limit: Limit, chosen: int | None = None) -> dict[str, str]:
    """The headline, the first table and the lines beside it as HTML: of the advice under a limit, or of a choice."""
    taken = " taken" * bool(chosen is None and limit.advised and not answer.cautions)
    text = say.headline(answer, limit) if chosen is None else say.headed("If you took", answer.outcomes[chosen])
    rows, marks = [], []
    for row in answer.rows(limit, chosen):
        name, *figures = say.cells(answer, limit, row)
        first = row.role == CHOSEN if chosen is not None else row.role in (ADVICE, UNSURE)
        rows.append((f"<strong>{escape(name)}</strong>" if first else escape(name), *(marked(one) for one in figures)))
        marks.append("class=chosen" if first and not answer.undecided else "")
    four = table([each.capitalize() for each in say.HEAD], rows, left=[4], marks=marks)
    return as_screen(f'<p class="answer{taken}">{marked(text)}</p>', four, say.brief(answer, limit, chosen))


def as_screen(advice: str, four: str, brief: dict[str, str]) -> dict[str, str]:
    """The parts of the first screen that the script replaces: the headline, the first table and the lines beside it."""
    lines = (f"<dt>{name}</dt><dd>{marked(text)}</dd>" for name, text in brief.items())
    return {"advice": advice, "four": four, "brief": f"<dl>{''.join(lines)}</dl>"}


def script_data(answer: WhatIf) -> str:
    """What the script needs: the points, and what is said at each limit and of each choice."""
    choices = [
        as_choice(o.name, o.mean_bsld, o.max_wait_s, screen(answer, answer.limit, k))
        for k, o in enumerate(answer.outcomes)
    ]
    limits = [
        {
            "grown": growth_text(limit.growth),
            "key": growth_text(limit.growth, "any").removesuffix(f"{say.NB}%"),
            "upTo": "" if limit.growth is None else f"to {duration(limit.longest_s)}",
            "longest": None if limit.growth is None else limit.longest_s,
            "take": limit.advised,
            "said": screen(answer, limit),
        }
        for limit in answer.limits
    ]
    base = {"whose": "fcfs's", "name": "simulated"}
    return as_script(choices, answer.best_seen, base, [] if answer.undecided else limits, answer.given)


def as_choice(name: str, slowdown: float, longest_s: float, said: dict[str, str]) -> dict[str, Any]:
    """A point of the trade-off, and what is said if it is chosen."""
    key = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return {"name": units_kept(name), "key": key, "slowdown": slowdown, "longest": longest_s, "said": said}


def as_script(
    choices: Sequence[dict[str, Any]],
    seen: int,
    base: dict[str, str],
    limits: Sequence[dict[str, Any]] = (),
    given: int = 0,
) -> str:
    """What the script needs, in its element: `seen` is shown first without limits, and `base` is the first choice."""
    content = {"choices": choices, "limits": limits, "given": given, "seen": seen, "base": base}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="what-if">{text}</script>'


def gains_panel(answer: WhatIf, k: int) -> str:
    """Who gains and who pays under a choice: jobs and users in bars, then the change by width and run time."""
    o = answer.outcomes[k]
    head = f'<h2>Who gains, <span class="pays">who pays</span> <span class="soft">under {escape(o.name)}</span></h2>'
    if k == 0:
        return f"{head}<p>All other choices are compared with this one.</p>{bars_table(answer, 0)}"
    unknown = o.payers.users is None and (answer.workload.jobs.user < 0).all()
    nobody = "The log does not say whose the jobs are." if unknown else NOBODY
    return f"{head}{share_bars(o.payers.jobs, o.payers.users, nobody)}{bars_table(answer, k)}"


def share_bars(jobs: Changed, users: Changed | None, nobody: str) -> str:
    """How many jobs and users wait less, about as long, and longer; `nobody` is said if no users are counted."""
    of_users = f'<p class="note">{nobody}</p>' if users is None else share_bar("users", users)
    return f"{share_bar('jobs', jobs)}{of_users}"


def share_bar(what: str, changed: Changed) -> str:
    """How many wait less, about as long, and longer, as words above a bar."""
    total, roles = sum(changed), ("gains", "same", "pays")
    of = f"{count(total)} {what}"
    whose = f"those whose wait changes by more than {say.LONGER}"
    if what == "users":
        of, whose = f"{of} with at least {FEWEST_JOBS} jobs", f"those whose mean wait changes by more than {say.LONGER}"
    parts = list(zip(roles, changed, ("wait less", "about as long", "wait longer"), strict=True))
    texts = "".join(
        f'<span class="{role}">{say.percent(n / total) if what == "jobs" else count(n)} {words}</span>'
        for role, n, words in parts
    )
    bars = "".join(f'<i class="{role}" style="flex:{n}"></i>' for role, n, _ in parts if n)
    return (
        f'<div class="share"><p>Of {of}, {whose}</p><p class="thirds">{texts}</p>'
        f'<div class="stack" aria-hidden="true">{bars}</div></div>'
    )


def bars_table(answer: WhatIf, k: int) -> str:
    """The change of the mean wait by width and by run time, with the longest wait under the choice."""
    rows = []
    for group in answer.groups:
        found = group.differences[k - 1].wait_s if k else None
        unclear = found is not None and (answer.undecided is not None or found.verdict == UNCLEAR)
        change = 0.0 if found is None else found.value
        words = duration(group.mean_wait_s) if found is None else ""
        rows.append(Bar(group.by, group.name, change, unclear, group.max_wait_s[k], words))
    return bars(rows, ("Change of the mean wait", "longest wait under it") if k else ("Mean wait", "longest wait"))


class Bar(NamedTuple):
    """A group of jobs beside the bar that shows how its mean wait changes. Times in seconds."""

    by: str  # what the groups are of
    name: str
    change_s: float
    unclear: bool  # whether the change may be chance
    longest_s: float
    words: str = ""  # in the place of the change


def bars(rows: Sequence[Bar], names: tuple[str, str], chance: str = "may be chance", least_s: float = 60.0) -> str:
    """The groups under headings, by what they are of.

    Args:
        rows: one each.
        names: what the bars and the longest waits are.
        chance: what an unclear change may be.
        least_s: a change of less has no bar.
    """
    less, more = (max([least_s, *(side * row.change_s for row in rows)]) for side in (-1, 1))
    lines = []
    for by in dict.fromkeys(row.by for row in rows):
        lines.append(f'<tr class="kind"><th scope=col>{by}</th><td></td><td></td></tr>')
        lines += [bar_row(row, less, more, chance, least_s) for row in rows if row.by == by]
    sides = f"--less:{less / (less + more):.3f};--a:{int(min(row.change_s for row in rows) <= -least_s)};--b:1"
    head = f"<th scope=col colspan=2>{names[0]}</th><th scope=col>{names[1]}</th>"
    mark = CHANCE.format(chance)
    key = f'<p class="note key"><i{mark}></i> hatched: {chance}</p>' if any(mark in line for line in lines) else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<table class="bars" style="{sides}">{body}</table>{key}'


def bar_row(row: Bar, less: float, more: float, chance: str, least_s: float) -> str:
    """A group's change as a bar that is a part of the longest on its side, and its longest wait."""
    change = row.change_s
    part = -change / less if change < 0 else change / more
    side, role = ("less", "gains") if change <= -least_s else ("more", "pays" if change >= least_s else "")
    words = row.words or (growth(change, 0) if role else "±0")
    bar = f'<i{CHANCE.format(chance) * row.unclear} style="--part:{part:.3f}"></i>' if role else ""
    return (
        f'<tr><th scope=row>{row.name}</th><td class="{side} {role}"><div><b>{words}</b>{bar}</div></td>'
        f"<td>{duration(row.longest_s)}</td></tr>"
    )


def limits_section(answer: WhatIf) -> str:
    """The advice at each limit."""
    if answer.undecided:
        return ""
    rows, marks = [], []
    for run, grown in say.equal_limits(answer):
        k = answer.limits[run[0]].advised
        *figures, least = figures_cells(answer, k)
        why = say.looser_text(answer, run[0])
        rows.append((pick(grown), *figures, f'{least}<span class="sub">{why}</span>' if why else least))
        marks.append(f'data-limit="{" ".join(map(str, run))}"{" class=chosen" * (answer.given in run)}')
    head = ("Longest wait may grow by", "Take", "Mean wait", "Longest wait", "Slowdown")
    content, same = table(head, rows, left=[1], marks=marks), say.same_text(answer)
    said = f'<p class="note">{same}</p>' if same else ""
    return f'<section id="limits" class="next-page"><h2>The advice at each limit</h2>{content}{said}</section>'


def pick(words: str) -> str:
    """A row's head; the script makes it a button that picks the row."""
    return f"<span class=picked>{words}</span>"


def figures_cells(answer: WhatIf, k: int) -> tuple[str, str, str, str]:
    """Name, mean wait, longest wait with its growth, flagged if some jobs may starve, and slowdown of a choice."""
    o, more, flag = answer.outcomes[k], say.growth_of(answer, k) if k else "simulated", ""
    if k and say.starves(answer, k):
        more, flag = f"▲ {more}", " flag"
    longest = f'{duration(o.max_wait_s)}<span class="sub{flag}">{more}</span>'
    return policy_html(o.words, o.name), duration(o.mean_wait_s), longest, slowdown(o.mean_bsld)


def configuration_section(answer: WhatIf, shown: int) -> str:
    """The lines that make the chosen choice, of each batch system."""
    parts = "\n".join(
        of_choice(k, shown, code(say.configuration_lines(o.options))) for k, o in enumerate(answer.outcomes)
    )
    return f'<section id="configuration"><h2>Configuration</h2><p>{say.UNCOMPARED}</p>{parts}</section>'


def choices_section(answer: WhatIf, shown: int) -> str:
    """All choices in one table, lowest slowdown first."""
    rows, marks = [], []
    for k in say.by_slowdown(answer):
        o = answer.outcomes[k]
        name, *figures = figures_cells(answer, k)
        users = "" if o.payers.users is None else say.users_text(o.payers.users)
        longer = [say.percent(o.payers.jobs.share), users] if k else ["", ""]
        rows.append((pick(name), *figures, *longer, count(o.kills) if o.kills else ""))
        marks.append(f"data-pick={k}{' class=chosen' * (k == shown and not answer.undecided)}")
    head = ("Choice", "Mean wait", "Longest wait", "Slowdown", "Jobs that<br>wait longer", "Users that<br>wait longer")
    content = table((*head, "Jobs stopped<br>and restarted"), rows, marks=marks)
    return (
        f'<section id="choices"><h2>All choices, lowest slowdown first</h2>{content}<p class="note">Longer: '
        f"jobs by over {say.LONGER}, and users with at least {FEWEST_JOBS} jobs whose mean wait grows by as much. ▲ "
        f"marks a longest wait of more than {STARVED:g} times fcfs's. Every figure is simulated.</p></section>"
    )


def sure_section(answer: WhatIf, shown: int, path: Path) -> str:
    """Warnings, assumptions, statistics, fidelity, and how all this was made."""
    warnings = [
        text
        for text in answer.workload.warnings
        if text not in (*answer.workload.invented_warning, *answer.workload.size_warnings)
    ]
    if not answer.undecided:
        compared = zip(answer.comparison.names, answer.bsld[0], strict=True)
        warnings += answer.comparison.doubts({name: one for name, one in compared if one is not None})
    waits = (
        " A choice is out if another, or fcfs, asks less of a site and has the shorter mean wait and no longer a "
        "longest one (--advise-by slowdown lifts this)."
    )
    by_waits = waits * (answer.settings["advise_by"] != SLOWDOWN)
    rule = RULE.format(answer.settings["tau_s"], say.setting(answer.settings["min_gain"]), by_waits)
    how = "".join(f"<p>{marked(text)}</p>" for text in (rule, SURE))
    groups = "\n".join(of_choice(k, shown, groups_table(answer, k)) for k in range(1, len(answer.outcomes)))
    tries = [f"First tries: {PRESETS[FIRST_TRIES].meaning}"] if answer.settings["small_first"] else []
    more = (say.spread_text(answer, answer.limit), say.reaction_text(answer))
    noted = items(marked(text) for text in (*tries, *say.notes(answer), *more) if text)
    score, waits = answer.logged, say.grade_text(answer)
    if score is not None:
        waits += f" Mean wait logged {duration(score.logged_mean_s)}, simulated {duration(score.simulated_mean_s)}."
    parts = {
        "Statistics: intervals, p values, what the confidence means": f"{how}{differences_table(answer)}{groups}",
        "Fidelity: simulated and logged waits": f"<p>{escape(waits)}</p>",
        "Notes on some choices": noted,
        "Options and the command of each choice": made(answer, path),
    }
    details = "\n".join(folded(name, text) for name, text in parts.items())
    assumed = ASSUMED.format(f" and what {answer.cost.text} limits" if answer.cost else "")
    return (
        f'<section id="sure"><h2>How sure is that?</h2>{warning_paragraphs(warnings)}<p>{escape(assumed)}</p>'
        f"{details}</section>"
    )


def differences_table(answer: WhatIf) -> str:
    """The difference of every choice's slowdown from fcfs's."""
    rows = []
    for k in say.by_slowdown(answer):
        o, found = answer.outcomes[k], answer.bsld[0][k]
        change = ("", "", "")
        if found is not None:
            change = (say.difference(found.value), ends(found, say.difference), say.p_text(found))
        rows.append((escape(o.name), f"{o.mean_bsld:,.2f}", *change))
    head = ("Choice", "Slowdown", "Difference", f"{say.percent(CONFIDENCE)} interval", "Corrected p")
    about = f"Slowdown against fcfs's, over {answer.comparison.n_blocks} {answer.comparison.blocks}"
    return table(head, rows, about)


def groups_table(answer: WhatIf, k: int) -> str:
    """The change of the mean wait in each group of jobs under a choice, with its interval."""
    rows = []
    for group in answer.groups:
        found = group.differences[k - 1].wait_s
        change = (growth(found.value, 0), ends(found, lambda s: growth(s, 0)), f"{found.corrected_p:.2g}")
        rows.append((f"{group.by} {group.name}", count(group.jobs), duration(group.mean_wait_s), *change))
    level = f"{say.percent(CONFIDENCE)} interval"
    head = ("Jobs", "Number", "Mean wait, fcfs simulated", "Change", level, "Corrected p")
    corrected = "p and intervals are corrected for all choices"
    return table(head, rows, f"Change of the mean wait under {answer.outcomes[k].name}; {corrected}")


def ends(found: Paired, write: Any) -> str:
    """An interval; "none" if there are too few weeks."""
    return interval_text(found, write).replace(" to ", f"{say.NB}to ")


def made(answer: WhatIf, path: Path) -> str:
    """Notes on the log, every option in force, and the command that repeats each choice."""
    workload, settings = answer.workload, stated(answer.settings)
    options = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    shared = shlex.join(
        [
            *("--procs", str(workload.procs)),
            *("--overrun", settings["overrun"]),
            *("--unrequested", str(settings["unrequested"])),
            *("--tau", f"{settings['tau_s']:.12g}"),
        ]
    )
    log = shlex.quote(str(path))
    replays = "\n".join(f"batfill replay {log} {say.options_words(o.options)} {shared}" for o in answer.outcomes)
    made_of = f"<p>{ENGINE} {__version__}; options: {escape(options)}.</p><p>Each choice alone:</p>"
    return f"{items(map(escape, workload.notes))}{made_of}{code(replays)}"


def items(lines: Iterable[str]) -> str:
    """A list of these lines, which are HTML already."""
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
