"""A job is one piece of a long run. It runs on its own, and its key says which piece it is."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NotRequired, TypeAlias, TypedDict

#: One line of results: names and numbers that can be written as JSON.
Row: TypeAlias = dict[str, object]


@dataclass(frozen=True)
class Job:
    """A call of a function, and the key under which its result is stored.

    Parameters
    ----------
    run : callable
        A function of a module, which another process can import: ``run(**key, **arguments)`` returns a list of rows.
        Columns whose names end in ``_seconds`` are measured times; all others must follow from the arguments alone.
    key : dict
        The names and numbers that distinguish this job from the other jobs of the run.
    arguments : dict
        Further arguments, which all jobs of a run share. They are not part of the key: the settings in the manifest
        distinguish them from those of other runs.
    alone : bool, default=False
        Whether no other job may run at the same time, because this one measures time.

    Examples
    --------
    >>> Job(len, {"T": 50, "model": "hard"}).name
    '{"T":50,"model":"hard"}'
    """

    run: Callable[..., list[Row]]
    key: Row
    arguments: Mapping[str, object] = field(default_factory=dict)
    alone: bool = False

    @property
    def name(self) -> str:
        """The key as text. It does not depend on the order of the key's parts."""
        return canonical(self.key)


class Ended(TypedDict):
    """The end of a job: rows, or an error."""

    status: Literal["done", "failed"]
    rows: NotRequired[list[Row]]
    error: NotRequired[str]
    seconds: float


def run_here(run: Callable[..., list[Row]], arguments: Mapping[str, object]) -> Ended:
    """Call the function of a job in this process, and return how it ended."""
    start = time.perf_counter()
    try:
        rows = run(**arguments)
    except Exception as error:
        return failed(f"{type(error).__name__}: {error}", time.perf_counter() - start)
    return {"status": "done", "rows": rows, "seconds": time.perf_counter() - start}


def failed(error: str, seconds: float = 0.0) -> Ended:
    """Return the end of a job that has failed."""
    return {"status": "failed", "error": error, "seconds": seconds}


def canonical(value: object) -> str:
    """Return a value as JSON text that does not depend on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def derive_seed(*parts: object) -> int:
    """Return a seed that follows from names and numbers alone.

    It is the same on every machine, and it does not depend on the order in which jobs run.

    Parameters
    ----------
    *parts : str, number, or lists and dicts of them

    Returns
    -------
    int in [0, 2³¹)

    Examples
    --------
    >>> derive_seed(0, "split", "ixi", 3) == derive_seed(0, "split", "ixi", 3) != derive_seed(0, "split", "ixi", 4)
    True
    """
    digest = hashlib.sha256(canonical(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF


# -- options of commands that run jobs ------------------------------------------------------------------------


def check_run(seed: int, jobs: int | None = None, out: Path | None = None) -> None:
    """Raise an error where a run cannot have this seed, this number of processes, or this folder for its results."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed must be an integer from 0 to {2**32 - 1}, got {seed}.")
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}.")
    if out is None:
        return
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"--out: {there} is not a folder; choose another folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"--out: the folder {there} may not be written to; choose another folder.")


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
