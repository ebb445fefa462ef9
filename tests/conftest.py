"""What the tests share: which of them are quick, which need an extra, and where the archive's logs are."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from batfill.base import errors
from browser import CHROMIUM, DRIVER, Browser

ROOT = Path(__file__).parents[1]

# Tests start hundreds of processes, each of which would compile the sources again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A script in the background, nohup and some CI systems start `make test` with signals ignored. A process inherits that,
# but not a handler: the processes that tests start take these signals, and the tests still outlive a hang-up.
for number in errors.STOPPING:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else lambda *_: None)

# The files whose tests have the mark `quick`, unless one is slow: they start no process and replay no long log.
QUICK = {
    "test_batsim_json.py",
    "test_batsim_results.py",
    "test_campaign_config.py",
    "test_campaign_store.py",
    "test_cleaning.py",
    "test_cli_app.py",
    "test_cli_replay.py",
    "test_cluster.py",
    "test_descriptor.py",
    "test_on_paper.py",
    "test_external_events.py",
    "test_import.py",
    "test_known_size.py",
    "test_tries.py",
    "test_load.py",
    "test_machines.py",
    "test_metrics.py",
    "test_options.py",
    "test_palette.py",
    "test_platform.py",
    "test_platforms.py",
    "test_policies.py",
    "test_replay_state.py",
    "test_report_comparison.py",
    "test_report_packing.py",
    "test_resampling.py",
    "test_splitting.py",
    "test_swf.py",
}

settings.register_profile("untimed", deadline=None)  # speed is for benchmarks: a busy machine fails no test
settings.load_profile("untimed")


def pytest_configure():
    gc.disable()


def pytest_collection_finish():
    """From here on the collector passes over what has been imported and collected, a million objects that stay."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path, config):
    """With `-m quick` the other files are not even imported, which takes longer than the quick tests."""
    others = collection_path.name.startswith("test_") and collection_path.name not in QUICK
    return True if others and config.option.markexpr == "quick" else None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in QUICK and item.get_closest_marker("slow") is None:
            item.add_marker("quick")


def pytest_runtest_setup(item):
    """Skip a test with the mark `needs`, such as needs("sklearn"), if a module that it names is not installed."""
    for mark in item.iter_markers("needs"):
        for module in mark.args:
            if not errors.installed(module):
                pytest.skip(f"needs {errors.DISTRIBUTIONS.get(module, module)}, which an extra brings")


def places():
    """Where a log of the archive may be: $BATFILL_TRACES, a folder `traces` beside the checkout, what was fetched."""
    from batfill.workloads.archive import cache_folder

    if given := os.environ.get("BATFILL_TRACES"):
        yield Path(given)
    yield from (ROOT.parent / "traces", *sorted(ROOT.parent.glob("*/traces")), cache_folder())


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The files of two runs, the sample under fcfs and under saf."""
    from report_runs import sample_run

    folder = tmp_path_factory.mktemp("runs")
    for policy in ("fcfs", "saf"):
        sample_run(folder, policy)
    return folder


@pytest.fixture(scope="session")
def runs(folder):
    """The same as they are read."""
    from batfill_pages.runs import find_runs

    return find_runs([folder])


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A window of headless Chromium; without Chromium the test is skipped."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("no chromium and chromedriver on PATH")
    window = Browser(tmp_path_factory.mktemp("chromium"))
    yield window
    window.close()


@pytest.fixture
def archive_log():
    """A function from a log's file name to its path; skips the test where the log is not at hand."""

    def find(name: str) -> Path:
        for place in places():
            if (path := place / name).is_file():
                return path
        pytest.skip(f"{name} is not here; `batfill workload fetch` it, or set BATFILL_TRACES to a folder that holds it")

    return find


@pytest.fixture(scope="module")
def small_blocks():
    """Uncompiled, a block of waiting jobs holds four, and one of running jobs, too; two blocks are a group."""
    from batfill.base.kernels import PLAIN
    from batfill.engine import blocks, easy, ends, keys, plan

    with pytest.MonkeyPatch.context() as patch:
        if PLAIN:
            for module in (blocks, easy, ends, keys, plan):
                patch.setattr(module, "BLOCK", 4)
            patch.setattr(ends, "HALF", 2)
            for module in (blocks, easy, plan):
                patch.setattr(module, "GROUP", 2)
        yield
