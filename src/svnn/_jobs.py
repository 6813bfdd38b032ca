"""A job is one piece of a long run. It runs on its own, and its key says which piece it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

#: One line of results: names and numbers that can be written as JSON.
Row: TypeAlias = dict[str, object]


@dataclass(frozen=True)
class Job:
    """A call of a function, and the key under which its result is stored.

    Parameters
    ----------
    run : callable
        A function at the top of a module that is imported, not of the program itself, because another process calls it:
        ``run(**key, **arguments)``. It returns a list of rows. Columns whose names end in ``_seconds`` are measured
        times; all other columns must follow from the arguments alone.
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


def canonical(value: object) -> str:
    """Return a value as JSON text that does not depend on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def check_seed(seed: int) -> None:
    """Raise a ``ValueError`` where numpy or scikit-learn would not take the seed."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed must be an integer from 0 to {2**32 - 1}, got {seed}.")


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
