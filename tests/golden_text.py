"""Texts of commands and screens as they are to be: plain files, reviewed as text.

`BATFILL_REWRITE=1 pytest tests/site -k golden` writes what is there now: read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

from batfill.base.version import __version__

GOLDEN = Path(__file__).parent / "data" / "texts"


def check(name, text):
    """Whether the text is that of the file of this name, whatever the version of batfill."""
    text, path = text.replace(__version__, "VERSION").rstrip("\n") + "\n", GOLDEN / f"{name}.txt"
    if os.environ.get("BATFILL_REWRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
