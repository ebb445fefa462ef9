import html
import json
import re

import pytest

from command import batfill, json_result, result
from golden_text import check
from report_runs import CUT, KILLED, OK, REJECTED, jobs_csv, words_of


@pytest.fixture(scope="module")
def text(folder, tmp_path_factory):
    """The page of both runs."""
    page = tmp_path_factory.mktemp("page") / "page.html"
    result("report", folder, "-o", page, "--seed", 7)
    return page.read_text()


def test_the_page_needs_nothing_else_and_equal_calls_write_equal_pages(text, folder, tmp_path):
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)", text)
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, which is not loaded
    assert "$" not in re.sub(r"\$\{|<script.*?</script>", "", text, flags=re.DOTALL)  # every placeholder is filled
    again = tmp_path / "page.html"
    result("report", folder, "-o", again, "--seed", 7)
    assert COMMAND.sub("", again.read_text()) == COMMAND.sub("", text)


COMMAND = re.compile("<summary>Command</summary>.*?</pre>")
BEGINNINGS = {".pdf": b"%PDF", ".png": b"\x89PNG", ".svg": b"<?xml", ".csv": b"# batfill", ".html": b"<!doctype html>"}


@pytest.fixture(scope="module")
def figures(folder, tmp_path_factory):
    """A folder with the page of both runs and its figures, and what the command lists."""
    place = tmp_path_factory.mktemp("figures")
    return place, json_result("report", folder, "-o", place / "page.html", "--figures", "png,svg")


@pytest.mark.needs("matplotlib")
def test_every_figure_comes_with_its_data(figures, runs):
    place, written = figures
    assert sorted(written) == sorted(str(path) for path in place.iterdir())
    names = {"cumulative-bsld", "differences", "distribution-bsld", "waiting-fcfs", "waiting-saf", "weeks-bsld"}
    assert {path.name for path in place.iterdir()} == {"page.html"} | {
        f"{n}.{kind}" for n in names for kind in ("png", "svg", "csv", "txt")
    }
    for path in place.glob("*-*"):
        assert path.read_bytes().startswith(BEGINNINGS.get(path.suffix, b""))
    origin, head, *rows = (place / "cumulative-bsld.csv").read_text().splitlines()
    assert "sha256" in origin
    assert head == "submitted_days,fcfs,saf"
    assert [float(value) for value in rows[-1].split(",")[1:]] == pytest.approx(
        [run.summary().mean_bsld for run in runs]
    )


@pytest.mark.needs("matplotlib")
def test_a_figure_has_a_title_of_one_line_a_caption_and_the_width_of_one_or_two_columns(figures, folder, tmp_path):
    page, widths = tmp_path / "page.html", []
    assert batfill("report", folder, "-o", page, "--figures", "svg", "--columns", 2).status == 0
    for place in (figures[0], tmp_path):
        drawing = (place / "differences.svg").read_text()
        widths.append(float(re.search(r'width="([\d.]+)pt"', drawing)[1]) / 72)
        title, caption = re.search(r"<title>(.*)</title>", drawing)[1], re.search(r"<desc>(.*)</desc>", drawing)[1]
        assert (place / "differences.txt").read_text() == f"{title}. {html.unescape(caption)}\n"
        assert title == "Differences from fcfs"
        assert re.search(r"64 processors: .* minus that of fcfs.* saf: -\d.* Tau is 10 s\.", caption)
    assert widths == pytest.approx([3.5, 7.16])


