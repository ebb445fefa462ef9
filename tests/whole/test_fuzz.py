"""No input ends in a traceback, a hang or a half-written file.

The examples are the same in every run. BATFILL_FUZZ_S says for how many seconds they run in total (5 by default), and
BATFILL_FUZZ_SEED where the seeds begin. A failure is printed with its seed, command line and files.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import signal
import time
from contextlib import chdir, contextmanager
from pathlib import Path

import click
import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

pytest.importorskip("pydantic")

from batfill.batsim_files.platform import homogeneous_platform
from batfill.cli.app import app
from batfill.model.policy import POLICIES
from command import COMPILING, batfill
from swf_text import row

TOTAL_S = float(os.environ.get("BATFILL_FUZZ_S", "5"))
SEED = int(os.environ.get("BATFILL_FUZZ_SEED", "0"))
BATCH = 25
LONGEST_EXAMPLE_S = 60  # of an idle machine's half second
PARTS = {"commands": 0.6, "files": 0.4}

pytestmark = pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")


class Hang(BaseException):
    """An example takes too long."""


@contextmanager
def no_hang():
    def stop(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_EXAMPLE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


BATCHES = settings(
    max_examples=BATCH, deadline=None, database=None, print_blob=True, phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def fuzz(test, part, share=1.0, **strategies):
    """Run a test on examples, a batch per seed, until its share of the time is over."""

    def example(**values):
        with no_hang():
            test(**values)

    until = time.monotonic() + TOTAL_S * PARTS[part] * share
    for number in itertools.count(SEED):
        BATCHES(seed(number)(given(**strategies)(example)))()
        if time.monotonic() > until:
            return


# Values

EDGES = [
    "0", "1", "-1", "2", "0.5", "7", "nan", "inf", "-inf", "1e308", "1e-308", "-0", "", " ", "x", "1,2", "1:2",
    ":", "é",
]  # fmt: skip
HUGE = ["9007199254740993", str(2**31), str(2**63), str(10**20), "9" * 5000]
AMOUNTS = [
    "jobs", "samples", "tuples", "permutations", "evaluations", "points", "users", "weeks", "count", "workers",
    "n", "runs",
]  # fmt: skip
TEXTS = st.sampled_from(
    [
        *POLICIES, "mixed:1,0,0,0,0,0", "mixed:1e308,1e308,0,0,1,1", "mixed:nan,0,0,0,0,0", "mixed:0,0,0,0,0,0", "ten",
        "twelve", "same", "lin@policies.json", "x@log.swf", "@", "0,0.5,1", "0.5,0.2", "pdf,svg", "svg", "month",
    ]
)  # fmt: skip
READ = [
    "log.swf", "log.swf.gz", "w.json", "empty", "platform.xml", "policies.json", "missing.swf", "folder",
    ".", "", "out_jobs.csv", "e.yaml", "campaign.yaml", "sacct.txt", "slurm.conf", "/dev/null",
]  # fmt: skip
WRITTEN = [
    "made.swf", "made.json", "made.json.gz", "made", "folder", "no/such/made.swf", "log.swf/x",
    "made.txt",
]  # fmt: skip

# What keeps a command short, where the fuzz does not say otherwise.
SHORT = {
    "fit": {"--tuples": "2", "--permutations": "20"},
    "tune": {"--points": "10", "--evaluations": "5"},
    "workload generate": {"--jobs": "50"},
    "workload fetch": {"--from": "folder"},
    "campaign": {"--dry-run": None},
    "reproduce": {"--list": None},
    "what-if": {"--no-small-first": None},
}
USUAL = {**dict.fromkeys(("source", "workload", "log"), "log.swf"), "file": "campaign.yaml"}
USUAL |= {"out": "made.json", "folder": "made"}
NEVER = {"--help", "-h", "--version"}
ALWAYS = {"workload fetch": {"--from"}, "campaign": {"--dry-run"}, "reproduce": {"--list"}}
ELSEWHERE = {"run", "schedule", "batsim"}  # they start processes or serve; their inputs are fuzzed below


def tree(command, path=()):
    """(name, command) of every command."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from tree(command.get_command(None, name), (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = {name: command for name, command in tree(app) if name not in ELSEWHERE}


