"""Decorators that compile kernels at the first call, once per installation, and again when any source changes.

With `NUMBA_DISABLE_JIT=1` kernels stay plain Python, for a debugger and for line coverage.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

# Numba loads scipy's linear algebra, if scipy is installed, when it compiles or loads its first kernel; ours do not use
# it, and it is half of numba's loading time. A command hides it meanwhile; in a user's own process numba stays whole.
# Every module of batfill has `njit` from here, so that no kernel comes before this.
HIDES_SCIPY = "batfill.cli" in sys.modules and not {"numba.np.arraymath", "scipy.linalg"} & sys.modules.keys()
if HIDES_SCIPY:  # pragma: no cover - tests load numba in their own process
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment] # which makes importing it fail
try:
    import numba.np.arraymath  # noqa: F401 - looks for scipy when it is loaded
    from numba import config
    from numba import njit as njit
    from numba.core.registry import CPUDispatcher
finally:
    if HIDES_SCIPY:  # pragma: no cover - as above
        del sys.modules["scipy.linalg"]

if TYPE_CHECKING:
    from collections.abc import Callable

Kernel = TypeVar("Kernel", bound="Callable[..., Any]")


@cache
def digest_of(*files: str | Path) -> str:
    """The sha256 of these files' bytes, one after another, hexadecimal."""
    return sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


FILES = sorted(Path(__file__).parent.glob("*.py"))
SOURCES = digest_of(*FILES)  # of all kernels of the engine
COMPILED = not config.DISABLE_JIT  # type: ignore[attr-defined]
# Numba's reference counting would touch every array of every tuple at each call, twenty times the work of a short
# pass; kernels allocate nothing, so it is off.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}


def compiled(*files: str | Path, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that compiles a function at its first call, once per installation, and again if a file changes.

    Numba compares a cached kernel with its own file only, not with the files of the kernels it calls: a stale decision
    in a new release would be wrong.

    Args:
        *files: all that the compiled code is made from.
        **options: numba's.
    """
    sources = digest_of(*files)

    def compile_it(function: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(cache=True, **options)(function)
        if COMPILED:  # pragma: no cover - lines are only counted where nothing is compiled
            dispatcher._cache._cache_file._source_stamp = sources
            drop_stale(index_of(dispatcher), sources)
        return dispatcher

    return compile_it


def kernel(function: Kernel) -> Kernel:
    """Compile the function into its callers: a call would copy the 70 words of the tuples that hold its arrays."""
    return inner(function, inline=True)


def expression(function: Kernel) -> Kernel:
    """Mark a short function as a kernel that numba copies into its callers before compiling them.

    Compiling even the shortest function separately costs a fifth of a second at the first run.
    """
    return njit(cache=False, inline="always", **OPTIONS)(function)  # type: ignore[no-any-return]


def outlined(function: Kernel) -> Kernel:
    """Compile the function as a kernel that is called, not inlined: for rare work that is slow to compile inline."""
    return inner(function, inline=False)


class Inner(CPUDispatcher):
    """A kernel that only kernels call."""

    def __call__(self, *_: Any) -> Any:  # pragma: no cover - lines are only counted where nothing is compiled
        """Refuse a call from Python, which would crash the process."""
        raise TypeError(f"{self.py_func.__name__}: decorate it with `entry` to call it from Python")


def entry(kernel: Kernel) -> Kernel:
    """Let Python call a kernel too.

    Numba then compiles code that unpacks every array of the arguments from its Python object, often more than the
    kernel has of its own. Most kernels do without: a third of the time of the first run.
    """
    if COMPILED:  # pragma: no cover - as above
        dispatcher: Any = kernel
        dispatcher.targetoptions |= {"no_cpython_wrapper": False, "no_cfunc_wrapper": False}
        dispatcher.__class__ = CPUDispatcher
    return kernel


def inner(function: Kernel, *, inline: bool) -> Kernel:
    """Compile a kernel of the engine that Python does not call."""
    if COMPILED:  # pragma: no cover - as above
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        dispatcher = compiled(*FILES, forceinline=inline, **wrappers, **OPTIONS)(function)
        dispatcher.__class__ = Inner
        function = dispatcher
    return function


def undispatched(kernel: Kernel) -> Kernel:
    """The kernel for calls from Python whose arguments have the same types every time: never an int for a float.

    Numba's dispatcher looks up the types of all arrays at each call, which takes 3 microseconds, six times the work of
    a short pass. From the second call on the compiled function is called directly, and it does not check its arguments.
    """
    if not COMPILED:
        return kernel
    direct: Any = None  # pragma: no cover - as above

    def call(*arguments: Any) -> Any:  # pragma: no cover
        nonlocal direct
        if direct is not None:
            return direct(*arguments)
        result = kernel(*arguments)
        if len(kernel.overloads) == 1:  # type: ignore[attr-defined]
            (version,) = kernel.overloads.values()  # type: ignore[attr-defined]
            direct = version.entry_point
        return result

    return call  # type: ignore[return-value]  # pragma: no cover


def index_of(dispatcher: Any) -> Path:  # pragma: no cover - without compilation there is no cache
    """The path of numba's index of a kernel's cached versions."""
    cache = dispatcher._cache
    return Path(cache.cache_path, cache._cache_file._index_name)


def drop_stale(index: Path, sources: str) -> None:
    """Delete an index made from other sources: numba cannot read one that names types that no longer exist."""
    with suppress(OSError):
        if sources.encode() not in index.read_bytes():
            index.unlink()


def announce_compilation(dispatcher: Any) -> None:
    """Announce the compilation on standard error if no cached version of this kernel matches the sources."""
    if COMPILED and not index_of(dispatcher).is_file():  # pragma: no cover - without compilation there is no cache
        print("batfill: compiling the engine, once after installation: about a minute", file=sys.stderr)
