"""A job: a piece of an experiment that runs on its own, and is known by its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A call of a top-level function, and the key that its result is stored under.

    Parameters
    ----------
    run : callable
        Called in another process as ``run(**key, **arguments)``; returns a list of rows. Columns whose names
        end in ``_seconds`` are timings, all others must depend on the arguments alone.
    key : dict
        What tells this job from the others of the experiment: names and numbers.
    arguments : dict
        Settings that all jobs of a run share; the manifest, not the key, tells them from those of other runs.
    alone : bool, default=False
        No other job may run beside it, because it measures time.

    Examples
    --------
    >>> Job(len, {"T": 50, "model": "hard"}).name
    '{"T":50,"model":"hard"}'
    """

    run: Callable[..., list[Row]]
    key: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    alone: bool = False

    @property
    def name(self) -> str:
        """The key as text, the same however the dict is ordered."""
        return canonical(self.key)


def canonical(value: Any) -> str:
    """Return a JSON-able value as text that does not depend on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def check_seed(seed: int) -> None:
    """Raise a ``ValueError`` for a seed that is none: numpy's and scikit-learn's go from 0 to 2³² - 1."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed must be from 0 to {2**32 - 1}, got {seed}.")


def derive_seed(*parts: Any) -> int:
    """Return a seed that follows from names and numbers alone, on every machine and in every order of work.

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
