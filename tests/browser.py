"""A headless Chromium, driven through chromedriver by the W3C's WebDriver protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
]
PATIENCE_S = 120  # for a script; machines are shared
READY = "return document.documentElement.dataset.ready === 'yes'"
CUT = """
const scrolls = (e) => e && (getComputedStyle(e).overflowX === 'auto' || scrolls(e.parentElement));
return [...document.querySelectorAll('body :not(svg *, .sr, .scroll)')].filter((e) => {
  const [own, place] = [e, e.parentElement].map((each) => each.getBoundingClientRect());
  const past = own.left < place.left - 1.5 || own.right > place.right + 1.5;
  return own.width && place.width && past && (e.matches('#four *') || !scrolls(e.parentElement));
}).map((e) => e.outerHTML)
"""


class Browser:
    """One window; close it when done."""

    def __init__(self, profile: Path, *flags: str) -> None:
        self.driver = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = next(line for line in self.driver.stdout if "successfully on port" in line)
        self.root = f"http://127.0.0.1:{line.split()[-1].rstrip('.')}/session"
        options = {
            "binary": CHROMIUM,
            "args": [*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,1000", *flags],
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            session = self.call("POST", "", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.driver.kill()
            raise
        self.root += f"/{session}"
        self.call("POST", "/timeouts", {"script": 1000 * PATIENCE_S})

    def call(self, method: str, what: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + what, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=2 * PATIENCE_S) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path) -> None:
        """Open the page and wait until its charts are there."""
        self.call("POST", "/url", {"url": page.resolve().as_uri()})
        self.waited(READY)
        self.frame()

    def visit(self, page: Path) -> None:
        """Open a page that does not say when it is ready."""
        self.call("POST", "/url", {"url": page.resolve().as_uri()})
        self.frame()

    def sized(self, width: int, height: int, scheme: str = "light", *, media: str = "") -> None:
        """Give the window these pixels, phones' widths too, and emulate a colour scheme, and print with its media."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)
        prefers = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", media=media, features=[prefers])

    def run(self, script: str, *arguments: Any) -> Any:
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def waited(self, script: str) -> Any:
        """What the script returns, as soon as that is neither null nor false."""
        began = time.perf_counter()
        while not (found := self.run(script)) and found != []:
            assert time.perf_counter() - began < 30, self.log()
            time.sleep(0.02)
        return found

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": keys}]})

    def frame(self) -> None:
        """Wait until what was asked for is painted."""
        script = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        self.call("POST", "/execute/async", {"script": script, "args": []})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Chromium's own protocol: https://chromedevtools.github.io/devtools-protocol/."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def element(self, selector: str) -> str:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return f"/element/{next(iter(found.values()))}"

    def text(self, selector: str) -> str:
        return self.call("GET", f"{self.element(selector)}/text")

    def type(self, selector: str, keys: str) -> None:
        self.call("POST", f"{self.element(selector)}/value", {"text": keys})
        self.frame()

    def click(self, selector: str) -> None:
        self.call("POST", f"{self.element(selector)}/click", {})
        self.frame()

    def pointer(self, selector: str, *steps: tuple[str, int, int]) -> None:
        """Move to places within the element (from its upper left corner), and press or release the button there."""
        x, y = self.run(
            "const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
            "const box = e.getBoundingClientRect(); return [Math.round(box.left), Math.round(box.top)]",
            selector,
        )
        actions: list[dict[str, Any]] = []
        for what, dx, dy in steps:
            actions.append({"type": "pointerMove", "duration": 20, "x": x + dx, "y": y + dy})
            if what != "move":
                actions.append({"type": {"press": "pointerDown", "release": "pointerUp"}[what], "button": 0})
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.call("POST", "/actions", {"actions": [mouse]})
        self.frame()

    def violations(self, options: str = "") -> list[tuple[str, list[str]]]:
        """What axe finds on the page: each rule, and the elements that break it."""
        axe = files(pytest.importorskip("axe_core_python")) / "axe.min.js"
        self.run(f"{axe.read_text()}; window.axe = axe")
        self.run(f"axe.run({options}).then((found) => {{ window.found = found.violations }})")
        found = self.waited("return window.found")
        return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]

    def cut(self, *widths: int) -> list[str]:
        """At these widths, what does not fit into its place and does not scroll, or is in the first table and does."""
        found: list[str] = []
        for width in widths:
            self.sized(width, 900)
            found += self.run(CUT)
        return found

    def log(self) -> list[str]:
        """What the console said."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("GET", "/screenshot"))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("POST", "/print", {}))

    def close(self) -> None:
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            self.driver.stdout.close()
