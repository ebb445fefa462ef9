"""The answer of `what_if` in sentences, and as text for the terminal.

The first screen is the same on the page and in the terminal: a headline, a table of at most four rows (`WhatIf.rows`),
and `brief`, a line for each question that an administrator asks first. In sentences **bold** and `code` are marked, and
durations hold no-break spaces; `lines_of` takes that out.
"""

from __future__ import annotations

import math
import re
import shlex
from itertools import groupby
from textwrap import fill
from typing import TYPE_CHECKING

from batfill.base.words import in_a_row, things, wrapped
from batfill.base.words import percent as in_percent
from batfill.model.options import Options
from batfill.workloads.swf import NO_RUN_TIME, REASONS
from batfill_pages.comparison import CHANGED_S, FEWEST_JOBS
from batfill_pages.comparison_page import STARVED
from batfill_pages.stats import BETTER, CONFIDENCE, UNCLEAR
from batfill_pages.words import count, growth, interval_text, log_name, slowdown, submission_dates
from batfill_pages.words import duration_html as duration
from batfill_site.advice.choices import KILLS
from batfill_site.advice.configuration import SYSTEMS, configuration
from batfill_site.advice.promise import BUSY_BSLD, MOVED_S, OVERLOADED, OVERLOADED_S, QUIET, QUIET_S, WORDS, Figures
from batfill_site.advice.promise import TAU_S as BSLD_TAU_S
from batfill_site.advice.what_if import GENTLE, REFERENCE, stated
from batfill_site.score import ratio_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from batfill_pages.stats import Paired
    from batfill_site.advice.payers import Changed, Cost, OneJob, Payers
    from batfill_site.advice.promise import Check
    from batfill_site.advice.site_log import SiteLog
    from batfill_site.advice.what_if import ChoiceFigures, Limit, Row, WhatIf

MINUS = "\u2212"
NB = "\u00a0"  # keeps a number and its unit on one line
MOST_NAMES = 5  # of choices in a sentence
MOST_NOTES = 3  # of an import
MOST_WORDS = 12  # of a headline
COLUMNS = 80  # of the first screen in a terminal
CLOSE = 1.1  # a ratio of waits that needs no cause
UNCOMPARED = "No real run checks these figures."
LONGER = f"{CHANGED_S / 60:g}{NB}min"


def percent(share: float) -> str:
    """A share in per cent, on one line."""
    return in_percent(share).replace(" ", NB)


def setting(share: float) -> str:
    """A limit, or another setting, in per cent as it was given."""
    return f"{100 * share:.6g}{NB}%"


def listed(names: Sequence[str]) -> str:
    """The names in a sentence, the first few of many."""
    names = names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]
    return in_a_row(names)


def short(outcome: ChoiceFigures) -> str:
    """The choice's name on one line."""
    return outcome.name.replace(" ", NB)


def named(outcome: ChoiceFigures) -> str:
    """The choice in words within a sentence, with its name: smallest area first (saf)."""
    return f"**{lower(outcome.words)} ({short(outcome)})**"


def lower(words: str) -> str:
    """The words within a sentence."""
    return f"{words[:1].lower()}{words[1:]}"


def first_upper(text: str) -> str:
    """The sentence with a capital letter, unless it begins with fcfs."""
    return text if text.startswith("fcfs") else f"{text[:1].upper()}{text[1:]}"


def starves(answer: WhatIf, k: int) -> bool:
    """Whether the longest wait is so much longer than fcfs's that some jobs may starve."""
    return answer.outcomes[k].max_wait_s > STARVED * answer.outcomes[0].max_wait_s


def own_figures(answer: WhatIf, k: int) -> str:
    """Mean wait, longest wait and slowdown of a choice."""
    o = answer.outcomes[k]
    longest = f"{duration(o.max_wait_s)}{' ▲' if starves(answer, k) else ''}"
    return f"mean wait {duration(o.mean_wait_s)}, longest wait {longest}, slowdown {slowdown(o.mean_bsld)}"


def growth_of(answer: WhatIf, k: int) -> str:
    """How much longer than fcfs's the longest wait is, as duration and percentage; "as long" if it is."""
    fcfs_s = answer.outcomes[0].max_wait_s
    return growth(answer.outcomes[k].max_wait_s - fcfs_s, fcfs_s)


# The first screen


