# What the site and the lab use of the pages, by module; see `batfill/houses.pyi`.
# ruff: noqa: F401, I001
# fmt: off

from batfill_pages.comparison import Comparison, Difference, of_jobs
from batfill_pages.comparison_page import STARVED
from batfill_pages.words import (
    asset, count, duration_html, guide, interval_text, log_name, policy_html, slowdown, submission_dates, table,
    units_kept, warning_paragraphs,
)
from batfill_pages.write import html_page, made_from
