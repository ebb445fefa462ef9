"""How every kernel is compiled, and when what was compiled before may be used again."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

Kernel = TypeVar("Kernel", bound="Callable[..., Any]")

FILES = ("compiled.py", "easy.py", "engine.py", "policies.py", "waiting.py")  # all that a kernel is made from
# Numba asks of a cached kernel only whether its own file has changed, not the files of the kernels that it calls. Ours
# are compiled anew when any of them has: an old decision in a new release would be a wrong one.
SOURCES = sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in FILES)).hexdigest()


def kernel(function: Kernel) -> Kernel:
    """Compile the function at its first call, once per installation.

    Kernels get their arrays in named tuples. With numba's reference counting each call would count every array of every
    tuple up and down, twenty times the work of a short pass; a kernel allocates nothing, so it needs no counting. A
    call would also copy the tuples' 70 words, so kernels are put into their callers.
    """
    return compiled(function, inline=True)


def seldom(function: Kernel) -> Kernel:
    """As `kernel`, but called: for what happens seldom and would make its callers long to compile."""
    return compiled(function, inline=False)


def compiled(function: Kernel, *, inline: bool) -> Kernel:
    """The function, compiled at its first call and stored for all of SOURCES."""
    options = {"cache": True, "error_model": "numpy", "nogil": True, "forceinline": inline, "_nrt": False}
    dispatcher: Any = njit(**options)(function)  # type: ignore[call-overload]
    dispatcher._cache._cache_file._source_stamp = SOURCES
    result: Kernel = dispatcher
    return result


def announce_compilation(dispatcher: Any) -> None:
    """Say on standard error that this run compiles, where this kernel was not compiled for the sources as they are."""
    cache = dispatcher._cache
    index = Path(cache.cache_path) / cache._cache_file._index_name
    if not (index.is_file() and SOURCES.encode() in index.read_bytes()):
        print("batfill: compiling the engine, once after installation: about ten seconds", file=sys.stderr)
