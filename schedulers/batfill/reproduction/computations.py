"""The computations that entries name: modules with a section `Parameters` and `compute(task, parameters)`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.reproduction.outcome import Outcome
    from batfill.reproduction.task import Task
    from batfill.schema import Section

# What an entry's `compute:` may say, and the module of this package that does it.
MODULES = {
    "backfilled": "simple.backfilled",
    "best-of-week": "mixed.best_of_week",
    "fit-coefficients": "heuristics.fit_coefficients",
    "fit-errors": "heuristics.fit_errors",
    "fitted-windows": "heuristics.fitted_windows",
    "lin-elsewhere": "heuristics.lin_elsewhere",
    "priority-maps": "heuristics.priority_maps",
    "category-autocorrelation": "classes.neighbours",
    "class-features": "classes.features",
    "classifier-importances": "classes.importances",
    "classifier-quality": "classes.quality",
    "classified-gains": "classes.gains",
    "classified-months": "classes.months",
    "classified-regimes": "classes.regimes",
    "classified-sizes": "classes.by_size",
    "predicted-run-times": "classes.regressions",
    "job-sizes": "classes.sizes",
    "chosen-shares": "selection.shares",
    "online-choices": "selection.open_choices",
    "online-courses": "selection.courses",
    "clairvoyant-rows": "classes.rows",
    "cumulative-means": "simple.cumulative_means",
    "log-figures": "simple.log_figures",
    "longest-jobs": "mixed.longest_jobs",
    "mixed-study": "mixed.learned",
    "most-delayed": "simple.most_delayed",
    "no-backfilling": "simple.no_backfilling",
    "premature-share": "simple.premature_share",
    "premature-slowdown": "simple.premature_slowdown",
    "pure-policies": "mixed.pure_policies",
    "search-methods": "mixed.search_methods",
    "slowdown-classes": "simple.slowdown_classes",
    "space-maps": "mixed.space_maps",
    "week-jobs": "mixed.week_jobs",
    "weekly-spread": "mixed.weekly_spread",
}


class Computation(NamedTuple):
    """How an entry is computed."""

    parameters: type[Section]
    compute: Callable[[Task, Any], Outcome]
    folder: str  # of this package: a change of any module in it makes stored results stale


def computation(name: str) -> Computation:
    """The computation of this name, one of MODULES."""
    folder, _, _ = MODULES[name].rpartition(".")
    module = import_module(f"batfill.reproduction.{MODULES[name]}")
    return Computation(module.Parameters, module.compute, folder)
