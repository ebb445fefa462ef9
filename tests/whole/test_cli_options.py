"""Every option of every command arrives where it is used, whatever its value; found by walking the tree of commands."""

from __future__ import annotations

import builtins
import dataclasses
import io
import json
import logging
import re
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

import click
import pytest

from batfill.cli import main
from batfill.cli.app import app
from batfill.model.options import NAMES, OPTIONS, Options, of_arguments
from batfill_site.cli.of_slurm import SITE
from command import batfill

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
# What commands are made of; all else is the library.
LIGHT = (
    *("batfill.cli", "batfill_pages.cli", "batfill_site.cli", "batfill_lab.cli", "batfill.base.errors"),
    *("batfill.base.version", "batfill.model.jobs", "batfill.model.options", "batfill.model.values"),
)
for light in LIGHT:  # before imports are recorded
    import_module(light)

# What an option needs beside it, and texts that its command reads itself.
BESIDE = {
    ("workload fetch", "into"): ["kth-sp2", "--convert"],
    ("workload fetch", "*"): ["kth-sp2"],
    **{("workload scale", name): [] for name in ("interarrival", "load")},
    ("workload scale", "*"): ["--load", "0.5"],
    ("workload resample", "profile_weeks"): ["--method", "users"],
    **{("workload convert", name): ["--platform", "p.xml"] for name in ("bandwidth", "latency")},
    **{
        (command, name): ["--slurm-conf", "slurm.conf"]
        for command, more in (("what-if", ("changes", "add_nodes")), ("fidelity", ("seed",)), ("when", ("past",)))
        for name in (*SITE, "runs", *more)
        if name != "slurm_conf"
    },
    **{("batsched", name): ["--variant", "conservative_bf"] for name in ("queue_order", "rjms_delay")},
}
ARGUMENTS = {
    ("workload import", "cores_per_resource"): {"system": "oar"},
    **{("workload convert", name): {"out": "o.json"} for name in ("platform", "bandwidth", "latency")},
}
# These become a flag, a level of logging, part of an option, a number of calls, another function, and a version.
CHANGED = {
    ("schedule", "verbosity"),
    *(("batsched", option) for option in ("rjms_delay", "variant", "queue_order", "verbosity")),
    ("workload resample", "samples"),
    ("workload convert", "form"),
}
# Options of batsched's that have a counterpart with one value alone; `test_batsim_study.py` has the refusals of others.
OF_ONE_VALUE = {"policy", "variant_options", "variant_options_filepath", "call_make_decisions_on_single_nop"}
MODULES = {"campaign": ["pydantic"]}  # without which they refuse at once
CALENDARS = tuple(str(path) for path in sorted((Path(__file__).parents[1] / "data" / "calendar").iterdir()))
BUDGETS = ("60kWh@0..172800,watts=100W", "1MJ@3600..7200,watts=1W,idle=7W,head-holds")
GATES = tuple(str(path) for path in sorted((Path(__file__).parents[1] / "data" / "gate").glob("p*.csv")))
TEXTS = {"jobs": ("0:", "5:9"), "last": ("0", "2,3"), "cuts": ("0", "0.25,1")}
TEXTS |= {"bandwidth": ("1Bps", "10Gbps"), "latency": ("0", "1ms")}
TEXTS |= {"protected": ("0", "0.25,1"), "figures": ("", "pdf,png"), "suffix": (".swf", ".json")}
TYPED = {
    "pool": ("power=9kW@90W", "nodes=64@1:user"),
    "select": ("full", "exp3:period=1d"),
    "plan": ("scratch", "kept:5"),
    "calendar": CALENDARS,
    "backfill_while": GATES,
    "energy_budget": BUDGETS,
}
TYPED |= {"variant": ("filler", "easy_bf"), "queue_order": ("fcfs", "lcfs")}


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


def two_values(param):
    """A falsy value where there is one (else the smallest), and one that is not the default; None: not given."""
    if param.is_flag:
        return None, True
    if param.name in TYPED:
        return TYPED[param.name]
    if isinstance(param.type, click.types.StringParamType) and param.name in TEXTS:
        return TEXTS[param.name]
    if isinstance(param.type, click.Choice):
        return param.type.choices[0], param.type.choices[-1]
    if isinstance(param.type, click.Path):
        return "first.swf", "second.swf"
    if isinstance(param.type, click.types.StringParamType):
        return "", "made-up"
    if param.type.name == "policy":
        return "fcfs", "lexp"
    if param.name == "estimates":
        return "first.jsonl", "second.jsonl"
    accepted = [word for word in ("0", "1", "2", "6", "0.25", "0.75", "7", "8", "604") if takes(param, word)]
    return accepted[0], accepted[-1]


def takes(param, word):
    try:
        param.type.convert(word, param, click.Context(app))
    except Exception:
        return False
    return True


def written(param, value):
    """The words of the command line that give the option this value."""
    name = max(param.opts, key=len)
    if value is None:
        return list(param.secondary_opts)
    return [name] if value is True else [name, value]


