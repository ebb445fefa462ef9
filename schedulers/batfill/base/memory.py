"""The memory that is available, and the refusal, before it begins, of work that needs more."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from batfill.base.errors import WorkloadError

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def require_memory(where: object, what: str, n_bytes: float, remedy: str) -> None:
    """Refuse work that the kernel would kill halfway.

    Args:
        where: begins the message.
        what: the work, as a noun.
        n_bytes: the memory that it takes.
        remedy: what to do.

    Raises:
        WorkloadError: it takes more than is available, if that is known.
    """
    free = available_bytes()
    if free is not None and n_bytes > free:
        raise WorkloadError(f"{where}: {what} takes about {in_gb(n_bytes)} of memory, {in_gb(free)} is free; {remedy}")


def in_gb(n_bytes: float) -> str:
    """A number of bytes in words: 12.8 GB.

    Examples:
        >>> in_gb(12_790_000_000)
        '12.8 GB'
    """
    return f"{n_bytes / 1e9:,.1f} GB"


def available_bytes() -> int | None:
    """What this process can still take: of the machine, or of its control group if that is less; None if unknown."""
    known = (machine_bytes(), group_bytes("", 2), group_bytes("memory", 1))
    return min((n_bytes for n_bytes in known if n_bytes is not None), default=None)


def machine_bytes() -> int | None:
    """The machine's available memory, by the kernel's estimate; None if it does not say."""
    with suppress(OSError, ValueError, IndexError):
        for line in (PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def group_bytes(controller: str, version: int) -> int | None:
    """What this process's control group, and those around it, leave of their limits; None without a group or a limit.

    A batch system limits the job, and the process is in a group within the job's, often without a limit of its own.

    Args:
        controller: its name in /proc/self/cgroup, "" in version 2.
        version: of control groups.
    """
    limit, used = (
        ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    group = None
    with suppress(OSError, ValueError):
        lines = [line.split(":", 2) for line in (PROC / "self" / "cgroup").read_text().splitlines()]
        group = next((path for _, names, path in lines if controller in names.split(",")), None)
    if group is None:
        return None
    root = GROUPS / controller  # in a container often the group itself, whose path is then not below it
    folder = root / group.lstrip("/")
    around = (place for place in (folder, *folder.parents) if place.is_relative_to(root))
    left = (_left(place, limit, used) for place in around)
    return min((n_bytes for n_bytes in left if n_bytes is not None), default=None)


def _left(folder: Path, limit: str, used: str) -> int | None:
    """What the group in this folder leaves of its limit; None without one. The other arguments are names of files."""
    with suppress(OSError, ValueError):
        cache = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        reclaimable = int(cache.get("total_inactive_file", cache.get("inactive_file", 0)))
        return max(0, int((folder / limit).read_text()) - int((folder / used).read_text()) + reclaimable)
    return None
