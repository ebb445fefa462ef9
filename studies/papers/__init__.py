"""The papers' tables and figures, reproduced and compared with the printed numbers: the work of `batfill reproduce`."""

from batfill.base.errors import require

require("all", "pydantic", "pyarrow", "sklearn", "cmaes", "matplotlib")  # between them, the papers use all of these
