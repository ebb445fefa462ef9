"""The answer of `what_if` in sentences, and as text for the terminal.

In sentences **bold** and `code` are marked, and durations hold no-break spaces; `lines_of` takes that out.
"""

from __future__ import annotations

import math
import re
import shlex
from itertools import chain, groupby
from typing import TYPE_CHECKING

from batfill.base.stats import BETTER, CONFIDENCE, WORSE
from batfill.base.words import in_a_row, things, wrapped
from batfill.base.words import percent as in_percent
from batfill.model.options import ALL, REPLAYED, Options, arguments_of
from batfill_pages.comparison import CHANGED_S, FEWEST_JOBS
from batfill_pages.comparison_page import STARVED
from batfill_pages.words import count, interval_text, slowdown, submission_dates
from batfill_pages.words import duration_html as duration
from batfill_site.advice.promise import BUSY_BSLD, MOVED_S, OVERLOADED, OVERLOADED_S, QUIET, QUIET_S, WORDS, Figures
from batfill_site.advice.promise import TAU_S as BSLD_TAU_S
from batfill_site.advice.what_if import CLEARLY, KILLS, PLAINER, stated
from batfill_site.config.systems import APPROXIMATE, EXPRESSIBLE, IMPOSSIBLE, SYSTEMS, site_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batfill.base.stats import Paired
    from batfill_site.advice.promise import Check
    from batfill_site.advice.what_if import Changed, Choice, ChoiceFigures, Limit, WhatIf
    from batfill_site.config.systems import SiteConfig

MINUS = "\u2212"
NB = "\u00a0"  # keeps a number and its unit on one line
MOST_NAMES = 5  # of choices in a sentence
LONGER = f"{CHANGED_S / 60:g} min"


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


def named(outcome: ChoiceFigures) -> str:
    """The choice in words within a sentence, with its name: smallest area first (saf)."""
    words = f"{outcome.words[:1].lower()}{outcome.words[1:]}"
    return f"**{words} ({outcome.name.replace(' ', NB)})**"


def figures_text(answer: WhatIf, k: int) -> str:
    """Mean wait, longest wait and slowdown of a choice, with fcfs's, and the mean wait in the log."""
    o, fcfs = answer.outcomes[k], answer.outcomes[0]
    grown = growth_of(answer, k)
    more = f"; {grown}" if grown else ""
    return (
        f"mean wait {duration(o.mean_wait_s)} (fcfs, simulated: {duration(fcfs.mean_wait_s)}{logged_text(answer)}), "
        f"longest wait {duration(o.max_wait_s)} (fcfs: {duration(fcfs.max_wait_s)}{more}), slowdown "
        f"{slowdown(o.mean_bsld)}{NB}(fcfs: {slowdown(fcfs.mean_bsld)})"
    )


def own_figures(answer: WhatIf, k: int) -> str:
    """Mean wait, longest wait with its growth over fcfs's, and slowdown of a choice."""
    o, grown = answer.outcomes[k], growth_of(answer, k)
    grown = grown.replace(" (", ", ").removesuffix(")")
    longest = f"{duration(o.max_wait_s)}{f' ({grown})' if grown else ''}{' ▲' if starves(answer, k) else ''}"
    return f"mean wait {duration(o.mean_wait_s)}, longest wait {longest}, slowdown {slowdown(o.mean_bsld)}"


def logged_text(answer: WhatIf) -> str:
    """The mean wait in the log, behind fcfs's; "" if it is unknown."""
    score = answer.logged
    return "" if score is None else f"; in the log: {duration(score.logged_mean_s)}"


def growth_of(answer: WhatIf, k: int) -> str:
    """How much longer than fcfs's the longest wait is, as duration and percentage; "" if it is as long."""
    fcfs_s, more_s = answer.outcomes[0].max_wait_s, answer.outcomes[k].max_wait_s - answer.outcomes[0].max_wait_s
    if not more_s or not fcfs_s:
        return longer_text(more_s) if more_s else ""
    share = 100 * more_s / fcfs_s
    words = f"{share:+,.0f}" if abs(share) >= 1 else f"{share:+.1g}"
    return f"{longer_text(more_s)} ({words}{NB}%)".replace("-", MINUS)