def headline(answer: WhatIf, limit: Limit) -> str:
    """The advice under a limit in at most `MOST_WORDS` words; what forbids to trust it, if anything does."""
    if answer.undecided:
        return fitting(f"Cannot tell: {answer.undecided.partition(':')[0]}", "Cannot tell: the log is too short")
    if answer.invented:
        jobs = answer.workload.jobs
        share = percent(jobs.n_missing(answer.workload.unrequested) / len(jobs))
        return f"Do not trust this advice: {share} of the requests are invented"
    o = answer.outcomes[limit.advised]
    if limit.advised:
        return headed("Take", o)
    if not answer.offered:
        return f"Keep **fcfs**: {SYSTEMS[answer.settings['system']]} can do none of the other choices"
    if limit.by_slowdown:
        return "Keep **fcfs**: less slowdown would cost longer waits"
    return f"Keep **fcfs**: no choice that was tested is better{' within the limit' * bool(answer.limits[-1].advised)}"


def fitting(text: str, shorter: str) -> str:
    """The text, or the shorter one if it has too many words."""
    return text if len(text.replace(NB, " ").split()) <= MOST_WORDS else shorter


def headed(lead: str, o: ChoiceFigures) -> str:
    """The choice with its words behind this lead, if they fit: "Take" the advice, "If you took" another."""
    return fitting(f"{lead} **{short(o)}**: {lower(o.words)}", f"{lead} **{short(o)}**")


OF_CHOICES = ("Kills", "Loses most", "Of the users")  # lines that a terminal has no room for beside one on a cap
HEAD = ("", "mean wait", "longest wait", "slowdown", "what it needs")


def cells(answer: WhatIf, limit: Limit, row: Row) -> tuple[str, ...]:
    """A row of the first table under a limit; its columns are `HEAD`."""
    k, needs, mark = row.choice, row.needs, ""
    name = f"fcfs without {answer.cost.name}" if answer.cost else ""
    if k is not None:
        o = answer.outcomes[k]
        name = REFERENCE if not k else short(o)
        if k and row.role == GENTLE:
            kills = answer.outcomes[answer.shown(limit)].effort == KILLS
            name = f"{'best, no kills' if kills else 'next, no kills'}: {name}"
        mark = " ▲" * starves(answer, k)
        if o.payers.killed is not None:
            needs = f"kills {percent(o.payers.killed.share)} of jobs"
    longest = f"{duration(row.max_wait_s)}{mark}"
    return name, duration(row.mean_wait_s), longest, slowdown(row.mean_bsld), needs


def brief(answer: WhatIf, limit: Limit, chosen: int | None = None) -> dict[str, str]:
    """What to know about the advice under a limit, or about another choice: a line each, by what it is about."""
    k = answer.shown(limit) if chosen is None else chosen
    o = answer.outcomes[k]
    found = {
        "Why": why_text(answer, limit) if chosen is None else "",
        "Price": price_text(answer, limit) if chosen is None else "",
        "Cap": cost_text(answer.cost, ran=answer.logged is not None) if answer.cost else "",
        "Tested": "" if chosen is None else tested_text(answer, k),
        "System": system_text(answer, k),
        "Confidence": confidence_text(answer, limit) if chosen is None else "",
        "Promise": kept_text(answer, k),
        "Who pays": pays_text(o.payers) if k else "",
        "Kills": kills_text(o),
        "Loses most": job_text(o.payers.job),
        "Of the users": users_of(o.payers),
        **log_lines(answer),
    }
    return {name: text for name, text in found.items() if text}


def log_lines(answer: WhatIf) -> dict[str, str]:
    """What of the log is not replayed, and how far its real waits are from the simulated ones."""
    site = answer.site
    left = []
    for reason, number in site.left_out.items():
        gone = f"; {count(site.cancelled)} cancelled" if reason == REASONS[NO_RUN_TIME] and site.cancelled else ""
        left.append(f"{count(number)} of {count(site.rows)} rows ({reason}{gone})")
    left += [*site.imported[:MOST_NOTES]] + [f"{len(site.imported) - MOST_NOTES} more kinds"] * (
        len(site.imported) > MOST_NOTES
    )
    left += [f"{things(site.wide, 'job')} wider than the machine"] * bool(site.wide)
    return {
        "Left out": f"{'; '.join([*(left or ['no row of the log']), places_text(site.places)]).removesuffix('; ')}.",
        "Not modelled": unmodelled_text(site, limited=answer.cost is not None),
        "Real waits": fidelity_text(answer),
    }


SLURM_MODEL = " With `sacct -P` as LOG and `--slurm-conf slurm.conf` they are."


