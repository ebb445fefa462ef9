"""The page in headless Chromium: it draws, zooms, answers pointer and keyboard, and the console stays silent."""

import csv
import io
import re
from datetime import datetime

import numpy as np
import pytest

import batfill as bf

pytest.importorskip("pyarrow")

from batfill_pages.runs import find_runs
from batfill_pages.words import date_text
from batfill_pages.write import write_report
from browser import CHROMIUM, DRIVER
from command import result
from report_runs import CUT, KILLED, OK, REJECTED, campaign_row, jobs_csv, store_campaign
from sweeps import sweep

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on PATH")

NBSP = "\N{NO-BREAK SPACE}"
GANTT = "#explore-0 canvas.gantt"
VIEW = "const v = document.querySelector('#explore-0').explorer.view; return [v.from, v.to, v.low, v.high]"
# A copy of the chart that may be read, and the colour at a place in it, given as shares of its width and height.
COPY = """
const { gantt } = document.querySelector('#explore-0').explorer, { width, height } = gantt.canvas;
const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
copy.drawImage(gantt.canvas, 0, 0);
"""
PIXEL = f"""{COPY}
const [x, y] = [LEFT + arguments[0] * gantt.inner, gantt.top + arguments[1] * gantt.tall];
return [...copy.getImageData(Math.round(x * gantt.scale), Math.round(y * gantt.scale), 1, 1).data].slice(0, 3)
"""


@pytest.fixture
def page(tmp_path, browser):
    """Ten machines, 100 s: wide on 0-4 for the first half, split on 0-1 and 8-9 for the second half, and others."""
    jobs_csv(
        tmp_path / "drawn_jobs.csv",
        f"wide,0,5,50,{OK},0,50,0-4",
        f"split,0,4,60,{CUT},50,50,0-1 8-9",
        f"tiny,60,1,5,{OK},60,1,5",
        f"again,1,1,99,{KILLED},1,2,6",
        f"again#1,1,1,99,{OK},90,10,6",
        f"huge,2,11,99,{REJECTED},,,",
    )
    (written,) = write_report([tmp_path])
    browser.open(written)
    browser.run(
        "const e = document.querySelector('#explore-0').explorer; e.gantt.cursor = -1;"
        "e.form.elements.colour.value = 'slowdown'; e.refilter()"
    )
    browser.frame()
    yield written
    assert browser.log() == []


