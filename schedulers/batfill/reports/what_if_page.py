"""The answer of `what_if` as an HTML page: the advice at each limit, who gains and who pays, and how to configure it.

Tables and bars are HTML, so that they need no script; `assets/what-if.js` draws the trade-off, moves the limit, and
shows the parts of the chosen choice (`data-choice`).
"""

from __future__ import annotations

import json
import re
import shlex
from html import escape
from typing import TYPE_CHECKING, Any

from batfill.base.stats import CONFIDENCE, FEWEST_BLOCKS
from batfill.base.version import ENGINE, __version__
from batfill.model.options import FIRST_TRIES, PRESETS
from batfill.reports.siteconfig import EXPRESSIBLE, IMPOSSIBLE, SYSTEMS
from batfill.reports.what_if import (
    CHANGED_S,
    FEWEST_JOBS,
    HIGH_P,
    HIGH_WEEKS,
    STARVED,
    stated,
)
from batfill.reports.what_if_text import (
    LONGER,
    MINUS,
    NB,
    advice_text,
    best_seen,
    by_slowdown,
    confidence_text,
    configurations,
    duration,
    fidelity_text,
    log_text,
    notes,
    options_words,
    percent,
    plan_text,
    reaction_text,
    share_text,
    signed,
    starves,
    tie_text,
    trial_text,
)
from batfill.reports.words import count, interval_text, slowdown, warning_paragraphs
from batfill.reports.write import html_page, made_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from batfill.base.stats import Paired
    from batfill.reports.siteconfig import SiteConfig
    from batfill.reports.what_if import Changed, ChoiceFigures, JobGroup, WhatIf

SHOWN_USERS = 5  # who pay most, and who gain most
ASSUMED = (
    "Jobs, times and users are as in the log: users do not change their jobs or requests with the scheduler, machines "
    "do not fail, and only processors are scarce. fcfs is EASY backfilling in order of arrival; it represents today's "
    "scheduler, not what the cluster actually ran. The choice is tested on the log that selected it: expect slightly "
    "less on next year's jobs."
)
CHOSEN = (
    "The advice has the lowest slowdown (mean bounded slowdown, tau {:g} s) of the choices within the limit that gain "
    "over fcfs, so a looser limit can lengthen the mean wait. A gain is a slowdown lower by at least {}, with a "
    "corrected p of at most 5 %. If the best does not gain over some others, these are equals. Of equals, the advice "
    "is the one that asks least of a site (an order, then a threshold, then a classifier, then kills), unless another "
    "is better in both slowdown and longest wait; ties go to the shorter longest wait. Without a limit, the shorter "
    "longest wait decides first."
)
SURE = (
    f"**High**: p below {HIGH_P:g}, over at least {HIGH_WEEKS} weeks. **Medium**: p at most 0.05, over at least "
    f"{FEWEST_BLOCKS} weeks. With fewer weeks the page says that it cannot tell. Intervals and p swap whole weeks at "
    "random."
)


def as_page(answer: WhatIf, path: Path, command: str) -> str:
    """The HTML page; `path` is the log's."""
    shown = best_seen(answer) if answer.undecided else answer.limit.advised
    parts = [first_screen(answer, shown), limits_section(answer), users_section(answer, shown)]
    parts += [configuration_section(answer, shown), choices_section(answer, shown), sure_section(answer, shown, path)]
    footer = made_from(f"batfill {__version__} what-if", command, [(path, answer.workload.digest)])
    return html_page(f"What if: {answer.workload.name}", [], parts, [script_data(answer)], footer)


def marked(text: str) -> str:
    """The sentence as HTML, with **bold** and `code`."""
    coded = re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", coded)


def growth_text(growth: float | None) -> str:
    """A limit on the growth of the longest wait."""
    return "any amount" if growth is None else percent(growth)


def of_choice(k: int, shown: int, content: str, tag: str = "div") -> str:
    """A part of the page that is there while the choice is the chosen one."""
    return f"<{tag} data-choice={k}{' hidden' * (k != shown)}>{content}</{tag}>"


