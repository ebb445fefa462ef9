"""The files that decide when jobs start, for what has to say which engine it ran."""

from __future__ import annotations

from pathlib import Path

from batfill.base.kernels import digest_of

FILES = sorted(Path(__file__).parent.glob("*.py"))
SOURCES = digest_of(*FILES)
