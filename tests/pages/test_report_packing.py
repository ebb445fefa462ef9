import base64
import zlib

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batfill_pages.data import digits_of, packed


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
        columns[told["name"]] = values
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


@given(st.lists(st.one_of(st.integers(0, 10**9 - 1).map(str), st.from_regex(r"\A0?[0-9]{1,3}\Z"), st.text(max_size=3))))
def test_ids_are_stored_as_numbers_only_if_they_come_back(ids):
    if digits := digits_of(ids):
        assert [str(int(one)).zfill(digits) for one in ids] == ids
    assert digits_of(["1", "20"]) == 1
    assert digits_of(["007", "1234"]) == 3
