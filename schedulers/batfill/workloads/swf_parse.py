"""Parses SWF text into numbers, compiled: the only parser of SWF lines.

Source of the format: the Standard Workload Format, version 2.2, of the Parallel Workloads Archive: one job per line,
18 numbers separated by blanks; a line that starts with a semicolon is a comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.kernels import F8, I8, U1, Array, entry, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT_DIGITS = 15  # numbers of 15 digits and powers of ten up to 10^15 are exact in a float64, as is their quotient
TENS: NDArray[np.float64] = np.power(10.0, np.arange(EXACT_DIGITS + 1), dtype=np.float64)


@entry(
    Array(U1, read=True),
    Array(F8, read=True),
    Array(F8, 2),
    I8,
    Array(I8, 2),
    Array(I8, 2),
    int,
    gives=(int, int, int, int, int, int),
)
@kernel
def parse_rows(
    text: NDArray[np.uint8],
    tens: NDArray[np.float64],
    rows: NDArray[np.float64],
    lines: NDArray[np.int64],
    hard: NDArray[np.int64],
    comments: NDArray[np.int64],
    width: int,
) -> Any:
    """Fill `rows` with the numbers of `text`: (rows, hard tokens, comments, lines read, the wrong fields or -1, width).

    `text`: whole lines, each ended by a newline. `rows`: (>= lines, 18), receives one job each, `lines`: (>= lines,),
    its line, counted from 0, `hard`: (>= tokens, 4), row, field, first and one-past-last byte of a token not a plain
    short decimal, `comments`: (>= lines, 3), the number of jobs before it, first and one-past-last byte of each
    comment. `width`: the fields of a row, 18 or more, of which the first 18 are read; 0: those of the first row.

    Reading stops at a line with another number of fields; `lines read` is then that line, counted from 0, and `the
    wrong fields` its number of fields.
    """
    n_rows = n_hard = n_comments = line = at = 0
    size, n_fields = text.size, rows.shape[1]
    while at < size:
        field = 0
        while text[at] != 10:
            c = text[at]
            if c == 32 or c == 9 or c == 13:  # blank, tab, carriage return
                at += 1
                continue
            start = at
            if c == 59 and field == 0:  # semicolon
                while text[at] != 10:
                    at += 1
                comments[n_comments, 0] = n_rows
                comments[n_comments, 1] = start
                comments[n_comments, 2] = at
                n_comments += 1
                break
            negative = c == 45
            if negative:
                at += 1
            number = 0
            digits = 0
            point = -1
            while 48 <= text[at] <= 57 or (text[at] == 46 and point < 0):
                if text[at] == 46:
                    point = digits
                else:
                    if digits < EXACT_DIGITS:
                        number = number * 10 + (int(text[at]) - 48)
                    digits += 1
                at += 1
            c = text[at]
            plain = (c == 32 or c == 9 or c == 13 or c == 10) and 0 < digits <= EXACT_DIGITS
            while not (c == 32 or c == 9 or c == 13 or c == 10):
                at += 1
                c = text[at]
            if field < n_fields:
                if plain:
                    value = float(number) if point < 0 else number / tens[digits - point]
                    rows[n_rows, field] = -value if negative else value
                else:
                    hard[n_hard, 0] = n_rows
                    hard[n_hard, 1] = field
                    hard[n_hard, 2] = start
                    hard[n_hard, 3] = at
                    n_hard += 1
            field += 1
        if width == 0 and field >= n_fields:
            width = field
        if field > 0 and field == width:
            lines[n_rows] = line
            n_rows += 1
        elif field > 0:
            return n_rows, n_hard, n_comments, line, field, width
        line += 1
        at += 1
    return n_rows, n_hard, n_comments, line, -1, width