@pytest.mark.usefixtures("page")
class TestGantt:
    def test_jobs_are_where_and_when_they_ran(self, browser):
        blue, light, idle = [79, 124, 172], [155, 208, 230], browser.run(PIXEL, 0.25, 0.75)
        assert idle not in (blue, light)
        assert browser.run(PIXEL, 0.25, 0.2) == blue  # wide: bsld 1
        assert browser.run(PIXEL, 0.75, 0.05) == light  # split: bsld 2, on machines 0-1
        assert browser.run(PIXEL, 0.75, 0.3) == idle
        assert browser.run(PIXEL, 0.75, 0.95) == light  # and on 8-9

    def test_dragging_zooms_into_the_rectangle_and_a_double_click_goes_back(self, browser):
        assert browser.run(VIEW) == [0, 100, 0, 10]
        browser.pointer(GANTT, ("press", 300, 100), ("move", 500, 200), ("release", 600, 220))
        begin, end, low, high = browser.run(VIEW)
        assert 0 < begin < end < 100
        assert 0 < low < high < 10
        browser.pointer(GANTT, ("press", 10, 10), ("release", 10, 10), ("press", 10, 10), ("release", 10, 10))
        assert browser.run(VIEW) == [0, 100, 0, 10]

    def test_keys_zoom_move_and_go_from_job_to_job(self, browser):
        browser.type(GANTT, "+")
        begin, end, *_ = browser.run(VIEW)
        assert (begin, end) == (pytest.approx(18.75), pytest.approx(81.25))
        browser.type(GANTT, "\ue014")  # the right arrow
        assert browser.run(VIEW)[0] == pytest.approx(31.25)
        browser.type(GANTT, "0")
        assert browser.run(VIEW) == [0, 100, 0, 10]
        browser.type(GANTT, "n")
        assert browser.text("#explore-0 .said").startswith("Job split: 4 processors")
        browser.type(GANTT, "n")
        assert browser.text("#explore-0 .said").startswith("Job wide: 5 processors")
        browser.type(GANTT, "p")
        assert "machines 0-1 8-9" in browser.text("#explore-0 .said")

    def test_the_pointer_over_a_job_tells_about_it(self, browser):
        browser.pointer(GANTT, ("move", 200, 60))
        tip = browser.text("#explore-0 .tip")
        assert tip.startswith("Job wide: 5 processors, requested 50 s, submitted day 0 00:00:00, waited 0 s, ran 50 s")
        browser.pointer(GANTT, ("move", 200, 380))
        assert browser.run("return document.querySelector('#explore-0 .tip').hidden")

    def test_a_filter_greys_the_others_out(self, browser):
        assert browser.text("#explore-0 .matching").startswith(
            "All jobs: 4 jobs ran, mean wait 34 s (longest 1 min 29 s)"
        )
        before = browser.run(PIXEL, 0.25, 0.2)
        browser.type("#explore-0 [name=id]", "split")
        assert browser.text("#explore-0 .matching").startswith(
            "1 of 6 rows match: 1 job ran, mean wait 50 s (longest 50 s)"
        )
        assert browser.run(PIXEL, 0.25, 0.2) != before
        cells = browser.run(
            "return [...document.querySelectorAll('#explore-0 tbody.jobs td')]"
            ".map((e) => e.textContent.replaceAll('\\u00a0', ' '))"
        )
        assert cells == [
            *("split", "day 0 00:00:00", "50 s", "1 min", "4", "day 0 00:00:50", "day 0 00:01:40", "50 s", "2.0"),
            *("1 of 1", "ended at its walltime"),
        ]

    @pytest.mark.parametrize(("fate", "count"), [("2", 1), ("3", 1), ("4", 1), ("0", 3), ("overdue", 2)])
    def test_jobs_are_found_by_their_fate(self, browser, fate, count):
        browser.type("#explore-0 [name=overdue]", "0.01")  # 36 s: split and again's second try
        script = "const e = document.querySelector('#explore-0'); e.querySelector('[name=fate]').value = arguments[0];"
        browser.run(script + "e.explorer.refilter()", fate)
        assert browser.text("#explore-0 .matching").startswith(f"{count} of 6 rows match")

    def test_curves_are_means_over_time(self, browser):
        used, queue = browser.run(
            "const { curves } = document.querySelector('#explore-0').explorer;"
            "return curves.curves.map((curve) => [...curves.means(curve, 10)])"
        )
        # in per cent of ten machines: wide 50, again 10 for 2 s of the first 10, split 40, tiny 1 s, again from 90
        assert used == pytest.approx([52, 50, 50, 50, 50, 40, 41, 40, 40, 50])
        # split until 50, again from 3 to 90
        assert queue == pytest.approx([1.7, 2, 2, 2, 2, 1, 1, 1, 1, 0])

    def test_the_page_prints(self, browser):
        pdf = browser.pdf()
        assert pdf.startswith(b"%PDF")
        assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4


WHY = "return [...document.querySelectorAll('.why')].filter((e) => e.checkVisibility()).map((e) => e.innerText)"


