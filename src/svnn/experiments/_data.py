"""The real data sets, split into training, validation and test rows: by person where people are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from svnn.datasets import load_dsads, load_mhealth, load_realdisp, load_thickness
from svnn.datasets._files import find_file, open_members
from svnn.datasets._sources import DSADS, MHEALTH, REALDISP
from svnn.datasets._thickness import KNOWN
from svnn.experiments._jobs import derive_seed
from svnn.preprocessing import WindowFeatures

#: The real sets by name.
WEARABLES: dict[str, Callable[[], Any]] = {"dsads": load_dsads, "mhealth": load_mhealth, "realdisp": load_realdisp}
SOURCES = {"dsads": DSADS, "mhealth": MHEALTH, "realdisp": REALDISP}
REAL = ("dsads", "ixi", "braindev", "mhealth", "realdisp", "adni1", "adni2")
#: The same windows as a few features of each node, see WindowFeatures; the paper has raw samples only.
FEATURES = {f"{name}-features": name for name in WEARABLES}


@dataclass
class Split:
    """Rows for training, validation and testing, and how predictions are scored."""

    name: str
    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @property
    def classes(self) -> bool:
        """Whether the targets are classes."""
        return not lower_is_better(self.name)

    def score(self, predicted: np.ndarray, part: str = "test") -> float:
        """Return the accuracy in per cent, or the mean absolute error in years."""
        y = getattr(self, part)[1]
        return float(100 * np.mean(predicted == y) if self.classes else np.mean(abs(predicted - y)))


def metric(name: str) -> str:
    """Return what the score of a data set is, with its unit.

    Examples
    --------
    >>> metric("ixi"), metric("dsads"), metric("dsads-features")
    ('MAE (years)', 'accuracy (%)', 'accuracy (%)')
    """
    return "MAE (years)" if lower_is_better(name) else "accuracy (%)"


def lower_is_better(name: str) -> bool:
    """Say whether the score of a data set is an error.

    Examples
    --------
    >>> lower_is_better("ixi"), lower_is_better("dsads")
    (True, False)
    """
    return FEATURES.get(name, name) not in WEARABLES


def missing(name: str) -> str | None:
    """Return why a data set cannot be loaded; None where its files are there, and for synthetic ones."""
    name = FEATURES.get(name, name)
    try:
        if name in SOURCES:
            with open_members(SOURCES[name], None):
                pass
        elif name in KNOWN:
            tables, ages, source = KNOWN[name]
            for patterns in filter(None, (tables, ages)):
                find_file(None, patterns, name, source)
    except FileNotFoundError as error:
        return str(error)
    return None


def load_split(name: str, repeat: int, seed: int, limit: int | None = None) -> Split:
    """Load a real data set and split it for one repeat.

    Parameters
    ----------
    name : str
        One of ``REAL`` or ``FEATURES``.
    repeat : int
        DSADS: two people for validation and two for testing, others in every repeat. MHEALTH and REALDISP have
        the paper's split, always. Thickness: 60, 20 and 20 % of the people at random, others in every repeat.
    seed : int
    limit : int, optional
        At most so many rows of each part, drawn at random.

    Returns
    -------
    Split
    """
    shown, name = name, FEATURES.get(name, name)
    data = _load(name)
    rng = np.random.default_rng(derive_seed(seed, "split", name, repeat))
    part = data.split if data.split is not None else _parts(data, name, repeat, seed, rng)
    parts = []
    for which in ("train", "validation", "test"):
        rows = np.flatnonzero(part == which)
        if limit is not None and len(rows) > limit:
            rows = np.sort(rng.choice(rows, limit, replace=False))
        parts.append((data.X[rows], data.y[rows]))
    if shown in FEATURES:
        features = WindowFeatures().fit(parts[0][0])  # learns its floors from training rows
        parts = [(features.transform(X), y) for X, y in parts]
    return Split(shown, *parts)


def _parts(data: Any, name: str, repeat: int, seed: int, rng: np.random.Generator) -> np.ndarray:
    if name not in WEARABLES:
        order, cut = rng.permutation(len(data.y)), (np.array([0.6, 0.8]) * len(data.y)).round().astype(int)
        part = np.empty(len(data.y), dtype="<U10")
        for which, rows in zip(("train", "validation", "test"), np.split(order, cut), strict=True):
            part[rows] = which
        return part
    people = np.unique(data.groups)
    turn, place = divmod(repeat, len(people) // 2)
    order = np.random.default_rng(derive_seed(seed, "people", name, turn // 2)).permutation(people)
    # In every turn of repeats each person is tested once, and validates once; the next turn pairs them otherwise.
    order = np.roll(order, 2 * place + turn % 2)
    held = np.where(np.isin(data.groups, order[:2]), "test", "train")
    return np.where(np.isin(data.groups, order[2:4]), "validation", held)


@lru_cache(maxsize=2)
def _load(name: str) -> Any:
    return WEARABLES[name]() if name in WEARABLES else load_thickness(name)
