"""Runs to look at: a self-contained HTML page, and figures for papers."""

from batfill.report.write import write_report

__all__ = ["write_report"]