def test_a_killed_try_has_no_slowdown_and_leads_to_the_try_that_ran_again(browser, page):
    browser.click("a[href='#outcome=3']")
    browser.waited("return document.activeElement.name === 'fate'")
    assert browser.text("#explore-0 .matching") == "1 of 6 rows match. 1 try was killed; its job ran again later."
    cells = "return [...document.querySelectorAll('#explore-0 tbody.jobs tr td')].slice(-4).map((e) => e.textContent)"
    assert browser.run(cells)[1:] == ["", "1 of 2 try 2", "killed"]
    browser.click("#explore-0 tbody.jobs a[href$='&try=2']")
    (said,) = browser.waited(WHY)
    assert said.replace(NBSP, " ").startswith("Why job again, try 2, waited 1 min 29 s")
    assert "An earlier try was killed, and what it computed there is lost" in said
    assert browser.run("return location.hash") == "#job=again&try=2"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            "#job=split",
            "Why job split waited 50 s\n\nIt asked for 4 processors and 1 min. It was ended at its walltime, after",
        ),
        (
            "#job=again&try=1",
            "Job again, try 1\n\nIt asked for 1 processor and 1 min 39 s. This try was killed after 2 s: what it "
            "computed is lost. The job ran again from day 0 00:01:30. It started at once.",
        ),
        ("#job=huge", "Job huge\n\nIt was rejected and did not run."),
        ("#job=missing", "Job missing\n\nThis run has no such job."),
    ],
)
def test_an_address_names_any_job_and_the_page_says_why_it_waited(browser, page, address, words):
    browser.run("location.hash = arguments[0]", address)
    browser.waited("return document.activeElement.matches('.why')")
    (said,) = browser.run(WHY)
    assert said.replace(NBSP, " ").startswith(words)


def test_a_page_says_for_what_a_try_was_stopped_and_what_of_it_is_kept(browser, tmp_path):
    options = {"urgent": "share:10%", "preempt": "least-lost", "checkpoint": "1h"}
    bf.replay("workloads/sample.json", "saf", **options).to_batsim(tmp_path / "stopped")
    (written,) = write_report([tmp_path])
    browser.open(written)
    for address, words in (
        (
            "#job=010&try=1",
            "killed after 1 h 4 min for an urgent job: of what it computed 1 h are kept. The job ran again",
        ),
        ("#job=010&try=2", "This try went on from a checkpoint, with 1 h done."),
    ):
        browser.run("location.hash = arguments[0]", address)
        browser.waited("return document.activeElement.matches('.why')")
        browser.frame()
        (said,) = browser.run(WHY)
        assert words in said.replace(NBSP, " ")
    assert browser.log() == []


def test_who_started_before_a_job_is_counted_one_by_one(browser, tmp_path):
    rng = np.random.default_rng(5)
    table = [tuple(row) for row in rng.integers((0, 0, 1, 1), (30, 30, 9, 5), (60, 4)).tolist()]
    rows = (f"{k},{r},{q},99,{OK},{r + w},{p},0-{q - 1}" for k, (r, w, p, q) in enumerate(table))
    browser.open(write_report([jobs_csv(tmp_path / "x_jobs.csv", *rows)])[0])
    count = "const { run } = document.querySelector('#explore-0').explorer; return before(run, run.named(arguments[0]))"
    browser.run("document.querySelector('#explore-0').explorer.run.overdue = 9")
    jobs = [(r, r + w, p, q) for r, w, p, q in table]
    for k, (r, start, _, width) in enumerate(jobs):
        used = [sum(q for _, s, p, q in jobs if s <= second < s + p) for second in range(r, start)]
        before = [(str(i), *job) for i, job in enumerate(jobs) if r < job[1] < start]
        later = [(name, p * q) for name, submit, _, p, q in before if submit > r]
        ahead = [name for name, submit, *_ in before if submit <= r]
        found = browser.run(count, str(k))
        assert (set(found.pop("laters")), set(found.pop("aheads"))) == ({name for name, _ in later}, set(ahead))
        assert found == {
            "later": len(later),
            "used": sum(area for _, area in later),
            "late": sum(jobs[int(name)][1] > r + 9 for name, _ in later),
            "ahead": len(ahead),
            "room": sum(4 - busy >= width for busy in used),
        }


