"""Runs to look at: a self-contained HTML page, and figures for papers."""

from batfill.reports.write import write_report

__all__ = ["write_report"]
