"""Kernels: functions of arrays that are compiled when batfill is built, and how Python calls them.

The compiled kernels of all houses are in `kernels.so` of this package, a plain shared library without a symbol of
Python. Python calls those that have the decorator `entry`; what it passes is checked here, because the library trusts
its arguments. With `BATFILL_PLAIN=1` in the environment all kernels run as the plain Python that they are, some hundred
times slower, for a debugger and for line coverage.
"""

from __future__ import annotations

import ctypes
import json
import os
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np

from batfill.base.errors import BatfillError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Function = TypeVar("Function", bound="Callable[..., Any]")
Class = TypeVar("Class", bound=type)

PLAIN = os.environ.get("BATFILL_PLAIN", "") not in ("", "0")
LIBRARY = Path(__file__).parents[1] / "kernels.so"
REMEDY = "run `make kernels` in a checkout, or install batfill again"

F4, F8 = np.dtype("f4"), np.dtype("f8")
I1, I4, I8 = np.dtype("i1"), np.dtype("i4"), np.dtype("i8")
U1, U4 = np.dtype("u1"), np.dtype("u4")


# What kernels take: `int`, `float`, a dtype for an array of one axis, an Array, or a class decorated with `record`.


class Array(NamedTuple):
    """An array, C-contiguous; writable unless kernels only read it."""

    dtype: np.dtype[Any]
    ndim: int = 1
    read: bool = False


def kernel(function: Function) -> Function:
    """Mark a kernel that is compiled into the kernels that call it."""
    function.inlined = True  # type: ignore[attr-defined]
    return function


def outlined(function: Function) -> Function:
    """Mark a kernel that is called, not inlined: for rare work that is slow to compile inline."""
    function.inlined = False  # type: ignore[attr-defined]
    return function


def entry(*takes: Any, gives: Any = None, brief: bool = False) -> Callable[[Function], Function]:
    """Let Python call a kernel.

    Args:
        *takes: the types of its arguments, in order.
        gives: that of its result: None, int, float, or a tuple of these for a tuple.
        brief: whether a call takes microseconds, so that other threads of Python may wait for it.
    """

    def offer(function: Function) -> Function:
        function.takes, function.gives = takes, gives  # type: ignore[attr-defined]
        return function if PLAIN else served(function, brief)

    return offer


