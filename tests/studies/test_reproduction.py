"""`batfill reproduce`: protocols that are checked, results that are kept, logs that may be missing, pages."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pydantic")

from batfill.base.errors import RunFailed
from batfill.workloads.swf_log import manifest
from command import batfill, refusal
from studies.papers.core import PACKAGES, ROOTS, Chart, Outcome, Table, Verdict, code_of
from studies.papers.protocol import COMPUTATIONS, PROTOCOLS, read_protocol
from swf_text import row

PURE = ("FCFS", "SAF")
ROWS = "      rows:"
SMALL = """\
title: A paper
authors: Somebody
venue: somewhere
open:
  - text: what the paper leaves open
  - {logs: [other.swf], text: and of another log}
entries:
  table-1:
    source: Table 1
    title: thresholds on a log
    quantity: sum of the weekly mean bounded slowdown
    compute: pure-policies
    logs: {Small: small.swf}
    parameters:
      thresholds: {none: null, an hour: 3600}
      boundaries: [submitted]
    quick: {count: 1}
    relative-to: FCFS
    published:
      columns: [none, an hour]
      rows:
        SAF: [1.5, 2]
        FCFS: [3, 4]
        SPF: [2, null]
    why:
      - text: other jobs
      - {logs: [small.swf], text: in this log}
      - {logs: [small.swf, other.swf], text: and in that one}