def values_of(parameter):
    """A strategy for what a user may write for it."""
    choices = list(getattr(parameter.type, "choices", ()))
    if choices:
        return st.sampled_from([*map(str, choices)] * 5 + EDGES)
    name = parameter.name.rstrip("_")
    if isinstance(parameter.type, click.Path):
        if name in ("out", "output", "folder", "page", "platform"):
            return st.sampled_from(WRITTEN)
        return st.sampled_from(READ + WRITTEN * (parameter.param_type_name == "option"))
    if name in AMOUNTS:
        return st.sampled_from(["1", "2", "3", "0", "-1", "x", "1.5", ""])
    return st.sampled_from(EDGES + HUGE) | TEXTS


@st.composite
def command_lines(draw):
    name = draw(st.sampled_from(sorted(COMMANDS)))
    words, chosen = [], set()
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "argument":
            if parameter.required or draw(st.booleans()):
                values = values_of(parameter)
                words.append(draw(st.just(USUAL[parameter.name]) | values if parameter.name in USUAL else values))
            continue
        option = draw(st.sampled_from(parameter.opts + parameter.secondary_opts))
        if option in NEVER | ALWAYS.get(name, set()) or not draw(st.sampled_from([True, False, False, False])):
            continue
        chosen.add(option)
        words += [option] if parameter.is_flag else [option, draw(values_of(parameter))]
    for option, value in SHORT.get(name, {}).items():
        if option not in chosen:
            words += [option] if value is None else [option, value]
    return [*name.split(), *words]


@pytest.fixture(scope="module", autouse=True)
def inputs(tmp_path_factory):
    """Files to read, in a folder of which every example has a copy as its working directory."""
    folder = tmp_path_factory.mktemp("inputs")
    text = "; MaxProcs: 8\n; UnixStartTime: 1000000000\n" + "".join(
        row(i, 20_000 * i, 100 * (i % 7) + 1, procs=i % 8 + 1, req_time=1000, user=i % 4) for i in range(1, 60)
    )
    texts = {
        "log.swf": text,
        "empty": "",
        "platform.xml": homogeneous_platform(4),
        "policies.json": '{"policies": 1}',
        "campaign.yaml": "workloads: [log.swf]\npolicies: [fcfs, saf]\n",
        "e.yaml": "batcmd: x\n",
        "sacct.txt": "JobID|Submit\n1|2\n",
        "slurm.conf": "NodeName=n[1-4] CPUs=2\nPartitionName=main Nodes=ALL\n",
    }
    for name, content in texts.items():
        (folder / name).write_text(content)
    (folder / "folder").mkdir()
    with chdir(folder):
        for name in ("w.json", "log.swf.gz"):
            verb = "convert" if name == "w.json" else "clean"
            assert batfill("workload", verb, "log.swf", "-o", name).status == 0
        assert batfill("replay", "log.swf", "--out", "out").status == 0
        yield folder


@contextmanager
def working_copy(inputs):
    """A fresh copy of the inputs as working directory."""
    here = inputs.parent / "here"
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(inputs, here)
    with chdir(here):
        yield here


@contextmanager
def one_more(inputs, content):
    """The path of an input with this content, while it is there."""
    path = inputs / "IN"
    path.write_bytes(content)
    note(content)
    try:
        yield path
    finally:
        path.unlink()


def check(words, inputs):
    """The command ends as the documentation says, and leaves nothing half done."""
    note(f"batfill {shlex.join(words)}")
    with working_copy(inputs) as here:
        done = batfill(*words)
        said = [line for line in done.err.splitlines() if not line.startswith(COMPILING)]
        if done.status == 70:
            bug = Path(done.err.split()[-1])
            note(bug.read_text())
            bug.unlink()
        assert done.status in (0, 1, 2), done
        assert "Traceback" not in done.err, done.err
        if done.status == 2:
            assert said, done
            assert said[-1].startswith("batfill: "), done
            assert done.out == "", done
        assert not [path for path in here.rglob("*") if path.name.endswith(".part")]
        whole_files(here)


def whole_files(here):
    """Every file that was written can be read."""
    prefixes = {str(path).removesuffix("_jobs.csv") for path in here.rglob("*_jobs.csv")}
    for what in ("jobs", "schedule", "machine_states"):
        assert {str(path).removesuffix(f"_{what}.csv") for path in here.rglob(f"*_{what}.csv")} == prefixes
    for path in here.rglob("made*.json"):
        # XML, HTML and calendars take any name.
        if path.is_file() and not (content := path.read_bytes()).startswith((b"<", b"kind,begin,end,")):
            json.loads(content)