def record(*columns: Any) -> Callable[[Class], Class]:
    """Let kernels take a class of named tuples by address; `columns` are the types of its fields, in order.

    The arrays live as long as the record. Its address is computed, and its arrays are checked, when a kernel first
    takes it; a copy has an address of its own.
    """

    def give(cls: Class) -> Class:
        # A named tuple of `typing` has no room for a table: hence a class of the same name below it.
        own: dict[str, Any] = {"__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        kinds = [Array(each) if isinstance(each, np.dtype) else each for each in columns]
        own["columns"] = dict(zip(cls._fields, kinds, strict=True))  # type: ignore[attr-defined]
        own["table"] = ctypes.c_int64 * sum(map(words_in, columns))
        own |= {own_name(cls): cached_property(table_in), "__getstate__": lambda _: None}
        return type(cls.__name__, (cls,), own)  # type: ignore[return-value]

    return give


def own_name(cls: Any) -> str:
    """The attribute of a record's words, which no other class has."""
    return f"words_of_{cls.__module__}_{cls.__qualname__}".replace(".", "_")


def table_in(given: Any) -> Any:
    return given.table(*words_of(given, type(given), type(given).__name__))


def words_in(kind: Any) -> int:
    if hasattr(kind, "columns"):
        return sum(map(words_in, kind.columns.values()))
    return 1 if isinstance(kind, type) else 1 + array_type(kind).ndim


# The words of an array are its address and its shape; those of a record are the words of its fields.


def words_of(value: Any, kind: Any, name: str) -> list[int]:
    """The words of a value; a TypeError if it is not what a kernel takes."""
    if kind is float or kind is int:
        return [int(np.array(value, np.float64 if kind is float else np.int64).view(np.int64))]
    if hasattr(kind, "columns"):
        if type(value) is not kind:
            raise TypeError(f"{name}: {type(value).__name__} where {kind.__name__} is needed")
        words = []
        columns: dict[str, Any] = kind.columns
        for (field, column), part in zip(columns.items(), value, strict=True):
            words += words_of(part, column, f"{name}.{field}")
        return words
    return words_of_array(value, array_type(kind), name)


def words_of_array(array: Any, kind: Array, name: str) -> list[int]:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: {type(array).__name__} where an array is needed")
    flags = array.flags
    if (
        (array.dtype is not kind.dtype and array.dtype != kind.dtype)
        or array.ndim != kind.ndim
        or not (flags.c_contiguous and flags.aligned)
        or not (kind.read or flags.writeable)
    ):
        manners = ["" if flags.c_contiguous else "strided ", "" if flags.writeable else "read-only "]
        raise TypeError(
            f"{name}: a {''.join(manners)}array of {array.dtype}, {array.ndim} axes, where "
            f"{'a' if kind.read else 'a writable'} contiguous one of {kind.dtype}, {kind.ndim} axes, is needed"
        )
    return [array.ctypes.data, *array.shape]


def array_type(kind: Any) -> Array:
    return kind if isinstance(kind, Array) else Array(kind)


class ArrayArgument:
    """An array among the arguments of a kernel, for ctypes."""

    def __init__(self, kind: Array, name: str) -> None:
        """`name`: of the kernel and its argument, for messages."""
        self.kind, self.name, self.words = kind, name, ctypes.c_int64 * (1 + kind.ndim)

    def from_param(self, array: Any) -> Any:
        return self.words(*words_of_array(array, self.kind, self.name))


# The library.


@cache
def layout(kind: Any) -> str:
    """A text that differs if a kernel reads memory in another way."""
    if hasattr(kind, "columns"):
        return f"({' '.join(map(layout, kind.columns.values()))})"
    if kind is None or isinstance(kind, type):
        return str(kind)
    if isinstance(kind, tuple) and not isinstance(kind, Array):
        return " ".join(map(layout, kind))
    dtype, ndim, _ = array_type(kind)
    fields = "".join(f" {name} {each.str} {at}" for name, (each, at, *_) in (dtype.fields or {}).items())
    return f"{dtype.str}{fields} {dtype.itemsize} {ndim}"


def symbol_of(function: Any) -> str:
    """The name of an entry in its library; it has another one if its types differ."""
    types = " ".join(map(layout, (*function.takes, function.gives)))
    return f"{function.__module__}.{function.__name__}.{crc32(types.encode()):08x}"


def sources_of(library: Path) -> dict[str, int]:
    """The CRC-32 of each file that the library was made from, by its path from the library's folder.

    What `scripts/kernels.py` appends to a library is JSON about it and the CRC-32 of all before: to load a library that
    was cut off would end the process.
    """
    *content, digest = library.read_bytes().rsplit(b"\n", 2)
    if len(content) < 2 or b"%08x" % crc32(b"\n".join(content)) != digest:
        raise ValueError("its bytes are damaged")
    sources: dict[str, int] = json.loads(content[1])["sources"]
    return sources


def changed(folder: Path, sources: dict[str, int]) -> list[str]:
    """The files whose contents differ from these; a wheel has no studies, so a file may be absent."""
    paths = {name: folder / name for name in sources}
    return [name for name, path in paths.items() if path.is_file() and crc32(path.read_bytes()) != sources[name]]


@cache
def libraries(path: Path = LIBRARY) -> tuple[ctypes.CDLL, ctypes.PyDLL]:
    """The library, for calls that release Python's lock and for those that keep it."""
    try:
        stale = changed(path.parent, sources_of(path))
        if not stale:
            return ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
    except FileNotFoundError:
        raise BatfillError(f"{path}: the compiled kernels are missing; {REMEDY}") from None
    except (OSError, ValueError) as error:
        raise BatfillError(f"{path}: the compiled kernels cannot be loaded ({error}); {REMEDY}") from None
    raise BatfillError(f"{path}: the kernels were compiled before {stale[0]} changed; {REMEDY}")


def served(function: Any, brief: bool) -> Any:
    """The compiled kernel, a function of ctypes; its attribute `plain` is the function in Python."""
    compiled: Any
    symbol = symbol_of(function)
    try:
        compiled = libraries()[brief][symbol]
    except AttributeError:
        name = symbol.rpartition(".")[0]
        raise BatfillError(f"{LIBRARY}: no kernel {name} of these types in it; {REMEDY}") from None
    names = function.__code__.co_varnames
    compiled.argtypes = [
        argument_of(kind, f"{function.__name__}: {name}") for kind, name in zip(function.takes, names, strict=False)
    ]
    compiled.plain = function
    compiled.restype = C_TYPES.get(function.gives)
    return with_results(compiled, function.gives) if isinstance(function.gives, tuple) else compiled


C_TYPES = {float: ctypes.c_double, int: ctypes.c_int64}


def argument_of(kind: Any, name: str) -> Any:
    if hasattr(kind, "table"):  # looked up in C; a type of ctypes here would take twice the time
        return type(kind.__name__, (), {"from_param": attrgetter(own_name(kind))})
    return C_TYPES[kind] if isinstance(kind, type) else ArrayArgument(array_type(kind), name)


def with_results(compiled: Any, gives: Sequence[type]) -> Any:
    """A function that returns the tuple of results that the kernel writes to memory of this call."""
    fields = [(f"result_{place}", C_TYPES[kind]) for place, kind in enumerate(gives)]
    results = type("Results", (ctypes.Structure,), {"_fields_": fields})
    compiled.argtypes = [*compiled.argtypes, ctypes.POINTER(results)]

    def call(*arguments: Any) -> Any:
        found = results()
        compiled(*arguments, ctypes.byref(found))
        return tuple(getattr(found, name) for name, _ in fields)

    call.plain = compiled.plain  # type: ignore[attr-defined]
    return call
