"""What the tests share: where the archive's logs are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def places():
    """Where a log of the archive may be: $BATFILL_TRACES, a folder `traces` beside the checkout, what was fetched."""
    from batfill.workloads.archive import cache_folder

    if given := os.environ.get("BATFILL_TRACES"):
        yield Path(given)
    yield from (ROOT.parent / "traces", *sorted(ROOT.parent.glob("*/traces")), cache_folder())


@pytest.fixture
def archive_log():
    """A function from a log's file name to its path; skips the test where the log is not at hand."""

    def find(name: str) -> Path:
        for place in places():
            if (path := place / name).is_file():
                return path
        pytest.skip(f"{name} is not here; `batfill workload fetch` it, or set BATFILL_TRACES to a folder that holds it")

    return find
