"""The free memory, and an error where a table needs more."""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from pathlib import Path

#: Taken for the machine's memory where the system does not tell.
_UNKNOWN_MEMORY = 8 * 2**30


def available_memory() -> int:
    """Return the bytes of memory that are free, as far as this process may use them."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return process_memory()
    return min(free, process_memory())


def process_memory(root: Path = Path("/")) -> int:
    """Return the machine's memory, or less where this process is in a group (a container, a service) with a limit.

    Limits are those of the Linux control groups, of either version, that this process is in. A group is bound by those
    above it too. Seen from within a container its own group may be the topmost one, and the rest of the path that
    Linux names may not exist.
    """
    try:
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        available = _UNKNOWN_MEMORY
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return available
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            with suppress(OSError, ValueError):  # no such group here, or the word "max"
                available = min(available, int(top.joinpath(*parts[:depth], name).read_text()))
    return available


def check_memory(name: object, needed: float, free: int) -> None:
    """Raise a ``ValueError`` where a table needs more bytes of memory than are free."""
    if needed > free:
        raise ValueError(
            f"{name} would take about {needed / 2**30:.1f} GB of memory or more, and {free / 2**30:.1f} GB are free: "
            "make a smaller file of some of its rows or columns first, or save it as Parquet with float32 columns."
        )


def unpacked_size(path: Path) -> int:
    """Return the bytes that the members of a zip file have when they are unpacked; 0 where it is not a zip file."""
    try:
        with zipfile.ZipFile(path) as file:
            return sum(member.file_size for member in file.infolist())
    except (zipfile.BadZipFile, OSError):
        return 0
