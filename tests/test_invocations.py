"""Bad invocations of every command: exit status 2, one line, and a remedy that works when it is followed to the letter.

`followed` reads the remedy in the line, as a user would, and the command runs again with it, up to MOST_STEPS times in
lines that name different mistakes: a remedy that leads from one refusal to another of the same option is a failure.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from command import batfill
from swf_text import row

CASES = """
# options of the scheduler
replay log.swf --policy foo
replay log.swf --policy sfa
replay log.swf --policy aged:-1,0.5,0.5
replay log.swf --policy aged:1,9,0.5
replay log.swf --policy aged:1,2
replay log.swf --policy mixed:1,2
replay log.swf --policy mixed:0,0,0,0,0,0
replay log.swf --policy mixed:a,b
replay log.swf --policy saf --policy fcfs
replay log.swf --backfill foo
replay log.swf --backfill spf --backfill same
replay log.swf --threshold -1
replay log.swf --threshold soon
replay log.swf --threshold inf
replay log.swf --threshold 1h --threshold 2h
replay log.swf --overdue-before large
replay log.swf --overdue-before large --threshold 1h
replay log.swf --overdue-before some
replay w.json --overdue-before large --small class --divider 100
replay w.json --divider 100
replay w.json --small class
replay w.json --small class --divider 0
replay w.json --small class --divider median
replay w.json --small class --divider 100 --cut 0.3
replay w.json --small class --divider 100 --predict easy++
replay w.json --small some
replay log.swf --small all --kill never
replay log.swf --small all --divider mean
replay log.swf --kill always
replay log.swf --kill --small all
replay log.swf --kill waiting --small all
replay log.swf --small-width 0.5
replay log.swf --small-width 200% --small perfect
replay log.swf --small-width 12.5 --small perfect
replay log.swf --small-width 1/0 --small perfect
replay log.swf --predict magic
replay log.swf --predict-for all
replay log.swf --predict-for all --small perfect
replay log.swf --predict-for order --predict easy++ --policy wfp3
replay log.swf --cut 0.3
replay log.swf --cut 0 --small forest
replay log.swf --cut 2 --small forest
replay log.swf --cut 200% --small forest
replay log.swf --knowledge classifier
replay log.swf --max-waste 10%
replay log.swf --bound
replay log.swf --seed 2147483648
replay log.swf --seed -1
replay log.swf --seed 3
replay log.swf --reservation machines
replay log.swf --tau 0
replay log.swf --tau nan
replay log.swf --procs 0
replay log.swf --procs 4294967296
replay log.swf --procs many
replay log.swf --overrun forgive
replay log.swf --unrequested maybe
replay log.swf --polcy saf
replay log.swf --json --json
replay log.swf extra
replay
replay log.swf --policy
replay log.swf --policy nn@missing.npz
replay log.swf --policy area@missing.json
replay log.swf --policy area@w.json
# where results go
replay log.swf --out
replay log.swf --out ''
replay log.swf --out /
replay log.swf --out /dev/full
replay log.swf --out log.swf/out
tune week.swf --days 1 --out missing/x.json
tune week.swf --days 1 --out .
fit week.swf --out missing/x.json
select week.swf --out /
what-if log.swf --no-small-first --out missing/x.html
what-if log.swf --no-small-first --output x.html
classify week.swf --cut 0 --out log.swf
frontier log.swf --out log.swf
platform 4 --out missing/p.xml
platform 4 --output p.xml
report run --out missing/page.html
report run --output page.html
campaign c.yaml --out log.swf
reproduce --list --out log.swf
reproduce --list --page missing/x.md
workload generate
workload generate --out x.csv --jobs 10
workload generate x.swf --jobs 10
workload generate --out missing/x.swf --jobs 10
workload generate --out '' --jobs 10
workload generate --out . --jobs 10
workload split week.swf --out log.swf
workload split week.swf
workload resample week.swf --out /
workload scale log.swf --load 0.5 --out /dev/full
workload clean log.swf --out missing/x.swf
workload convert log.swf --out x.txt
workload convert log.swf --out x.json --platform missing/p.xml
workload convert log.swf --out x.swf --platform p.xml
workload import slurm log.swf --out /
# files
replay missing.swf
replay ''
replay folder
replay empty.swf
replay unknown.swf
replay cut.swf.gz
replay broken.json
replay shape.json
replay random.swf
replay nosize.swf
tune missing.swf
fit missing.swf
select missing.swf
what-if missing.swf
fidelity missing.swf
classify missing.swf
frontier missing.swf
report missing
report log.swf
campaign missing.yaml
campaign log.swf
campaign empty.yaml
run missing.yaml
run log.swf
reproduce nothing
workload describe missing.swf
workload clean missing.swf --out x.swf
workload split missing.swf --out windows
workload resample missing.swf --out x.swf
workload scale missing.swf --load 0.5 --out x.swf
workload convert missing.swf --out x.json
# studies
tune week.swf
tune week.swf --days 1 --policy foo
tune week.swf --days 1 --baseline foo
tune week.swf --days 1 --baseline wfp3
tune week.swf --days 1 --training 99
tune week.swf --days 1 --last 6
tune week.swf --days 1 --last 9
tune week.swf --days 1 --last 0
tune week.swf --days 1 --months
tune week.swf --days 0
tune week.swf --days 1 --method annealing
tune week.swf --days 1 --features 6
tune week.swf --days 1 --points 3
tune week.swf --days 1 --evaluations 9
tune week.swf --days 1 --max-wait-growth 5%
tune week.swf --days 1 --family aged --method xnes
tune week.swf --days 1 --family aged --training 99
tune log.swf --family aged
tune week.swf --days 1 --family aged --max-wait-growth -5%
tune week.swf --days 1 --family aged --max-wait-growth 10
tune week.swf --days 1 --threshold 1h --threshold 2h
fit week.swf --days 1 --training 99
fit week.swf --days 1 --tuples 0
fit week.swf --regression both
select week.swf --policies fcfs
select week.swf --policies fcfs,foo
select week.swf --policies fcfs,saf --method ucb1 --lambda 0.5
select week.swf --policies fcfs,saf --noise 1
select week.swf --policies fcfs,saf --lambda 3
select week.swf --policies fcfs,saf --weeks 3
select week.swf --policies fcfs,saf --period 0
select week.swf --policies fcfs,saf --method best
what-if log.swf --no-small-first --kill-if needed
what-if log.swf --no-small-first --overdue-before large
what-if log.swf --no-small-first --min-gain 200%
what-if log.swf --no-small-first --min-gain 5
what-if log.swf --no-small-first --max-wait-growth -5%
what-if log.swf --no-small-first --threshold 0
what-if log.swf --no-small-first --small-first
frontier log.swf --cuts 50
frontier log.swf --cuts half
frontier log.swf --protected 2
frontier log.swf --policy foo
frontier log.swf --workers 0
classify week.swf --cut 3
classify week.swf --train-lag -1
# the others
repaly log.swf
what_if log.swf
REPLAY log.swf
nonsense
help nonsense
workload splt week.swf --out windows
workload nonsense
platform 0
platform many
platform 4 --bandwidth fast
platform 4 --latency -1
export-config lsf
export-config slurm --policy foo
policies saf
schedule --select best
schedule --policies fcfs,saf
schedule --select full --policies saf
schedule --policy foo
schedule --protocol 6
schedule --timeout -1
conformance
conformance x --timeout 0
conformance x --keep log.swf
conformance x --workload nothing
workload clean log.swf --out x.swf --rule nothing
workload split week.swf --out windows --days 1 --months
workload split week.swf --out windows --suffix .csv
workload split week.swf --out windows --skip 99
workload resample week.swf --out x.swf --method weeks --profile-weeks span
workload scale log.swf --out x.swf
workload scale log.swf --out x.swf --load 0.5 --interarrival 2
workload scale log.swf --out x.swf --load 0
workload generate --out x.swf --jobs 0
workload generate --out x.swf --jobs 10 --procs 1
workload generate --out x.swf --jobs 10 --load 0.5 --interarrival 2
workload convert log.swf --out x.json --jobs 3
workload convert log.swf --out x.json --bandwidth 1GBps
workload fetch nothing
workload fetch --into x
reproduce --quick --full
report run --figures gif
report run --sample 0
campaign c.yaml --workers 0
campaign c.yaml --workers 1 --scheduler tcp://127.0.0.1:1
campaign c.yaml --worker-limit 2h
"""
MOST_STEPS = 3
IN_CI = 5  # every fifth case is run everywhere; the others have the marks `slow` and `long`
# Words of lines whose remedy needs a module of an extra.
MODULES = {
    **dict.fromkeys(("classify", "frontier", "what-if", "forest"), "sklearn"),
    "campaign": "pydantic",
    "reproduce": "pydantic",
    "import": "pyarrow",
}
# Words that keep a command short once its line is right.
SHORT = {
    "tune": ["--points", "6"],
    "fit": ["--tuples", "3", "--permutations", "64"],
    "frontier": ["--workers", "1"],
    "campaign": ["--dry-run"],
}
# Commands that would wait for a simulator, a download or an experiment: their remedies are followed until none is left.
WAITS = ("schedule", "conformance", "run", "reproduce", "workload fetch")
HERE = Path(__file__).parent


def cases():
    lines = [line for line in CASES.strip().splitlines() if not line.startswith("#")]
    for place, line in enumerate(lines):
        marks = [pytest.mark.slow, pytest.mark.long] if place % IN_CI else []
        modules = [module for word, module in MODULES.items() if word in line.split()]
        yield pytest.param(line, id=line, marks=[*marks, pytest.mark.needs(*modules)])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a good file of each kind, and a bad one of each."""
    monkeypatch.chdir(tmp_path)
    small = [row(k, 50 * k, 40 + 37 * k % 200, req_procs=1 + k % 4, req_time=300) for k in range(1, 60)]
    Path("log.swf").write_text("; MaxProcs: 8\n" + "".join(small))
    week = [row(k, 7200 * k, 600 + 997 * k % 9000, req_procs=1 + k % 8, req_time=14_400) for k in range(1, 96)]
    Path("week.swf").write_text("; MaxProcs: 8\n" + "".join(week))
    jobs = [
        {"id": str(k), "subtime": k, "res": 1, "walltime": 500, "profile": "p", "class": "small" if k % 2 else "large"}
        for k in range(20)
    ]
    workload = {"nb_res": 4, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 200}}}
    Path("w.json").write_text(json.dumps(workload))
    Path("c.yaml").write_text("workloads:\n  - file: log.swf\npolicies: [fcfs, saf]\n")
    Path("empty.swf").touch()
    Path("empty.yaml").touch()
    Path("folder").mkdir()
    Path("unknown.swf").write_text("1 2 three\n")
    Path("cut.swf.gz").write_bytes(gzip.compress(b"".join(line.encode() for line in small) * 9)[:200])
    Path("broken.json").write_text("{")
    Path("shape.json").write_text('{"nb_res": 0, "jobs": [], "profiles": {}}')
    Path("random.swf").write_bytes(bytes(range(256)))
    Path("nosize.swf").write_text("".join(row(k, 50 * k, 40, req_time=300) for k in range(1, 9)))
    assert batfill("replay", "log.swf", "--out", "run/out").status == 0


