"""What an experiment runs with, and its jobs: one for every combination of values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import product

from svnn import __version__
from svnn._jobs import Job, Row


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an experiment runs with. Every experiment adds fields of its own.

    The settings are stored beside the results. Results of other settings are never mixed with them.
    """

    seed: int = 0
    svnn: str = __version__

    def as_json(self) -> Row:
        """Return the settings as they look after they were written to a JSON file and read again."""
        stored: Row = json.loads(json.dumps(asdict(self)))
        return stored


def job_grid(run: Callable[..., list[Row]], settings: Settings, **axes: Iterable[object]) -> list[Job]:
    """Return a job for every combination of values, such as ``dataset=("ixi", "dsads"), repeat=range(5)``."""
    keys = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [Job(run, key, {"settings": settings}) for key in keys]
