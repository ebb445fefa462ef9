"""Refuse a tag that does not name the version to release, or whose version has no date in the changelog.

`make version-check TAG=v0.1.0` calls it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def refusal(tag: str, root: Path = ROOT) -> str | None:
    """Why this tag cannot be released, or None if it can."""
    (version,) = re.findall(r'^__version__ = "(.+)"$', (root / "schedulers/batfill/base/version.py").read_text(), re.M)
    if tag != f"v{version}":
        return f"the tag is {tag!r}, but version.py says {version}: tag v{version}, or change __version__ and tag again"
    if not re.search(rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text(), re.M):
        return f"CHANGELOG.md has no heading with a date for {version}: write '## {version}, YYYY-MM-DD' and tag again"
    return None


if __name__ == "__main__":
    sys.exit(refusal(*sys.argv[1:2] or [""]))