@pytest.mark.parametrize("line", list(cases()))
def test_a_bad_invocation_is_refused_in_one_line_whose_remedy_works(line, here):
    words = [word.strip("'") for word in line.split()]
    before, said = names(), []
    for _ in range(MOST_STEPS):
        done = batfill(*words)
        assert done.status == 2, f"{words}: {done}"
        assert done.out == ""
        assert names() == before
        (message,) = done.err.splitlines()
        assert re.match(r"batfill: \S", message)
        assert "Traceback" not in message
        assert subject(message) not in map(subject, said), f"a loop of refusals: {[*said, message]}"
        said.append(message)
        words = followed(words, message)
        if words is None:
            return
        if len(said) == 1 and not any(" ".join(words).startswith(command) for command in WAITS):
            words += [word for word in SHORT.get(words[0], []) if not set(words) & set(SHORT[words[0]][::2])]
        if any(" ".join(words).startswith(command) for command in WAITS) and "--help" not in words:
            return  # it starts; what it waits for is tested elsewhere
        before = names()
        done = batfill(*words)
        if done.status == 0:
            return
        assert done.status == 2, f"{words}: {done}"
    raise AssertionError(f"no end of refusals: {said}")


def names():
    """The files in this folder, but for the folders that are made for results."""
    return sorted(str(path) for path in Path().rglob("*"))


