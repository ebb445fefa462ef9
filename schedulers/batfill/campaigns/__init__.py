"""Campaigns: grids of replays on one machine or many, stored as one row per run, and resumable."""

from batfill.errors import require

require("campaign", "pydantic", "pyarrow")
