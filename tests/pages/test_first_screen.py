"""What each page answers before its reader scrolls: checked against replays, and in a browser, on generated logs."""

import re

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

import batfill as bf
from batfill.base.words import duration
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from browser import CHROMIUM, DRIVER
from pages import ORDERS, SCHEMES, THRESHOLDS_H, WIDTHS, make_pages
from sweeps import LATER, sweep

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on PATH")

HEIGHT = 800
NAMES = ("comparison", "what-if", "run")
# Two machines: one that is wide and busy for months, one with a few hundred jobs.
# Jobs, processors, seed, and the time between submissions as a multiple of the model's.
LOGS = {"busy": (2_000, 24, 11, 2.0), "short": (300, 1_000, 12, 1.0)}
RICH = pytest.mark.parametrize("made", ["busy", LATER("short")], indirect=True)  # whose pages have more
NBSP = "\N{NO-BREAK SPACE}"
# Shown text outside of code, in which a number and its unit are torn apart by a space at which a line may end.
TORN = r"""
const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), torn = [];
while (walk.nextNode()) {
  const node = walk.currentNode;
  if (node.parentElement.closest('code, pre, script, style, [hidden]') || !node.parentElement.getClientRects().length)
    continue;
  const found = node.data.match(/\d (?:d|h|min|s|%)(?![a-z])/);
  if (found) torn.push(node.data.trim().slice(0, 80));
}
return torn
"""
REACH = """
const can = 'a[href], button, input:not([type=radio]:not(:checked)), select, summary, textarea, [tabindex="0"]';
return [...document.querySelectorAll(can)].filter((e) => !e.disabled && e.tabIndex >= 0 && e.checkVisibility()).length
"""
FOCUSED = """
const e = document.activeElement;
if (!e || e === document.body) return null;
e.dataset.reached = 'yes';
const style = getComputedStyle(e);
return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
"""


@pytest.fixture(scope="module", params=LOGS)
def made(request, tmp_path_factory):
    """The log, and its pages by name."""
    folder = tmp_path_factory.mktemp(request.param)
    jobs, procs, seed, interarrival = LOGS[request.param]
    log = folder / f"{request.param}.swf"
    write_log(generate_log(jobs, procs, seed=seed, interarrival=interarrival), log)
    return log, make_pages(log, folder)


def answer(browser, where="p.answer"):
    return re.sub(r"\s+", " ", browser.text(where).replace(NBSP, " "))


@pytest.mark.parametrize("name", NAMES)
def test_answer_and_picture_are_on_the_first_screen(browser, made, name):
    browser.sized(1280, HEIGHT)
    browser.open(made[1][name])
    bottoms = browser.run(
        "return ['p.answer', 'main svg, main canvas'].map((what) => [...document.querySelectorAll(what)]"
        ".filter((e) => e.getBoundingClientRect().height > 100 || what === 'p.answer')[0]"
        ".getBoundingClientRect().bottom)"
    )
    assert max(bottoms) <= HEIGHT
    assert browser.log() == []


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_names_the_longest_wait(browser, made, name):
    log, pages = made
    browser.sized(1280, HEIGHT)
    browser.open(pages[name])
    runs = {order: bf.replay(log, order) for order in ORDERS}
    runs |= {f"saf {h} h": bf.replay(log, "saf", threshold_s=h * 3600) for h in THRESHOLDS_H}
    runs |= {"tries": bf.replay(log, preset="first-tries")}
    longest = {order: duration(run.figures.max_wait_s) for order, run in runs.items()}
    said = answer(browser)
    if name == "what-if":
        said += answer(browser, "#four")
    if name == "run":
        assert longest["saf"] in said
        assert duration(runs["saf"].figures.mean_wait_s) in said
    elif "Cannot tell" not in said and "Keep" not in said:
        assert any(words in said for words in longest.values())
        assert longest["fcfs"] in said


@RICH
@pytest.mark.parametrize(*sweep(2, name=list(NAMES), width=list(WIDTHS), scheme=list(SCHEMES)))
def test_no_page_scrolls_sideways_or_tears_a_unit_from_its_number(browser, made, name, width, scheme):
    browser.sized(width, HEIGHT, scheme)
    browser.open(made[1][name])
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(TORN) == []
    assert browser.log() == []


@RICH
@pytest.mark.parametrize(*sweep(name=list(NAMES), look=[(390, "light"), (1280, "dark")]))
def test_axe_finds_nothing(browser, made, name, look):
    width, scheme = look
    browser.sized(width, HEIGHT, scheme)
    browser.open(made[1][name])
    browser.run("for (const e of document.querySelectorAll('details')) e.open = true")
    browser.waited("return !document.querySelector('.explorer:not(.ready)')")
    # Further rows and runs are like the first; axe looks for what is behind each cell.
    further = "tbody tr:nth-child(n + 7), details[id^=run-]:not(#run-0, #run-1)"
    browser.run("for (const e of document.querySelectorAll(arguments[0])) e.remove()", further)
    assert browser.violations() == []


@RICH
@pytest.mark.parametrize("name", NAMES)
def test_every_control_is_reached_by_the_keyboard_and_shows_its_focus(browser, made, name):
    browser.sized(1280, HEIGHT)
    browser.open(made[1][name])
    count = browser.run(REACH)
    for _ in range(count + 5):
        browser.press("\ue004")
        assert browser.run(FOCUSED) in (True, None)
        if browser.run("return document.querySelectorAll('[data-reached]').length") == count:
            return
    missed = browser.run(REACH.replace(".length", ".filter((e) => !e.dataset.reached).map((e) => e.outerHTML)"))
    assert missed == []
