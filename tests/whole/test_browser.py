"""batfill in a browser: the same answers under WebAssembly in Node, and the page in Chromium as a person uses it."""

import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "browser"
VERSION = "0.28.0"
pytestmark = pytest.mark.slow

LOG = "KTH-SP2-1996-2.1-cln.swf.gz"
MADE = "half-a-year.swf.gz"  # which the page has
OTHERS = [
    *("SDSC-SP2-1998-4.2-cln.swf.gz", "CTC-SP2-1996-3.1-cln.swf.gz", "HPC2N-2002-2.2-cln.swf.gz"),
    *("SDSC-BLUE-2000-4.2-cln.swf.gz", "CEA-Curie-2011-2.1-cln.swf.gz"),
]
ORDERS = ["--policy fcfs", "--policy spf", "--policy saf --threshold 24h", "--policy wfp3", "--policy lexp"]
WINDOWS = "kind,begin,end,processors,announced\nannounced,5000,9000,16,4000\nfailure,20000,90000,50,\n"
STATE = {
    "procs": 18,
    "at": "2026-01-31T10:25",
    "jobs": [
        {"id": "1", "user": "ada", "state": "RUNNING", "processors": 12, "request": "4:00:00"}
        | {"submit": "2026-01-31T10:00:00", "start": "2026-01-31T10:05:00"},
        {"id": "2", "user": "bo", "state": "PENDING", "processors": 14, "request": "1:00:00"}
        | {"submit": "2026-01-31T10:02:00"},
    ],
}
TIMES = ("read_s", "simulate_s")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page for use without a network, and Pyodide with it."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("needs node and npm")
    if find_spec("ziglang") is None:
        pytest.skip("needs what links WebAssembly: pip install ziglang, or make docs")
    places = [Path(os.environ.get("BATFILL_PYODIDE", BUILD / "wheels")), *ROOT.parent.glob("*/proto/browser/wheels")]
    wheels = [wheel for place in places for wheel in place.glob("*-cp313-*_wasm32.whl")]
    if not wheels:
        pytest.skip("set BATFILL_PYODIDE to a folder with Pyodide's wheels of numpy and orjson")
    pyodide = BUILD / "pyodide"
    if not (pyodide / "pyodide.mjs").exists():
        pyodide.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"pyodide@{VERSION}"], cwd=BUILD, capture_output=True, text=True, timeout=300
        )
        if packed.returncode:
            pytest.skip(f"npm cannot fetch pyodide@{VERSION}: {packed.stderr[-200:]}")
        name = packed.stdout.split()[-1]
        subprocess.run(["tar", "xzf", name, "-C", pyodide, "--strip-components=1"], cwd=BUILD, check=True)
    for wheel in wheels:
        shutil.copy(wheel, pyodide)
    out = tmp_path_factory.mktemp("page")
    command = [sys.executable, ROOT / "scripts" / "browser.py", out, "--offline", pyodide]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return out


def lines_of(log):
    """Command lines over a log, and what they write."""
    replays = [f"batfill replay {log} {order} --out {i} --json" for i, order in enumerate(ORDERS)]
    return [
        *replays,
        f"batfill replay {log} --preset first-tries --out tries --json",
        f"batfill replay {log} --policy fcfs --depth all --out all --json",
        f"batfill replay {log} --policy saf --calendar windows.csv --out away --json",
        *([] if log == MADE else [f"batfill fidelity {log} --json"]),  # it has no waits
        "batfill when state.json --json",
        f"batfill what-if {log} --out what-if.html --json",
    ]


