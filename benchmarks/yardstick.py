"""The plain C replay the engine is measured against: compiled here, run as a process, read by its one line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("plain.c")
ANSWER = re.compile(r"jobs \d+ parse (\S+)s sim (\S+)s")


@dataclass(frozen=True, slots=True)
class Yardstick:
    """The compiled program, and the compiler's own words about itself."""

    program: Path
    compiler: str

    def simulation_s(self, swf: Path, policy: str, repetitions: int = 1) -> float:
        """The mean processor time of a simulation of this plain SWF file under fcfs, spf or saf."""
        return float(self._answer(swf, str(repetitions), policy)[1])

    def parse_s(self, swf: Path) -> float:
        """The seconds it takes to read the file."""
        return float(self._answer(swf, "0")[0])

    def starts_s(self, swf: Path, policy: str) -> NDArray[np.float64]:
        """When it starts each job, in the file's order."""
        out = swf.with_suffix(f".{policy}.starts")
        self._answer(swf, "1", policy, str(out))
        return np.loadtxt(out, usecols=1)

    def _answer(self, *arguments: str | Path) -> tuple[str, ...]:
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=True)
        found = ANSWER.match(done.stdout)
        assert found, done.stdout
        return found.groups()


def compiled(folder: Path) -> Yardstick | None:
    """The yardstick, compiled into the folder by $CC or cc; None where there is no such compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    program = folder / "plain"
    subprocess.run([compiler, "-O3", SOURCE, "-o", program], capture_output=True, check=True)
    says = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return Yardstick(program, says.splitlines()[0])
