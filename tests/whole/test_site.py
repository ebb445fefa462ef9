"""The site builds without a warning, loads nothing from elsewhere, and can be searched when opened from a folder."""

import json
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

from browser import CHROMIUM, DRIVER, Browser
from pages import SCHEMES, WIDTHS

pytest.importorskip("mkdocs", reason="needs the extra docs")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# What a browser fetches by itself when it shows a page.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Fetches(HTMLParser):
    """The addresses that a page makes a browser fetch."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if (address := given.get(FETCHED.get(tag))) and given.get("rel") != "canonical":
            self.found.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # as `make docs` does: the theme announces another program
        capture_output=True,
        text=True,
    )
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


def pages_of(site):
    return sorted(site.rglob("*.html"))


def test_no_page_fetches_from_elsewhere(site):
    pages = pages_of(site)
    assert len(pages) > 20
    fetched = [(page.name, address) for page in pages for address in Fetches(page).found]
    assert len(fetched) > len(pages)  # every page has scripts and styles of its own
    assert [found for found in fetched if re.match(r"(https?:)?//", found[1])] == []


def test_what_a_page_fetches_is_in_the_site(site):
    for page in pages_of(site):
        for address in Fetches(page).found:
            if not address.startswith(("/", "data:")) and page.name != "404.html":
                assert (page.parent / address.partition("?")[0].partition("#")[0]).exists(), f"{page}: {address}"


def test_the_home_leads_to_live_pages_that_are_there(site):
    led_to = re.findall(r'href="(live/[^"]+)"', (site / "index.html").read_text())
    assert sorted(set(led_to)) == ["live/comparison.html", "live/run.html", "live/what-if.html"]
    for address in led_to:
        assert "half-a-year.swf.gz" in (site / address).read_text()


def commands_of(group, path="batfill"):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{path} {name}")


THEMES = {"light": "default", "dark": "slate"}
FOUND_FIRST = {
    "performance": "performance.html",
    "what-if": "how-to/what-if.html",
    "what if": "how-to/what-if.html",
    "starvation": "semantics.html",
    "fairshare": "how-to/slurm.html",
}
NO_BROWSER = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on PATH")


@NO_BROWSER
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_fit_every_width_and_axe_finds_nothing(site, tmp_path, scheme):
    browser = Browser(tmp_path)
    try:
        other = next(each for each in SCHEMES if each != scheme)
        browser.sized(1280, 800, other)
        browser.visit(site / "index.html")  # the theme remembers its first visit, but follows the system
        for width in WIDTHS:
            browser.sized(width, 800, scheme)
            for name in ("index", "results/power", "results/reproduction", "reference/python"):
                browser.visit(site / f"{name}.html")
                browser.waited("return document.readyState === 'complete'")
                assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), (name, width)
                assert browser.run("return document.body.dataset.mdColorScheme") == THEMES[scheme]
                assert browser.violations("{rules: {'link-in-text-block': {enabled: true}}}") == [], (name, width)
            if width == 1280:
                browser.visit(site / "index.html")
                ends = "return document.querySelector('.home-result table').getBoundingClientRect().bottom"
                assert browser.run(ends) <= 800
    finally:
        browser.close()


@NO_BROWSER
def test_the_search_works_from_a_folder_and_finds_the_page_that_is_meant(site, tmp_path):
    browser = Browser(tmp_path, "--host-resolver-rules=MAP * ~NOTFOUND")
    try:
        browser.call("POST", "/url", {"url": (site / "index.html").as_uri()})
        browser.run("document.querySelector('[data-md-toggle=search]').click()")
        found = "return [...document.querySelectorAll('a.md-search-result__link')].map(a => a.href)"
        for words, page in FOUND_FIRST.items():
            # At once: half-typed words such as "what-" are no query.
            browser.run(f"document.querySelector('input.md-search__input').value = {json.dumps(words)}")
            browser.type("input.md-search__input", " ")
            ends = time.monotonic() + 30
            while page not in next(iter(browser.run(found)), ""):
                assert time.monotonic() < ends, (words, browser.run(found), browser.log())
                time.sleep(0.1)
            assert all(address.startswith("file://") for address in browser.run(found))
        assert browser.log() == []
    finally:
        browser.close()
