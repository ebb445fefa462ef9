"""Predictions as data: run times from a file, of any model."""

from __future__ import annotations

import math
import re
from pathlib import Path

from batfill.base.errors import BatfillError
from batfill.learn import Judgement, Knowledge, SubmittedJob
from batfill.model.limits.dates import read_rows
from batfill.model.preemption import bare
from batfill.model.values import MOST_S

FORM = re.compile(r"(.+\.csv)(?:,\s*column=(.+))?", re.IGNORECASE)
JOB, EXPECTED = "job", "expected_s"
REMEDY = "a file of predictions has a column job and at least one of run times in seconds, by default expected_s"


class Listed(Knowledge):
    """The run time that a file has for the job; a longer one than the request counts as the request."""

    outlived = True

    def __init__(self, name: str, digest: str, seconds: dict[str, float]) -> None:
        """`seconds`: by the job's id without leading zeros."""
        self.name, self.digest, self.seconds = name, digest, seconds

    def __deepcopy__(self, _: object) -> Listed:
        return self  # nothing changes

    @classmethod
    def of(cls, option: str, text: str) -> Listed:
        """The predictions of `FILE.csv`, or of `FILE.csv,column=NAME`.

        Raises:
            BatfillError: the file cannot be read, or a line is no prediction.
        """
        found = FORM.fullmatch(text.strip())
        if found is None:
            raise BatfillError(f"option {option}: {text!r:.400} is neither FILE.csv nor FILE.csv,column=NAME; {REMEDY}")
        path, column = Path(found[1]), found[2] or EXPECTED
        rows, digest = read_rows(path, None, (JOB, column), f"option {option}: {REMEDY}")
        seconds: dict[str, float] = {}
        for row in rows:
            where, job = f"{path}: line {row['line']}", bare(row[JOB].strip())
            try:
                seconds_s = float(row[column])
            except ValueError:
                seconds_s = math.nan
            if not 0 < seconds_s <= MOST_S:
                raise BatfillError(f"{where}: {column} {row[column]!r:.40} is no number of seconds > 0; correct it")
            if not job or job in seconds:
                raise BatfillError(f"{where}: job {row[JOB]!r:.40} {'stands twice' if job else 'is no id'}; correct it")
            seconds[job] = seconds_s
        return cls(f"{path},column={column}", digest, seconds)

    def judge(self, job: SubmittedJob) -> Judgement:
        seconds = self.seconds.get(bare(job.id))
        if seconds is None:
            file, _, column = self.name.rpartition(",column=")
            raise BatfillError(f"{file}: has no {column} of job {job.id}; add a line, with its request if need be")
        return Judgement(min(seconds, job.most_s))