def test_jobs_are_found_by_user_and_by_the_day_of_their_submission(browser, pages):
    (run,) = find_runs([pages["run"].parent])
    browser.open(pages["run"])
    days = np.array([run.about.clock.date(at_s).strftime("%Y-%m-%d") for at_s in run.submit_s])
    for user, since, until in (("3", "", ""), ("", "2011-02-03", "2011-02-04"), ("5", "2011-02-05", "")):
        browser.run(
            "const { form } = document.querySelector('#explore-0').explorer;"
            "['user', 'since', 'until'].forEach((name, k) => { form.elements[name].value = arguments[k]; });"
            "document.querySelector('#explore-0').explorer.refilter()",
            *(user, since, until),
        )
        wanted = (days >= since) & (days <= (until or "9")) & ((run.facts.user == int(user)) if user else True)
        assert 0 < wanted.sum() < len(run)
        assert browser.run("return document.querySelector('#explore-0').explorer.run.matched") == wanted.sum()


@pytest.mark.parametrize("what", ["run", "comparison"])
def test_without_javascript_no_control_and_no_empty_picture_is_shown(browser, pages, what):
    browser.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("POST", "/url", {"url": pages[what].as_uri()})
        browser.run("for (const e of document.querySelectorAll('details')) e.open = true")
        dead = "[...document.querySelectorAll('button, select, input, canvas')].filter((e) => e.checkVisibility())"
        assert browser.run(f"return {dead}.map((e) => e.outerHTML)") == []
        assert browser.run("return document.querySelector('noscript p, .course noscript').checkVisibility()")
    finally:
        browser.devtools("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("rows", [[], [f"huge,2,11,99,{REJECTED},,,"], [f"a,5,1,1,{OK},5,0.00001,0"]])
def test_a_run_in_which_nothing_ran_is_a_page_too(browser, tmp_path, rows):
    jobs_csv(tmp_path / "idle_jobs.csv", *rows)
    browser.open(write_report([tmp_path])[0])
    browser.type(GANTT, "+n")
    assert browser.text("#explore-0 .said")
    assert browser.log() == []


@pytest.mark.slow
def test_300000_jobs_take_under_8_mb_and_open(browser, tmp_path):
    # 60 lanes of eight machines, cut in two, on each of which jobs follow each other; nothing in it repeats
    rng = np.random.default_rng(1)
    ran_s = np.ceil(rng.lognormal(6, 2, 300_000)).astype(int)
    lane = np.arange(300_000) % 60
    start_s = (np.cumsum(ran_s.reshape(-1, 60), axis=0).ravel() - ran_s) + 10**7
    submit_s = start_s - np.where(rng.random(300_000) < 0.5, 0, rng.exponential(20_000, 300_000)).astype(int)
    asked_s = np.ceil(ran_s / 900).astype(int) * 900
    columns = (column.tolist() for column in (submit_s, asked_s, start_s, ran_s, lane * 4))
    rows = (
        f"{k:06d},{submit},8,{asked},{OK},{start},{ran},{first}-{first + 3} {first + 256}-{first + 259}"
        for k, (submit, asked, start, ran, first) in enumerate(zip(*columns, strict=True))
    )
    (page,) = write_report([jobs_csv(tmp_path / "big_jobs.csv", *rows)])
    assert page.stat().st_size < 8e6
    browser.open(page)
    drawing = browser.run(
        "const { view, gantt, curves } = document.querySelector('#explore-0').explorer, began = performance.now();"
        "gantt.draw(); curves.draw(); return performance.now() - began"
    )
    assert drawing < 500  # milliseconds for one step of a zoom
    assert browser.log() == []


def sized(browser, page, width, scheme="light"):
    """Open the page at this width, as a reader who prefers this scheme."""
    browser.sized(width, 1000, scheme)
    browser.open(page)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages to read: a run, a comparison with big numbers, and choices with long names that are hard to tell apart."""
    folder = tmp_path_factory.mktemp("pages")
    log = folder / "A-Machine-With-A-Long-Name-2011-2.1-cln.swf"
    rows = (
        f"{k} {k * 997} -1 {k % 5 * 40000 + 3} {procs} -1 -1 {procs} 200000 -1 1 {k % 9} -1 -1 -1 -1 -1 -1"
        for k in range(1, 700)
        for procs in [k % 7 * 11000 + 1]
    )
    log.write_text(
        "; UnixStartTime: 1296604800\n; TimeZoneString: Europe/Paris\n; MaxProcs: 80640\n" + "\n".join(rows) + "\n"
    )
    for policy in ("fcfs", "saf"):
        result("replay", log, "--policy", policy, "--threshold", 200000, "--out", folder / "big" / policy / "out")
    (big,) = write_report([folder / "big"])
    (one,) = write_report([folder / "big" / "saf"])
    names = [f"a policy with a long name, and its backfill order, threshold 200000 s, number {k}" for k in range(14)]
    more = {"workload": log.name, "procs": 80640, "jobs": 300_000, "tau_s": 10.0, "overrun": "keep"}
    more |= {"mean_wait_s": 1e5, "max_wait_s": 1e6}
    rows = [
        campaign_row(name, window, 1e5 / (k + window + 1), **more)
        for k, name in enumerate(names)
        for window in range(9)
    ]
    store_campaign(folder / "campaign", rows)
    (campaign,) = write_report([folder / "campaign"])
    (folder / "gate.csv").write_text("begin,end\n0,50000\n200000,\n")
    limits = ("--pool", "power=6MW@100W,a-pool-with-quite-a-long-name-of-its-own=70000@1:skip,slots=40000@1:user")
    limits += ("--energy-budget", "100MWh@10000..300000,watts=100W", "--backfill-while", folder / "gate.csv")
    result("replay", log, *limits, "--out", folder / "limits" / "out")
    (limited,) = write_report([folder / "limits"])
    return {"run": one, "comparison": big, "campaign": campaign, "limits": limited}


# Elements whose content is wider than they are, or that stand out of the window; a place to scroll in is for neither.
CUT_OFF = """
const width = document.documentElement.clientWidth, found = [];
if (document.documentElement.scrollWidth > width) found.push(`page: ${document.documentElement.scrollWidth}`);
const kinds = 'h1, h2, h3, p, li, dt, dd, th, td, caption, label, button, .scroll, canvas, .chart svg';
for (const e of document.querySelectorAll(kinds)) {
  const box = e.getBoundingClientRect();
  if (!box.width || e.closest('.sr, .scroll') || getComputedStyle(e).display === 'none') continue;
  if (box.right > width + 1 || box.left < -1) found.push(`${e.outerHTML.slice(0, 90)}: ${box.left} to ${box.right}`);
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && e.tagName !== 'BUTTON')
    found.push(`${e.outerHTML.slice(0, 90)}: ${e.scrollWidth} in ${e.clientWidth}`);
}
for (const e of document.querySelectorAll('.chart svg text')) {
  const box = e.getBoundingClientRect(), area = e.closest('svg').getBoundingClientRect();
  if (!box.width) continue;
  if (box.left < area.left - 1 || box.right > area.right + 1 || box.bottom > area.bottom + 1 || box.top < area.top - 1)
    found.push(`${e.textContent} out of its plot: ${box.left} in ${area.left}, ${box.right} in ${area.right}`);
}
return found"""

TICKS = """
const found = [];
for (const plot of document.querySelectorAll('.tradeoff svg, .tail svg, .curves svg')) {
  const lines = [...plot.querySelectorAll('line.grid')].map((e) => e.getAttribute('x1') === e.getAttribute('x2'));
  found.push(lines.filter((upright) => upright).length + 1, lines.filter((upright) => !upright).length + 1);
}
for (const explorer of document.querySelectorAll('.explorer.ready'))
  found.push(explorer.explorer.gantt.marks);
