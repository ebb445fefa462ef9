"""The functions of other houses that the core calls. Only the tables of commands and of public names also name them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

DOORS = {
    "write_report": "batfill_pages.write",  # the page of `batfill run`
    "campaign_parts": "batfill_lab.campaigns.grids",  # a campaign's folder among the runs of a page
    "Selection": "batfill_lab.online.selection",  # the option `select` of live schedulers
    "PolicyChoice": "batfill_lab.online.live",
    "read_accounting": "batfill_site.accounting.systems",  # a batch system's accounting in the place of a log
    "import_log": "batfill_site.cli.accounting",  # a command of `batfill workload`
}


def door(name: str) -> Any:
    """The function of this name; its house is loaded now."""
    return getattr(import_module(DOORS[name]), name)