def unmodelled_text(site: SiteLog, *, limited: bool) -> str:
    """What of the log is not modelled, and how a site's Slurm would be, without limits; "" if nothing is missed."""
    more = "" if limited or site.system not in (None, "slurm") else SLURM_MODEL
    return f"{'; '.join(site.unmodelled)}: jobs are replayed in one queue.{more}" * bool(site.unmodelled)


def places_text(places: Mapping[str, int]) -> str:
    """The partitions and queues of which there is one, or none known; the others are said not to be modelled."""
    said = [f"one {place}" if number else f"{place} unknown" for place, number in places.items() if number <= 1]
    return ", ".join(said)


def why_text(answer: WhatIf, limit: Limit) -> str:
    """Why the headline says what it says."""
    said = [f"{first_upper(caution)}." for caution in answer.invented]
    if answer.undecided:
        seen = f"Least slowdown seen, perhaps by chance: {short(answer.outcomes[answer.best_seen])}."
        if answer.unseen and not answer.too_short:
            seen = "`batfill fidelity` looks for causes."
        why = answer.undecided.partition(": ")[2] or answer.undecided  # the headline has what is before
        said += [f"{first_upper(why)}.", seen]
    elif limit.advised:
        said.append(chosen_text(answer, limit))
    else:
        said.append(f"{first_upper(nothing_text(answer, limit))}.")
    return " ".join(said)


def chosen_text(answer: WhatIf, limit: Limit) -> str:
    """What the advised choice was chosen by, which choices are as good, and which has less slowdown."""
    least = answer.outcomes[limit.by_slowdown]
    within = "whatever the longest wait"
    if limit.growth is not None:
        within = f"waits up to {duration(limit.longest_s)} (fcfs's + {setting(limit.growth)})"
    said = f"least slowdown beyond chance, {within}"
    if limit.by_slowdown != limit.advised:
        out = f"without {short(least)} ({slowdown(least.mean_bsld)}): {short(answer.outcomes[answer.outdoing(limit)])}"
        return (
            f"{said}, {out} asks less of a site, with a shorter mean and no longer a longest wait "
            "(`--advise-by slowdown` lifts this)."
        )
    said += passed_over_text(answer, limit)
    if not limit.equals:
        return f"{said}."
    others = listed([short(answer.outcomes[k]) for k in limit.equals])
    mine, shortest = answer.outcomes[limit.advised], "has the shortest longest wait"
    same = [k for k in limit.equals if answer.outcomes[k].effort == mine.effort]
    cause = shortest if limit.growth is None else f"asks as little as any, and {shortest}" if same else "asks least"
    return f"{said}. As good, as far as this log can tell: {others}; this one {cause}."


def price_text(answer: WhatIf, limit: Limit) -> str:
    """That the best choice without kills has the shorter mean wait, if the advice kills; else ""."""
    k = None if answer.undecided else answer.runner_up(limit)
    mine = answer.outcomes[limit.advised]
    if k is None or mine.effort != KILLS or answer.outcomes[k].mean_wait_s >= mine.mean_wait_s:
        return ""
    o = answer.outcomes[k]
    return f"{short(o)} has the shorter mean wait, slowdown {slowdown(o.mean_bsld)}, and kills nothing."


def cost_text(cost: Cost, *, ran: bool) -> str:
    """What limits cost fcfs, who pays, how many jobs never fit, and what the log used, if it is of jobs that `ran`."""
    found, users = cost.longer, cost.payers.users
    said = f"{cost.text} leaves fcfs's mean wait as it is"
    if found.value or cost.payers.jobs.longer:
        ends = interval_text(found, lambda longer_s: growth(longer_s, 0) if longer_s else "0")
        between = f"{percent(CONFIDENCE)} interval {ends}"
        few = f"{found.blocks} groups of correlated weeks"
        between += f", which may be too narrow: it rests on {few}" * found.narrow
        said = f"{cost.text}: fcfs's mean wait **{growth(found.value, 0)}**"
        said += f" ({between if found.bounded else 'too few weeks for an interval'})"
        said += f"; {percent(cost.payers.jobs.share)} of jobs"
        said += f", {users_text(users)} users with {FEWEST_JOBS} or more," if users else ""
        said += f" wait over {LONGER} longer"
    said += f"; left out: {things(cost.left_out, 'job')} that would never fit" * bool(cost.left_out)
    if not ran:
        return f"{said}."
    used = in_a_row([most if len(cost.used) == 1 else f"{most} of {name}" for name, most in cost.used.items()])
    return f"{said}. The log's own starts {f'used up to {used}' if used else 'are without it'}."