def required(command, words):
    """Words for the arguments and options that the command insists on; `words` are those of some of them."""
    for param in command.params:
        if param.required and param.expose_value:
            usual = param.type.choices[0] if isinstance(param.type, click.Choice) else "4"
            word = words.get(param.name, usual)
            yield param, written(param, word) if isinstance(param, click.Option) else [word]


def leaves(value):
    """Every plain value in what a library function was called with."""
    if isinstance(value, dict):
        yield from leaves([(str(name), entry) for name, entry in value.items()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for entry in value:
            yield from leaves(entry)
    elif isinstance(value, slice):
        yield from (value.start, value.stop)
    elif dataclasses.is_dataclass(value):
        yield from leaves(
            [getattr(value, "name", ""), *(getattr(value, field.name) for field in dataclasses.fields(value))]
        )
    elif isinstance(value, (str, int, float, Path)) or value is None:
        yield value


def arrived(monkeypatch, words):
    """What a command hands to the library, which is a recorder here, and how it prints what comes back."""
    calls: list = []
    real = builtins.__import__

    def recording(name, scope=None, local=None, fromlist=(), level=0):
        if name.startswith(("batfill", "studies.")) and not name.startswith(LIGHT):
            return Recorder(calls, name)
        return real(name, scope, local, fromlist, level)

    out, ended = io.StringIO(), None
    with monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(out):
        patch.setattr(builtins, "__import__", recording)
        patch.setattr(logging, "basicConfig", Recorder(calls, "logging"))
        try:
            main(words)
        except SystemExit as status:
            ended = status.code
        except Exception as error:  # a recorder's answers cannot do everything
            ended = repr(error)
    assert not re.search(r"no such option|is missing|batfill: --", out.getvalue()), out.getvalue()
    found = [leaf for _, *given in calls for leaf in leaves(given)]
    return found, [name for name, *_ in calls], (ended, out.getvalue())


class Recorder(str):
    """Stands for all of the library: whatever is called on it is written down, and answered with another one."""

    def __new__(cls, calls, name):
        made = super().__new__(cls)
        made.calls, made.name = calls, name
        return made

    def __getattribute__(self, name):
        if name.startswith("__") or name in ("calls", "name"):
            return super().__getattribute__(name)
        return Recorder(self.calls, f"{self.name}.{name}")

    def __call__(self, *args, **kwargs):
        self.calls.append((self.name, args, kwargs))
        return Recorder(self.calls, self.name)

    def itself(self, *_):
        return self

    def __iter__(self):
        return iter([Recorder(self.calls, self.name), Recorder(self.calls, self.name)])

    def __len__(self):
        return 2

    def __bool__(self):
        return False

    def __format__(self, spec):
        return "recorded"

    def __exit__(self, *_):
        return None

    __getitem__ = __enter__ = __mul__ = __rmul__ = itself
    __hash__ = str.__hash__


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.needs(*MODULES.get(n, ()))) for n in COMMANDS])
def test_every_value_of_every_option_reaches_the_library(name, monkeypatch):
    for param in COMMANDS[name].params:
        if is_option(param) and not (name == "batsched" and param.name in OF_ONE_VALUE):
            reaches_the_library(name, param, monkeypatch)


def reaches_the_library(name, param, monkeypatch):
    arguments, beside = (
        table.get((name, param.name), table.get((name, "*"), usual)) for table, usual in ((ARGUMENTS, {}), (BESIDE, []))
    )
    needed = [word for other, words in required(COMMANDS[name], arguments) if other is not param for word in words]
    seen = []
    for value in two_values(param):
        found, calls, printed = arrived(monkeypatch, [*name.split(), *needed, *beside, *written(param, value)])
        assert calls or name in ("policies",), f"{name} calls nothing of the library: {printed}"
        if isinstance(value, str) and (name, param.name) not in CHANGED:
            as_given = isinstance(param.type, click.Choice) or param.name in (
                "calendar",
                "backfill_while",
                "energy_budget",
                "pool",
            )
            meant = value if as_given else param.type.convert(value, param, None)
            assert holds(found, meant), f"{value!r} of --{param.name} is lost: {found}"
        seen.append((Counter(map(repr, found)), calls, printed))
    assert seen[0] != seen[1], f"--{param.name} changes nothing"


def holds(found, meant):
    """Whether the value is among what was found: as it is, in parts, or in another unit of time."""
    if isinstance(meant, (int, float)):
        units = (meant, meant / 3600, meant * 86_400)
        return any(type(leaf) in (int, float) and leaf in units for leaf in found) or str(meant) in found
    parts = re.split("[,:]", meant) if isinstance(meant, str) else [meant]
    text = " ".join(map(str, found))
    return all(str(part) in text for part in parts)


# From the command line into the result

BESIDE_IN_TABLE = {
    "overdue": {"threshold": 86400.0},
    "small": {"divider": 600},
    "divider": {"small": "class"},
    "predict": {},
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
