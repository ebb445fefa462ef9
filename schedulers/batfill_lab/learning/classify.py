"""The classifier on a recorded log: no simulation, each job is submitted and ends when the log says.

Source: Section 4 of Zrigui et al., JPDC 2022: quality per week and in total (Figure 4, Tables 5 and 6), feature
importance (Figure 5), and the similarity of neighbours in a category (Figure 2). Tables are written as Parquet, figures
as SVG, and everything as JSON.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.base.files import json_text
from batfill.base.progress import patient_progress
from batfill.base.tables import Keyed, data_frame, in_columns, text_html
from batfill.base.version import __version__
from batfill.base.words import duration, took, wrapped
from batfill.learn import SubmittedJob
from batfill.learn.classifier import Classifier
from batfill.learn.events import EventQueue
from batfill.learn.habits import CATEGORIES, FEATURE_NAMES, NO_CLOCK
from batfill.model.jobs import WEEK_S, Clock, request_warning
from batfill.model.options import Options, as_line, of_arguments
from batfill.replays.learning import Confusion
from batfill.workloads.formats import source_of
from batfill.workloads.swf import job_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from batfill.base.processes import Bar
    from batfill.model.jobs import Workload

CORRELATION_LAGS = 20
CLASSIFYING = ("small", "divider", "cut", "regime", "divider-rule", "train-lag", "seed")
FEWEST = 50  # jobs a category needs before its autocorrelation is estimated


@dataclass(frozen=True, slots=True, eq=False)
class LoggedJobs:
    """The jobs of a log in order of submission; columns of shape (n_jobs,)."""

    name: str
    digest: str
    clock: Clock | None
    number: NDArray[np.int64]
    submit_s: NDArray[np.float64]  # since the first submission
    runtime_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    known_request_s: NDArray[np.float64]  # the user's request, even if the job ran longer; 0 if the log does not say
    procs: NDArray[np.int64]
    user: NDArray[np.int64]
    without_wait: int  # jobs whose wait is missing from the log, taken as zero

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def warnings(self) -> tuple[str, ...]:
        """As `Workload.warnings`."""
        missing = int((self.known_request_s == 0).sum())
        return request_warning(missing, len(self), "the classifier sees 0 there and uses the other features")


def read_jobs(source: Workload | str | Path) -> LoggedJobs:
    """The jobs of a log that ran, with their users' requests.

    `source` is a workload or a file, as for `read_workload`.

    Raises:
        WorkloadError: the file is not a log, or no job in it ran.
    """
    found = source_of(source)
    log, path = found.log, Path(found.where)
    rows = job_rows(path, [log])
    kept = np.flatnonzero(rows.keep)
    order = kept[np.lexsort((rows.number[kept], rows.submit_s[kept]))]
    runtime_s = log["runtime_s"].copy()
    for row, whole_s in rows.runtime_s.items():
        runtime_s[row] = whole_s
    wait_s, submit_s, runtime_s = log["wait_s"][order], rows.submit_s[order] - rows.first_submit_s, runtime_s[order]
    clock = log.clock
    return LoggedJobs(
        name=path.name,
        digest=found.digest,
        clock=clock.later(rows.first_submit_s) if clock else None,
        number=rows.number[order],
        submit_s=submit_s,
        runtime_s=runtime_s,
        end_s=submit_s + np.maximum(wait_s, 0) + runtime_s,
        known_request_s=np.maximum(log["requested_s"][order], 0),
        procs=np.ceil(log.needed_procs[order]).astype(np.int64),
        user=log["user"][order].astype(np.int64),
        without_wait=int((wait_s < 0).sum()),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClassifiedLog(Keyed):
    """A classifier's judgements on a log; columns of shape (n_jobs,)."""

    jobs: LoggedJobs
    settings: Options
    small: NDArray[np.bool_]  # as judged
    probability: NDArray[np.float64]  # nan before the first training
    divider_s: NDArray[np.float64]  # in force at the submission; inf if there was none
    importances: list[dict[str, float]]  # per training, with `week`, the first week that forest judged
    seconds: float  # elapsed time

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

    def to_pandas(self) -> pd.DataFrame:
        """A row per job: its class, and if that was `right`, None before the first forest. Needs pandas."""
        jobs = self.jobs
        columns = {
            "job": jobs.number,
            "user": jobs.user,
            "submit_s": jobs.submit_s,
            "runtime_s": jobs.runtime_s,
            "walltime_s": np.where(jobs.known_request_s > 0, jobs.known_request_s, np.nan),
            "procs": jobs.procs,
            "week": self.week,
            "class": np.where(self.small, "small", "large"),
            "probability": self.probability,
            "divider_s": np.where(np.isfinite(self.divider_s), self.divider_s, np.nan),
            "right": np.where(self.judged, (self.small == self.truth).astype(object), None),
        }
        return data_frame(columns, workload=jobs.name, options=self.as_dict()["options"])

    def as_text(self) -> str:
        """A table to read: the total, then week by week."""
        whole = self.as_dict()
        rates = ("accuracy", "precision", "recall", "false_large_rate", "false_small_rate")
        names = [*(name.removesuffix("_rate").replace("_", " ") for name in rates), "AUC", "Brier score"]

        def shown(row: dict[str, Any]) -> Iterator[str]:
            forms = {**dict.fromkeys(rates, ".1%"), "auc": ".3f", "brier": ".3f"}
            return ("-" if row[name] is None else format(row[name], form) for name, form in forms.items())

        weeks = [
            (str(row["week"]), f"{row['jobs']:,}", duration(row["divider_s"]), *shown(row)) for row in self.weeks()
        ]
        total = ("all", f"{whole['jobs']:,}", "", *shown(whole))
        lines = [
            f"{whole['workload']}: {as_line(whole['options'])}; {took(whole['seconds'])}",
            f"{whole['jobs']:,} jobs judged in {whole['weeks']} weeks, {whole['not_judged']:,} before the first forest",
            "",
            in_columns([("week", "jobs", "divider", *names), *weeks, total], ()),
        ]
        if self.importances:
            mean = {name: float(np.mean([row[name] for row in self.importances])) for name in FEATURE_NAMES}
            top = sorted(mean, key=lambda name: -mean[name])
            lines += ["", "importance, mean of the trainings: " + ", ".join(f"{name} {mean[name]:.3f}" for name in top)]
        return wrapped("\n".join(lines))

    __repr__ = as_text

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        return text_html(self.as_text())

    def as_json(self) -> str:
        """One JSON object, including the weeks."""
        return json_text({**self.as_dict(), "per_week": self.weeks()})

    def as_dict(self) -> dict[str, Any]:
        """The totals, and everything needed to repeat them."""
        return {
            **self.total().as_dict(),
            "not_judged": int((~self.judged).sum()),
            "weeks": len(np.unique(self.week[self.judged])),
            "trained": len(self.importances),
            "options": {name: v for name, v in self.settings.as_dict().items() if name in CLASSIFYING},
            "divider_at_end_s": float(self.divider_s[-1]) if np.isfinite(self.divider_s[-1]) else None,
            "without_wait": self.jobs.without_wait,
            "warnings": list(self.jobs.warnings),
            "workload": self.jobs.name,
            "workload_sha256": self.jobs.digest,
            "seconds": round(self.seconds, 3),
            "version": __version__,
        }