def differing(ours, theirs, place=""):
    """Where two results differ, figures by more than the twelfth digit."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if ours.keys() != theirs.keys():
            return [f"{place}: {ours.keys() ^ theirs.keys()}"]
        return [
            each for key in ours if key not in TIMES for each in differing(ours[key], theirs[key], f"{place}/{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [each for i, pair in pairs for each in differing(*pair, f"{place}/{i}")]
    if isinstance(ours, float) and isinstance(theirs, float) and np.isclose(ours, theirs, rtol=1e-12, atol=0):
        return []
    return [] if ours == theirs else [f"{place}: {ours} {theirs}"]


@pytest.mark.parametrize("name", [MADE, *(pytest.param(name, marks=pytest.mark.long) for name in (LOG, *OTHERS))])
def test_commands_in_webassembly_give_every_start_and_twelve_digits(page, archive_log, tmp_path, name):
    lines = lines_of(name)
    folders = [tmp_path / "here", tmp_path / "there"]
    for folder in folders:
        folder.mkdir()
        shutil.copy(page / name if name == MADE else archive_log(name), folder)
        (folder / "windows.csv").write_text(WINDOWS)
        (folder / "state.json").write_text(json.dumps(STATE))
    (tmp_path / "lines").write_text("\n".join(lines))
    node = ["node", ROOT / "tests" / "in_node.mjs", page, folders[1], tmp_path / "lines"]
    said = subprocess.run(node, check=True, capture_output=True, text=True, timeout=900).stdout
    theirs = [json.loads(line)["text"] for line in said.splitlines()]
    for line, text in zip(lines, theirs, strict=True):
        words = [sys.executable, "-m", "batfill", *shlex.split(line)[1:]]
        ours = subprocess.run(words, cwd=folders[0], check=True, capture_output=True, text=True, timeout=900).stdout
        assert differing(json.loads(ours), json.loads(text[text.index("{\n") :])) == [], line
    written = {path.name for path in folders[0].glob("*_jobs.csv")}
    assert len(written) == len(ORDERS) + 3
    for csv in written:
        assert (folders[0] / csv).read_bytes() == (folders[1] / csv).read_bytes(), csv
    pages = [(folder / "what-if.html").read_text().split("\n") for folder in folders]
    assert sum(ours != theirs for ours, theirs in zip(*pages, strict=True)) <= 1  # the data's last digits


# In Chromium


@pytest.fixture(scope="module")
def address(page):
    """Where the page is served, and the paths that were asked for."""
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = {  # noqa: RUF012
            **SimpleHTTPRequestHandler.extensions_map,
            ".mjs": "text/javascript",
            ".wasm": "application/wasm",
        }

        def log_message(self, *_):
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", asked
    server.shutdown()
    server.server_close()


DROP = """
const file = new File([Uint8Array.from(atob(arguments[1]), c => c.charCodeAt(0))], arguments[0]);
const data = new DataTransfer();
data.items.add(file);
document.getElementById('drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true }));
"""
SETTLED = """
return document.getElementById('stop').hidden && /^(Done|Stopped)/.test(document.getElementById('status').textContent)
"""
ANSWER = """
const native = new DOMParser().parseFromString(arguments[0], 'text/html');
return [native, document.getElementById('page').contentDocument].map(page => page.querySelector('.answer').textContent);
"""
TEXT = "return document.getElementById(arguments[0]).textContent"


@pytest.fixture
def opened(browser, address):
    """The page, with Python loaded."""
    browser.call("POST", "/url", {"url": address[0]})
    waited(browser, "return document.getElementById('status').textContent === 'Ready.'")
    return browser


def waited(browser, script):
    """Wait for Python's loading, or an answer."""
    for _ in range(6):
        try:
            return browser.waited(script)
        except AssertionError:
            continue
    return browser.waited(script)


def test_a_log_that_is_dropped_is_answered_and_does_not_leave_the_machine(opened, address, archive_log, tmp_path):
    log = archive_log(LOG)
    before = len(address[1])
    opened.run(DROP, LOG, base64.b64encode(log.read_bytes()).decode())
    waited(opened, SETTLED)
    assert opened.run(TEXT, "error") == ""
    assert opened.run(TEXT, "log") == f"{LOG}: 28,467 jobs"
    assert "8 of 28,476 rows dropped" in opened.run(TEXT, "read")
    rows = opened.run("return [...document.getElementById('orders').tBodies[0].rows].map(row => row.innerText)")
    assert rows[0].split("\t")[1:] == ["1 h 53 min", "3 d", "91"]
    assert "▲ 54 d 6 h" in rows[2]
    command = opened.run(TEXT, "command")
    assert command == f"batfill what-if {LOG} --max-wait-growth 10% --out what-if.html"
    words = [sys.executable, "-m", "batfill", *shlex.split(command)[1:]]
    shutil.copy(log, tmp_path)
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    ours, shown = opened.run(ANSWER, (tmp_path / "what-if.html").read_text())
    assert ours == shown != ""
    assert address[1][before:] == []  # nothing was asked for, so nothing was sent
    opened.click("[data-page='run']")
    waited(opened, SETTLED)
    assert opened.run(TEXT, "command").endswith("batfill report runs/policy-fcfs --out run.html")
    assert opened.run("return document.getElementById('keep').download") == "run.html"
    opened.click("[data-page='comparison']")
    waited(opened, SETTLED)
    assert opened.run(TEXT, "error") == ""
    assert address[1][before:] == []
    for width in (1280, 390):
        opened.sized(width, 1000)
        assert opened.violations("{runOnly: ['wcag2a', 'wcag2aa', 'best-practice'], iframes: false}") == []


def test_the_page_may_not_speak_to_another_host(opened):
    blocked = """
    addEventListener('securitypolicyviolation', event => { window.blocked = event.effectiveDirective });
    fetch('http://127.0.0.1:9/').catch(() => {});
    """
    opened.run(blocked)
    assert opened.waited("return window.blocked") == "connect-src"


UNSURE = "; MaxProcs: 8\n" + "".join(
    f"{k} {600 * k} -1 {100 + k} {1 + k % 8} -1 -1 {1 + k % 8} -1 -1 1 {k % 5} -1 -1 -1 -1 -1 -1\n"
    for k in range(1, 400)
)


def dropped(browser, name, content):
    """Drop a file, and wait for the answer or the error; returns the error."""
    browser.run(DROP, name, base64.b64encode(content).decode())
    waited(browser, SETTLED)
    return browser.run(TEXT, "error")


def test_a_mistake_gets_the_words_of_the_command_line_where_it_is_seen_and_work_can_be_stopped(opened):
    opened.sized(390, 800)
    assert dropped(opened, "broken.swf", b"1 2 3\n").startswith("broken.swf:1: 3 fields, but SWF has 18")
    assert opened.run("return document.getElementById('file').files[0].name") == "broken.swf"
    assert dropped(opened, "a.png", b"\x89PNG\r\n\x1a\n").startswith(
        "a.png:1: this is no log: it begins with '\\x89PNG"
    )
    assert opened.run("return document.getElementById('error').getBoundingClientRect().bottom") < 800
    record = (
        "window.Worker = class extends Worker { constructor(...a) { super(...a); (window.made ??= []).push(this); } }"
    )
    opened.run(record)
    for _ in range(2):
        opened.click("[data-log='half-a-year.swf.gz']")
        waited(opened, "return !document.getElementById('stop').hidden")
        opened.run("document.getElementById('stop').click()")  # it moves with the words beside it
        waited(opened, SETTLED)
        assert opened.run(TEXT, "error") == "Stopped. Drop the log again, or another."
    opened.waited("return window.made?.length === 2")
    opened.click("[data-log='sample.json']")  # while what was stopped still reports how it ended
    opened.run("made[0].dispatchEvent(new ErrorEvent('error', { message: 'Uncaught NoGilError' }))")
    waited(opened, SETTLED)
    assert opened.run(TEXT, "error") == ""
    assert opened.run(TEXT, "log") == "sample.json: 800 jobs"


def test_what_stands_in_for_missing_requests_and_the_machine_are_chosen_on_the_page(opened):
    assert opened.run("return document.getElementById('missing').hidden")
    assert "have no requested time" in dropped(opened, "unsure.swf", UNSURE.encode())
    opened.run("document.getElementById('unrequested').value = 'runtime'")
    opened.click("#again")
    waited(opened, SETTLED)
    assert opened.run(TEXT, "error") == ""
    command = opened.run(TEXT, "command")
    assert "--unrequested runtime --max-wait-growth" in command
    assert "--procs" not in command  # the header's size is a placeholder: the log's machine is replayed
    opened.run("document.getElementById('procs').value = 6")
    opened.click("#again")
    waited(opened, SETTLED)
    assert opened.run(TEXT, "wider").startswith(
        "100 of 399 jobs (25.1 %) ask for more than 6 processors: they are left out"
    )
    assert opened.violations("{runOnly: ['wcag2a', 'wcag2aa', 'best-practice'], iframes: false}") == []