def longer_text(seconds: float) -> str:
    """A difference of waits, to the minute if it is that long."""
    size_s = abs(seconds)
    return f"{MINUS if seconds < 0 else '+'}{duration(60 * round(size_s / 60) if size_s >= 60 else size_s)}"


def fcfs_text(answer: WhatIf) -> str:
    """The figures of fcfs as simulated, with the mean wait in the log."""
    o, logged = answer.outcomes[0], logged_text(answer).replace("; ", " (", 1)
    return (
        f"fcfs, simulated: mean wait {duration(o.mean_wait_s)}{logged}{')' * bool(logged)}, longest wait "
        f"{duration(o.max_wait_s)}, slowdown {slowdown(o.mean_bsld)}"
    )


def advice_text(answer: WhatIf, limit: Limit) -> str:
    """The advice under a limit, first sentence of the page and last but few of the terminal's text."""
    k = limit.advised
    if answer.undecided:
        k = best_seen(answer)
        seen = f"Least slowdown seen: {named(answer.outcomes[k])}, {figures_text(answer, k)}; it may be chance."
        said = [seen, *notes_on(answer, k)[: starves(answer, k)]]
        if answer.unseen and not answer.too_short:
            said = ["`batfill fidelity` looks for what the replay leaves out."]
        elif not k:
            said = [f"{first_upper(fcfs_text(answer))}."]
        return " ".join([f"Cannot tell: {answer.undecided}.", *said])
    if k:
        return " ".join([f"Take {named(answer.outcomes[k])}: {figures_text(answer, k)}.", *notes_on(answer, k)])
    return f"Keep {named(answer.outcomes[0])}: {nothing_text(answer, limit)}. {first_upper(fcfs_text(answer))}."


def nothing_text(answer: WhatIf, limit: Limit) -> str:
    """Why the advice under a limit is to keep fcfs, and which choices are lower although they are not advised."""
    system, fcfs = answer.settings["system"], answer.outcomes[0]
    if not any(answer.chains):
        return f"{system} can do none of the other choices"
    said = "no choice that was tested is better"
    if answer.withheld:
        said = f"nothing that {SYSTEMS[system].title} can do in full is better"
    within = {k: o for k, o in enumerate(answer.outcomes) if k and limit.allows(o) and o.mean_bsld < fcfs.mean_bsld}
    sure = [k for k in within if answer.bsld[0][k].verdict == BETTER]
    least = answer.settings["min_gain"]
    said += f" by at least {setting(least)}" * any(k not in answer.withheld for k in sure) + " beyond chance"
    if best := answer.limits[-1].advised:
        more = f"{answer.outcomes[best].name.replace(' ', NB)}: {growth_of(answer, best)}"
        said += f" and keeps the longest wait within {duration(limit.longest_s)} ({more})"
    gained = {k: o for k, o in within.items() if o.mean_bsld <= (1 - least) * fcfs.mean_bsld}
    near = [o.name for k, o in gained.items() if k in sure and k in answer.withheld and nearly(o, system)]
    if near:
        them = "it" if len(near) == 1 else "them"
        said += f"; {listed(near)} would be, but {SYSTEMS[system].title} can do {them} only approximately"
    if left := [k for k in gained if answer.stopped_by(k) is not None]:
        k = min(left, key=lambda k: gained[k].mean_bsld)
        said += (
            f"; {gained[k].name} is lower{' within the limit' * (limit.growth is not None)}, but was not tested, "
            f"because {failed_text(answer, k)}"
        )
    return said


def nearly(outcome: ChoiceFigures, system: str) -> bool:
    """Whether the system can do the choice itself, but for some details."""
    one = configurations(outcome)[system]
    return one.verdict == APPROXIMATE and not one.gives