def classify(
    log: Workload | str | Path,
    *,
    regime: Literal["decoupled", "fresh"] = "fresh",
    cut: float = 0.5,
    train_lag_s: float = 0,
    seed: int = 0,
    bar: Bar | None = None,
) -> ClassifiedLog:
    """Classify every job of a log as small or large as an online scheduler could have, and measure the quality.

    Args:
        log: a workload or a file, as for `read_workload`.
        regime: how recent the classifier's information is; see the options' table.
        cut: the probability from which a job counts as small.
        train_lag_s: from a week's end until the forest trained on it is used.
        seed: of the forests.
        bar: makes progress bars; by default one appears after two seconds.

    Raises:
        BatfillError: the log or an option cannot be used; scikit-learn is not installed.

    Examples:
        >>> from batfill.workloads import generate_workload
        >>> done = classify(generate_workload(jobs=400, procs=32, interarrival=8.0, seed=1))
        >>> sorted(set(done.to_pandas()["class"]))
        ['large', 'small']
    """
    options = {"regime": regime, "cut": cut, "train_lag_s": train_lag_s}
    settings = Options.of(of_arguments({"small": "forest", **options, "seed": seed}))
    settings.require_libraries()
    jobs = read_jobs(log)
    with (bar or patient_progress)("jobs judged", len(jobs)) as advance:
        return classify_log(jobs, settings, advance)


def classify_log(jobs: LoggedJobs, settings: Options, advance: Callable[[int], None] = lambda _: None) -> ClassifiedLog:
    """Classify every job of the log at its submission; `advance` gets the number of jobs judged."""
    began = time.perf_counter()
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
        events.started(job, end_s - runtime_s)
        events.add_end(job, end_s, runtime_s, killed=False)
        advance(1)
    seconds = time.perf_counter() - began
    return ClassifiedLog(jobs, settings, small, probability, divider_s, importances, seconds)


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
