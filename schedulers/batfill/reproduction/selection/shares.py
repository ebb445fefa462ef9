"""Which policies are chosen when: Figures 3 to 5 of the 2017 study of online policy selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.jobs import DAY_S
from batfill.reproduction.outcome import Chart, Outcome, Table, Verdict
from batfill.reproduction.selection.courses import POINTS
from batfill.reproduction.selection.selected import Choosing, Method, selected
from batfill.tuning.select import mean_share

if TYPE_CHECKING:
    from batfill.reproduction.task import Task

CHARTED = 5  # policies; the others share a line


class Parameters(Choosing):
    """Whose choices."""

    method: Method


def compute(task: Task, parameters: Parameters) -> Outcome:
    """The share of the periods, over all resamplings, in which a policy was chosen, in per cent: a column per log."""
    found = {label: selected(task, label, parameters.method, parameters) for label in task.logs}
    names = tuple(next(iter(found.values()))["throughout"])
    shares = {label: {name: mean_share(one, name) or 0.0 for name in names} for label, one in found.items()}
    values = tuple(tuple(100 * shares[label][name] for label in shares) for name in names)
    first = {label: max(by_name, key=lambda name: by_name[name]) for label, by_name in shares.items()}
    told = ", ".join(f"{label} {name} {100 * shares[label][name]:.0f} %" for label, name in first.items())
    return Outcome(
        (Table(tuple(found), tuple(name.upper() for name in names), values),),
        {"one": Verdict(all(shares[label][name] > 0.5 for label, name in first.items()), f"chosen most: {told}")},
        tuple(chart(label, one, shares[label], parameters.period) for label, one in found.items()),
    )


def chart(label: str, found: dict[str, Any], shares: dict[str, float], period: float) -> Chart:
    """The share of the resamplings in which each of the most chosen policies was in use, by time."""
    most = sorted(shares, key=lambda name: -shares[name])[:CHARTED]
    periods = found["by_period"]
    step = -(-len(periods) // POINTS)
    rows = []
    for k in range(0, len(periods), step):
        now = [periods[k]["shares"][name] for name in most]
        rows.append(((k + 0.5) * period / DAY_S, *now, max(0.0, 1 - sum(now))))
    head = ("day", *(name.upper() for name in most), "others")
    return Chart(f"{label}-shares", "lines", head, tuple(rows), "day", "share of the resamplings")
