"""Costly parts that several entries of a paper need, computed once and kept in the paper's folder."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill import __version__
from batfill.engine.jit import SOURCES
from batfill.errors import BatfillError
from batfill.files import make_folder, write_text
from batfill.tuning.results import as_json

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = Path(__file__).parents[1]


def kept(folder: Path, kind: str, key: dict[str, Any], package: str, make: Callable[[], dict[str, Any]]) -> Any:
    """What `make` gives, as JSON has it: from the file that holds it, or made and put there.

    Args:
        folder: of the paper.
        kind: what it is; files of a kind lie together.
        key: all of the input that it depends on.
        package: the part of batfill that makes it, as in "knowledge": it is made anew if that or the kernels change.
        make: gives a mapping.

    Raises:
        BatfillError: the file that should hold it does not.
    """
    whole = {**key, "version": __version__, "code": code_of(package)}
    identity = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]
    path = folder / kind / f"{identity}.json"
    if not path.is_file():
        make_folder(path.parent)
        write_text(path, as_json({"of": whole, "is": make()}) + "\n")
    try:
        return json.loads(path.read_bytes())["is"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BatfillError(f"{path}: not a kept result ({error}); remove it") from None


# What a replay's figures come from, "" being the modules beside these folders.
REPLAYS = ("", "campaign", "knowledge", "workloads")


@cache
def code_of(*packages: str) -> str:
    """A digest of the kernels' sources and those of parts of batfill, hexadecimal."""
    files = [path for package in packages for path in sorted((PACKAGE / package).glob("*.py"))]
    return hashlib.sha256(SOURCES.encode() + b"".join(path.read_bytes() for path in files)).hexdigest()
