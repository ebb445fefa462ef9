"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITH_EXAMPLES = [
    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
    for source, folder in ((ROOT / "schedulers", "."), (ROOT, "studies"))
    for path in sorted((source / folder).rglob("*.py"))
    if "    >>> " in path.read_text()
]


@pytest.mark.needs("pandas", "sklearn", "gymnasium")
@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_in_docstrings_hold(module, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS).failed == 0
