"""Compile all kernels into one shared library; `make kernels` and the wheel do it.

    python scripts/kernels.py                        # if it is missing or older than its sources
    python scripts/kernels.py --target aarch64       # for another processor, with the C compiler of ziglang
    python scripts/kernels.py --target wasm32        # for a browser, into build/browser

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
from zlib import crc32

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = (ROOT / "schedulers", ROOT)  # of batfill, and of the studies
PLACES = ("schedulers", "studies")
ENTRY = re.compile(r"^@entry\(", re.MULTILINE)
# As `batfill.base.kernels` has it, which needs numpy: where a wheel is built there may be none. The wheel's library has
# the studies' kernels too, a tenth of its code: to leave them out would compile all others again.
LIBRARY = ROOT / "schedulers" / "batfill" / "kernels.so"
NUMBA = "numba>=0.61,<0.69"
LINKER = "ziglang>=0.13"


class Processor(NamedTuple):
    """A kind of processor, under Linux with the GNU C library, or a browser's."""

    cpu: str  # what the code may use of it
    triple: str
    wheel: str  # the systems with a C library that is new enough
    symbols: str | None  # the version of the C library's functions
    library: Path = LIBRARY
    places: tuple[str, ...] = PLACES


PROCESSORS = {
    "x86_64": Processor("x86-64-v2", "x86_64-unknown-linux-gnu", "manylinux_2_17_x86_64", "GLIBC_2.2.5"),
    "aarch64": Processor("generic", "aarch64-unknown-linux-gnu", "manylinux_2_17_aarch64", "GLIBC_2.17"),
    # A module that Pyodide's Python loads: memory, stack and the C library's functions are Python's own.
    "wasm32": Processor(
        "generic",
        "wasm32-unknown-emscripten",
        "pyodide_2025_0_wasm32",
        None,
        ROOT / "build" / "browser" / "kernels.so",
        PLACES[:1],
    ),
}


def files_with_entries(processor: str) -> list[Path]:
    """The files that have kernels which Python calls."""
    paths = [path for place in PROCESSORS[processor].places for path in sorted((ROOT / place).rglob("*.py"))]
    return [path for path in paths if ENTRY.search(path.read_text())]


def builder() -> str:
    """A digest of what compiles."""
    files = [Path(__file__).with_name(name) for name in ("compiling.py", "kernels.py", "records.py")]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def stale(processor: str) -> bool:
    """Whether the library is not what would be made of its sources now."""
    try:
        about = json.loads(PROCESSORS[processor].library.read_bytes().rsplit(b"\n", 2)[1])
    except (OSError, IndexError, ValueError):
        return True
    now = {name: crc32(path.read_bytes()) for name in about["sources"] if (path := LIBRARY.parent / name).is_file()}
    entries = {os.path.relpath(path, LIBRARY.parent) for path in files_with_entries(processor)}
    known = about["made by"] == builder() and about["for"] == processor and entries <= now.keys()
    return not known or now != about["sources"]


def needs(processor: str) -> list[str]:
    """What has to be installed to make the library, if it is stale."""
    if not stale(processor):
        return []
    return [NUMBA] if linked_here(processor) else [NUMBA, LINKER]


def linked_here(processor: str) -> str | None:
    """The system's C compiler, if it makes code for this processor; a system's wasm-ld may be too old."""
    return (
        next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None) if processor == platform.machine() else None
    )


def lacking(processor: str) -> list[str]:
    """What of `needs` is not installed."""
    return [each for each in needs(processor) if find_spec(re.split(r"\W", each, maxsplit=1)[0]) is None]