def passed_over_text(answer: WhatIf, limit: Limit) -> str:
    """Which choices within the limit have less slowdown than the advised one, and why they are not taken; or ""."""
    most, whys = answer.outcomes[limit.advised].mean_bsld, dict[str, list[str]]()
    for k, o in enumerate(answer.outcomes):
        if o.mean_bsld < most and limit.allows(o):
            never = f"{SYSTEMS[answer.settings['system']]} cannot do it" if k in answer.withheld else ""
            if why := never if answer.gain(k).verdict == BETTER else "the gain may be chance":
                whys.setdefault(why, []).append(f"{short(o)} ({slowdown(o.mean_bsld)})")
    return "".join(f"; {listed(names)} would be lower, but {why}" for why, names in whys.items())


def nothing_text(answer: WhatIf, limit: Limit) -> str:
    """Why the advice under a limit is to keep fcfs, and which choices are lower although they are not advised."""
    system, fcfs = answer.settings["system"], answer.outcomes[0]
    if not answer.offered:
        return f"{SYSTEMS[system]} can do none of the other choices"
    if limit.by_slowdown:
        least = answer.outcomes[limit.by_slowdown]
        return (
            f"{short(least)} ({own_figures(answer, limit.by_slowdown)}) would have less slowdown than fcfs "
            f"({slowdown(fcfs.mean_bsld)}), but a longer mean wait and no shorter longest wait "
            "(`--advise-by slowdown` takes it)"
        )
    said = "no choice that was tested is better"
    if answer.withheld:
        said = f"nothing that {SYSTEMS[system]} can be configured for is better"
    within = {k: o for k, o in enumerate(answer.outcomes) if k and limit.allows(o) and o.mean_bsld < fcfs.mean_bsld}
    sure = [k for k in within if answer.gain(k).verdict == BETTER]
    least_gain = answer.settings["min_gain"]
    said += f" by at least {setting(least_gain)}" * any(k not in answer.withheld for k in sure) + " beyond chance"
    if best := answer.limits[-1].advised:
        more = f"{short(answer.outcomes[best])}: {growth_of(answer, best)}"
        said += f" and keeps the longest wait within {duration(limit.longest_s)} ({more})"
    return said


def tested_text(answer: WhatIf, k: int) -> str:
    """Whether a choice that is not the advice differs from fcfs beyond chance."""
    if not k:
        return "All other choices are compared with this one."
    found = answer.gain(k).verdict
    if found == UNCLEAR:
        return "Its slowdown may differ from that of fcfs by chance."
    return f"Its slowdown is {found} than fcfs's beyond chance."


def system_text(answer: WhatIf, k: int) -> str:
    """What the batch system given can do of a choice; without one, what each can."""
    o, said = answer.outcomes[k], []
    for name, title in SYSTEMS.items():
        if k and answer.settings["system"] in (None, name):
            lacks = configuration(name, o.options)[1]
            said.append(f"{title}: {lacks}" if lacks else f"{title} takes a few lines (--details)")
    return f"{'; '.join(said)}. {UNCOMPARED}" if said else ""


def configuration_lines(options: Mapping[str, Any]) -> str:
    """The lines that make a choice, of each batch system."""
    found = {title: configuration(name, options) for name, title in SYSTEMS.items()}
    return "\n".join(f"# {title}{f': {lacks}' if lacks else ''}\n{lines}" for title, (lines, lacks) in found.items())


def confidence_text(answer: WhatIf, limit: Limit) -> str:
    """How sure the gain of the advised choice is; "" without one."""
    found = answer.confidence(limit)
    if not found:
        return ""
    said = f"**{found}** that slowdown is below fcfs's (p {p_text(answer.gain(limit.advised))})"
    elsewhere = answer.promise_doubts(limit.advised)  # which has a line of its own
    return f"{'; '.join([said, *(why for _, why in answer.doubts(limit) if why not in elsewhere)])}."


def p_text(found: Paired) -> str:
    """The corrected p-value."""
    return f"{found.corrected_p:.2g}"


