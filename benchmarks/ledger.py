"""The ledger of benchmark results: one row per file of results/, as a Markdown table on standard output.

`python benchmarks/ledger.py > benchmarks/results/README.md`, after a run of the benchmark into a new file there.
"""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).with_name("results")
# The columns that are figures: how a case begins, and what the ledger calls it.
CASES = {
    "KTH-SP2 fcfs,": "KTH-SP2 fcfs",
    "KTH-SP2 saf,": "KTH-SP2 saf",
    "KTH-SP2 x 7 saf,": "KTH-SP2 x 7 saf, overloaded",
    "1,000 mixed policies": "a mixed policy on a week",
    "batfill replay KTH": "`batfill replay` of KTH-SP2",
}
HEAD = """\
# Benchmark results by version

Written by `python benchmarks/ledger.py`. Each row is a file here, made by
`make bench ARGS="--out benchmarks/results/DATE.txt"`. Times are its medians; in brackets, their ratio to the yardstick
(a plain C replay, or imports). Rows of different machines are not comparable.
"""


def row(path: Path) -> list[str]:
    """The cells of a result file."""
    text = path.read_text()
    facts = dict(re.findall(r"^(machine|versions|date) +(.+)$", text, re.MULTILINE))
    lines = [re.split(r" {2,}", line) for line in text.splitlines()]
    figures = [
        next((f"{line[1]} ({line[3]})" for line in lines if line[0].startswith(case) and len(line) > 3), "-")
        for case in CASES
    ]
    kept, missed = (sum(line[-1] == verdict for line in lines) for verdict in ("ok", "MISSED"))
    version = re.search(r"batfill ([^,]+)", facts["versions"])
    assert version is not None
    file = f"[{path.stem}]({path.name})"
    return [file, version[1], facts["machine"], *figures, f"{kept} of {kept + missed}"]


def table() -> str:
    """The whole page, newest first."""
    heads = ["file", "batfill", "machine", *CASES.values(), "bars kept"]
    rows = [heads, ["---"] * len(heads), *map(row, sorted(RESULTS.glob("*.txt"), reverse=True))]
    return HEAD + "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


if __name__ == "__main__":
    print(table(), end="")