def test_every_command_line(inputs):
    fuzz(lambda words: check(words, inputs), "commands", words=command_lines())


# Files

NUMBERS = st.sampled_from(
    ["0", "-1", "1", "2", "4", "5", "100", "2.5", "-0", "1e3", "+7", ".5", "9007199254740993", "9e15", "1e12",
        "1e400", "nan", "inf", "x", "-", "1_0", "٣"]
)  # fmt: skip


HEADERS = st.sampled_from(
    ["; MaxProcs: 4\n"] * 4
    + ["; MaxProcs: 99999999999999999999\n", "; MaxNodes: -3\n", "", ";\n", "; MaxProcs: ٣\n",
        "; UnixStartTime: 1e99\n; MaxProcs: 4\n",
        "; MaxProcs: 4\n; TimeZone: 99999999\n; UnixStartTime: 99999999999999999\n"]
)  # fmt: skip


@st.composite
def swf_texts(draw):
    header = draw(HEADERS)
    lines = []
    for i in range(draw(st.integers(0, 6))):
        fields = row(i + 1, 10 * i, 5, procs=2, req_time=10).split()
        for _ in range(draw(st.integers(0, 2))):
            fields[draw(st.integers(0, 17))] = draw(NUMBERS)
        lines.append(" ".join(fields[: draw(st.sampled_from([18, 18, 18, 18, 17]))]))
    return (header + "\n".join(lines) + draw(st.sampled_from(["\n", "", "\r\n", "\0", "\n;"]))).encode()


JSON_VALUES = st.recursive(
    st.sampled_from([None, True, 0, -1, 1, 2, 2.5, 10, 1e12, 9e15, 1e300, 2**53 + 1, 2**63, "", "a", "delay", "ten",
        "small", "é", [], {}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "res", "delay", "type"]),
        inner, max_size=2),
    max_leaves=3,
)  # fmt: skip


@st.composite
def json_workloads(draw):
    jobs = []
    for i in range(draw(st.integers(0, 4))):
        made = {"id": str(i), "subtime": i, "res": 1, "walltime": 20, "profile": "ten"}
        for _ in range(draw(st.integers(0, 2))):
            made[draw(st.sampled_from([*made, "class", "user", "killable"]))] = draw(JSON_VALUES)
        jobs.append(made)
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"ten": {"type": "delay", "delay": 10}}}
    if draw(st.booleans()):
        content[draw(st.sampled_from(["nb_res", "jobs", "profiles"]))] = draw(JSON_VALUES)
    elif draw(st.booleans()):
        content["profiles"]["ten"][draw(st.sampled_from(["type", "delay", "ret", "cpu", "com"]))] = draw(JSON_VALUES)
    try:
        text = orjson.dumps(content)
    except TypeError:  # an integer beyond 64 bits
        text = json.dumps(content).encode()
    return draw(st.just(text) | st.integers(0, len(text)).map(lambda n: text[:n]))


USES = [
    ["replay", "IN"],
    ["replay", "IN", "--out", "x"],
    ["replay", "IN", "--policy", "wfp3", "--overrun", "kill", "--procs", "3"],
    ["replay", "IN", "--predict", "easy++", "--predict-for", "all"],
    ["replay", "IN", "--small", "perfect", "--kill", "always", "--out", "x"],
    ["workload", "describe", "IN", "--json"],
    ["workload", "convert", "IN", "-o", "made.json"],
    ["workload", "clean", "IN", "-o", "made.swf"],
    ["workload", "split", "IN", "-o", "made", "--align", "calendar", "--days", "1e9"],
    ["workload", "scale", "IN", "-o", "made.json", "--load", "0.5"],
    ["what-if", "IN", "--no-small-first", "-o", "x.html"],
]


def test_every_swf_file_and_json_workload(inputs):
    def every_workload(content, use):
        with one_more(inputs, content):
            check(use, inputs)

    fuzz(every_workload, "files", 0.8, content=swf_texts() | json_workloads(), use=st.sampled_from(USES))