return found"""


@pytest.mark.parametrize(
    *sweep(2, what=["run", "comparison", "campaign", "limits"], width=[400, 1280, 2560], scheme=["light", "dark"])
)
def test_a_page_is_readable_on_a_phone_and_on_a_wall(browser, pages, what, width, scheme):
    sized(browser, pages[what], width, scheme)
    assert browser.run(CUT_OFF) == []
    counts = browser.run(TICKS)
    assert counts
    assert min(counts) >= 3
    assert browser.log() == []


CHOSEN = """
const rows = [...document.querySelectorAll('#run-0 [data-row].chosen')].map((e) => Number(e.dataset.row));
const { view, run, gantt } = document.querySelector('#explore-0').explorer, start = run.start(gantt.cursor);
return [rows, run.ids[gantt.cursor], view.from < start && start < view.to, location.hash]"""


def test_a_wait_is_chosen_in_the_picture_by_the_keyboard_and_by_the_address(browser, pages):
    (run,) = find_runs([pages["run"].parent])
    worst = run.ids[np.argsort(-run.wait_s, kind="stable")].tolist()
    why = "return document.activeElement.innerText.startsWith('Why job {}')"
    sized(browser, pages["run"], 1280)
    assert browser.run(CHOSEN) == [[0], worst[0], True, ""]
    browser.run("document.querySelectorAll('#run-0 .course .pick')[3].dispatchEvent(new MouseEvent('click'))")
    browser.waited(why.format(worst[3]))
    assert browser.run(CHOSEN) == [[3], worst[3], True, f"#job={worst[3]}"]
    browser.type("#run-0 [data-row='7'] a", "\ue007")
    browser.waited(why.format(worst[7]))
    assert browser.run(CHOSEN) == [[7], worst[7], True, f"#job={worst[7]}"]
    browser.open(pages["comparison"])
    browser.run("location.hash = '#job=' + arguments[0]", worst[2])
    browser.waited(why.format(worst[2]))
    opened = "return [...document.querySelectorAll('details.run')].map((run) => run.open)"
    assert browser.run(opened) == [True, False]
    assert browser.log() == []


def test_the_picture_shows_each_wait_and_each_time_out_of_service(browser, tmp_path):
    log, windows = tmp_path / "log.swf", tmp_path / "windows.csv"
    rows = (f"{k} {k * 600} -1 900 2 -1 -1 2 1000 -1 1 7 -1 -1 -1 -1 -1 -1" for k in range(1, 60))
    log.write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    windows.write_text("kind,begin,end,processors\nannounced,9000,16000,4\nfailure,20000,22000,1\n")
    result("replay", log, "--calendar", windows, "--out", tmp_path / "out")
    sized(browser, write_report([tmp_path])[0], 1280)
    assert browser.run("return document.querySelectorAll('.course .pick').length") == 10
    titles = browser.run("return [...document.querySelectorAll('.course svg > rect title')].map((e) => e.textContent)")
    assert [title.replace("\N{NO-BREAK SPACE}", " ") for title in titles] == [
        "4 processors out of service for 1 h 56 min",
        "1 processors out of service for 33 min 20 s",
    ]
    assert "Hatched: 2 times out of service." in browser.text("#explore-0 figcaption")
    column = "copy.getImageData(Math.round(gantt.x(at) * gantt.scale), 60, 1, 40).data.buffer"
    hatched = f"{COPY} return [9100, 15900, 16100].map((at) => new Set(new Uint32Array({column})).size > 1)"
    assert browser.run(hatched) == [True, True, False]
    assert browser.log() == []


def test_the_csv_has_every_job_with_all_that_is_known(browser, pages):
    sized(browser, pages["run"], 1280)
    text = browser.run("return document.querySelector('#explore-0').explorer.csv()")
    rows = list(csv.DictReader(io.StringIO(text)))
    (run,) = find_runs([pages["run"].parent])
    assert len(rows) == len(run)
    by_id = {row["job"]: row for row in rows}
    for i in range(0, len(run), 50):
        row = by_id[run.ids[i]]
        assert float(row["bsld"]) == pytest.approx(run.bsld()[i])
        assert float(row["wait_s"]) == float(row["start_s"]) - float(row["submit_s"]) == run.wait_s[i]
        assert (int(row["user"]), int(row["processors"])) == (run.facts.user[i], run.procs[i])
        assert datetime.fromisoformat(row["started"]) == run.about.clock.date(run.start_s[i])
    bslds = [float(row["bsld"]) for row in rows]
    assert bslds == sorted(bslds, reverse=True)


def test_the_table_goes_through_all_jobs_in_the_order_chosen(browser, pages):
    sized(browser, pages["run"], 1280)
    first = "return [...document.querySelectorAll('#explore-0 tbody.jobs tr')].map((e) => e.cells[0].textContent)"
    (run,) = find_runs([pages["run"].parent])
    by_bsld = run.ids[np.argsort(-run.bsld(), kind="stable")].tolist()
    assert browser.run(first) == by_bsld[:15]
    browser.click("#explore-0 [data-page='1']")
    assert browser.run(first) == by_bsld[15:30]
    waited = "return [...document.querySelectorAll('#explore-0 .jobs-table th')].map((e) => e.innerText)"
    place = browser.run(waited).index("waited") + 1
    browser.click(f"#explore-0 .jobs-table th:nth-child({place}) button")
    assert browser.run(first) == run.ids[np.argsort(-run.wait_s, kind="stable")][:15].tolist()
    assert browser.text("#explore-0 .rows") == "jobs 1 to 15 of 699"


def test_dates_are_those_of_the_logs_zone(browser, pages):
    sized(browser, pages["run"], 1280)
    (run,) = find_runs([pages["run"].parent])
    for second in (0, 4_600_000, 4_593_599, 20_000_000):  # summer time began at 4,579,200 + ...: both sides of it
        shown = browser.run("return document.querySelector('#explore-0').explorer.run.clock.text(arguments[0])", second)
        assert shown == date_text(second, run.about.clock)


OVERLAPS = """
const near = [], charts = [...document.querySelectorAll('.tradeoff svg, .tail svg, .curves svg')];
for (const svg of charts) {
  const names = [...svg.querySelectorAll('text.halo')].map((e) => [e.textContent, e.getBoundingClientRect()]);
  const marks = [...svg.querySelectorAll('circle')].map((e) => e.getBoundingClientRect());
  for (const [k, [name, box]] of names.entries()) {
    const meets = (b) => box.left < b.right && b.left < box.right && box.top + 3 < b.bottom && b.top < box.bottom - 3;
    for (const [other, b] of names.slice(0, k)) if (meets(b)) near.push([name, other]);
    if (marks.some(meets)) near.push([name, 'a mark']);
  }
}
return [charts.length, near]"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("what", ["comparison", "campaign"])
def test_no_name_in_a_chart_covers_another_or_a_mark(browser, pages, what, width):
    sized(browser, pages[what], width)
    assert browser.run(OVERLAPS) == [2, []]


