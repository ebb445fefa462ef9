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

# Of a line with {some|others}, a case for each.
CASES = """
# options of the scheduler
replay log.swf --policy {foo|sfa|aged:-1,0.5,0.5|aged:1,9,0.5|aged:1,2|mixed:1,2|mixed:0,0,0,0,0,0|mixed:a,b}
replay log.swf --policy saf --policy fcfs
replay log.swf --backfill foo
replay log.swf --threshold {-1|soon|inf}
replay log.swf --overdue-before {large|large --threshold 1h|some}
replay w.json --overdue-before large --small class --divider 100
replay w.json --divider 100
replay w.json --small class{| --divider 0| --divider median| --divider 100 --cut 0.3| --divider 100 --predict easy++}
replay w.json --small some
replay log.swf --small all {--kill never|--divider mean}
replay log.swf --kill {always|--small all|waiting --small all}
replay log.swf --small-width {0.5|200% --small perfect|12.5 --small perfect|1/0 --small perfect}
replay log.swf --predict magic
replay log.swf --predict-for {all|order --predict easy++ --policy wfp3}
replay log.swf --cut {0.3|0 --small forest|200% --small forest}
replay log.swf --bound
replay log.swf --seed {2147483648|3}
replay log.swf --reservation machines
replay log.swf --tau {0|nan}
replay log.swf --procs {0|many}
replay log.swf --overrun forgive
replay log.swf --unrequested maybe
replay log.swf --polcy saf
replay log.swf --json --json
replay log.swf extra
replay
replay log.swf --policy{| area@missing.json| area@w.json}
# where results go
replay log.swf --out{| ''| /| /dev/full| log.swf/out}
tune week.swf --days 1 --out {missing/x.json|.}
fit week.swf --out missing/x.json
select week.swf --out /
what-if log.swf --no-small-first --out missing/x.html
platform 4 --out missing/p.xml
report run --out missing/page.html
campaign c.yaml --out log.swf
reproduce --list {--out log.swf|--page missing/x.md}
workload generate
workload generate --out {x.csv|missing/x.swf|''|.} --jobs 10
workload split week.swf{ --out log.swf|}
workload resample week.swf --out /
workload scale log.swf --load 0.5 --out /dev/full
workload clean log.swf --out missing/x.swf
workload convert log.swf --out {x.txt|x.json --platform missing/p.xml|x.swf --platform p.xml}
workload import slurm log.swf --out /
# files
replay {missing.swf|''|folder|empty.swf|unknown.swf|cut.swf.gz|broken.json|shape.json|random.swf|nosize.swf}
{tune|select|what-if|fidelity} missing.swf
report {missing|log.swf}
campaign {missing.yaml|log.swf|empty.yaml}
run {missing.yaml|log.swf}
reproduce nothing
workload {describe missing.swf|clean missing.swf --out x.swf|split missing.swf --out windows}
workload {resample missing.swf --out x.swf|scale missing.swf --load 0.5 --out x.swf|convert missing.swf --out x.json}
# studies
tune week.swf
tune week.swf --days 1 {--policy foo|--baseline wfp3|--training 99|--last 6|--last 0|--months}
tune week.swf --days 0
tune week.swf --days 1 {--method annealing|--features 6|--points 3|--evaluations 9|--threshold 1h --threshold 2h}
fit week.swf --days 1 {--training 99|--tuples 0}
fit week.swf --regression both
select week.swf --policies fcfs
select week.swf --policies fcfs,saf {--method ucb1 --lambda 0.5|--noise 1|--lambda 3|--weeks 3|--period 0|--method best}
what-if log.swf --no-small-first {--overdue-before large|--kill-if needed|--min-gain 200%|--min-gain 5}
what-if log.swf --no-small-first {--max-wait-growth -5%|--threshold 0|--small-first}
# the others
{repaly|what_if|REPLAY} log.swf
nonsense
{help|workload} nonsense
platform {0|many|4 --bandwidth fast|4 --latency -1}
export-config {lsf|slurm --policy foo}
policies saf
schedule {--select best|--policies fcfs,saf|--select full --policies saf|--policy foo|--protocol 6|--timeout -1}
conformance{| x --timeout 0| x --keep log.swf| x --workload nothing}
workload clean log.swf --out x.swf --rule nothing
workload split week.swf --out windows {--days 1 --months|--suffix .csv|--skip 99}
workload resample week.swf --out x.swf --method weeks --profile-weeks span
workload scale log.swf --out x.swf{| --load 0.5 --interarrival 2| --load 0}
workload generate --out x.swf --jobs 10 {--procs 1|--load 0.5 --interarrival 2}
workload convert log.swf --out x.json {--jobs 3|--bandwidth 1GBps}
workload fetch {nothing|--into x}
reproduce --quick --full
report run {--figures gif|--sample 0}
campaign c.yaml {--workers 0|--workers 1 --scheduler tcp://127.0.0.1:1|--worker-limit 2h}
"""
MOST_STEPS = 3
IN_CI = 5  # every fifth case is run everywhere; the others have the marks `slow` and `long`
# Words of lines whose remedy needs a module of an extra.
MODULES = {
    **dict.fromkeys(("what-if", "forest"), "sklearn"),
    "campaign": "pydantic",
    "reproduce": "pydantic",
}
# Words that keep a command short once its line is right.
SHORT = {
    "tune": ["--points", "6"],
    "fit": ["--tuples", "3", "--permutations", "64"],
    "campaign": ["--dry-run"],
}
# Commands that would wait for a simulator, a download or an experiment: their remedies are followed until none is left.
WAITS = ("schedule", "conformance", "run", "reproduce", "workload fetch")


