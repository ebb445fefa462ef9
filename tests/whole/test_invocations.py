"""Bad invocations of every command: exit status 2, one line, and a remedy that works."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from command import batfill
from swf_text import row

ROOT = Path(__file__).parents[2]
# Of a line with {some|others}, each in turn.
CASES = """
# options of the scheduler
replay log.swf --policy {foo|sfa|aged:-1,0.5,0.5|aged:1,9,0.5|aged:1,2|mixed:1,2|mixed:0,0,0,0,0,0|mixed:a,b}
replay log.swf --policy saf --policy fcfs
replay log.swf --backfill foo
replay log.swf --threshold {-1|soon|inf}
replay log.swf --overdue {half|some}
replay w.json --divider 100
replay w.json --small class{| --divider 0| --divider median| --divider 100 --seed 3| --divider 100 --predict easy++}
replay w.json --small some
replay log.swf --small all {--kill never|--divider mean}
replay log.swf --kill {always|--small all|waiting --small all}
replay log.swf --small-width {0.5|200% --small perfect|12.5 --small perfect|1/0 --small perfect}
replay log.swf --predict magic
replay log.swf --predict-for {all|order --predict easy++ --policy wfp3}
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
what-if log.swf --no-small-first {--kill always|--kill-if needed|--min-gain 200%|--min-gain 5}
what-if log.swf --no-small-first {--max-wait-growth -5%|--threshold 0|--small-first}
what-if log.swf {--set bf_interval=60|--add-nodes g2=g1|--runs 5|--windows x.csv|--slurm-version 22.05}
what-if log.swf --slurm-conf {missing.conf|log.swf|slurm.conf}
what-if log.swf --slurm-conf slurm.conf {--procs 4|--threshold 1h|--no-small-first|--runs 3|--slurm-version new}
what-if log.swf --slurm-conf slurm.conf {--set bf_interval=x|--set nothing=1|--set bf_interval=30|--add-nodes n9=x}
fidelity log.swf {--runs 5|--seed 4|--accounts log.swf}
fidelity log.swf --slurm-conf {missing.conf|slurm.conf|slurm.conf --no-fit|slurm.conf --runs 4|slurm.conf --procs 2}
when log.swf {--past log.swf|--windows x.csv}
when log.swf --at 100 --submit {''|procs=0,time=1h|procs=4|procs=4,time=60|cores=4,time=1h|procs=9,time=1h}
when log.swf --at 100 {5 --submit procs=4,time=1h|--submit procs=4,time=1h,user=ann|--submit nodes=4,time=1h}
when log.swf --slurm-conf slurm.conf {--policy saf|--procs 4|--at never|--past missing.txt}
# the others
{repaly|what_if|REPLAY} log.swf
nonsense
{help|workload} nonsense
platform {0|many|4 --bandwidth fast|4 --latency -1}
policies saf
schedule {--select best|--policies fcfs,saf|--select full --policies saf|--policy foo|--protocol 6|--timeout -1}
workload clean log.swf --out x.swf --rule nothing
workload split week.swf --out windows {--days 1 --months|--suffix .csv|--skip 99}
workload resample week.swf --out x.swf --method weeks --profile-weeks span
workload scale log.swf --out x.swf{| --load 0.5 --interarrival 2| --load 0}
workload generate --out x.swf --jobs 10 {--procs 1|--load 0.5 --interarrival 2}
workload convert log.swf --out x.json {--jobs 3|--bandwidth 1GBps}
workload fetch {nothing|--into x}
reproduce --quick --full
report run --figures gif
campaign c.yaml {--workers 0|--workers 1 --scheduler tcp://127.0.0.1:1|--worker-limit 2h}
"""
REMEDY = r"; |\(see batfill |[Dd]id you mean|requires an argument|, as | such as |: name it |none of "
MODULES = {  # that commands and values need
    **dict.fromkeys(("what-if", "forest"), "sklearn"),
    "campaign": "pydantic",
    "reproduce": "pydantic",
}


def lines_of(text):
    """A case for each line, with the modules that it needs."""
    for line in text.strip().splitlines():
        if not line.startswith("#"):
            modules = {module for word, module in MODULES.items() if re.search(rf"\b{word}\b", line)}
            yield pytest.param(line, id=line, marks=pytest.mark.needs(*modules))


def each_of(line):
    head, _, rest = line.partition("{")
    choices, _, tail = rest.partition("}")
    return [f"{head}{choice}{tail}" for choice in choices.split("|")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a good file of each kind, and a bad one of each."""
    with chdir(made := tmp_path_factory.mktemp("here")):
        fill()
    return made


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def fill():
    """Write those files."""
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
    Path("slurm.conf").write_text("NodeName=n[1-4] CPUs=2\nPartitionName=main Nodes=ALL\n")
    Path("folder").mkdir()
    for name, text in {"empty.swf": "", "empty.yaml": "", "unknown.swf": "1 2 three\n", "broken.json": "{"}.items():
        Path(name).write_text(text)
    Path("cut.swf.gz").write_bytes(gzip.compress(b"".join(line.encode() for line in small) * 9)[:200])
    Path("shape.json").write_text('{"nb_res": 0, "jobs": [], "profiles": {}}')
    Path("random.swf").write_bytes(bytes(range(256)))
    Path("nosize.swf").write_text("".join(row(k, 50 * k, 40, req_time=300) for k in range(1, 9)))
    assert batfill("replay", "log.swf", "--out", "run/out").status == 0


def refused(line):
    """What the command line is refused with."""
    before = names()
    done = batfill(*(word.strip("'") for word in line.split()))
    assert (done.status, done.out) == (2, ""), f"{line}: {done}"
    assert names() == before
    (message,) = done.err.splitlines()
    assert re.match(r"batfill: \S", message)
    assert "Traceback" not in message
    return message


def names():
    """The files in this folder."""
    return sorted(str(path) for path in Path().rglob("*"))


@pytest.mark.parametrize("line", list(lines_of(CASES)))
def test_a_bad_invocation_is_refused_in_one_line_with_a_remedy(line, here):
    for case in each_of(line):
        assert re.search(REMEDY, message := refused(case)), message


def test_no_page_or_record_says_where_the_program_is(tmp_path):
    program = Path(sys.executable).with_name("batfill")
    shutil.copytree(ROOT / "workloads", tmp_path / "workloads")
    shutil.copytree(ROOT / "platforms", tmp_path / "platforms")
    (tmp_path / "e.yaml").write_text((ROOT / "expe/sample_saf.yaml").read_text())
    for words in (
        "replay workloads/sample.json --out runs/x",
        "report runs",
        "when workloads/sample.json --at 100000 --out when.html",
        "what-if workloads/sample.json --no-small-first --threshold 24h --out what-if.html",
        "run e.yaml",
    ):
        done = subprocess.run([program, *words.split()], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert str(program) not in done.stdout + done.stderr
    made = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "workloads" not in path.parts}
    assert [path for path, content in made.items() if str(program.parent).encode() in content] == []
    assert b"batfill report runs" in made[tmp_path / "runs/report.html"]
    assert json.loads(made[tmp_path / "expe-out/sample_saf/run.json"])["command"] == "batfill run e.yaml"
