"""The list of commands is what the commands themselves say, though it imports none of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import batfill.cli
from batfill.cli.app import COMMANDS
from command import refusal


@pytest.mark.parametrize("name", COMMANDS)
def test_each_line_of_the_help_is_how_the_command_describes_itself(name):
    module = import_module(f"batfill.cli.{name.replace('-', '_')}")
    described = getattr(module, name.replace("-", "_")).callback.__doc__
    assert " ".join(described.split()).startswith(COMMANDS[name].removesuffix("."))


def test_every_command_file_is_listed():
    files = Path(batfill.cli.__file__).parent.glob("*.py")
    commands = {
        path.stem.replace("_", "-")
        for path in files
        if path.read_text().startswith('"""`batfill ') and not path.stem.startswith("workload_")
    }
    assert commands == set(COMMANDS)


def test_a_value_that_is_not_known_is_answered_with_those_that_are():
    said = refusal("tune", "x.swf", "--units", "miles")
    assert said == "Invalid value for '--units': 'miles' is not one of 'typical', 'plain'. (see batfill tune --help)"