def failed_text(answer: WhatIf, k: int) -> str:
    """Which comparison failed before the one of this choice, so that it was not tested."""
    before = answer.outcomes[answer.stopped_by(k) or 0].name
    return f"{before}, planned before it, may differ from fcfs by chance"


def first_upper(text: str) -> str:
    """The sentence with a capital letter, unless it begins with fcfs."""
    return text if text.startswith("fcfs") else f"{text[:1].upper()}{text[1:]}"


def best_seen(answer: WhatIf) -> int:
    """The choice with the least slowdown, of those that the system can do; fcfs if it can do none."""
    offered = [k for k in range(len(answer.outcomes)) if k not in answer.withheld] or [0]
    return min(offered, key=lambda k: answer.outcomes[k].mean_bsld)


def trial_text(answer: WhatIf, k: int) -> str:
    """What a choice would do that is not the advice."""
    o = answer.outcomes[k]
    if not k:
        return f"{named(o).replace('**f', '**F', 1)}, the order that all others are compared with. {fcfs_text(answer)}."
    found = answer.bsld[0].get(k)
    sure = {BETTER: "surely lower than", WORSE: "surely higher than"}.get(found.verdict if found else "")
    said = f"Its slowdown is {sure} that of fcfs." if sure else "Its slowdown may differ from that of fcfs by chance."
    if answer.stopped_by(k) is not None:
        said = f"It was not tested, because {failed_text(answer, k)}."
    return " ".join([f"If you took {named(o)}: {figures_text(answer, k)}.", said, *notes_on(answer, k)])


def notes_on(answer: WhatIf, k: int) -> list[str]:
    """What to know about a choice beside its figures: starvation and kills."""
    o, found = answer.outcomes[k], []
    if starves(answer, k):
        found.append(f"▲{NB}Some jobs may starve.")
    if o.kills:
        found.append(
            f"{things(o.kills, 'job')} {'are' if o.kills > 1 else 'is'} stopped {after_text(o)} once and start"
            f"{'s' * (o.kills == 1)} again from the beginning: {percent(o.wasted)} of the processor time is lost."
        )
    return [*found, *(f"▲{NB}{first_upper(why)}." for why in answer.promise_doubts(k))]


def after_text(o: ChoiceFigures) -> str:
    """When a choice kills a try."""
    divider_s = Options.of(o.options).divider_s
    return f"after {duration(divider_s)}" if math.isfinite(divider_s) else "after their first try"


def starves(answer: WhatIf, k: int) -> bool:
    """Whether the longest wait is so much longer than fcfs's that some jobs may starve."""
    return answer.outcomes[k].max_wait_s > STARVED * answer.outcomes[0].max_wait_s


def tie_text(answer: WhatIf, limit: Limit) -> str:
    """Which choices cannot be told from the advised one, and why that one is taken; "" if there are none."""
    mine, others = answer.outcomes[limit.advised], [answer.outcomes[k] for k in limit.equals]
    if not others:
        return ""
    harder = [o for o in others if limit.growth is not None and o.effort > mine.effort]
    longer = [o for o in others if o not in harder]
    parts = []
    if harder:
        parts.append(f"{listed([o.name for o in harder])}, which ask{'s' * (len(harder) == 1)} more of a site")
    if longer:
        waits = listed([f"{o.name} ({duration(o.max_wait_s)})" for o in longer])
        parts.append(f"{waits}, whose longest wait{' is' if len(longer) == 1 else 's are'} no shorter")
    said = f"As far as this log can tell, as good: {'; '.join(parts)}."
    if limit.growth is None:
        said += " Without a limit, of choices whose slowdowns do not differ surely, the shortest longest wait decides."
    return said


