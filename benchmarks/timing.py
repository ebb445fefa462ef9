"""How the suite measures: contenders by turns, their medians, and how time grows with size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from table import Row
from yardstick import Yardstick

from batfill.replays.engine_replay import EngineReplay

Name = TypeVar("Name")

LONG_ENOUGH_S = 0.05  # shorter work is repeated until it takes so long, and its mean is taken


@dataclass(frozen=True, slots=True)
class Setting:
    """What every case is run with."""

    rounds: int
    seed: int
    folder: Path  # for the files that the cases make
    yardstick: Yardstick | None  # None where there is no C compiler


@dataclass(frozen=True, slots=True)
class Case:
    """Something to measure: it gives its rows, or raises `LogMissing`."""

    section: str
    title: str
    run: Callable[[Setting], list[Row]]
    quick: bool = False


def by_turns(rounds: int, contenders: Mapping[Name, Callable[[], float]]) -> dict[Name, float]:
    """The median of each contender's seconds over the rounds; in each round all have one turn (A B A B ...)."""
    seconds: dict[Name, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            seconds[name].append(contender())
    return {name: statistics.median(values) for name, values in seconds.items()}


def timed(work: Callable[[], object]) -> float:
    """How many seconds it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def simulating(run: EngineReplay, repetitions: int | None = None) -> Callable[[], float]:
    """A contender: the simulation alone, from the empty machine to the last end, its mean over the repetitions.

    It is measured in processor time.
    """

    def once() -> float:
        run.restart(run.queue.rules)
        began = time.process_time()
        run.advance()
        return time.process_time() - began

    times = repetitions_of(once()) if repetitions is None else repetitions
    return lambda: statistics.fmean(once() for _ in range(times))


def repetitions_of(seconds: float) -> int:
    """How often work of so many seconds is repeated to be timed."""
    return max(1, round(LONG_ENOUGH_S / seconds))


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The power of the size that the time grows with: the slope of their logarithms, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
