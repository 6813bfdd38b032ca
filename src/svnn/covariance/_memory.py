"""How much memory may be used, and what becomes of data that does not fit."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from svnn.functional._array import as_floating, to_numpy

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
#: Taken for the machine's memory where the system does not tell.
_UNKNOWN_MEMORY = 8 * 2**30


def memory_bytes(limit: Any) -> int:
    """Return a memory limit in bytes: a number, a text such as "1.5GB", or for None half of what
    this process may use.

    Examples
    --------
    >>> memory_bytes("1.5GB"), memory_bytes("64 MiB"), memory_bytes(1000)
    (1500000000, 67108864, 1000)
    """
    if limit is None:
        return _available_memory() // 2
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", limit.upper())
        limit = float(match[1]) * _UNITS[match[2] or ""] if match else limit
    if isinstance(limit, bool) or not isinstance(limit, (int, float, np.number)) or not 0 < limit < float("inf"):
        raise ValueError(f'memory_limit must be a number of bytes, a text such as "1GB", or None, got {limit!r}.')
    return int(limit)


def gather(chunks: Iterator[Any], limit: int) -> Any:
    """Return the rows of all chunks as one array: in memory up to a quarter of ``limit``, else in a file.

    The file has no name any more: it goes when the array does.
    """
    parts: list[np.ndarray] = []
    file: Any = None
    shape, dtype, n_rows, size = None, None, 0, 0
    for chunk in chunks:
        part = as_floating(to_numpy(chunk))
        shape, dtype = shape or part.shape[1:], dtype or part.dtype
        if part.ndim not in (2, 3) or part.shape[1:] != shape:
            raise ValueError(f"chunk {len(parts)} of X has shape {part.shape}, expected (rows, *{shape}).")
        parts.append(part.astype(dtype, copy=False))
        n_rows, size = n_rows + len(part), size + part.nbytes
        if file is None and size > limit // 4:
            file = tempfile.TemporaryFile(prefix="svnn-")  # noqa: SIM115 - the array returned keeps it
        if file is not None:
            for part in parts:
                part.tofile(file)
            parts.clear()
    if shape is None or dtype is None:
        raise ValueError("X is an iterator that yields nothing; found 0 sample(s).")
    if file is None:
        return np.concatenate(parts)
    file.flush()
    return np.memmap(file, dtype=dtype, mode="r", shape=(n_rows, *shape))


def empty_table(shape: tuple[int, int], limit: int) -> np.ndarray:
    """Return a float32 array of zeros, in a file without a name where it would take more than half of ``limit``."""
    if 4 * shape[0] * shape[1] <= limit // 2:
        return np.zeros(shape, dtype=np.float32)
    with tempfile.TemporaryFile(prefix="svnn-") as file:
        return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)


def _available_memory(root: Path = Path("/")) -> int:
    """Return the machine's memory, or less where this process is in a group (a container, a service) with a limit."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        physical = _UNKNOWN_MEMORY
    return min([physical, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """Yield the limits in bytes of the control groups, of either version, that this process is in.

    A group is bound by those above it too. Seen from within a container its own group may be the topmost one, and
    the rest of the path that Linux names may not exist.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
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
                yield int(top.joinpath(*parts[:depth], name).read_text())