def subject(message):
    """What a message is about: the option or file at its beginning."""
    return re.split(r"[:;(]", message.removeprefix("batfill: "))[0]


def without(words, name):
    """The words without this option and its value."""
    place = words.index(name)
    alone = place + 1 == len(words) or words[place + 1].startswith("--")
    return [*words[:place], *words[place + (1 if alone else 2) :]]


def with_value(words, name, value):
    """The words with another value of this option, or of all arguments named so."""
    if name in words:
        words = list(words)
        words[words.index(name) + 1] = value
        return words
    return [*words, name, value]


def option_in(words, message):
    """The option of these words that a message is about; None if it names none."""
    names = re.findall(r"--[a-z][a-z0-9-]*", message)
    if found := re.search(r"option ([a-z0-9-]+):", message):
        names.insert(0, f"--{found[1]}")
    if re.match(r"batfill: policy ", message):
        names += [name for name in ("--policy", "--backfill", "--baseline", "--policies") if name in words]
        names = [name for name in names if wrong_policy(words, name, message)] or names
    return next((name for name in names if name in words), None)


def wrong_policy(words, name, message):
    """Whether this option's value contains what the message calls wrong."""
    value = words[words.index(name) + 1] if name in words else ""
    return any(part and part in message for part in [value, *value.split(",")])


