"""Compile the kernels of every folder that has some into its shared library; `make kernels` and the wheel do it.

    python scripts/kernels.py                        # what is missing or older than its sources
    python scripts/kernels.py --target aarch64       # for another processor, with the C compiler of ziglang

Numba compiles; a C compiler, or ziglang if there is none, links. Neither is needed to run batfill.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = (ROOT / "schedulers", ROOT)  # of batfill, and of the studies
PLACES = ("schedulers", "studies")
ENTRY = re.compile(r"^@entry\(", re.MULTILINE)
LIBRARY = (
    "kernels.so"  # as `batfill.base.kernels` calls it, which needs numpy: where a wheel is built there may be none
)
NUMBA = "numba>=0.61,<0.69"
LINKER = "ziglang>=0.13"


class Processor(NamedTuple):
    """A kind of processor, under Linux with the GNU C library."""

    cpu: str  # what the code may use of it
    wheel: str  # the systems with a C library that is new enough
    symbols: str  # the version of the C library's functions


PROCESSORS = {
    "x86_64": Processor("x86-64-v2", "manylinux_2_17_x86_64", "GLIBC_2.2.5"),
    "aarch64": Processor("generic", "manylinux_2_17_aarch64", "GLIBC_2.17"),
}


def folders() -> dict[Path, list[Path]]:
    """The files with entries, by folder."""
    found: dict[Path, list[Path]] = {}
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            if ENTRY.search(path.read_text()):
                found.setdefault(path.parent, []).append(path)
    return found


def digest_of(path: Path) -> str:
    """The sha256 of a file's bytes, hexadecimal."""
    return sha256(path.read_bytes()).hexdigest()


def builder() -> str:
    """A digest of what compiles."""
    text = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py")))
    return sha256(text.encode()).hexdigest()


def fresh(folder: Path, files: list[Path], processor: str) -> bool:
    """Whether the library of a folder is what would be made of its sources now."""
    try:
        about = json.loads((folder / LIBRARY).read_bytes().rsplit(b"\n", 2)[1])
    except (OSError, IndexError, ValueError):
        return False
    return (
        about["made by"] == builder()
        and about["for"] == processor
        and {path.name for path in files} <= about["sources"].keys()
        and all(
            (folder / name).is_file() and digest_of(folder / name) == digest
            for name, digest in about["sources"].items()
        )
    )


def stale(processor: str) -> dict[Path, list[Path]]:
    """The folders whose libraries have to be made."""
    return {folder: files for folder, files in folders().items() if not fresh(folder, files, processor)}


def needs(processor: str) -> list[str]:
    """What has to be installed to make what is stale."""
    if not stale(processor):
        return []
    return [NUMBA] if linked_here(processor) else [NUMBA, LINKER]


def linked_here(processor: str) -> str | None:
    """The system's C compiler, if it makes code for this processor."""
    return (
        next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None) if processor == platform.machine() else None
    )


def lacking(processor: str) -> list[str]:
    """What of `needs` is not installed."""
    return [each for each in needs(processor) if find_spec(re.split(r"\W", each, maxsplit=1)[0]) is None]


def make(processor: str) -> None:
    """Make the libraries that are stale, each in a process of its own."""
    missing = stale(processor)
    if not missing:
        return
    if absent := lacking(processor):
        linker = " (or a C compiler: cc, gcc or clang)" if LINKER in absent else ""
        quoted = " ".join(f"'{each}'" for each in absent)
        print(f"kernels: needs {' and '.join(absent)}{linker}: pip install {quoted}", file=sys.stderr)
        sys.exit(2)
    began_s = time.monotonic()
    print(f"compiling {len(missing)} libraries of kernels, about half a minute", file=sys.stderr, flush=True)
    environment = {
        **os.environ,
        "BATFILL_PLAIN": "1",
        "PYTHONPATH": os.pathsep.join([*map(str, SOURCE_ROOTS), os.environ.get("PYTHONPATH", "")]),
        "NUMBA_CPU_NAME": PROCESSORS[processor].cpu,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",  # of overloads that do not fit, which it tries by the thousand
        "PYTHONHASHSEED": "0",
    }
    command = [sys.executable, __file__, "--target", processor, "--folder"]
    running = [subprocess.Popen([*command, str(folder)], env=environment) for folder in missing]
    statuses = [one.wait() for one in running]
    if any(statuses):
        sys.exit("kernels: not compiled")
    print(f"compiled in {time.monotonic() - began_s:.0f} s", file=sys.stderr)


def make_one(folder: Path, processor: str) -> None:
    """Make the library of a folder."""
    before = {path: digest_of(path) for place in PLACES for path in (ROOT / place).rglob("*.py")}
    from compiling import object_of  # which loads numba

    roots = {path: next(root for root in SOURCE_ROOTS if path.is_relative_to(root)) for path in folders()[folder]}
    modules = [".".join(path.relative_to(root).with_suffix("").parts) for path, root in roots.items()]
    about = PROCESSORS[processor]

    here = linked_here(processor)
    code, files = object_of(modules, f"{processor}-unknown-linux-gnu", about.cpu, about.symbols if here else None)
    digests = {os.path.relpath(file, folder): before[file] for file in files}
    origin = json.dumps({"made by": builder(), "for": processor, "sources": digests}).encode()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        whole, library = Path(place, "kernels.o"), Path(place, LIBRARY)
        whole.write_bytes(code)
        linker = [here] if here else [sys.executable, "-m", "ziglang", "cc", "-target", f"{processor}-linux-gnu.2.17"]
        flags = ["-shared", "-nostartfiles", "-Wl,--build-id=none", f"-Wl,-soname,{LIBRARY}", "-s"]
        subprocess.run([*linker, *flags, str(whole), "-lm", "-o", str(library)], check=True)
        content = library.read_bytes() + b"\n" + origin
        library.write_bytes(content + b"\n" + sha256(content).hexdigest().encode())
        library.replace(folder / LIBRARY)  # a process that runs the old one keeps it


def main() -> None:
    """Make what is stale, or one folder's library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=PROCESSORS, default=platform.machine(), help="the processor")
    parser.add_argument("--folder", type=Path, help="make the library of this folder alone, in this process")
    arguments = parser.parse_args()
    if arguments.folder:
        make_one(arguments.folder, arguments.target)
    else:
        make(arguments.target)


if __name__ == "__main__":
    main()
