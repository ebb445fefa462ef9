"""Kernels that only kernels call, for tests that call them alone."""

from __future__ import annotations

from batfill.engine.jit import COMPILED, njit


def from_python(kernel):
    """The kernel as Python may call it."""
    return njit(lambda *arguments: kernel(*arguments), _nrt=False) if COMPILED else kernel