def grid(head: Sequence[str], rows: Iterable[tuple[str, str, Sequence[str]]], name: str = "") -> str:
    """A table that scrolls sideways: column heads, and rows of attributes, a row's head and its cells, as HTML."""
    heads = "".join(f"<th scope=col>{one}</th>" for one in head)
    body = "\n".join(
        f"<tr{attributes}><th scope=row>{first}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for attributes, first, cells in rows
    )
    caption = f"<caption>{name}</caption>" if name else ""
    return f'<div class="scroll"><table>{caption}<thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def first_screen(answer: WhatIf, shown: int) -> str:
    """The answer, how sure it is, the limit with the trade-off, and who gains and who pays."""
    given, last = answer.given, len(answer.limits) - 1
    ticks = "".join(
        f"<span>{'any' if limit.growth is None else percent(limit.growth)}</span>" for limit in answer.limits
    )
    control = (
        f'<div class="limit live" hidden><label for="grow">The longest wait may grow by <output id="grown" for="grow">'
        f'</output> <span class="soft" id="up-to"></span></label><input type="range" id="grow" min="0" max="{last}" '
        f'step="1" value="{given}"><div class="ticks" aria-hidden="true">{ticks}</div></div>'
    )
    doubts = warning_paragraphs([f"do not trust this advice: {caution}" for caution in answer.invented])
    panels = "\n".join(of_choice(k, shown, gains_panel(answer, k)) for k in range(len(answer.outcomes)))
    return f"""<p class="meta">{marked(log_text(answer))}</p>
<div id="advice" aria-live="polite" aria-atomic="true">{answered(answer, given)}</div>
<p class="sure">{marked(fidelity_text(answer))}</p>{doubts}
<div class="two"><section aria-label="Limit and trade-off">
{"" if answer.undecided else control}
<figure><figcaption class="chart-title">Slowdown and longest wait of each choice</figcaption>
<div class="chart" id="trade"><noscript>The chart needs a script; the table of all choices has its values.</noscript></div>
<p class="note">{"Logarithmic axis of waits." if answer.undecided else "Shaded: above the limit. Logarithmic axis of waits."}
The advice has the lowest slowdown within the limit, so a looser one can lengthen the mean wait.
<span class="live" hidden>Choose a point, or a row of the tables below, to see who gains and who pays under it.</span></p>
</figure></section>
<section id="pays" aria-label="Who gains, who pays">{panels}</section></div>"""


def answered(answer: WhatIf, i: int) -> str:
    """The answer under the i-th limit, as HTML."""
    limit = answer.limits[i]
    text = marked(advice_text(answer, limit)).replace("▲", '<span class="pays">▲</span>')
    if answer.undecided:
        return f'<p class="answer">{text}</p>'
    more = " ".join(filter(None, [confidence_text(answer, limit), tie_text(answer, limit)]))
    return f'<p class="answer">{text}</p>{f"<p class=sure>{marked(more)}</p>" if more else ""}'


