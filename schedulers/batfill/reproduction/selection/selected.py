"""Policies chosen online on resampled logs, kept for the entries of the 2017 study of online policy selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from batfill.reproduction.shared import kept
from batfill.schema import Count, Seconds, Section, Seed, Text
from batfill.tuning.online import selection_and_site
from batfill.tuning.select import Samples, compare_online

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

Method = Literal["full", "noisy", "epsilon-greedy"]
TITLES: dict[Method, str] = {"full": "FullFeedback", "noisy": "NoisyFeedback", "epsilon-greedy": "EpsilonGreedy"}
Share = Annotated[float, Field(ge=0, le=1)]


class Choosing(Section):
    """What the paper does not say of how policies are chosen, and of the logs on which that is done."""

    samples: Count  # resamplings of each log
    fewer: dict[Text, Count] = Field(default_factory=dict)  # of logs that are too long for so many
    weeks: Count | None = None  # length of a resampling; None for the log's
    procs: dict[Text, Count] = Field(default_factory=dict)  # of machines whose log says it otherwise than the paper
    period: Annotated[float, Field(gt=0)]  # Delta, in seconds
    decay: Share = 0.9  # lambda
    balance: Share = 1.0  # alpha
    epsilon: Share = 0.1
    noise: Literal["walltime"] | float = "walltime"
    threshold: Seconds | None = None
    seed: Seed = 0


def selected(task: Task, label: str, method: Method, how: Choosing) -> dict[str, Any]:
    """`compare_online` on resamplings of the log: mean waits over EASY-FCFS's, and which policy was chosen when."""
    samples = how.fewer.get(label, how.samples)
    logs = Samples.of(task.logs[label], procs=how.procs.get(label), resampled=True, weeks=how.weeks, seed=how.seed)
    options: dict[str, Any] = {"epsilon": how.epsilon}
    if method != "epsilon-greedy":
        options = {"lambda": how.decay, "alpha": how.balance}
    if method == "noisy":
        options["noise"] = str(how.noise)
    given = {"select": method, "policies": "ten", "period": how.period, "select-seed": how.seed, **options}
    key = {**logs.provenance(), "procs": logs.procs, "samples": samples, **given, "threshold": how.threshold}

    def make() -> dict[str, Any]:
        selection, site = selection_and_site(given, logs.procs, "same", how.threshold)
        with task.bar(f"{label}, {TITLES[method]}: logs", samples) as advance:
            return compare_online(logs.jobs, samples, selection, site, source={}, advance=advance)

    found: dict[str, Any] = kept(task.folder, "selected", key, "tuning", make)
    return found


def best_throughout(found: dict[str, Any]) -> tuple[str, float]:
    """The policy with the least mean wait if used throughout, and its wait over EASY-FCFS's."""
    name = min(found["throughout"], key=lambda each: (found["throughout"][each]["mean"], each))
    return name, float(found["throughout"][name]["mean"])
