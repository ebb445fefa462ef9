"""The decorator of every kernel."""

from __future__ import annotations

from numba import njit

# Kernels get their arrays in named tuples. With numba's reference counting each call would count every array of every
# tuple up and down: twenty times the work of a short pass. A kernel allocates nothing, so it needs no counting.
kernel = njit(cache=True, error_model="numpy", _nrt=False)
