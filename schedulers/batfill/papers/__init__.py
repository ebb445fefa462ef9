"""The papers' tables and figures made again, beside the numbers that were printed: what `batfill reproduce` does."""