def test_runs_too_many_for_one_page_are_compared_as_a_whole_and_sampled(folder, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    monkeypatch.setattr("batfill_pages.write.SAMPLE_ROWS", 799)
    result("report", folder, folder / "saf", "-o", page)
    assert page.read_text().count("<strong>A sample of") == 2
    assert "800 jobs on 64 processors" in page.read_text()


CLOCKED_LOG = """\
; UnixStartTime: 844079881
; TimeZoneString: Europe/Stockholm
; MaxProcs: 8
1 0 -1 100 8 -1 -1 8 200 -1 1 7 -1 -1 -1 -1 -1 -1
2 10 -1 100 8 -1 -1 8 200 -1 1 8 -1 -1 -1 -1 -1 -1
3 20 -1 50 4 -1 -1 4 60 -1 1 7 -1 -1 -1 -1 -1 -1
4 2592000 -1 50 4 -1 -1 4 -1 -1 1 9 -1 -1 -1 -1 -1 -1
"""


ODD = (
    f"</script><b>,0,1,5,{OK},0,5,0",
    f"a&'b,0,2,9,{KILLED},0,5,2-3",
    f"a&'b#1,0,2,9,{OK},14,9,2-3",
    f"cut,3,1,9,{CUT},5,9,0",
    f"huge,1,9,9,{REJECTED},,,",
)


@pytest.fixture(scope="module")
def replays(tmp_path_factory):
    """Folders of runs: of a log with a clock, with warnings and without jobs, and with names that are HTML."""
    folder = tmp_path_factory.mktemp("replays")
    log = folder / "tiny.swf"
    log.write_text(CLOCKED_LOG)
    given = {"saf": ("--backfill", "spf", "--threshold", 7200), "fcfs": ()}
    for name, options in given.items():
        out = folder / "clock" / name / "out"
        result("replay", log, "--unrequested", "runtime", "--policy", name, *options, "--out", out)
    for name, rows in (("none", ()), ("odd", ODD)):
        for run in ("<img onerror=x>&", "other")[: 1 + (name == "none")]:
            (folder / name / run).mkdir(parents=True)
            jobs_csv(folder / name / run / f"{run}_jobs.csv", *rows)
    return folder


@pytest.mark.parametrize("name", ["clock", "clock/saf", "none", "odd"])
def test_golden_pages(replays, tmp_path, name):
    page = tmp_path / "page.html"
    result("report", replays / name, "-o", page, "--threshold", "1min")
    text = page.read_text()
    check(f"page-{name.replace('/', '-')}", words_of(text))
    assert "<img" not in text
    runs = re.findall(r'<script type="application/json" data-run="(\d)">(.*?)</script>', text)
    assert [number for number, _ in runs] == [str(k) for k in range(len(runs))] != []
    for _, content in runs:
        assert (json.loads(content)["clock"] or {}).get("zone") == ("Europe/Stockholm" if "clock" in name else None)


@pytest.mark.parametrize(
    "damage",
    [{"workload": 5}, {"engine": 5}, {"warnings": [5]}, {"options": {"threshold": "x"}}, {"version": "\ud800"}, None],
)
def test_a_damaged_record_is_ignored_and_the_results_stand_on_their_own(tmp_path, damage):
    log = tmp_path / "tiny.swf"
    log.write_text(CLOCKED_LOG)
    result("replay", log, "--unrequested", "runtime", "--out", tmp_path / "out")
    path = tmp_path / "out_run.json"
    record = json.loads(path.read_text())
    if damage and "options" in damage:
        damage = {"options": record["options"] | damage["options"]}
    path.write_text(json.dumps(record | damage) if damage else "[" * 5000)
    result("report", tmp_path)
    assert "unknown: no file next to the results states it" in (tmp_path / "report.html").read_text()


def test_every_link_in_a_page_has_its_place(replays, folder, tmp_path):
    for n, places in enumerate(([replays / "odd"], [replays / "clock", replays / "odd", folder])):
        page = tmp_path / f"{n}.html"
        result("report", *places, "-o", page)
        text = page.read_text()
        links = re.findall(r'href="#([^"]*)"', text)
        named = {link for link in links if "=" in link}  # a job or an outcome, which the script finds
        assert set(links) - named <= set(re.findall(r'\bid="([^"]*)"', text))
        assert set(re.findall(r'aria-describedby="([^"]*)"', text)) <= set(re.findall(r'\bid="([^"]*)"', text))
    assert links
