"""The papers' tables and figures made again, beside the numbers that were printed: what `batfill reproduce` does."""

from batfill.errors import require

require("all", "pydantic", "pyarrow", "sklearn", "cmaes", "matplotlib")  # between them, the papers use all of these