def each_of(line):
    head, _, rest = line.partition("{")
    choices, _, tail = rest.partition("}")
    return [f"{head}{choice}{tail}" for choice in choices.split("|")]


def cases():
    lines = [case for line in CASES.strip().splitlines() if not line.startswith("#") for case in each_of(line)]
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
    Path("folder").mkdir()
    for name, text in {"empty.swf": "", "empty.yaml": "", "unknown.swf": "1 2 three\n", "broken.json": "{"}.items():
        Path(name).write_text(text)
    Path("cut.swf.gz").write_bytes(gzip.compress(b"".join(line.encode() for line in small) * 9)[:200])
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
        if " ".join(words).startswith(WAITS):
            if "--help" not in words:
                return  # it starts; what it waits for is tested elsewhere
        elif len(said) == 1:
            words += [word for word in SHORT.get(words[0], []) if not set(words) & set(SHORT[words[0]][::2])]
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


# Remedies turn the words, the match of their pattern, and the option in question into new words.


def replace_by_nearest(words, found, name):
    wrong = re.search(r"(\S+): no such (?:command|option)|policy '([^']+)'", found.string)
    wrong = wrong[1] or wrong[2]
    return [found[1] if word == wrong else word for word in words if word != "help"]


def give_once(words, found, name):
    flags = name in ("--json", "--small-first", "--no-small-first")
    return [word for k, word in enumerate(words) if k != words.index(name)] if flags else without(words, name)


def add_companions(words, found, name):
    for part in re.split(r" and |(?:^| )(?:choose|add) ", found[1]):
        if part:
            key, _, value = part.removeprefix("choose ").removeprefix("add ").partition(" ")
            words = with_value(words, f"--{key}", value) if value else [*words, f"--{key}"]
    return words


def choose_value(words, found, name):
    key, value = (part for part in found.groups() if part)
    return with_value(words, f"--{key}", value)


def name_file(words, found, name):
    return with_value(words, "--out", found[1].replace("/x", "./x").replace("/out", "./out"))


def name_with_format(words, found, name):
    return with_value(words, *((name, found[1]) if name == "--suffix" else ("--out", f"x{found[1]}")))


def make_folder(words, found, name):
    Path(found[1]).mkdir()
    return words


def another_place(words, found, name):
    if "another policy" in found[0]:
        return with_value(words, "--policy", "saf")
    return with_value(words, name, "elsewhere.swf" if words[0] == "workload" and words[1] != "split" else "elsewhere")


def first_known(words, found, name):
    value = next(filter(None, found.groups()))
    if name is None:
        wrong = re.search(r"(\S+): no such command|: '([^']+)' is no", found.string)
        wrong = wrong[1] or wrong[2]
        return [value if word == wrong else word for word in words if word != "help"]
    if f"{name}: '--" in found.string:  # the value was forgotten, and the next option taken for it
        place = words.index(name) + 1
        return [*words[:place], value, *words[place:]]
    return with_value(words, name, f"saf,{value}" if name == "--policies" else value)


