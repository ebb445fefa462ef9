"""Print the oldest version of each of the core's dependencies that pyproject.toml allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for requirement in project["dependencies"]:
    name, version = re.match(r"([\w.-]+)>=([\w.]+)", requirement).groups()
    print(f"{name}=={version}")