def kept_text(answer: WhatIf, k: int) -> str:
    """Whether a choice keeps the promise of first tries, and whether other seeds might differ; "" without one."""
    checks = answer.checks_of(k)
    if not checks:
        return ""
    doubts = answer.promise_doubts(k)
    where = [check.where.strip() or "here" for check in checks if check.kind != OVERLOADED and not check.broken]
    said = [f"kept {' and '.join(where)}"] * bool(where) + [f"▲{NB}{why}" for why in doubts]
    near = [f"{check.where}{', '.join(check.unsure.values())}" for check in checks if check.unsure]
    said += [f"other seeds might decide otherwise ({'; '.join(near)})"] * bool(near)
    most = promised_text(checks[0])
    return f"{f'{most}: ' if most else ''}{'; '.join(said)}."


def promised_text(check: Check) -> str:
    """What is promised on a log like this; "" if nothing is."""
    if check.kind == QUIET:
        return f"mean wait at most {QUIET_S:g}{NB}s longer"
    most = check.promised
    said = [f"slowdown (tau {BSLD_TAU_S:g}{NB}s) at most {most['bsld']:g} of fcfs's"] if "bsld" in most else []
    said += ["mean wait no longer"] * ("wait" in most)
    return ", ".join([*said, *([f"longest at most {most['longest']:g} times"] if "longest" in most else [])])


def pays_text(payers: Payers) -> str:
    """The share of jobs and the number of users that wait longer than under fcfs."""
    share, longer = percent(payers.jobs.share), f"wait over {LONGER} longer"
    if payers.users is None:
        return f"{share} of the jobs {longer}; the log names no users with {FEWEST_JOBS} jobs."
    return f"{share} of jobs, {users_text(payers.users)} users with {FEWEST_JOBS} or more, {longer}."


def users_text(changed: Changed) -> str:
    """How many users wait longer, of how many."""
    return f"{count(changed.longer)} of {count(sum(changed))}"


def kills_text(o: ChoiceFigures) -> str:
    """How many jobs a choice kills, and what they pay; "" if it kills none."""
    killed = o.payers.killed
    if killed is None:
        return ""
    return (
        f"{count(killed.jobs)} jobs once, {after_text(o)}, {percent(o.wasted)} of processor time; "
        f"{percent(killed.longer)} wait longer."
    )


def after_text(o: ChoiceFigures) -> str:
    """When a choice kills a try."""
    divider_s = Options.of(o.options).divider_s
    return f"after {duration(divider_s)}" if math.isfinite(divider_s) else "after their first try"


def who_text(job: OneJob) -> str:
    """A job with its width, request and user."""
    raised = ", raised to its run time" * job.raised
    request = "no request" if job.request_s is None else f"requested {duration(job.request_s)} in the log{raised}"
    whose = f"; user {job.user}" if job.user >= 0 else ""
    return f"{job.job} ({things(job.procs, 'processor').replace(' ', NB)}, {request}{whose})"


def job_text(job: OneJob | None) -> str:
    """The job that loses most, and why; "" if none does."""
    if job is None:
        return ""
    causes = [f"killed after {duration(job.ran_s)}"] if job.ran_s is not None else []
    if job.passed > job.passed_before:
        causes.append(f"passed by {things(job.passed, 'later job')} (fcfs: {count(job.passed_before)})")
    cause = in_a_row(causes) or "those before it ran at other times"
    return f"job {who_text(job)} waits {duration(job.after_s)} (fcfs: {duration(job.before_s)}), {cause}."


def users_of(payers: Payers) -> str:
    """The users who lose and gain most; "" if there are none."""
    said = [
        f"{user.user} {does} most, {duration(user.after_s)} (fcfs: {duration(user.before_s)})"
        for user, does in ((payers.user, "loses"), (payers.gainer, "gains"))
        if user is not None
    ]
    return f"{'; '.join(said)} on average." if said else ""


def fidelity_text(answer: WhatIf) -> str:
    """How near simulated waits are to those in the log and what explains the rest, or why that is not known."""
    score = answer.logged
    if score is None or score.ratio is None:
        return f"all waits are simulated. {first_upper(str(answer.fidelity))}."
    whose = f" ({answer.logged_whose})" if answer.logged_whose else ""
    means = f"mean {duration(score.logged_mean_s)}, longest {duration(score.logged_longest_s)}{whose} in the log"
    said = f"{means}; simulated ones are **{ratio_text(score.ratio)}** of them"
    if 1 / CLOSE <= score.ratio <= CLOSE:
        return f"{said}."
    near = answer.fidelity
    if near.explained is None or near.explained_ratio is None:
        return f"{said}; `batfill fidelity` finds no cause."
    most = ": most is unexplained" * (abs(1 - near.explained_ratio) > abs(1 - score.ratio) / 2)
    return f"{said}; with {near.explained}, {ratio_text(near.explained_ratio)}{most}."


