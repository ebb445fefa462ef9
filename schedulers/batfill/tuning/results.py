"""Result files: findings with everything needed to repeat them. No dates, no timings: equal runs give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.files import json_text, write_text
from batfill.stats import BETTER, undecided
from batfill.tables import Rows, cell, data_frame
from batfill.version import ENGINE, __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from batfill.stats import Paired


def document(
    command: str, *, seed: int | None, given: Mapping[str, Any], source: Mapping[str, Any], results: Mapping[str, Any]
) -> dict[str, Any]:
    """Results first, provenance last; `given` are the command's options, `source` describes the input.

    The seed is None if nothing is random.
    """
    return {
        **results,
        "made_by": f"batfill {__version__} {command}",
        "engine": ENGINE,
        "seed": seed,
        "options": dict(given),
        "input": dict(source),
    }


class Found(Rows, dict[str, Any]):
    """The content of a result file: a dict displayed as the table that the command prints.

    Attributes:
        rows: the table, a dict per row with equal keys.
        remark: a line below it.
    """

    def __init__(self, content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], remark: str = "") -> None:
        dict.__init__(self, content)
        self.rows, self.remark = rows, remark

    def as_json(self) -> str:
        """The text of the result file, without the final newline."""
        return as_json(self)

    def save(self, path: str | Path) -> None:
        """Write the result file, as the command's `--out` does."""
        write_text(Path(path), self.as_json() + "\n")

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a frame; its `attrs` hold the options and the input, if known. Needs pandas."""
        return data_frame(self.rows, **{name: self[name] for name in ("options", "input") if name in self})


def as_json(content: Mapping[str, Any]) -> str:
    """The text of a result file: keys in order, null for unknown values."""
    return json_text(plain(content))


def plain(value: Any) -> Any:
    """The value in JSON's types."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


# Comparisons with what a site has: the same words in every result


GROWTH = 0.1  # of the longest wait, above which a recommendation says what else there is


def comparison_cells(found: Mapping[str, Any] | None) -> dict[str, Any]:
    """The cells of a comparison, from `Paired.as_dict`: the interval, the corrected p-value and the verdict."""
    if found is None:
        return {"from": None, "to": None, "p": None, "verdict": ""}
    return {"from": found["low"], "to": found["high"], "p": found["corrected_p"], "verdict": found["verdict"]}


def recommendation(
    compared: Mapping[str, Paired], waits: Mapping[str, Mapping[str, float]], baseline: str, *, what: str, periods: str
) -> dict[str, Any]:
    """What to use, and how sure that is.

    Args:
        compared: every choice against the baseline.
        waits: of every choice and the baseline, as `long_waits` gives them.
        baseline: the choice in use.
        what: the cost compared.
        periods: the periods compared, with their number.

    Returns:
        `take`: the choice with the least cost among those better beyond chance, or the baseline, also if there are too
        few periods to decide. `text`: a sentence that begins with the choice and its longest wait.
    """
    if not compared:
        return {"take": baseline, "text": f"stay with {baseline}: there is nothing to gain over it"}
    family = "1 comparison" if len(compared) == 1 else f"{len(compared)} comparisons"
    better = {name: one for name, one in compared.items() if one.verdict == BETTER}
    name, best = min((better or compared).items(), key=lambda entry: entry[1].value)
    figures = (
        f"{cell(best.value)} of {what} of {baseline} on {periods}, {best.level:.0%} interval {cell(best.low)} to "
        f"{cell(best.high)}, p {best.corrected_p:.2g} after the correction for {family}"
    )
    later = waits[name].get("day_longer")
    shown = (
        f"longest wait {waits[name]['max_wait_s']:,.0f} s, {baseline} {waits[baseline]['max_wait_s']:,.0f} s"
        f"{'' if later is None else f'; {later:.2%} of the jobs wait a day longer than under {baseline}'}; {figures}; "
        f"99.9 % wait at most {waits[name]['p999_wait_s']:,.0f} s, {baseline} {waits[baseline]['p999_wait_s']:,.0f} s"
    )
    if too_few := undecided(best, len(compared)):
        text = f"cannot decide, so stay with {baseline}: {too_few} of {periods}; the nearest is {name} ({shown})"
        return {"take": baseline, "text": text}
    if better:
        return {"take": name, "text": f"take {name}: {shown}{within_limit(better, name, waits, baseline)}"}
    why = "nothing compared is better" + (" beyond chance" if best.value < best.null else "")
    return {"take": baseline, "text": f"stay with {baseline}: {why}; the nearest is {name} ({shown})"}


def within_limit(
    better: Mapping[str, Paired], best: str, waits: Mapping[str, Mapping[str, float]], baseline: str
) -> str:
    """If the best choice lets some job wait much longer: what else is better beyond chance; "" if it does not."""

    def within(name: str) -> bool:
        return waits[name]["max_wait_s"] <= (1 + GROWTH) * waits[baseline]["max_wait_s"]

    if within(best):
        return ""
    able = [name for name in better if within(name)]
    other = min(able, key=lambda name: better[name].value, default=None)
    limit = f"a longest wait at most {GROWTH:.0%} above that of {baseline}"
    return f". With {limit}: " + (f"{other}, {cell(better[other].value)}" if other else f"stay with {baseline}")
