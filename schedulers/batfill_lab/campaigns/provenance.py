"""The origin of a campaign's results: programs, inputs, machine and command of every session."""

from __future__ import annotations

import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.base.errors import library_version
from batfill.base.files import write_json
from batfill.base.version import ENGINE, __version__
from batfill.engine.sources import SOURCES

if TYPE_CHECKING:
    from batfill_lab.campaigns.clusters import Where
    from batfill_lab.campaigns.config import ReadCampaign
    from batfill_lab.campaigns.plan import Plan

LIBRARIES = ("numpy", "pyarrow", "scikit-learn", "distributed")
FILE = "provenance.json"


class Provenance:
    """The file `provenance.json`: the campaign, and one entry per session, the latest last."""

    def __init__(self, folder: Path, read: ReadCampaign, plan: Plan, where: Where, *, workers: str, left: int) -> None:
        self.path = folder / FILE
        sources = {planned.trace.source for planned in plan.runs}
        warnings = plan.warnings()
        self.campaign: dict[str, Any] = {
            "campaign": str(read.path),
            "campaign_sha256": read.digest,
            "campaign_text": read.text,
            "campaign_in_force": read.campaign.model_dump(mode="json", by_alias=True),  # including defaults
            "inputs": [
                {"file": source.path, "sha256": source.sha256, "warnings": list(warnings.get(source.path, ()))}
                for source in sorted(sources, key=lambda s: s.path)
            ],
            "seeds": read.campaign.seeds,
            "runs": len(plan.runs),
        }
        self.session: dict[str, Any] = {
            "began": now(),
            "ended": None,
            "version": __version__,
            "engine": ENGINE,
            "engine_sha256": SOURCES,
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "workers": workers,
            "options": {
                "out": str(folder),
                "scheduler": where.scheduler,
                "workers": where.workers,
                "worker-limit": None if where.here else where.patience_s,
            },
            "machine": {"name": platform.node(), "system": platform.platform(), "processor": processor()},
            "python": platform.python_version(),
            "libraries": {name: library_version(name) for name in LIBRARIES},
            "runs_left": left,
            "runs_done": 0,
        }
        self.earlier = sessions(self.path)
        self.write()

    def end(self, done: int) -> None:
        self.session |= {"ended": now(), "runs_done": done}
        self.write()

    def write(self) -> None:
        """Write the file; a killed session has no end in it."""
        whole = {**self.campaign, "sessions": [*self.earlier, self.session]}
        write_json(self.path, whole)


def sessions(path: Path) -> list[Any]:
    """The sessions recorded in the file; none if it is unreadable, since nothing depends on them."""
    try:
        return list(json.loads(path.read_bytes())["sessions"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
