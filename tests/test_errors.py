"""Errors: what a missing optional library is called."""

import sys

import pytest

from batfill import errors


def test_a_missing_library_names_the_extra_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(errors.MissingExtra) as caught:
        errors.optional("pandas", "tables")
    assert str(caught.value) == "needs pandas, which is not installed: pip install 'batfill[tables]'"
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, errors.BatfillError)


def test_a_library_that_lacks_one_of_its_own_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_library_of_its_own\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library_of_its_own") as caught:
        errors.optional("half_installed", "tables")
    assert not isinstance(caught.value, errors.MissingExtra)