REMEDIES = []


def remedy(pattern):
    """A remedy, recognised by the pattern; the function turns words, match and option into new words."""

    def add(function):
        REMEDIES.append((re.compile(pattern), function))
        return function

    return add


@remedy(r"[Dd]id you mean(?: one of:)? '([^']+)'\??")
def replace_by_nearest(words, found, name):
    said = found.string
    wrong = re.search(r"(?:No such (?:command|option)|policy) '([^']+)'", said)[1]
    return [found[1] if word == wrong else word for word in words if word != "help"]


@remedy(r"give one of (--\w+) and (--\w+)")
def give_one(words, found, name):
    return without(words, found[2]) if found[2] in words else [*words, found[1], "0.5"]


@remedy(r"add (--[a-z-]+)(?: (\d+))?, or leave it out")
def add_option(words, found, name):
    return [*words, found[1], found[2] or "p.xml"] if found[1] != "--convert" else [*words, found[1]]


@remedy(r"(--list) shows all|`batfill reproduce (--list)` lists")
def list_all(words, found, name):
    return [words[0], "--list"]


@remedy(r"skip fewer")
def skip_none(words, found, name):
    return with_value(words, "--skip", "0")


@remedy(r"; use (--\w+) (\w+),")
def use(words, found, name):
    return with_value(words, found[1], found[2])


@remedy(r"given more than once")
def give_once(words, found, name):
    flags = name in ("--json", "--small-first", "--no-small-first")
    return [word for k, word in enumerate(words) if k != words.index(name)] if flags else without(words, name)


@remedy(r"((?:choose|add) (?:[a-z-]+(?: [a-z0-9.%+-]+)?(?: and )?)+), or leave it out")
def add_companions(words, found, name):
    for part in re.split(r" and |(?:^| )(?:choose|add) ", found[1]):
        if part:
            key, _, value = part.removeprefix("choose ").removeprefix("add ").partition(" ")
            words = with_value(words, f"--{key}", value) if value else [*words, f"--{key}"]
    return words


@remedy(r"add (divider) (\d+), or any other duration|choose (kill) (needed), or add")
def choose_value(words, found, name):
    key, value = (part for part in found.groups() if part)
    return with_value(words, f"--{key}", value)


@remedy(r"option ([a-z-]+) is now [^:]*?(?:: |as in )(--.*)")
def replace_former(words, found, name):
    """The example for the value that was given, else the first."""
    name = f"--{found[1]}"
    value = words[words.index(name) + 1]
    examples = re.split(r", (?=--)", found[2])
    example = next((one for one in examples if one.endswith(f" for {value}")), examples[0])
    return [*without(words, name), *re.sub(r" (?:or|for) .*", "", example).split()]


@remedy(r"^batfill: [\w.]+: .*; give the machine's size$")
def mend_file(words, found, name):
    return


@remedy(r"add --policy (\S+)")
def add_policy(words, found, name):
    return [*words, "--policy", found[1]]


@remedy(r"is now called (\S+)|output file is now an option: (.*?) \(see")
def rename(words, found, name):
    if found[1]:
        return [found[1] if word == name else word for word in words]
    value = found[2].split()[-1]
    return [*(word for word in words if word != value), *found[2].split()]