ROWS = """
const page = arguments[0] ? new DOMParser().parseFromString(arguments[0], 'text/html') : document; // without scripts
const words = (e) => e.textContent.trim().replaceAll('\\u00a0', ' ');
return [words(page.querySelector('p.answer')), ...[...page.querySelectorAll('section.comparison tbody tr')].map((row) =>
  [...row.cells].map(words).concat(row.className))]"""


@pytest.mark.parametrize("what", ["comparison", "campaign"])
def test_answer_and_table_are_there_without_javascript_and_the_script_changes_nothing_in_them(browser, pages, what):
    browser.open(pages[what])
    assert browser.run(ROWS) == browser.run(ROWS, pages[what].read_text())
    assert browser.run("return document.querySelectorAll('.drawn svg').length") == len(browser.run(ROWS)) - 2


def test_what_the_reader_compares_with_is_followed_by_answer_table_and_chart(browser, pages):
    sized(browser, pages["comparison"], 1280)
    said, *first = browser.run(ROWS)
    label = "return document.querySelector('.tradeoff svg').textContent.replaceAll('\\u00a0', ' ')"
    assert "fcfs + 200,000 s (reference)" in browser.run(label)
    browser.type("select.against", "\ue015" if first[0][-1] == "reference" else "\ue013")  # down, or up
    other, *second = browser.run(ROWS)
    assert other != said
    assert "saf + 200,000 s (reference)" in browser.run(label)
    (old,), (new,) = ([row for row in rows if row[4] != "reference"] for rows in (first, second))
    assert [row[4] for row in first] == [row[4] for row in second][::-1] or old[0] != new[0]
    assert {row[-1] for row in second} >= {"reference"}
    assert {old[6], new[6]} in ({"better", "worse"}, {"cannot tell"})
    assert browser.log() == []
