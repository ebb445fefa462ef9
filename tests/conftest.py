"""What the tests share: which of them are quick, which need an extra, and where the archive's logs are."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from batfill.base import errors

ROOT = Path(__file__).parents[1]

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
    "test_easy.py",
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


def pytest_ignore_collect(collection_path, config):
    """With `-m quick` the other files are not even imported, which takes longer than the quick tests."""
    others = collection_path.name.startswith("test_") and collection_path.name not in QUICK
    return True if others and config.option.markexpr == "quick" else None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in QUICK and item.get_closest_marker("slow") is None:
            item.add_marker("quick")


# What extras bring. Without one of them the tests that need it are skipped, as `make test-core` does; with all of them
# nothing is.
BROUGHT = (
    "batsim", "cmaes", "dask_jobqueue", "distributed", "duckdb", "gymnasium", "lupa", "matplotlib", "pandas", "pyarrow",
    "pydantic", "scipy", "sklearn",
)  # fmt: skip
ABSENT = {errors.DISTRIBUTIONS.get(module, module): module for module in BROUGHT if not errors.installed(module)}
NEEDED = re.compile(r"needs ([\w-]+), which is not installed: pip install|No module named '(\w+)")
# Files of which nothing may be skipped for an extra: what they test is the core, or what it says without an extra.
CORE = {
    "test_batsim_results.py",
    "test_batsim_simulation.py",
    "test_cluster.py",
    "test_descriptor.py",
    "test_easy.py",
    "test_extras.py",
    "test_tries.py",
    "test_metrics.py",
    "test_policies.py",
    "test_replay.py",
    "test_replay_state.py",
    "test_swf.py",
    "test_tree.py",
}


missed: list[str] = []  # the libraries that batfill has missed in this process since the last report


def pytest_configure():
    original = errors.missing

    def noted(library, extra):
        missed.append(library)
        return original(library, extra)

    if ABSENT:
        errors.missing = noted


def skip_without_its_extra(report, path):
    """Turn a failure into a skip with its reason, if it is for a library of an extra that is not installed."""
    found = [(errors.DISTRIBUTIONS.get(library, library), "") for library in missed]
    missed.clear()
    if not ABSENT or not report.failed or path.name in CORE:
        return
    text = "\n".join([str(report.longrepr), *(content for _, content in report.sections)])
    for by_us, by_python in [*found, *NEEDED.findall(text)]:
        if by_us in ABSENT or by_python in ABSENT.values():
            report.outcome = "skipped"
            report.longrepr = (str(path), 0, f"Skipped: needs {by_us or by_python}, which an extra brings")
            return


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if isinstance(collector, pytest.Module):
        skip_without_its_extra(report, collector.path)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    skip_without_its_extra(report, item.path)
    return report


def places():
    """Where a log of the archive may be: $BATFILL_TRACES, a folder `traces` beside the checkout, what was fetched."""
    from batfill.workloads.archive import cache_folder

    if given := os.environ.get("BATFILL_TRACES"):
        yield Path(given)
    yield from (ROOT.parent / "traces", *sorted(ROOT.parent.glob("*/traces")), cache_folder())


@pytest.fixture
def archive_log():
    """A function from a log's file name to its path; skips the test where the log is not at hand."""

    def find(name: str) -> Path:
        for place in places():
            if (path := place / name).is_file():
                return path
        pytest.skip(f"{name} is not here; `batfill workload fetch` it, or set BATFILL_TRACES to a folder that holds it")

    return find