def confidence_text(answer: WhatIf, limit: Limit) -> str:
    """How sure the gain of the advised choice is, and whether chance can take it above the limit; "" without one."""
    found, checks = answer.confidence(limit), answer.checks_of(limit.advised)
    if not found:
        return ""
    doubts, name = answer.doubts(limit), answer.outcomes[limit.advised].name.replace(" ", NB)
    said = f"**Confidence: {found}** that slowdown is lower under {name} than under fcfs, simulated."
    if doubts:
        why = "; ".join(why.partition(" (")[0] for _, why in doubts)
        said = f"**Confidence: {found}**, although slowdown is lower under {name} than under simulated fcfs: {why}."
    if not checks:
        return said
    longest = checks[0].ratios[:, Figures._fields.index("longest")]
    if longest.max() * answer.outcomes[0].max_wait_s <= limit.longest_s:
        return said
    over = f"{longest.min():.2f} to {longest.max():.2f}"
    part = "" if longest.min() * answer.outcomes[0].max_wait_s > limit.longest_s else "in part "
    over += f" times fcfs's, {part}above this limit"
    return f"{said} With submissions moved by up to a minute the longest wait was {over}."


def fidelity_text(answer: WhatIf) -> str:
    """How near simulated waits are to those in the log, or why that is not known."""
    score = answer.logged
    if score is None or score.ratio is None:
        return f"All waits are simulated. {first_upper(str(answer.fidelity))}."
    return (
        f"All waits are simulated; under fcfs they are **{score.ratio:.2f}** of the logged ones. Compare the choices; "
        "do not expect these durations."
    )


def grade_text(answer: WhatIf) -> str:
    """The grade of the log, which is of a replay without the options that the choices share."""
    grade, plain = str(answer.fidelity), answer.fidelity.plain
    if answer.logged is not None and plain is not None and plain.simulated_mean_s != answer.logged.simulated_mean_s:
        grade = f"without the options given, {grade}"
    return f"{first_upper(grade)}."


def runner_up_text(answer: WhatIf, limit: Limit) -> str:
    """The best choice under the limit that needs no kills, with its figures and who pays; "" if the advice has none."""
    k = answer.without_kills(limit)
    if k is None:
        return ""
    if not k:
        return "Without kills, no choice that was tested is better beyond chance within the limit."
    found = {} if answer.settings["system"] else configurations(answer.outcomes[k])  # a system given can do it
    unable = [SYSTEMS[name].title for name, one in found.items() if one.verdict != EXPRESSIBLE]
    where = f", not in full on {listed(unable)}:" if unable else ","
    return f"Without kills: {named(answer.outcomes[k])}{where} {own_figures(answer, k)}. {pays_text(answer, k)}"


def pays_text(answer: WhatIf, k: int) -> str:
    """Who pays under a choice: the share of jobs that wait clearly longer, and the job that loses most."""
    o = answer.outcomes[k]
    share = f"{100 * o.clearly_longer / len(answer.comparison.at):.2g}{NB}%"
    said = f"{share} of the jobs wait longer by the stricter rule, over {LONGER} and over {percent(CLEARLY)}."
    if (most := o.most_delayed) is None:
        return said
    return f"{said} Job {most.job} loses most: it waits {duration(most.after_s)}, not {duration(most.before_s)}."


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


def difference_text(found: Paired) -> str:
    """A difference of slowdowns with its interval and p-value."""
    ends = interval_text(found, difference)
    interval = f"{percent(CONFIDENCE)} interval {ends}" if found.bounded else "too few weeks for an interval"
    return f"slowdown {difference(found.value)}, {interval}, p {found.corrected_p:.2g}"


def difference(value: float) -> str:
    """A difference of slowdowns."""
    return f"{value:+,.2f}".replace("-", MINUS)


def plan_text(answer: WhatIf) -> str:
    """The comparisons with fcfs, planned before the log is read, and their number."""
    chains = [", then ".join(answer.outcomes[k].name for k in one) for one in answer.chains]
    counted = f"{len(chains)} planned comparison{'s' * (len(chains) != 1)} with fcfs"
    if not chains:
        return f"{counted}."
    then = "The next of each is tested only if the one before is beyond chance."
    if any(answer.picked == k for k in chain(*answer.chains)):
        name = answer.outcomes[-1].name
        then += f" The log picked {name} from {len(PLAINER)}, so their p is {len(PLAINER)} times as large."
    return f"{counted}, for which p is corrected: {'; '.join(chains)}. {then}"


