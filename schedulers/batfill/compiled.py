"""How every kernel is compiled."""

from __future__ import annotations

import sys
from pathlib import Path

from numba import njit

# Kernels get their arrays in named tuples. With numba's reference counting each call would count every array of every
# tuple up and down: twenty times the work of a short pass. A kernel allocates nothing, so it needs no counting.
kernel = njit(cache=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]


def announce_compilation() -> None:
    """Say on standard error that the first run compiles, where nothing is compiled yet."""
    from batfill.easy import easy_pass

    if not any(Path(easy_pass._cache.cache_path).glob("easy.*.nbi")):
        print("batfill: compiling the engine; this happens once, after installation", file=sys.stderr)
