"""How kernels are compiled: at the first call, once per installation, and again when any of their sources changes.

With `NUMBA_DISABLE_JIT=1` nothing is compiled: kernels are plain Python, for a debugger and for line coverage.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numba import config, njit

if TYPE_CHECKING:
    from collections.abc import Callable

Kernel = TypeVar("Kernel", bound="Callable[..., Any]")

HERE = Path(__file__).parent
FILES = (*sorted(HERE.glob("*.py")), HERE.parent / "policy.py")  # all that a kernel is made from
# Numba checks a cached kernel against its own file only, not against the files of the kernels it calls. Ours are
# compiled again when any of them has changed: an old decision in a new release would be a wrong one.
SOURCES = sha256(b"".join(file.read_bytes() for file in FILES)).hexdigest()
COMPILED = not config.DISABLE_JIT  # type: ignore[attr-defined]


def kernel(function: Kernel) -> Kernel:
    """Compile the function into its callers.

    Kernels take their arrays in named tuples. Numba's reference counting would touch every array of every tuple at each
    call, twenty times the work of a short pass; a kernel allocates nothing, so it is switched off. A call would also
    copy the tuples' 70 words, so kernels are inlined.
    """
    return compiled(function, inline=True)


def expression(function: Kernel) -> Kernel:
    """As `kernel`, for short functions: numba copies them into their callers before it compiles those.

    A function compiled by itself costs a fifth of a second at the first run, however short it is.
    """
    if COMPILED:  # pragma: no cover - lines are only counted where nothing is compiled
        function = njit(cache=False, error_model="numpy", nogil=True, inline="always", _nrt=False)(function)  # type: ignore[call-overload]
    return function


def outlined(function: Kernel) -> Kernel:
    """As `kernel`, but called instead of inlined: for rare work that would make its callers slow to compile."""
    return compiled(function, inline=False)


def compiled(function: Kernel, *, inline: bool) -> Kernel:
    """The function, compiled at its first call and cached on disk under SOURCES."""
    if COMPILED:  # pragma: no cover - lines are only counted where nothing is compiled
        options = {"cache": True, "error_model": "numpy", "nogil": True, "forceinline": inline, "_nrt": False}
        dispatcher: Any = njit(**options)(function)  # type: ignore[call-overload]
        dispatcher._cache._cache_file._source_stamp = SOURCES
        drop_stale(index_of(dispatcher))
        function = dispatcher
    return function


def index_of(dispatcher: Any) -> Path:  # pragma: no cover - without compilation there is no cache
    """Where numba lists what is cached of a kernel."""
    cache = dispatcher._cache
    return Path(cache.cache_path, cache._cache_file._index_name)


def drop_stale(index: Path) -> None:
    """Delete the list if it was made from other sources: numba cannot read one that names types that are gone."""
    with suppress(OSError):
        if SOURCES.encode() not in index.read_bytes():
            index.unlink()


def announce_compilation(dispatcher: Any) -> None:
    """Say on standard error that this run compiles, if no compiled form of this kernel matches the sources."""
    if COMPILED and not index_of(dispatcher).is_file():  # pragma: no cover - without compilation there is no cache
        print("batfill: compiling the engine, once after installation: about twenty seconds", file=sys.stderr)