@remedy(r"name an? (?:file|prefix), as (\S+)")
def name_file(words, found, name):
    return with_value(words, "--out", found[1].replace("/x", "./x").replace("/out", "./out"))


@remedy(r"name it (\.\w+)")
def name_with_format(words, found, name):
    place = name or "--out"
    if place == "--suffix":
        return with_value(words, place, found[1])
    return with_value(words, "--out", f"x{found[1]}")


@remedy(r"the folder (\S+) does not exist; make it first")
def make_folder(words, found, name):
    Path(found[1]).mkdir()
    return words


@remedy(r"choose another(?: folder| policy.*)?(?: \(|$)|give another$")
def another_place(words, found, name):
    if "another policy" in found[0]:
        return with_value(words, "--policy", "saf")
    return with_value(words, name, "elsewhere.swf" if words[0] == "workload" and words[1] != "split" else "elsewhere")


@remedy(r"choose (--\w+) (?:from )?(\d+)")
def choose_number(words, found, name):
    return with_value(words, found[1], found[2])


@remedy(r"leave (--\w+) out, and choose a (--\w+) of at most (\d+)")
def leave_out_and_choose(words, found, name):
    return with_value(without(words, found[1]), found[2], found[3])


@remedy(r"choose a (--\w+) of at most (\d+)")
def choose_at_most(words, found, name):
    return with_value(words, found[1], found[2])


@remedy(r"shorter --days|requested, but only")
def shorter_days(words, found, name):
    return with_value(words, "--days", "0.01")


@remedy(r"(--\w+)\b.* and (--\w+)\b.* leave one of them out")
def leave_one_out(words, found, name):
    return without(words, found[2] if found[2] in words else found[1])


@remedy(r"leave (?:it|them|one of them|either) out|give one of them|choose one$|leave (--[a-z-]+) out")
def leave_out(words, found, name):
    return without(words, found[1] if found[1] in words else name)


@remedy(r"write (\S+) for per cent")
def write(words, found, name):
    return with_value(words, name, found[1])


@remedy(r"(?:try|such as|two, as|, as|like|, \S+, as) '?([0-9a-z][^' ;)]*?)'?(?:,? (?:or|and|with|\()|, |[;)]|$)")
def example(words, found, name):
    return with_value(words, name or f"--{found.string.split()[1]}", found[1])


@remedy(
    r"is not (?:one of|a whole number from) '?([\w-]+)|"
    r"(?:none of|known are|there are|one of) '?([\w+-]+)|are ([a-z]+), "
)
def first_known(words, found, name):
    value = next(filter(None, found.groups()))
    if name is None:
        wrong = re.search(r"(?:value for '[^']+': |No such command |no [a-z ]+ )'([^']+)'", found.string)[1]
        return [value if word == wrong else word for word in words if word != "help"]
    if f"value for '{name}': '--" in found.string:  # the value was forgotten, and the next option taken for it
        place = words.index(name) + 1
        return [*words[:place], value, *words[place:]]
    return with_value(words, name, f"saf,{value}" if name == "--policies" else value)


@remedy(r"give --procs|give a (?:smaller|larger) --procs")
def give_procs(words, found, name):
    return with_value(words, "--procs", "8")


@remedy(r"Got unexpected extra argument \((\S+)\)")
def drop(words, found, name):
    return [word for word in words if word != found[1]]


@remedy(r"Missing argument '([A-Z]+)|Missing option '(--\w+)'")
def add_missing(words, found, name):
    if found[1]:
        return [*words, "log.swf"]
    return [*words, found[2], "windows" if "split" in words else "x.swf"]


@remedy(r"requires an argument")
def give_value(words, found, name):
    return [*words, "saf" if name == "--policy" else "x"]


OTHER_INPUT = (
    "give (?:a|an|the) |is no path|check|is it|writes such files|fix the|correct that|it needs at least|fetch or copy|"
    "write -1|make one|use sacct"
)


@remedy(OTHER_INPUT)
def give_good(words, found, name):
    """The remedy asks for another file, or for a value that only the user knows."""
    return


def followed(words, message):
    """The words after the remedy in the message; None if it asks for another file, which only a user has."""
    name = option_in(words, message)
    for pattern, change in REMEDIES:
        if found := pattern.search(message):
            return change(list(words), found, name)
    raise AssertionError(f"no remedy in {message!r}")
