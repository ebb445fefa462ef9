"""Puts the compiled kernels into the wheel, and into an editable checkout."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import kernels


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compile what is stale; `BATFILL_TARGET` names another processor than this machine's, or none."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Numba, if anything has to be compiled."""
        return kernels.needs(target()) if target() != "none" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say which machines the wheel is for."""
        if target() == "none" and version == "editable":  # the Makefile's: `make kernels` compiles
            return
        if target() == "none":
            sys.exit("BATFILL_TARGET=none: a wheel needs kernels; only an editable installation may go without")
        kernels.make(target())
        library = kernels.PROCESSORS[target()].library
        if library == kernels.LIBRARY:
            build_data["artifacts"].append(str(library.relative_to(kernels.ROOT)))
        else:
            build_data["force_include"][str(library)] = "batfill/kernels.so"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{kernels.PROCESSORS[target()].wheel}"


def target() -> str:
    """The processor to compile for."""
    return os.environ.get("BATFILL_TARGET") or platform.machine()