# Details


def terms_text(answer: WhatIf) -> str:
    """What slowdown, tries and kills are, a sentence each."""
    said = (
        "**Slowdown**: wait plus run time, over the run time, of which less than "
        f"{answer.settings['tau_s']:g} s count as that many; the mean over all jobs, and 1 is the best."
    )
    o = next((o for o in answer.outcomes if o.effort == KILLS), None)
    if o is None:
        return said
    width = Options.of(o.options).small_width
    jobs = "every job" if width == 1 else f"every job of at most {setting(width)} of the processors"
    return (
        f"{said} **Try**: {jobs} first runs early for a short time. **Kill**: if other jobs need its processors "
        f"{after_text(o)}, it is stopped, loses what it has done, and starts again from its beginning later."
    )


def difference(value: float) -> str:
    """A difference of slowdowns."""
    return f"{value:+,.2f}".replace("-", MINUS)


def interval(found: Paired) -> str:
    """The interval of a difference of slowdowns, with its level."""
    if not found.bounded:
        return "too few weeks for an interval"
    return f"{percent(CONFIDENCE)} interval, corrected like p: {interval_text(found, difference)}"


def reaction_text(answer: WhatIf) -> str:
    """What the advice gains if users react; "" if that is not known."""
    found = answer.reaction
    if found is None:
        return ""
    return (
        "If users react, submitting a job within 20 min of the end of another of theirs, as in the log (feedback "
        f"{found.feedback}), its slowdown is {found.closed:.2f} of fcfs's, not {found.open:.2f}."
    )


def spread_text(answer: WhatIf, limit: Limit) -> str:
    """Whether chance can take the longest wait of the advised choice above the limit; "" if not, or if not known."""
    checks = answer.checks_of(limit.advised)
    if answer.undecided or not checks:
        return ""
    longest, fcfs_s = checks[0].ratios[:, Figures._fields.index("longest")], answer.outcomes[0].max_wait_s
    if longest.max() * fcfs_s <= limit.longest_s:
        return ""
    part = "" if longest.min() * fcfs_s > limit.longest_s else "in part "
    over = f"{longest.min():.2f} to {longest.max():.2f} times fcfs's, {part}above this limit"
    return f"With submissions moved by up to a minute the longest wait was {over}."


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
    found += [waste_text(o) for o in answer.outcomes if o.effort == KILLS]
    return found + [promise_text(check, o.name) for k, o in enumerate(answer.outcomes) for check in answer.checks_of(k)]


def waste_text(o: ChoiceFigures) -> str:
    """The cost of a choice's kills, and a killed job whose wait changes by the median."""
    bound = math.ceil(round(1e4 * (o.most_wasted or 0), 6)) / 1e4  # not rounded down: it is a promise
    most = "" if o.most_wasted is None else f"; whatever is killed, at most {setting(bound)} of the work without kills"
    killed = "" if o.payers.killed is None else f" {killed_text(o.payers.killed.example)}"
    return (
        f"{o.name}: {count(o.kills)} tries are killed {after_text(o)} and start again: here "
        f"{percent(o.wasted)} of the processor time used{most}.{killed} Inform users before, and exempt jobs that must "
        "not start twice."
    )


def killed_text(job: OneJob) -> str:
    """How long a killed job waits."""
    return f"Typical: job {who_text(job)} waits {duration(job.after_s)} in all (fcfs: {duration(job.before_s)})."


def promise_text(made: Check, name: str) -> str:
    """Whether these tries keep their promise, with the spread over the seeds; two sentences."""
    where = "on this log"
    if made.load != 1:
        where = f"at {percent(made.load - 1)} more load (times between submissions divided by {made.load:g})"
    seeds = f"{len(made.base)} pairs of replays whose submissions are moved by up to {MOVED_S} s"
    fcfs = Figures(*made.base.mean(axis=0))
    log = f"fcfs's mean bounded slowdown is {fcfs.bsld:.1f} (tau {BSLD_TAU_S:g} s), its mean wait {duration(fcfs.wait)}"
    if made.kind == OVERLOADED:
        ratios = Figures(*made.ratios.mean(axis=0))
        over = f"In {seeds} they have {ratios.bsld:.2f} of fcfs's slowdown and {ratios.wait:.2f} of its mean wait"
        ends = f"the promise ends at {duration(OVERLOADED_S)}"
        return f"{first_upper(name)} promise nothing {where}: {log}, and {ends}. {over}."
    if made.kind == QUIET:
        most = f"at most {QUIET_S:g} s longer is promised where the mean bounded slowdown is at most {BUSY_BSLD:g}"
        found = [f"mean wait {made.longer_s:+.1f} s ({most})"]
    else:
        found = [
            f"{WORDS[name]} {column.mean():.3f} ({column.min():.3f} to {column.max():.3f}; at most {most:g})"
            for name, most in made.promised.items()
            for column in [made.ratios[:, Figures._fields.index(name)]]
        ]
    verdict = f"broken {where} ({'; '.join(made.broken.values())})" if made.broken else f"kept {where}"
    near = f" Other seeds might decide otherwise: {'; '.join(made.unsure.values())}." if made.unsure else ""
    return f"The promise of {name} is {verdict}. Over fcfs's, in {seeds}: {', '.join(found)}. There {log}.{near}"