"""


@pytest.fixture
def log(tmp_path):
    """Two weeks of jobs on 4 processors: wide and long ones, with short and narrow ones behind them."""
    week_s = 7 * 86_400
    jobs = [
        (week * week_s + 100 * k, 4000 if k % 3 == 0 else 60, 3 if k % 3 == 0 else 1 + k % 4)
        for week in range(2)
        for k in range(30)
    ]
    lines = [row(n, submit, p, req_procs=q, req_time=2 * p, user=n % 3) for n, (submit, p, q) in enumerate(jobs, 1)]
    path = tmp_path / "logs" / "small.swf"
    path.parent.mkdir()
    path.write_text("; MaxProcs: 4\n; UnixStartTime: 0\n" + "".join(lines))
    return path


@pytest.fixture
def papers(tmp_path):
    """A function that writes the protocol of a paper, with changes."""

    def write(old="", new="", name="paper"):
        folder = tmp_path / "papers"
        folder.mkdir(exist_ok=True)
        assert old in SMALL
        (folder / f"{name}.yaml").write_text(SMALL.replace(old, new) if old else SMALL)
        return folder

    return write


def places(log, folder, out):
    return ["--logs", log.parent, "--protocols", folder, "--out", out]


def paged(log, folder, tmp_path):
    """What the command says that also writes `all.md` and the pages of `all`."""
    done = batfill("reproduce", "all", *places(log, folder, tmp_path / "out"), "--page", tmp_path / "all.md")
    assert done.status == 0
    return done


# Protocols


@pytest.mark.parametrize("path", sorted(PROTOCOLS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_protocol_that_comes_with_batfill_is_sound(path):
    entries = list(read_protocol(path))
    known = manifest()
    for named in entries:
        entry = named.entry
        assert all(log in known or log.endswith((".swf", ".swf.gz")) for log in entry.logs.values())
        assert set(named.parameters) == {"usual", "quick", "full"}
        assert named.parameters["quick"] != named.parameters["usual"] or not entry.quick
        assert named.parameters["full"] != named.parameters["usual"] or not entry.full


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[1.5, 2]", "[1.5]", ":22: SAF has 1 values for 2 columns; give null where the paper prints none"),
        ("pure-policies", "pure-policy", ":12: nothing is called 'pure-policy'; try pure-policies"),
        ("[submitted]", "[never]", ":16: entries.table-1.parameters.boundaries.0 is 'never'; input should be"),
        ("quick: {count: 1}", "quick: {weeks: 1}", ":17: key weeks is unknown here; known are thresholds, boundaries,"),
        (ROWS, "      sorted-alone: [week]\n" + ROWS, ":21: no column 'week'; columns are none, an hour"),
        (ROWS, "      constant: LPF\n" + ROWS, ":21: no row 'LPF'; rows are SAF, FCFS, SPF"),
        ("title: A paper", "title: [", ":3: not YAML"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_protocol_is_named_with_its_line(papers, log, tmp_path, old, new, said):
    assert said in refusal("reproduce", "all", *places(log, papers(old, new), tmp_path / "out"))


# Results


def test_an_entry_stands_beside_the_papers_numbers_and_its_files_are_there(papers, log, tmp_path):
    out = tmp_path / "out"
    done = batfill("reproduce", "paper/table-1", *places(log, papers(), out), "--figures", "svg")
    assert done.status == 0
    assert "| SAF  | 1.5" in done.out
    folder = out / "paper" / "table-1"
    assert {path.name for path in folder.iterdir()} == {"result.json", "took.json", "table.csv", "page.md"}
    table = (folder / "table.csv").read_text().splitlines()
    assert table[0] == "column,row,choice,paper,ours,ratio,paper_relative,ours_relative,whose"
    fcfs = next(line for line in table if line.startswith("none,FCFS")).split(",")
    assert float(fcfs[4]) == pytest.approx(3 * float(fcfs[5]))
    assert fcfs[6:] == ["1.0", "1.0", ""]


def test_a_second_run_computes_nothing_and_gives_the_same_bytes(papers, log, tmp_path, monkeypatch):
    out, page = tmp_path / "out", tmp_path / "all.md"
    arguments = ["reproduce", "all", *places(log, papers(), out), "--page", page]
    first = batfill(*arguments)
    before = {path: path.read_bytes() for path in [page, *out.rglob("*.*")] if path.name != "took.json"}
    with monkeypatch.context() as only_kept:
        _never(only_kept)
        second = batfill(*arguments)
    assert (first.out, second.status) == (second.out, 0)
    assert {path: path.read_bytes() for path in before} == before

    shutil.rmtree(out)
    assert batfill(*arguments).out == first.out
    assert {path: path.read_bytes() for path in before} == before


def _never(monkeypatch):
    """Make the computation of SMALL one that must not compute."""

    def compute(task, parameters):
        raise RunFailed("computed again")

    _replace(monkeypatch, compute)


def _replace(monkeypatch, compute):
    monkeypatch.setitem(COMPUTATIONS, "pure-policies", COMPUTATIONS["pure-policies"]._replace(compute=compute))


# Missing logs


def test_a_missing_log_is_said_by_name_and_the_others_run(papers, log, tmp_path):
    papers()
    folder = papers("small.swf", "kth-sp2", name="other")
    done = paged(log, folder, tmp_path)
    assert "other/table-1: skipped, it needs KTH-SP2-1996-2.1-cln.swf.gz" in done.err
    gets_it = "KTH-SP2-1996-2.1-cln.swf.gz (`batfill workload fetch kth-sp2` gets it)"
    assert f"Not run, for want of {gets_it}." in (tmp_path / "all" / "other.md").read_text()


def test_a_missing_log_has_no_row_on_the_page(papers, log, tmp_path, monkeypatch):
    folder = papers("{Small: small.swf}", "{Small: small.swf, SPF: kth-sp2, FCFS: kth-sp2, SAF: kth-sp2}")
    outcome = Outcome((Table(("none",), ("Small",), ((2.0,),)),), {})
    _replace(monkeypatch, lambda task, parameters: outcome)
    paged(log, folder, tmp_path)
    assert "| SAF" in (tmp_path / "out" / "paper" / "table-1" / "page.md").read_text()
    assert "| SAF" not in (tmp_path / "all" / "paper.md").read_text()


# The page


def test_a_page_shows_figures_verdicts_and_what_people_wrote(tmp_path, papers, log, monkeypatch):
    chart = Chart("weeks", "lines", ("week", "SAF", "FCFS"), ((0, 1.0, 2.0), (1, None, 3.0)), x="week", y="bsld")
    outcome = Outcome(
        (Table(("none",), PURE, ((2.0,), (1.0,)), "one way"), Table(("none",), PURE, ((4.0,), (None,)), "another")),
        {"first": Verdict(holds=False, evidence="FCFS 2, SAF 1"), "last": Verdict(holds=True, evidence="SAF 1")},
        (chart,),
        ("a note",),
    )
    _replace(monkeypatch, lambda task, parameters: outcome)
    says = "    show: [weeks]\n    says: {first: FCFS comes first, last: SAF comes last}\n"
    paged(log, papers("    why:", f"{says}    why:"), tmp_path)
    text = (tmp_path / "all" / "paper.md").read_text()
    assert text.startswith("# A paper\n\n**1 of 2 published statements hold on our logs.**\n\n![Table 1 (weeks)](")
    for part in ("| FCFS comes first | no   | FCFS 2, SAF 1 |", "**Why.** other jobs", "](paper-table-1-weeks.svg)"):
        assert part in text
    outcome.verdicts["first"] = Verdict(holds=True, evidence="FCFS 1, SAF 1")
    shutil.rmtree(tmp_path / "out")
    paged(log, tmp_path / "papers", tmp_path)
    assert "| the paper says   | seen |\n" in (tmp_path / "all" / "paper.md").read_text()  # no figures to show
    svg = tmp_path / "all" / "paper-table-1-weeks.svg"
    assert svg.read_text().startswith("<?xml")
    assert (tmp_path / "out" / "paper" / "table-1" / "weeks.csv").read_text().splitlines()[1:] == [
        "week,SAF,FCFS", "0,1.0,2.0", "1,,3.0",
    ]  # fmt: skip


# Comparing


# What results are kept for


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A folder with the code of batfill and the studies."""
    folder = tmp_path_factory.mktemp("code")
    for package in PACKAGES:
        root = ROOTS[package == "studies"]
        shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


