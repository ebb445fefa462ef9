"""The classifier on logs as they were, kept for the entries that look at it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from batfill.files import digest
from batfill.jobs import WEEK_S
from batfill.knowledge.study import LoggedJobs, read_jobs, study
from batfill.options import DividerRule, Regime, Settings
from batfill.reproduction.shared import kept
from batfill.schema import Count, Section, Seed, Text

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

Choice = Literal["decoupled known", "decoupled week", "weekly known", "weekly week", "fresh known"]


class Studied(Section):
    """What is studied."""

    choices: Annotated[list[Choice], Field(min_length=1)]  # the regime and the divider's rule
    only_first: list[Text] = Field(default_factory=list)  # logs so long that only the first choice is studied on them
    first_weeks: dict[Text, Count] = Field(
        default_factory=dict
    )  # so many of logs that are too long to be studied whole
    weeks: Count | None = None  # so many of each log
    seed: Seed = 0


def rules_of(choice: Choice) -> tuple[Regime, DividerRule]:
    """The regime and the divider's rule of a choice."""
    words = choice.split()
    regime: Regime = next(name for name in get_args(Regime) if name == words[0])
    rule: DividerRule = next(name for name in get_args(DividerRule) if name == words[1])
    return regime, rule


def study_of(task: Task, label: str, choice: Choice, parameters: Studied) -> dict[str, Any] | None:
    """The counts in all (`total`), per week (`weeks`), and what each training found important (`importances`).

    None where the log is too long for this choice.
    """
    if label in parameters.only_first and choice != parameters.choices[0]:
        return None
    path = task.logs[label]
    regime, rule = rules_of(choice)
    settings = Settings(regime=regime, divider_rule=rule, seed=parameters.seed)

    weeks = parameters.weeks or parameters.first_weeks.get(label)

    def make() -> dict[str, Any]:
        jobs = first(read_jobs(path), weeks)
        with task.bar(f"{label}, {choice}: jobs", len(jobs)) as advance:
            done = study(jobs, settings, advance)
        return {"total": done.total().as_dict(), "weeks": done.weeks(), "importances": done.importances}

    key = {"log": digest(path), "weeks": weeks, "choice": choice, "seed": parameters.seed}
    found: dict[str, Any] = kept(task.folder, "studies", key, "knowledge", make)
    return found


def first(jobs: LoggedJobs, weeks: int | None) -> LoggedJobs:
    """The jobs submitted in the first so many weeks; all for None."""
    n = len(jobs) if weeks is None else int((jobs.submit_s < weeks * WEEK_S).sum())
    names = ("number", "submit_s", "runtime_s", "end_s", "requested_s", "procs", "user")
    return replace(jobs, **{name: getattr(jobs, name)[:n] for name in names})