def options_words(options: Mapping[str, Any]) -> str:
    """A choice's options on batfill's command line."""
    words = []
    for name, value in stated(options).items():
        if value is False:  # a flag that is not given
            continue
        words += (
            [f"--{name}"] if value is True else [f"--{name}", f"{value:.12g}" if name == "threshold" else str(value)]
        )
    return shlex.join(words)


def grade_text(answer: WhatIf) -> str:
    """The grade of the log, which is of a replay without the options that the choices share."""
    grade, plain = str(answer.fidelity), answer.fidelity.plain
    if answer.logged is not None and plain is not None and plain.simulated_mean_s != answer.logged.simulated_mean_s:
        grade = f"without the options given, {grade}"
    return f"{first_upper(grade)}."


def log_text(answer: WhatIf) -> str:
    """The log's jobs, machine and dates, and what the choices are compared with."""
    workload = answer.workload
    dates = submission_dates(workload.jobs.submit_s, workload.clock).replace(" ", NB).replace(f"{NB}to{NB}", " to ")
    return (
        f"{count(len(answer.comparison.at))} jobs on {count(workload.procs or 0)} processors, {dates}; compared with: "
        f"{answer.outcomes[0].words.lower()} (fcfs) with EASY backfilling, simulated"
    )


def by_slowdown(answer: WhatIf) -> list[int]:
    """The choices, lowest slowdown first."""
    return sorted(range(len(answer.outcomes)), key=lambda k: answer.outcomes[k].mean_bsld)


def equal_limits(answer: WhatIf) -> list[tuple[list[int], str]]:
    """The limits, neighbours with the same advice together, each time with the growths that they allow."""
    found = []
    for _, group in groupby(enumerate(answer.limits), lambda one: (one[1].advised, one[1].growth is None)):
        (run, limits) = map(list, zip(*group, strict=True))
        first, last = limits[0].growth, limits[-1].growth
        grown = "any" if first is None else setting(first)
        found.append((run, grown if first == last else f"{grown.removesuffix(f'{NB}%')} to {setting(last or 0)}"))
    return found


def looser_text(answer: WhatIf, i: int) -> str:
    """Why the slowdown is higher at the i-th limit than at the tighter one before; "" if it is not."""
    mine = answer.outcomes[answer.limits[i].advised]
    before = answer.outcomes[answer.limits[i - 1].advised] if i else mine
    if mine.mean_bsld <= before.mean_bsld:
        return ""
    why = "asks less of a site" if mine.effort < before.effort else "has the shorter longest wait"
    return f"as good as {short(before)}, and {why}"


def same_text(answer: WhatIf) -> str:
    """Why the advice is the same at every limit; "" if it is not, or if it is fcfs."""
    k, *others = {limit.advised for limit in answer.limits}
    if others or not k:
        return ""
    mine, offered = answer.outcomes[k], [answer.outcomes[j] for j in answer.offered]
    shortest = " and the shortest longest wait" * (mine.max_wait_s <= min(o.max_wait_s for o in offered))
    least = mine.mean_bsld <= min(o.mean_bsld for o in offered)
    why = f", because it has the least slowdown{shortest}" if least else ""
    return f"The advice is the same at every limit{why}."


