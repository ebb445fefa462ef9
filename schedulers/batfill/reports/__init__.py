"""Reports on runs: a self-contained HTML page, and figures for papers."""

from batfill.reports.write import report, write_report

__all__ = ["report", "write_report"]
