"""Every option of every command is used, and those of the scheduler arrive in the result, whatever their value."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from pathlib import Path

import click
import pytest

from batfill.cli.app import app
from batfill.model.options import NAMES, OPTIONS, Options, of_arguments
from command import batfill

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
CALENDARS = tuple(str(path) for path in sorted((Path(__file__).parents[1] / "data" / "calendar").iterdir()))
BUDGETS = ("60kWh@0..172800,watts=100W", "1MJ@3600..7200,watts=1W,idle=7W,head-holds")
GATES = tuple(str(path) for path in sorted((Path(__file__).parents[1] / "data" / "gate").glob("p*.csv")))


def commands(group=app, path=()):
    """Every command that takes options, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def is_option(param):
    """Whether it is an option whose value the command gets."""
    return isinstance(param, click.Option) and param.expose_value


COMMANDS = dict(commands())
EVERY = [(name, param) for name, command in COMMANDS.items() for param in command.params if is_option(param)]


def takes(param, word):
    try:
        param.type.convert(word, param, click.Context(app))
    except Exception:
        return False
    return True


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_used_by_its_command(name):
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(COMMANDS[name].callback)))
    (command,) = ast.parse(source).body
    used = {node.id for line in command.body for node in ast.walk(line) if isinstance(node, ast.Name)}
    given = [*command.args.posonlyargs, *command.args.args, *command.args.kwonlyargs, command.args.kwarg]
    assert [one.arg for one in given if one and one.arg not in used] == []


# From the command line into the result

BESIDE_IN_TABLE = {
    "overdue": {"threshold": 86400.0},
    "small": {"divider": 600},
    "divider": {"small": "class"},
    "predict": {},
    "preempt": {"urgent": "user=1+2"},
    **{
        name: {"urgent": "user=1+2", "preempt": "youngest"}
        for name in ("preempt-exempt", "requeue-delay", "checkpoint")
    },
    "predict-for": {"predict": "easy++"},
}
VALUES = {
    "policy": ("fcfs", "saf"),
    "backfill": ("same", "spf"),
    "depth": (0, "all"),
    "tested": (5, "all"),
    "max-running": (1, 40),
    "calendar": CALENDARS,
    "backfill-while": GATES,
    "energy-budget": BUDGETS,
    "pool": ("power=9kW@90W", "nodes=64@1:skip"),
    "preset": ("none", "first-tries", "slurm", "flux", "pbs"),
    "threshold": (0, 7200),
    "small": ("class", "perfect"),
    "divider": (1, 600),
    "small-width": (0.001, 0.5),
    "stand-back": (0.5, 32),
    "seed": (0, 7),
    "reservation": ("processors", "kept"),
    "urgent": ("user=1+2", "share:5%,seed=1"),
    "preempt-exempt": (0, 600),
    "requeue-delay": (0, 1.5),
    "checkpoint": ("3600", "3600,cost=30"),
}


def values_of(option):
    return VALUES.get(option.name) or (option.kind.choices[0], option.kind.choices[-1])


def beside(option):
    return BESIDE_IN_TABLE.get(option.name, {"small": "forest"} if option.needs else {})


@pytest.fixture(scope="module")
def classed(tmp_path_factory):
    """A workload whose jobs have classes."""
    path = tmp_path_factory.mktemp("classed") / "classed.json"
    content = json.loads(SAMPLE.read_text())
    content["jobs"] = [{**job, "class": "small"} for job in content["jobs"][:40]]
    path.write_text(json.dumps(content))
    return path


def with_its_modules(name):
    return pytest.param(name, marks=pytest.mark.needs(*["sklearn"] * ("forest" in beside(OPTIONS[name]).values())))


@pytest.mark.parametrize("name", [with_its_modules(name) for name in NAMES])
def test_an_option_is_what_it_was_given_in_json_in_python_and_in_a_replays_result(name, classed):
    option = OPTIONS[name]
    for value in values_of(option):
        given = {**beside(option), name: value}
        arguments = {OPTIONS[key].argument: each for key, each in given.items()}
        assert Options.of(given).as_dict()[name] == Options.of(of_arguments(arguments)).as_dict()[name] == value
        words = [word for key, entry in given.items() for word in (f"--{key}", entry)]
        stated = json.loads(batfill("replay", classed, *words, "--json").out)["options"]
        assert stated.items() >= given.items()
        assert tuple(stated) == (*OPTIONS, "procs", "tau", "overrun", "unrequested")


def test_every_command_that_replays_logs_takes_both_options_on_requests():
    hosts = {"replay", "tune", "fit", "select", "what-if", "fidelity", "workload convert"}
    for option, taking in (("overrun", hosts), ("unrequested", hosts | {"when"})):
        assert {name for name, param in EVERY if param.name == option} == taking


@pytest.mark.parametrize("value", ["inf", "nan", "-inf", "1e999"])
def test_no_number_may_be_infinite_or_none(value):
    numbers = [(name, param) for name, param in EVERY if takes(param, "1") and not takes(param, "words")]
    assert len(numbers) > 50
    assert [(name, param.name) for name, param in numbers if not param.is_flag and takes(param, value)] == []
