"""Reports on runs: a self-contained HTML page, and figures for papers."""

from batfill_pages.write import report, write_report

__all__ = ["report", "write_report"]
