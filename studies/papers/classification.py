"""The classifier on a recorded log: no simulation, each job is submitted and ends when the log says.

Source: Section 4 of Zrigui et al., JPDC 2022: quality per week and in total (Figure 4, Tables 5 and 6), feature
importance (Figure 5), and the similarity of neighbours in a category (Figure 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.learn import SubmittedJob
from batfill.learn.classifier import Classifier
from batfill.learn.events import EventQueue
from batfill.learn.habits import CATEGORIES, NO_CLOCK
from batfill.model.jobs import WEEK_S, Clock
from batfill.replays.learning import Confusion
from batfill.workloads.formats import source_of
from batfill.workloads.swf import job_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.model.jobs import Jobs
    from batfill.model.options import Options

CORRELATION_LAGS = 20
FEWEST = 50  # jobs a category needs before its autocorrelation is estimated


@dataclass(frozen=True, slots=True, eq=False)
class LoggedJobs:
    """The jobs of a log in order of submission; columns of shape (n_jobs,)."""

    clock: Clock | None
    submit_s: NDArray[np.float64]  # since the first submission
    runtime_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    known_request_s: NDArray[np.float64]  # the user's request, even if the job ran longer; 0 if the log does not say
    procs: NDArray[np.int64]
    user: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.submit_s)


def read_jobs(source: Jobs | str | Path) -> LoggedJobs:
    """The jobs of a log that ran, with their users' requests.

    `source` is a workload or a file, as for `read_workload`.

    Raises:
        WorkloadError: the file is not a log, or no job in it ran.
    """
    found = source_of(source)
    log = found.log
    ran = job_rows(Path(found.where), log)
    order, runtime_s, clock = ran.row, ran.runtime_s, log.clock
    wait_s, first_s = log["wait_s"][order], float(log["submit_s"][order[0]])
    submit_s = log["submit_s"][order] - first_s
    return LoggedJobs(
        clock=clock.later(first_s) if clock else None,
        submit_s=submit_s,
        runtime_s=runtime_s,
        end_s=submit_s + np.maximum(wait_s, 0) + runtime_s,
        known_request_s=np.maximum(log["requested_s"][order], 0),
        procs=np.ceil(log.needed_procs[order]).astype(np.int64),
        user=log["user"][order].astype(np.int64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ClassifiedLog:
    """A classifier's judgements on a log; columns of shape (n_jobs,)."""

    jobs: LoggedJobs
    small: NDArray[np.bool_]  # as judged
    probability: NDArray[np.float64]  # nan before the first training
    divider_s: NDArray[np.float64]  # in force at the submission; inf if there was none
    importances: list[dict[str, float]]  # per training, with `week`, the first week that forest judged

    @property
    def judged(self) -> NDArray[np.bool_]:
        """The jobs submitted while a forest was in force."""
        return np.isfinite(self.probability)

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Whether each job ran shorter than the divider in force at its submission."""
        return self.jobs.runtime_s < self.divider_s

    @property
    def week(self) -> NDArray[np.int64]:
        """The week of each submission, from 0."""
        return (self.jobs.submit_s // WEEK_S).astype(np.int64)

    def total(self) -> Confusion:
        """The confusion matrix of all jobs judged."""
        return self.of_rows(self.judged)

    def of_rows(self, rows: NDArray[np.bool_]) -> Confusion:
        """The confusion matrix of these jobs, shape (n_jobs,), which must have been judged."""
        return Confusion.of(self.small[rows], self.truth[rows], self.probability[rows])

    def weeks(self) -> list[dict[str, Any]]:
        """A row per week with judged jobs: the divider at its end, and the quality."""
        rows = []
        for week in np.unique(self.week[self.judged]).tolist():
            of_week = self.judged & (self.week == week)
            quality = self.of_rows(of_week).as_dict()
            rows.append({"week": week, "divider_s": float(self.divider_s[of_week][-1]), **quality})
        return rows


def classify_log(jobs: LoggedJobs, settings: Options, advance: Callable[[int], None] = lambda _: None) -> ClassifiedLog:
    """Classify every job of the log at its submission; `advance` gets the number of jobs judged."""
    classifier = Classifier(settings, jobs.clock)
    events = EventQueue(classifier)
    small, probability, divider_s = (np.zeros(len(jobs), kind) for kind in (bool, np.float64, np.float64))
    importances: list[dict[str, float]] = []
    columns = (jobs.submit_s, jobs.known_request_s, jobs.procs, jobs.user, jobs.runtime_s, jobs.end_s)
    known_until_s = -1.0
    for row, values in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        *known, runtime_s, end_s = values
        job = SubmittedJob(row, *known)
        if job.submit_s > known_until_s:
            events.catch_up(job.submit_s)
            known_until_s = job.submit_s
        verdict = classifier.judge(job)
        if classifier.trained > len(importances):
            importances.append({"week": job.submit_s // WEEK_S, **classifier.importances})
        small[row], probability[row], divider_s[row] = verdict.small, verdict.probability, classifier.divider_s
        classifier.started(job, end_s - runtime_s)
        events.add_end(job, end_s, runtime_s, killed=False)
        advance(1)
    return ClassifiedLog(jobs, small, probability, divider_s, importances)


def autocorrelation(runtime_s: NDArray[np.float64], lags: int = CORRELATION_LAGS) -> NDArray[np.float64]:
    """Autocorrelation at lags 1 to `lags`, shape (lags,), as below the paper's Figure 2; nan for a constant series."""
    centred = runtime_s - runtime_s.mean()
    variance = float((centred**2).mean())
    n = len(centred)
    return np.array(
        [(centred[:-lag] @ centred[lag:]) / (n - lag) / variance if variance else np.nan for lag in range(1, lags + 1)]
    )


def autocorrelations(jobs: LoggedJobs) -> list[dict[str, Any]]:
    """A row per lag of each category of at least `FEWEST` jobs: category, user, value, jobs, lag, autocorrelation."""
    clock = jobs.clock or NO_CLOCK
    weekday = np.array([clock.date(at_s).weekday() for at_s in jobs.submit_s.tolist()])
    rows: list[dict[str, Any]] = []
    for name, value in zip(CATEGORIES, (jobs.known_request_s, jobs.procs, weekday), strict=True):
        pairs, where, counts = np.unique(
            np.column_stack([jobs.user.astype(np.float64), value]), axis=0, return_inverse=True, return_counts=True
        )
        in_category = np.argsort(where.ravel(), kind="stable")  # by category, each in order of submission
        for (user, which), series in zip(pairs, np.split(in_category, np.cumsum(counts)[:-1]), strict=True):
            if len(series) < FEWEST:
                continue
            for lag, rho in enumerate(autocorrelation(jobs.runtime_s[series]), 1):
                rows.append(
                    {
                        "category": f"(u, {name})",
                        "user": int(user),
                        "value": float(which),
                        "jobs": len(series),
                        "lag": lag,
                        "autocorrelation": float(rho),
                    }
                )
    return rows