def add_missing(words, found, name):
    return [*words, "log.swf"] if found[1] else [*words, found[2], "windows" if "split" in words else "x.swf"]


def give_good(words, found, name):
    """The remedy asks for another file, or for a value that only the user knows."""
    return


OTHER_INPUT = (
    "give (?:a|an|the) |is no path|check|is it|writes such files|fix the|correct that|it needs at least|fetch or copy|"
    "write -1|make one|use sacct"
)
EXAMPLE = r"(?:try|such as|two, as|, as|like|, \S+, as) '?([0-9a-z][^' ;)]*?)'?(?:,? (?:or|and|with|\()|, |[;)]|$)"
KNOWN = (
    r"is not (?:one of|a whole number from) '?([\w-]+)|(?:none of|known are|there are|one of) '?([\w+-]+)|"
    r"are ([a-z]+), "
)
# The first one whose pattern is in the line is followed.
REMEDIES = (
    (r"[Dd]id you mean(?: one of:)? '([^']+)'\??", replace_by_nearest),
    (
        r"give one of (--\w+) and (--\w+)",
        lambda w, found, _: without(w, found[2]) if found[2] in w else [*w, found[1], "0.5"],
    ),
    (
        r"add (--[a-z-]+)(?: (\d+))?, or leave it out",
        lambda w, found, _: [*w, found[1], *([found[2] or "p.xml"] if found[1] != "--convert" else [])],
    ),
    (r"(--list) shows all|`batfill reproduce (--list)` lists", lambda w, found, _: [w[0], "--list"]),
    (r"skip fewer", lambda w, found, _: with_value(w, "--skip", "0")),
    (r"; use (--\w+) (\w+),", lambda w, found, _: with_value(w, found[1], found[2])),
    (r"given more than once", give_once),
    (r"((?:choose|add) (?:[a-z-]+(?: [a-z0-9.%+-]+)?(?: and )?)+), or leave it out", add_companions),
    (r"add (divider) (\d+), or any other duration|choose (kill) (needed), or add", choose_value),
    (r"^batfill: [\w.]+: .*; give the machine's size$", give_good),
    (r"add --policy (\S+)", lambda w, found, _: [*w, "--policy", found[1]]),
    (r"name an? (?:file|prefix), as (\S+)", name_file),
    (r"name it (\.\w+)", name_with_format),
    (r"the folder (\S+) does not exist; make it first", make_folder),
    (r"choose another(?: folder| policy.*)?(?: \(|$)|give another$", another_place),
    (r"choose (--\w+) (?:from )?(\d+)", lambda w, found, _: with_value(w, found[1], found[2])),
    (
        r"leave (--\w+) out, and choose a (--\w+) of at most (\d+)",
        lambda w, found, _: with_value(without(w, found[1]), found[2], found[3]),
    ),
    (r"choose a (--\w+) of at most (\d+)", lambda w, found, _: with_value(w, found[1], found[2])),
    (r"shorter --days|requested, but only", lambda w, found, _: with_value(w, "--days", "0.01")),
    (
        r"(--\w+)\b.* and (--\w+)\b.* leave one of them out",
        lambda w, found, _: without(w, found[2] if found[2] in w else found[1]),
    ),
    (
        r"leave (?:it|them|one of them|either) out|give one of them|choose one$|leave (--[a-z-]+) out",
        lambda w, found, name: without(w, found[1] if found[1] in w else name),
    ),
    (r"write (\S+) for per cent", lambda w, found, name: with_value(w, name, found[1])),
    (EXAMPLE, lambda w, found, name: with_value(w, name or f"--{found.string.split()[1]}", found[1])),
    (KNOWN, first_known),
    (r"give --procs|give a (?:smaller|larger) --procs", lambda w, found, _: with_value(w, "--procs", "8")),
    (r"(\S+): more than the command takes", lambda w, found, _: [word for word in w if word != found[1]]),
    (r"([A-Z]+) is missing|(--\w+) is missing", add_missing),
    (r"requires an argument", lambda w, found, name: [*w, "saf" if name == "--policy" else "x"]),
    (OTHER_INPUT, give_good),
)


def followed(words, message):
    """The words after the remedy in the message; None if it asks for another file, which only a user has."""
    name = option_in(words, message)
    for pattern, change in REMEDIES:
        if found := re.search(pattern, message):
            return change(list(words), found, name)
    raise AssertionError(f"no remedy in {message!r}")
