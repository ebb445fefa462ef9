"""The pages that batfill writes about a log, as users make them: a comparison, the answer of what-if, and one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import batfill as bf

ORDERS = ("fcfs", "spf", "saf", "sqf", "wfp3", "unicef")
THRESHOLDS_H = (6, 24)
WIDTHS = (390, 1280, 1920)
SCHEMES = ("light", "dark")


def make_pages(log: Path, folder: Path) -> dict[str, Path]:
    """Write the three pages about this log into the folder; returns them by name."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: folder / f"{name}.html" for name in ("comparison", "what-if", "run")}
    orders = {name: bf.replay(log, name) for name in ORDERS}
    orders |= {f"saf, threshold {hours}h": bf.replay(log, "saf", threshold_s=hours * 3600) for hours in THRESHOLDS_H}
    bf.report(list(orders.values()), out=pages["comparison"])
    bf.report(orders["saf"], out=pages["run"])
    what_if = [sys.executable, "-m", "batfill", "what-if", str(log), "--out", str(pages["what-if"])]
    subprocess.run(what_if, check=True, capture_output=True)
    return pages