def limit_lines(answer: WhatIf, width: int) -> list[str]:
    """The advice at each limit, a line for neighbouring limits with the same advice."""
    head = "longest wait may grow by"
    lines = [f"{head:24}  {'take':{width}}  {'mean wait':>11}  {'longest wait':>12}  slowdown"]
    for run, grown in equal_limits(answer):
        o = answer.outcomes[answer.limits[run[0]].advised]
        lines.append(
            f"{'* ' if answer.given in run else '  '}{grown:22}  {o.name:{width}}  {duration(o.mean_wait_s):>11}"
            f"  {duration(o.max_wait_s):>12}  {slowdown(o.mean_bsld):>8}"
        )
        if why := looser_text(answer, run[0]):
            lines.append(f"{'':24}  {why}")
    return [*lines, *map(lines_of, filter(None, [same_text(answer)]))]


# The terminal


def answer_text(answer: WhatIf, *, details: bool = False) -> str:
    """For a terminal of 80 columns and 24 lines: the first screen, behind all `details` if they are wanted."""
    lines = [*detail_lines(answer), ""] * details + first_lines(answer)
    return "\n".join(lines).replace(NB, " ")


def first_lines(answer: WhatIf) -> list[str]:
    """The log, the headline, the table, and a line each for what else to know."""
    log = log_text(answer).partition("; ")[0]
    rows = [HEAD, *(cells(answer, answer.limit, row) for row in answer.rows(answer.limit))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD) - 1)]
    gap = "  " if sum(widths) + 2 * len(widths) + max(len(row[-1]) for row in rows) <= COLUMNS else " "
    table = [
        gap.join([f"{row[0]:{widths[0]}}", *map(str.rjust, row[1:-1], widths[1:]), row[-1]]).rstrip() for row in rows
    ]
    less = OF_CHOICES if answer.cost else ()  # the screen is full
    said = [f"{name}: {text}" for name, text in brief(answer, answer.limit).items() if name not in less]
    return [
        filled(f"{log_name(answer.workload.name)}: {log}"),
        *(filled(f"Warning: {text}.") for text in answer.workload.size_warnings),
        filled(headline(answer, answer.limit)),
        *table,
        *map(filled, said),
        "All choices, limits and statistics: --details; as a page: --out FILE.html",
    ]


def filled(text: str) -> str:
    """A paragraph in lines of `COLUMNS`, all but the first indented."""
    words = text.replace("**", "").replace("`", "")
    return fill(words, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def detail_lines(answer: WhatIf) -> list[str]:
    """All choices, the advice at each limit, and what the statistics rest on."""
    width = max(len(outcome.name) for outcome in answer.outcomes) + 2
    lines = [f"{'':{width}}  {'mean wait':>12}  {'longest wait':>14}  slowdown  jobs longer  users longer"]
    for k in by_slowdown(answer):
        o, advised = answer.outcomes[k], k == answer.limit.advised and not answer.undecided
        longest = f"{duration(o.max_wait_s)}{' ▲' if starves(answer, k) else '  '}"
        users = "" if o.payers.users is None else users_text(o.payers.users)
        longer = f"{percent(o.payers.jobs.share):>11}  {users:>12}" if k else ""
        lines.append(
            f"{'* ' if advised else '  '}{o.name:{width - 2}}  {duration(o.mean_wait_s):>12}  {longest:>14}"
            f"  {slowdown(o.mean_bsld):>8}  {longer}".rstrip()
        )
    flagged = any(starves(answer, k) for k in by_slowdown(answer))
    marks = [
        "* advised" if not answer.undecided else "",
        f"▲ over {STARVED:g} times fcfs's longest wait" if flagged else "",
        f"longer: jobs by over {LONGER}, and users with at least {FEWEST_JOBS} jobs whose mean wait grows by as much",
        "" if answer.outcomes[0].payers.users else "the log names no such users",
    ]
    lines.append(lines_of("; ".join(filter(None, marks))))
    if not answer.undecided:
        lines += ["", *limit_lines(answer, width)]
    said = [*notes(answer), spread_text(answer, answer.limit)]
    if not answer.undecided and answer.limit.advised:
        found = answer.gain(answer.limit.advised)
        said += [f"Against fcfs: slowdown {difference(found.value)}, {interval(found)}.", reaction_text(answer)]
    if answer.logged is not None:
        said.append(grade_text(answer))
    lines += ["", *map(lines_of, filter(None, [*said, terms_text(answer)]))]
    o = answer.outcomes[answer.shown(answer.limit)]
    return [*lines, "", f"Configuration of {o.name}", *configuration_lines(o.options).splitlines()]


def lines_of(text: str) -> str:
    """A paragraph in the lines of a terminal; what stands in backquotes is not torn."""
    kept = re.sub("`[^`]*`", lambda quoted: quoted[0].replace(" ", NB), text.replace("**", ""))
    return wrapped(kept)