def script_data(answer: WhatIf) -> str:
    """What the script needs: the points, and what is said at each limit and of each choice."""
    limits = range(0 if answer.undecided else len(answer.limits))
    content: dict[str, Any] = {
        "given": answer.given,
        "advised": None if answer.undecided else answer.limit.advised,
        "choices": [
            {
                "name": o.name,
                "slowdown": o.mean_bsld,
                "longest_s": o.max_wait_s,
                "said": marked(trial_text(answer, k)),
            }
            for k, o in enumerate(answer.outcomes)
        ],
        "limits": [
            {
                "grown": growth_text(limit.growth),
                "up_to": "" if limit.growth is None else f"to {duration(limit.longest_s)}",
                "longest_s": None if limit.growth is None else limit.longest_s,
                "take": limit.advised,
                "said": answered(answer, i),
            }
            for i in limits
            for limit in [answer.limits[i]]
        ],
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="what-if">{text}</script>'


def gains_panel(answer: WhatIf, k: int) -> str:
    """Who gains and who pays under a choice: jobs and users in bars, then the change by width and run time."""
    o = answer.outcomes[k]
    head = f'<h2>Who gains, <span class="pays">who pays</span> <span class="soft">under {escape(o.name)}</span></h2>'
    if k == 0:
        return f"{head}<p>Nobody: this is today's order, with which all others are compared.</p>{bars_table(answer, 0)}"
    users = share_bar("users", o.users) if o.users else '<p class="note">The log names no users with so many jobs.</p>'
    if (answer.workload.jobs.user < 0).all():
        users = '<p class="note">The log does not say whose the jobs are.</p>'
    return f"{head}{share_bar('jobs', o.jobs)}{users}{bars_table(answer, k)}"


def share_bar(what: str, changed: Changed) -> str:
    """How many wait less, about as long, and longer, as a sentence above a bar."""
    total = sum(changed)
    words = ("wait less", "about as long", "wait longer")
    figures = [f"{100 * n / total:.0f}{NB}%" if what == "jobs" else count(n) for n in changed]
    texts = "".join(
        f'<span class="{role}"><b>{figure}</b> {text}</span>'
        for role, figure, text in zip(("gains", "same", "pays"), figures, words, strict=True)
    )
    parts = "".join(
        f'<i class="{role}" style="flex:{n}"></i>'
        for role, n in zip(("gains", "same", "pays"), changed, strict=True)
        if n
    )
    of = (
        f"{count(total)} jobs, by over {LONGER}"
        if what == "jobs"
        else f"{count(total)} users with {FEWEST_JOBS} jobs or more, on average"
    )
    return f'<div class="share"><p>{of}</p><p class="thirds">{texts}</p><div class="stack" aria-hidden="true">{parts}</div></div>'


def bars_table(answer: WhatIf, k: int) -> str:
    """The change of the mean wait by width and by run time, with the longest wait under the choice."""
    changes = [group.differences[k - 1].wait_s.value if k else 0.0 for group in answer.groups]
    less, more = (max([0.0, *(side * change for change in changes)]) for side in (-1, 1))
    whole = max(less + more, 1e-9)
    rows, by = [], ""
    for group, change in zip(answer.groups, changes, strict=True):
        if group.by != by:
            by = group.by
            rows.append(f'<tr class="kind"><th scope=col>{by}</th><td></td><td></td></tr>')
        side = "less" if change < 0 else "more"
        words = duration(group.mean_wait_s) if not k else "±0" if abs(change) < 60 else changed_text(change)
        part = abs(change) / max(less if change < 0 else more, 1e-9)
        bar = f'<i style="--part:{part:.3f}"></i>' if abs(change) >= 60 else ""
        role = "soft" if abs(change) < 60 else "gains" if change < 0 else "pays"
        rows.append(
            f'<tr><th scope=row>{escape(group.name)}</th><td class="{side} {role}"><div><b>{words}</b>{bar}</div></td>'
            f"<td>{duration(group.max_wait_s[k])}</td></tr>"
        )
    style = f"--less:{less / whole:.3f};--a:{int(less >= 60)};--b:{int(more >= 60)}"
    what = "Change of the mean wait" if k else "Mean wait"
    return (
        f'<table class="bars" style="{style}"><thead><tr><th scope=col>{what}<span class="vh"> by group</span></th>'
        f"<td></td><th scope=col>longest then</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def limits_section(answer: WhatIf) -> str:
    """The advice at each limit."""
    if answer.undecided:
        return ""
    rows = []
    for i, limit in enumerate(answer.limits):
        o = answer.outcomes[limit.advised]
        grown = f"{growth_text(limit.growth)}" if limit.growth != 0 else "nothing"
        cells = (choice_words(o), duration(o.mean_wait_s), longest_text(answer, limit.advised), slowdown(o.mean_bsld))
        marks = f" data-limit={i}{' class=chosen' * (i == answer.given)}"
        rows.append((marks, f'<button type="button">by {grown}</button>', (cells)))
    head = ("Longest wait may grow", "Take", "Mean wait", "Longest wait", "Slowdown")
    return f'<section id="limits" class="next-page"><h2>The advice at each limit</h2>{grid(head, rows)}</section>'


def choice_words(outcome: ChoiceFigures) -> str:
    """The choice in words, its name beneath."""
    return f"{escape(outcome.words)}<small>{escape(outcome.name)}</small>"


def longest_text(answer: WhatIf, k: int) -> str:
    """The longest wait, its growth beneath, flagged if some jobs may starve."""
    longest_s, today_s = answer.outcomes[k].max_wait_s, answer.outcomes[0].max_wait_s
    if k == 0:
        more = "today"
    elif starves(answer, k) and today_s:
        more = f'<span class="pays">▲ {slowdown(longest_s / today_s)} times</span>'
    else:
        more = f"{100 * (longest_s / today_s - 1):+.0f} %".replace("-", MINUS) if today_s else ""
    return f"{duration(longest_s)}<small>{more}</small>"


def users_section(answer: WhatIf, shown: int) -> str:
    """The users who pay most, and who gain most."""
    if answer.outcomes[0].users is None:
        return ""
    parts = "\n".join(of_choice(k, shown, users_tables(o)) for k, o in enumerate(answer.outcomes) if k)
    return f'<section id="users"><h2>Users who pay most, and gain most</h2>{parts}</section>'


def users_tables(outcome: ChoiceFigures) -> str:
    """A table of those who pay, and one of those who gain."""
    known = [row for row in outcome.waits["waits_by_user"] if row["user"] >= 0 and row["jobs"] >= FEWEST_JOBS]
    known.sort(key=lambda row: -row["mean_longer_s"])
    head = ("User", "Jobs", "Mean wait today", "then", "Longest then")
    tables = []
    for role, name, rows in (
        ("pays", "Pay most", [row for row in known if row["mean_longer_s"] > CHANGED_S]),
        ("gains", "Gain most", [row for row in reversed(known) if row["mean_longer_s"] < -CHANGED_S]),
    ):
        lines = [
            (
                "",
                str(row["user"]),
                (
                    count(row["jobs"]),
                    duration(row["mean_wait_s"] - row["mean_longer_s"]),
                    duration(row["mean_wait_s"]),
                    duration(row["max_wait_s"]),
                ),
            )
            for row in rows[:SHOWN_USERS]
        ]
        caption = f'<span class="{role}">{name}</span> {len(rows)} of {len(known)} users'
        tables.append(grid(head, lines, caption) if lines else f"<p>{caption}</p>")
    return (
        f'<p class="note">Under {escape(outcome.name)}, of users with at least {FEWEST_JOBS} jobs those whose mean wait '
        f'changes by over {LONGER}.</p><div class="two even">{"".join(f"<div>{one}</div>" for one in tables)}</div>'
    )


def configuration_section(answer: WhatIf, shown: int) -> str:
    """The chosen choice's configuration for each batch system, to copy."""
    found = [configurations(o) for o in answer.outcomes]
    usable = [name for name, one in found[shown].items() if one.verdict != IMPOSSIBLE]
    able = [name for name in usable if found[shown][name].verdict == EXPRESSIBLE]
    first = answer.settings["system"] or next(iter([*able, *usable, *SYSTEMS]))
    picks = "".join(
        f'<label><input type="radio" name="system" value="{name}"{" checked" * (name == first)}> {SYSTEMS[name].title}</label>'
        for name in SYSTEMS
    )
    parts = "\n".join(
        of_choice(k, shown, "".join(configuration(answer, k, name, one) for name, one in systems.items()))
        for k, systems in enumerate(found)
    )
    return (
        f'<section id="configuration"><h2>Configuration</h2><fieldset class="seg"><legend>For</legend>{picks}</fieldset>'
        f"{parts}</section>"
    )


def configuration(answer: WhatIf, k: int, name: str, one: SiteConfig) -> str:
    """One system's configuration of a choice: what it drops first, then the files, then habits that differ."""
    o, title = answer.outcomes[k], SYSTEMS[name].title
    lacks = "".join(f"<li>{escape(line)}</li>" for line in one.lacks)
    if one.verdict == IMPOSSIBLE:
        content = f'<div class="warning"><strong>{title} cannot do {escape(o.name)}</strong><ul>{lacks}</ul></div>'
        return f'<div data-system="{name}">{content}</div>'
    said = f"<p>{title} can do {escape(o.name)} in full.</p>"
    if one.verdict != EXPRESSIBLE:
        said = f'<div class="warning"><strong>{title} drops a part of {escape(o.name)}</strong><ul>{lacks}</ul></div>'
    files = "".join(
        f"<h3>{escape(file)}</h3><pre tabindex=0>{escape(text.rstrip())}</pre>" for file, text in one.files.items()
    )
    differs = "".join(f"<li>{escape(line)}</li>" for line in one.differs)
    return (
        f'<div data-system="{name}">{said}<p class="note"><button type="button" class="copy live" hidden>Copy the '
        f"configuration</button> Try it on a test partition first.</p>{files}<details><summary>What differs from the "
        f"simulation</summary><ul>{differs}</ul></details></div>"
    )


def choices_section(answer: WhatIf, shown: int) -> str:
    """All choices in one table, lowest slowdown first."""
    rows = []
    for k in by_slowdown(answer):
        o = answer.outcomes[k]
        chosen = " class=chosen" * (k == shown and not answer.undecided)
        cells = (
            duration(o.mean_wait_s),
            longest_text(answer, k),
            slowdown(o.mean_bsld),
            share_text(o.jobs, shares=True) if k else "",
            share_text(o.users, shares=False) if k else "",
            count(o.kills) if o.kills else "",
        )
        rows.append((f" data-pick={k}{chosen}", f'<button type="button">{choice_words(o)}</button>', cells))
    head = ("Choice", "Mean wait", "Longest wait", "Slowdown", "Jobs that wait longer", "Users that wait longer")
    return (
        f'<section id="choices"><h2>All choices, lowest slowdown first</h2>{grid((*head, "Tries killed"), rows)}'
        f'<p class="note">Longer: by over {LONGER}; of users with at least {FEWEST_JOBS} jobs, on average. ▲ marks a '
        f"longest wait of more than {STARVED:g} times fcfs's. A killed try is restarted from its beginning.</p></section>"
    )


def sure_section(answer: WhatIf, shown: int, path: Path) -> str:
    """Warnings, assumptions, statistics, fidelity, and how all this was made."""
    warnings = [text for text in answer.workload.warnings if text not in answer.workload.invented_warning]
    how = "".join(
        f"<p>{marked(text)}</p>"
        for text in (
            CHOSEN.format(answer.settings["tau_s"], percent(answer.settings["min_gain"])),
            SURE,
            plan_text(answer),
        )
    )
    groups = "\n".join(of_choice(k, shown, groups_table(answer, k)) for k in range(1, len(answer.outcomes)))
    noted = "".join(f"<li>{marked(text)}</li>" for text in (*notes(answer), reaction_text(answer)) if text)
    tries = [PRESETS[FIRST_TRIES].meaning] if answer.settings["small_first"] else []
    grade = str(answer.fidelity)
    score = answer.fidelity.plain
    waits = (
        f" Mean wait logged: {duration(score.logged_mean_s)}; simulated under fcfs: {duration(score.simulated_mean_s)}."
        if score
        else ""
    )
    return f"""<section id="sure"><h2>How sure is that?</h2>{warning_paragraphs(warnings)}<p>{escape(ASSUMED)}</p>
<details><summary>Statistics: intervals, p values, what “high” means</summary>{how}{differences_table(answer)}{groups}</details>
<details><summary>Fidelity: simulated and logged waits</summary><p>{escape(f"{grade[:1].upper()}{grade[1:]}.{waits}")}</p></details>
<details><summary>Notes on some choices</summary><ul>{noted}{"".join(f"<li>{escape(text)}</li>" for text in tries)}</ul></details>
<details><summary>Commands and options</summary>{made(answer, path)}</details></section>"""


def differences_table(answer: WhatIf) -> str:
    """The difference of every choice's slowdown from fcfs's."""
    rows = []
    for k in by_slowdown(answer):
        o, found = answer.outcomes[k], answer.bsld[0].get(k)
        cells = (
            ("", "", "") if found is None else (signed(found.value), ends(found, signed), f"{found.corrected_p:.2g}")
        )
        rows.append(("", escape(o.name), (f"{o.mean_bsld:,.2f}", *cells)))
    head = ("Choice", "Slowdown", "Difference", f"{percent(CONFIDENCE)} interval", "Corrected p")
    return grid(head, rows, f"Slowdown against fcfs's, over {answer.comparison.n_blocks} {answer.comparison.blocks}")


def groups_table(answer: WhatIf, k: int) -> str:
    """The change of the mean wait in each group of jobs under a choice, with its interval."""
    rows = [
        (
            "",
            f"{group.by} {escape(group.name)}",
            (count(group.jobs), duration(group.mean_wait_s), *change_cells(group, k)),
        )
        for group in answer.groups
    ]
    head = ("Jobs", "Number", "Mean wait today", "Change", f"{percent(CONFIDENCE)} interval", "Corrected p")
    name = f"Change of the mean wait under {escape(answer.outcomes[k].name)}; p is corrected for all choices and both figures of a group"
    return grid(head, rows, name)


def change_cells(group: JobGroup, k: int) -> tuple[str, str, str]:
    """The change of the group's mean wait, its interval and p-value."""
    found = group.differences[k - 1].wait_s
    return changed_text(found.value), ends(found, changed_text), f"{found.corrected_p:.2g}"


def changed_text(seconds: float) -> str:
    """A difference of waits."""
    return f"{MINUS if seconds < 0 else '+'}{duration(abs(seconds))}"


def ends(found: Paired, write: Any) -> str:
    """An interval; "none" if there are too few weeks."""
    return interval_text(found, write).replace(" to ", f"{NB}to ")


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
    replays = "\n".join(f"batfill replay {log} {options_words(o)} {shared}" for o in answer.outcomes)
    noted = "".join(f"<li>{escape(note)}</li>" for note in workload.notes)
    return (
        f"<ul>{noted}</ul><p>{ENGINE} {__version__}; options: {escape(options)}.</p><p>Each choice alone:</p>"
        f"<pre tabindex=0>{escape(replays)}</pre>"
    )
