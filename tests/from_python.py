"""Kernels as the plain Python that they are, for tests that call those that only kernels call."""

from __future__ import annotations

from types import FunctionType

import numpy as np

from batfill.base.kernels import PLAIN


def from_python(kernel):
    """The kernel, and all that it calls, in plain Python, on arguments of whatever kernels run in now."""
    if PLAIN:
        return kernel
    function = in_python(kernel)
    return lambda *arguments: function(*map(readable, arguments))


def in_python(kernel):
    function = getattr(kernel, "plain", kernel)
    known = function.__globals__
    calls = [name for name in function.__code__.co_names if hasattr(known.get(name), "plain")]
    calls += [name for name in function.__code__.co_names if hasattr(known.get(name), "inlined")]
    return FunctionType(function.__code__, known | {name: in_python(known[name]) for name in calls})


def readable(value):
    """A record, or an array, whose elements have their fields as attributes."""
    if isinstance(value, tuple):
        return type(value)._make(map(readable, value))
    return value.view(np.recarray) if isinstance(value, np.ndarray) and value.dtype.names else value
