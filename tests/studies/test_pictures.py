"""The pictures of the results' pages show what the tables of these pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.tables.pictures import PICTURES, Dot, dot_of

README = Path(__file__).parents[2] / "README.md"
RESULTS = README.parent / "docs" / "results"


@pytest.mark.parametrize(
    ("cell", "dot"),
    [
        ("0.95", Dot(0.95)),
        ("1,302", Dot(1302)),
        ("0.67 (0.65-0.69)", Dot(0.67, 0.65, 0.69)),
        ("12.10 (1.17 to 59.92), 0.0234 ▲", Dot(12.1, 1.17, 59.92)),
        ("-0.5 (-1.5 to 0.5)", Dot(-0.5, -1.5, 0.5)),
    ],
)
def test_a_cell_is_a_value_with_its_interval_if_there_is_one(cell, dot):
    assert dot_of(cell) == dot


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_the_table_of_its_page(name):
    """If not, `python -m studies.tables.pictures` draws it again."""
    about, _, file = name.partition(" ")
    page, path = (RESULTS / f"{about}.md").read_text(), f"{about}/{file or about}.svg"
    picture = PICTURES[name](page)
    assert all(len(dots) == len(picture.labels) for dots in picture.series.values())
    assert picture.digest in (RESULTS / path).read_text()
    assert f"{path.removeprefix('../')})" in page + README.read_text()  # which has the home's
