"""Screenshots of every page at three widths, light and dark, and as it is printed.

    python scripts/screens.py [--log LOG] [--out FOLDER] [--site FOLDER]

Without a log, two are generated from the seed. Needs chromium and chromedriver on PATH.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from batfill.workloads.generate import generate_log  # noqa: E402
from batfill.workloads.swf_log import write_log  # noqa: E402
from browser import CHROMIUM, DRIVER, Browser  # noqa: E402
from pages import SCHEMES, WIDTHS, make_pages  # noqa: E402

HEIGHT = 800  # of the window; a screenshot holds the whole page, and -first what is seen before scrolling
TALLEST = 12_000


def shoot(browser: Browser, page: Path, folder: Path, name: str, *, ready: bool) -> None:
    """Write every screenshot of this page, and its print as a PDF."""
    for scheme in SCHEMES:
        for width in WIDTHS:
            browser.sized(width, HEIGHT, scheme)
            browser.open(page) if ready else browser.visit(page)
            (folder / f"{name}-{width}-{scheme}-first.png").write_bytes(browser.screenshot())
            tall = min(browser.run("return document.documentElement.scrollHeight"), TALLEST)
            browser.sized(width, tall, scheme)
            browser.frame()
            (folder / f"{name}-{width}-{scheme}.png").write_bytes(browser.screenshot())
    browser.sized(1280, HEIGHT, "light")
    browser.frame()
    (folder / f"{name}-print.pdf").write_bytes(browser.pdf())
    for line in browser.log():
        print(f"{name}: {line}", file=sys.stderr)


def screens() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, action="append", help="a log, repeatable")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screens")
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="the documentation's site, if it is built")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not (CHROMIUM and DRIVER):
        sys.exit("screens: no chromium and chromedriver on PATH; Debian's packages are chromium and chromium-driver")
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        logs = given.log or []
        for k, (jobs, procs) in enumerate(() if logs else ((3_000, 96), (400, 1_000))):
            logs.append(given.out / f"generated-{given.seed}-{k}.swf")
            write_log(generate_log(jobs, procs, seed=given.seed + k, load=0.8), logs[-1])
        browser = Browser(Path(scratch))
        try:
            for log in logs:
                stem = log.name.split(".")[0]
                for name, page in make_pages(log, given.out / stem).items():
                    shoot(browser, page, given.out, f"{stem}-{name}", ready=True)
            if (given.site / "index.html").is_file():
                shoot(browser, given.site / "index.html", given.out, "home", ready=False)
        finally:
            browser.close()
    print(f"{len(list(given.out.glob('*.png')))} screenshots in {given.out}")


if __name__ == "__main__":
    screens()
