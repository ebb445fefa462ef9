"""The list of commands is what the commands themselves say, though it imports none of them."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import click
import pytest

import batfill.cli
from batfill.cli.app import COMMANDS, app
from command import refusal


def commands_in(file):
    """The names of the commands that a file of the command line defines."""
    module = import_module(f"batfill.cli.{file}")
    made = [value for value in vars(module).values() if isinstance(value, click.Command)]
    return {command.name for command in made if command.callback.__module__ == module.__name__}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_line_of_the_help_is_how_the_command_describes_itself(name):
    described = app.get_command(click.Context(app), name).callback.__doc__
    assert " ".join(described.split()).startswith(COMMANDS[name].removesuffix("."))


def test_every_command_that_a_file_defines_is_listed():
    files = {path.stem for path in Path(batfill.cli.__file__).parent.glob("*.py")} - {"__init__", "app"}
    groups = [app.get_command(click.Context(app), name) for name in COMMANDS]
    below = {name for group in groups if isinstance(group, click.Group) for name in group.commands}
    assert set().union(*map(commands_in, files)) == set(COMMANDS) | below


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_no_more_than_a_dozen_arguments(name):
    group = app.get_command(click.Context(app), name)
    for command in group.commands.values() if isinstance(group, click.Group) else [group]:
        assert len(inspect.signature(inspect.unwrap(command.callback)).parameters) <= 12, command.name


def test_a_value_that_is_not_known_is_answered_with_those_that_are():
    said = refusal("tune", "x.swf", "--units", "miles")
    assert said == "Invalid value for '--units': 'miles' is not one of 'typical', 'plain'. (see batfill tune --help)"
