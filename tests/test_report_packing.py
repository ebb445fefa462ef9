import base64
import zlib

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batfill.reports.data import packed


def unpacked(stored):
    """What the page's script makes of it, step by step."""
    content = zlib.decompress(base64.b64decode(stored["data"]), -15)
    columns = {}
    at = 0
    for told in stored["columns"]:
        kind = np.dtype(f"<{told['type']}")
        size = told["length"] * kind.itemsize
        planes = np.frombuffer(content[at : at + size], np.uint8).reshape(kind.itemsize, told["length"])
        values = np.ascontiguousarray(planes.T).view(kind).ravel()
        columns[told["name"]] = np.cumsum(values, dtype=np.int64) if told["differences"] else values
        at += size
    assert at == len(content)
    return columns


whole = arrays.arrays(np.int64, st.integers(0, 50), elements=st.integers(-(2**40), 2**40))
small = arrays.arrays(np.int64, st.integers(0, 50), elements=st.integers(-200, 40_000))
real = arrays.arrays(np.float64, st.integers(0, 50), elements=st.floats(allow_nan=False))


@given(st.lists(st.one_of(whole, small, real), max_size=4))
def test_columns_come_back_as_they_were(columns):
    named = {str(k): column for k, column in enumerate(columns)}
    back = unpacked(packed(named))
    assert list(back) == list(named)
    for name, column in named.items():
        assert (back[name] == column).all()


@pytest.mark.parametrize(
    ("column", "kind", "differences"),
    [
        ([0, 1, 127], "i1", False),
        ([1000, 1001, 1002], "i2", False),
        ([70_000, 70_001, 70_002], "i4", False),
        (list(range(0, 90_000, 3)), "i1", True),
        ([0.5, 1.0], "f8", False),
        ([2**31], "f8", False),
        ([True, False], "i1", False),
    ],
)
def test_the_smallest_type_is_taken(column, kind, differences):
    (told,) = packed({"x": np.array(column)})["columns"]
    assert (told["type"], told["differences"]) == (kind, differences)
