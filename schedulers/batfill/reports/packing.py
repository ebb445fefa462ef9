"""Compact columns of numbers: integers as differences in the smallest type, deflated, in base64.

`assets/columns.js` reads this format.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

INTEGER_TYPES = ("i1", "i2", "i4")


def packed(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The columns as JSON: `data` in base64, and each column's `name`, `type`, `length`, and whether `differences`.

    Integers below 2^31 become the smallest of int8, int16, int32 that holds them or, if smaller, the differences
    between neighbours; everything else becomes float64. Bytes of equal significance are adjacent, which deflates
    better.
    """
    parts, heads = [], []
    for name, column in columns.items():
        stored, differences = smallest(column)
        planes = stored.view(np.uint8).reshape(len(stored), stored.itemsize).T
        parts.append(planes.tobytes())
        heads.append({"name": name, "type": stored.dtype.str[1:], "length": len(stored), "differences": differences})
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = deflate.compress(b"".join(parts)) + deflate.flush()
    return {"columns": heads, "data": base64.b64encode(data).decode()}


def smallest(column: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """The column in the smallest type, and whether as differences (the first from 0)."""
    if column.dtype == bool:
        return column.astype("<i1"), False
    if not np.isfinite(column).all() or (column != np.floor(column)).any() or np.abs(column).max(initial=0) >= 2**31:
        return column.astype("<f8"), False
    whole = column.astype(np.int64)
    steps = np.diff(whole, prepend=0)
    for kind in INTEGER_TYPES:
        limits = np.iinfo(kind)
        for values, differences in ((whole, False), (steps, True)):
            if limits.min <= values.min(initial=0) and values.max(initial=0) <= limits.max:
                return values.astype(f"<{kind}"), differences
    return column.astype("<f8"), False