# Code of a computation's figures: behind three imports, in another process, of what is kept.
OWN = [
    ("pure-policies", "batfill/model/metrics.py", "TAU_S = 10", "TAU_S = 11"),
    ("pure-policies", "batfill/engine/easy.py", "from __future__", "# other\nfrom __future__"),
    ("pure-policies", "batfill/workloads/times.py", "def windows(", "def windows(more: str, "),
    ("pure-policies", "studies/papers/mixed.py", "def period_note(", "def period_note(more: str, "),
    ("pure-policies", "studies/papers/core.py", "class Table:", "class Table(list):"),
    ("classifier-quality", "studies/papers/classes.py", "def first(", "def first(more: str, "),
    ("classifier-quality", "batfill/learn/forest.py", "from __future__", "# other\nfrom __future__"),
    ("classified-gains", "studies/papers/classes.py", "ABOUT_EQUAL = 1.2", "ABOUT_EQUAL = 1.3"),
    ("most-delayed", "batfill_lab/campaigns/work.py", "from __future__", "# other\nfrom __future__"),
    ("premature-share", "batfill/workloads/describe.py", "PREMATURE = ", "PREMATURE = 1 + "),
]
OTHER = [
    ("pure-policies", "studies/papers/classes.py", "ABOUT_EQUAL = 1.2", "ABOUT_EQUAL = 1.3"),  # another paper
    ("pure-policies", "studies/papers/page.py", "FEWEST_RANKED = 3", "FEWEST_RANKED = 4"),
    ("pure-policies", "batfill_pages/figures.py", "from __future__", "# other\nfrom __future__"),
]


@pytest.mark.parametrize(("compute", "name", "old", "new"), [*OWN, *OTHER])
def test_a_result_is_made_again_if_code_that_its_figures_come_from_has_changed(copied, compute, name, old, new):
    function, path = COMPUTATIONS[compute].function, copied / name
    text = path.read_text()
    assert old in text
    try:
        path.write_text(text.replace(old, new))
        changed = code_of(function, (copied, copied))
    finally:
        path.write_text(text)
    assert (changed != code_of(function)) == ((compute, name, old, new) in OWN)
