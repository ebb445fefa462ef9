"""Put the page that runs batfill in a browser into a folder; `make docs` and `make try` do it.

    python scripts/browser.py site/try                       # Python and numpy come from Pyodide's own servers
    python scripts/browser.py build/try --offline PYODIDE    # from a folder beside the page: nothing is fetched

PYODIDE has the npm package `pyodide` of this version, and the wheels of numpy and orjson of Pyodide's distribution.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import zipfile
from contextlib import chdir
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parent))
import kernels

VERSION = "0.28.0"
SERVER = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
Target = TypeVar("Target", Path, io.BytesIO)
PAGE = kernels.ROOT / "schedulers" / "batfill_pages" / "browser"
HOUSES = ("batfill", "batfill_pages", "batfill_site")
# What no page needs. A kernel's file that is absent is not compared with the library.
LEFT_OUT = ("batfill/runner", "batfill/live", "batfill_pages/browser")
LIBRARIES = ("click", "jinja2", "markupsafe")  # pure Python
ZONES = "zones.zip"
PARTS = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
LOG = "half-a-year.swf.gz"
GENERATE = f"workload generate --out {LOG} --jobs 13000 --procs 128 --load 0.5 --users 40 --seed 1"


def build(out: Path, pyodide: Path | None = None) -> None:
    """Write the page.

    Args:
        out: the folder.
        pyodide: a folder with Pyodide's files, which are copied; None to name its servers.

    Raises:
        SystemExit: a file is missing, or a wheel is not the one that the lock file names.
    """
    kernels.make("wasm32")
    out.mkdir(parents=True, exist_ok=True)
    for name in ("page.css", "page.js", "worker.js", "inside.py"):
        shutil.copyfile(PAGE / name, out / name)
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    (out / "index.html").write_text(page.replace("PYODIDE", "pyodide/" if pyodide else SERVER), encoding="utf-8")
    shutil.copyfile(kernels.ROOT / "workloads" / "sample.json", out / "sample.json")
    pack(out / "batfill.zip")
    if pyodide:
        for name in [*PARTS, *wheels(pyodide)]:
            (out / "pyodide").mkdir(exist_ok=True)
            shutil.copyfile(pyodide / name, out / "pyodide" / name)
    if not (out / LOG).exists():
        from batfill.cli import main

        with chdir(out):
            try:
                main(GENERATE.split())
            except SystemExit as ended:
                if ended.code:
                    raise


def wheels(pyodide: Path) -> list[str]:
    """The names of numpy's and orjson's wheels, after a check that they are those of the lock file."""
    packages = json.loads((pyodide / "pyodide-lock.json").read_bytes())["packages"]
    for name in ("numpy", "orjson"):
        wheel = pyodide / packages[name]["file_name"]
        if not wheel.is_file() or sha256(wheel.read_bytes()).hexdigest() != packages[name]["sha256"]:
            sys.exit(f"browser: {wheel}: missing, or not the wheel of the lock file; fetch it from {SERVER}")
    return [packages[name]["file_name"] for name in ("numpy", "orjson")]


def pack(target: Path) -> None:
    """Write what Python imports as a zip file: the same content, the same bytes."""
    files = {"batfill/kernels.so": kernels.PROCESSORS["wasm32"].library}
    source = kernels.ROOT / "schedulers"
    for house in HOUSES:
        for path in (source / house).rglob("*"):
            name = path.relative_to(source).as_posix()
            if path.suffix not in (".pyc", ".so") and not name.startswith(LEFT_OUT) and path.is_file():
                files[name] = path
    for library in LIBRARIES:
        for each in distribution(library).files or ():
            if each.suffix == ".py" and not each.as_posix().startswith(".."):
                files[each.as_posix()] = Path(str(each.locate()))
    # A browser has no time zones. Within a file that is packed as one they take a quarter of the room.
    zones = {each.as_posix(): Path(str(each.locate())) for each in distribution("tzdata").files or ()}
    packed(target, {**read(files), ZONES: packed(io.BytesIO(), read(zones), zipfile.ZIP_STORED).getvalue()})


def read(files: dict[str, Path]) -> dict[str, bytes]:
    """The files' contents."""
    return {name: path.read_bytes() for name, path in files.items() if path.suffix != ".pyc"}


def packed(target: Target, files: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> Target:
    """Write these files as a zip file."""
    with zipfile.ZipFile(target, "w") as made:
        for name, content in sorted(files.items()):
            made.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, how, 9)
    return target


def main() -> None:
    """Write the page into the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder of the page")
    parser.add_argument("--offline", type=Path, metavar="PYODIDE", help="the folder with Pyodide's files")
    arguments = parser.parse_args()
    build(arguments.out, arguments.offline)


if __name__ == "__main__":
    main()