def reaction_text(answer: WhatIf) -> str:
    """What the advice gains if users react; "" if that is not known."""
    found = answer.reaction
    if found is None:
        return ""
    return (
        "If users react, submitting a job within 20 min of the end of another of theirs, as in the log (feedback "
        f"{found.feedback}), its slowdown is {found.closed:.2f} of fcfs's, not {found.open:.2f}."
    )


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
    found += [kills_text(o) for o in answer.outcomes if o.effort == KILLS]
    found += [promise_text(check, o.name) for k, o in enumerate(answer.outcomes) for check in answer.checks_of(k)]
    return [*found, *([plainer_text(answer)] if answer.plainer else [])]


def kills_text(o: ChoiceFigures) -> str:
    """The cost of a choice's kills."""
    bound = math.ceil(round(1e4 * (o.most_wasted or 0), 6)) / 1e4  # not rounded down: it is a promise
    most = "" if o.most_wasted is None else f"; at most {setting(bound)} of the work, whatever is killed"
    return (
        f"{o.name}: {count(o.kills)} tries are killed {after_text(o)} and start again, "
        f"{percent(o.wasted)} of the processor time{most}. Inform users before, and exempt jobs that must not start "
        "twice."
    )


def plainer_text(answer: WhatIf) -> str:
    """Which plainer tries were checked, with their options, and what each broke."""
    said = []
    for one in answer.plainer:
        broken = [f"{check.where}{', '.join(check.broken.values())}" for check in one.checks if check.broken]
        does = f"break it ({'; '.join(broken)})" if broken else "keep it"
        said.append(f"{one.choice.name} (`{options_words(one.choice)}`) {does}")
    none = ", and none keeps the promise" if answer.picked is None else ""
    return f"First tries break their promise, so plainer ones were checked{none}: {'; '.join(said)}."


def promise_text(made: Check, name: str) -> str:
    """Whether these tries keep their promise, with the spread over the seeds; two sentences."""
    where = "on this log"
    if made.load != 1:
        where = f"at {percent(made.load - 1)} more load (times between submissions divided by {made.load:g})"
    seeds = f"{len(made.base)} pairs of replays whose submissions are moved by up to {MOVED_S} s"
    fcfs = Figures(*made.base.mean(axis=0))
    log = f"fcfs's mean bounded slowdown is {fcfs.bsld:.1f} (tau {BSLD_TAU_S:g} s), its mean wait {duration(fcfs.wait)}"
    if made.kind == OVERLOADED:
        return f"{first_upper(name)} promise nothing {where}: {log}, and the promise ends at {duration(OVERLOADED_S)}."
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
    return f"The promise of {name} is {verdict}. Over fcfs's, in {seeds}: {', '.join(found)}. There {log}."


def options_words(outcome: Choice | ChoiceFigures) -> str:
    """The choice's options on batfill's command line."""
    words = []
    for name, value in stated(outcome.options).items():
        if value is False:  # a flag that is not given
            continue
        words += (
            [f"--{name}"] if value is True else [f"--{name}", f"{value:.12g}" if name == "threshold" else str(value)]
        )
    return shlex.join(words)


def configurable(outcome: ChoiceFigures) -> ChoiceFigures:
    """The choice without what only replays take."""
    return outcome._replace(options={name: value for name, value in outcome.options.items() if name not in REPLAYED})


def configurations(outcome: ChoiceFigures) -> dict[str, SiteConfig]:
    """The choice's configuration for every batch system, by name."""
    return {name: site_config(name, **arguments_of(configurable(outcome).options)) for name in SYSTEMS}


def files_as(answer: WhatIf, k: int, one: SiteConfig) -> int | None:
    """The choice that a system's files for the k-th one give; None if it is not among the choices."""
    if not one.gives:
        return k
    wanted = {name: value for name, value in one.given.items() if value is not None}
    if wanted.get("depth") == ALL:  # then no order of backfilling begins behind the last reservation
        wanted.pop("backfill", None)
    given = Options.of(wanted)
    return next((j for j, o in enumerate(answer.outcomes) if Options.of(configurable(o).options) == given), None)


