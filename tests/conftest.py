"""What the tests share: where the archive's logs are, and how a command is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PLACES = [os.environ.get("BATFILL_TRACES"), Path(__file__).parents[2] / "shared" / "traces"]


@pytest.fixture
def archive_log():
    """A function from a log's file name to its path; skips the test where the log is not at hand."""

    def find(name: str) -> Path:
        for place in PLACES:
            if place and (path := Path(place) / name).is_file():
                return path
        pytest.skip(f"{name} is not here; set BATFILL_TRACES to a folder that holds it")

    return find