def make(processor: str) -> None:
    """Make the library if it is stale, in a process of its own, for whose environment numba is set."""
    if not stale(processor):
        return
    if absent := lacking(processor):
        linker = " (or a C compiler: cc, gcc or clang)" if LINKER in absent and processor != "wasm32" else ""
        quoted = " ".join(f"'{each}'" for each in absent)
        print(f"kernels: needs {' and '.join(absent)}{linker}: pip install {quoted}", file=sys.stderr)
        sys.exit(2)
    began_s = time.monotonic()
    print("compiling the kernels, a minute or two", file=sys.stderr, flush=True)
    environment = {
        **os.environ,
        "BATFILL_PLAIN": "1",
        "PYTHONPATH": os.pathsep.join([*map(str, SOURCE_ROOTS), os.environ.get("PYTHONPATH", "")]),
        "NUMBA_CPU_NAME": PROCESSORS[processor].cpu,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1",  # of overloads that do not fit, which it tries by the thousand
        "PYTHONHASHSEED": "0",
    }
    if subprocess.run([sys.executable, __file__, "--target", processor, "--here"], env=environment).returncode:
        sys.exit("kernels: not compiled")
    print(f"compiled in {time.monotonic() - began_s:.0f} s", file=sys.stderr)


def make_here(processor: str) -> None:
    """Make the library in this process."""
    before = {path: crc32(path.read_bytes()) for place in PLACES for path in (ROOT / place).rglob("*.py")}
    from compiling import object_of  # which loads numba

    paths, about = files_with_entries(processor), PROCESSORS[processor]
    roots = {path: next(root for root in SOURCE_ROOTS if path.is_relative_to(root)) for path in paths}
    modules = [".".join(path.relative_to(root).with_suffix("").parts) for path, root in roots.items()]
    here = linked_here(processor)
    kept = ROOT / "build" / "kernels" / f"{processor}-{builder()[:16]}.pickle"
    code, files = object_of(modules, about.triple, about.cpu, about.symbols if here else None, kept)
    digests = {os.path.relpath(file, LIBRARY.parent): before[file] for file in files}
    origin = json.dumps({"made by": builder(), "for": processor, "sources": digests}).encode()
    about.library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=about.library.parent) as place:
        whole, library = Path(place, "kernels.o"), Path(place, LIBRARY.name)
        whole.write_bytes(code)
        subprocess.run([*linking(processor, whole), "-o", str(library)], check=True)
        content = library.read_bytes()
        content += (section_start(len(origin) + 10) if processor == "wasm32" else b"") + b"\n" + origin
        library.write_bytes(content + b"\n" + b"%08x" % crc32(content))
        library.replace(about.library)  # a process that runs the old one keeps it


def linking(processor: str, whole: Path) -> list[str]:
    """The command that links an object file, without its output."""
    zig, here = [sys.executable, "-m", "ziglang"], linked_here(processor)
    if processor == "wasm32":
        flags = ["-shared", "--experimental-pic", "--no-entry", "--export-dynamic", "--strip-all"]
        return [*zig, "wasm-ld", *flags, "--unresolved-symbols=import-dynamic", str(whole)]
    flags = ["-shared", "-nostartfiles", "-Wl,--build-id=none", f"-Wl,-soname,{LIBRARY.name}", "-s"]
    command = [here] if here else [*zig, "cc", "-target", f"{processor}-linux-gnu.2.17"]
    return [*command, *flags, str(whole), "-lm"]


def section_start(size: int) -> bytes:
    """The start of a WebAssembly module's custom section: bytes that follow a module must be in one."""
    name = b"batfill.kernels"
    whole, coded = 1 + len(name) + size, b""
    while True:  # seven bits a byte, the lowest first
        whole, low = whole >> 7, whole & 127
        coded += bytes([low | (128 if whole else 0)])
        if not whole:
            return b"\0" + coded + bytes([len(name)]) + name


def main() -> None:
    """Make the library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=PROCESSORS, default=platform.machine(), help="the processor")
    parser.add_argument("--here", action="store_true", help="in this process, whatever its environment is")
    arguments = parser.parse_args()
    (make_here if arguments.here else make)(arguments.target)


if __name__ == "__main__":
    main()