def support_text(answer: WhatIf, k: int, name: str, found: Sequence[Mapping[str, SiteConfig]]) -> str:
    """Whether a system can do the k-th choice; if not, the nearest that it can do, with its own figures.

    `found` are the configurations of each choice.
    """
    o, one, title = answer.outcomes[k], found[k][name], SYSTEMS[name].title
    if one.verdict == EXPRESSIBLE:
        return f"**{title} can do {o.name} in full.**"
    if one.verdict == APPROXIMATE and not one.gives:
        return f"**{title} can do {o.name}, except:**"
    able = [j for j in sorted(chain(*answer.chains)) if found[j][name].verdict == EXPRESSIBLE]
    best, said = answer.best_of(answer.limit, able), ""
    near = files_as(answer, k, one) if one.files else best
    if one.files and near is None:
        said = f"These files give {one.words[:1].lower()}{one.words[1:]}: no figure here is theirs."
    elif near or found[0][name].verdict == EXPRESSIBLE:
        near = near or 0
        said = f"The nearest that it can do is {named(answer.outcomes[near])}: {own_figures(answer, near)}."
        said += f" These files give {answer.outcomes[near].name} alone." if one.files else ""
    if near != best and best:
        said += f" Better within the limit: {named(answer.outcomes[best])}, {own_figures(answer, best)}."
    elif near and not best:
        said += " Within the limit, nothing that it can do in full is better than fcfs beyond chance."
    return f"**{title} cannot do {o.name}.** {said}".rstrip()


def export_text(answer: WhatIf) -> str:
    """Which batch systems can be configured for the advised choice, and the command."""
    system, found, k = answer.settings["system"], [configurations(o) for o in answer.outcomes], answer.limit.advised
    words = options_words(configurable(answer.advice))
    mine = {name: one for name, one in found[k].items() if system in (None, name)}
    able = [SYSTEMS[name].title for name, one in mine.items() if one.verdict == EXPRESSIBLE]
    if not any(one.files for one in mine.values()):
        divider = f"--small class --divider {answer.outcomes[0].waits['small_below_s']:.12g}"
        return (
            "No batch system can be configured for this; `batfill schedule` runs it under Batsim. Nearest to it, "
            f"`batfill export-config SYSTEM {divider} --approximate` puts those jobs first that request little."
        )
    first = max(mine, key=lambda name: [IMPOSSIBLE, APPROXIMATE, EXPRESSIBLE].index(mine[name].verdict))
    said = [f"Configuration: `batfill export-config {first} {words}{'' if able else ' --approximate'}`."]
    said += [f"{listed(able)} can do it in full."] if able else []
    for name, one in mine.items():
        if one.verdict == APPROXIMATE:
            text = support_text(answer, k, name, found).removesuffix(":**")
            lacks = "; ".join(one.lacks)
            said.append(f"{text} The reason: {lacks}." if one.gives else f"{text}: {lacks}.")
    never = [SYSTEMS[name].title for name, one in mine.items() if one.verdict == IMPOSSIBLE]
    said += [f"{listed(never)} cannot do it."] if never else []
    return " ".join(said)


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


def share_text(changed: Changed | None, *, shares: bool) -> str:
    """How many wait longer, as a share or of how many; "" if it is not known."""
    if changed is None:
        return ""
    total = sum(changed)
    return f"{100 * changed.longer / total:.0f}{NB}%" if shares else f"{count(changed.longer)} of {count(total)}"


def answer_text(answer: WhatIf) -> str:
    """For a terminal: the choices and the advice at each limit in tables, notes, and the advice."""
    width = max(*(len(outcome.name) for outcome in answer.outcomes), len("in the log")) + 2
    lines = [
        lines_of(f"{answer.workload.name}: {log_text(answer)}."),
        *(lines_of(f"Warning: {text}.") for text in answer.workload.size_warnings),
        "",
        f"{'':{width}}  {'mean wait':>12}  {'longest wait':>14}  slowdown  jobs longer  users longer",
    ]
    for k in by_slowdown(answer):
        o, advised = answer.outcomes[k], k == answer.limit.advised and not answer.undecided
        longest = f"{duration(o.max_wait_s)}{' ▲' if starves(answer, k) else '  '}"
        longer = f"{share_text(o.jobs, shares=True):>11}  {share_text(o.users, shares=False):>12}" if k else ""
        lines.append(
            f"{'* ' if advised else '  '}{o.name:{width - 2}}  {duration(o.mean_wait_s):>12}  {longest:>14}"
            f"  {slowdown(o.mean_bsld):>8}  {longer}".rstrip()
        )
    if (score := answer.logged) is not None:
        logged = f"{duration(score.logged_mean_s):>12}  {duration(score.logged_longest_s):>12}"
        lines.append(f"  {'in the log':{width - 2}}  {logged}")
    flagged = any(starves(answer, k) for k in by_slowdown(answer))
    marks = [
        "* the advice" if not answer.undecided else "",
        f"▲ over {STARVED:g} times fcfs's longest wait" if flagged else "",
        f"longer: jobs by over {LONGER}; of the users with at least {FEWEST_JOBS} jobs, those whose mean wait is",
        "" if answer.outcomes[0].users else "the log names no such users",
    ]
    lines.append(lines_of("; ".join(filter(None, marks))))
    if not answer.undecided:
        lines += ["", *limit_lines(answer, width)]
    gains = bool(answer.limit.advised) and not answer.undecided
    said = [
        *(f"Warning: do not trust this advice: {caution}." for caution in answer.invented),
        advice_text(answer, answer.limit),
        f"Who pays: {pays_text(answer, answer.limit.advised)}" if gains else "",
        runner_up_text(answer, answer.limit),
        " ".join(filter(None, [confidence_text(answer, answer.limit), fidelity_text(answer)])),
    ]
    if not answer.undecided:
        said += [tie_text(answer, answer.limit)]
        if answer.limit.advised:
            difference = difference_text(answer.bsld[0][answer.limit.advised])
            said += [f"Against fcfs: {difference}; {plan_text(answer)}", reaction_text(answer), export_text(answer)]
    if answer.logged is not None:  # without one, the reason is above
        said.append(grade_text(answer))
    noted = list(map(lines_of, notes(answer)))
    lines += [*(["", *noted] if noted else []), "", *map(lines_of, filter(None, said))]
    return "\n".join(lines).replace(NB, " ")


def lines_of(text: str) -> str:
    """A paragraph in the lines of a terminal; what stands in backquotes is not torn."""
    kept = re.sub("`[^`]*`", lambda quoted: quoted[0].replace(" ", NB), text.replace("**", ""))
    return wrapped(kept)


def equal_limits(answer: WhatIf) -> list[tuple[list[int], str]]:
    """The limits, neighbours with the same advice together, each time with the growths that they allow."""
    found = []
    for _, group in groupby(enumerate(answer.limits), lambda one: (one[1].advised, one[1].growth is None)):
        (run, limits) = map(list, zip(*group, strict=True))
        first, last = limits[0].growth, limits[-1].growth
        grown = "any" if first is None else setting(first)
        found.append((run, grown if first == last else f"{grown.removesuffix(f'{NB}%')} to {setting(last or 0)}"))
    return found


def limit_lines(answer: WhatIf, width: int) -> list[str]:
    """The advice at each limit, a line for neighbouring limits with the same advice."""
    head = "the longest wait may grow by"
    lines = [f"{head:30}  {'take':{width}}  {'mean wait':>12}  {'longest wait':>12}  slowdown"]
    for run, grown in equal_limits(answer):
        o = answer.outcomes[answer.limits[run[0]].advised]
        lines.append(
            f"{'* ' if answer.given in run else '  '}{grown:28}  {o.name:{width}}  {duration(o.mean_wait_s):>12}"
            f"  {duration(o.max_wait_s):>12}  {slowdown(o.mean_bsld):>8}"
        )
    return lines
