"""The real data sets, split into training, validation and test rows. All rows of a person are in the same part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn.utils import Bunch

from svnn._jobs import derive_seed
from svnn.paper import load_dsads, load_mhealth, load_realdisp, load_thickness
from svnn.paper.data._thickness import KNOWN, find_tables
from svnn.paper.data._uci import SOURCES, find_members
from svnn.preprocessing import WindowFeatures

WEARABLES: dict[str, Callable[[], Bunch]] = {"dsads": load_dsads, "mhealth": load_mhealth, "realdisp": load_realdisp}
#: The data sets of the paper: recordings of wearable sensors, and cortical thickness.
REAL = ("dsads", "ixi", "braindev", "mhealth", "realdisp", "adni1", "adni2")
#: Our addition: the same recordings as a few features per node (see WindowFeatures) instead of raw samples.
FEATURES = {f"{name}-features": name for name in WEARABLES}
PARTS = ("train", "validation", "test")


@dataclass
class Split:
    """Inputs and targets for training, validation and testing."""

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
    """Return how predictions on a data set are scored, with the unit.

    Examples
    --------
    >>> metric("ixi"), metric("dsads"), metric("dsads-features")
    ('MAE (years)', 'accuracy (%)', 'accuracy (%)')
    """
    return "MAE (years)" if lower_is_better(name) else "accuracy (%)"


def proper_name(name: str) -> str:
    """Return a data set's name as its authors write it, for figures; names that are no keys stay as they are.

    Examples
    --------
    >>> [proper_name(name) for name in ("ixi", "dsads-features", "braindev", "SmallCov")]
    ['IXI', 'DSADS, features', 'braindev', 'SmallCov']
    """
    source = FEATURES.get(name, name)
    if source in REAL and source != "braindev":  # our own name for the children of ABIDE and ADHD-200
        source = source.upper()
    return f"{source}, features" if name in FEATURES else source


def lower_is_better(name: str) -> bool:
    """Say whether the score of a data set is an error.

    Examples
    --------
    >>> lower_is_better("ixi"), lower_is_better("dsads")
    (True, False)
    """
    return FEATURES.get(name, name) not in WEARABLES


def missing(name: str) -> str | None:
    """Return why a data set cannot be loaded, or None where nothing is missing. Synthetic ones are never missing."""
    name = FEATURES.get(name, name)
    try:
        if name in SOURCES:
            find_members(SOURCES[name], None)
        elif name in KNOWN:
            find_tables(name, None)
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
        DSADS: two people are for validation and two for testing, other people in every repeat. MHEALTH and REALDISP
        have the split of the paper in every repeat. Thickness: 60, 20 and 20 % of the people at random, another split
        in every repeat.
    seed : int
    limit : int, optional
        The largest number of rows of each part; they are drawn at random.

    Returns
    -------
    Split
    """
    source = FEATURES.get(name, name)
    data = _load(source)
    rng = np.random.default_rng(derive_seed(seed, "split", source, repeat))
    part = data.split if data.split is not None else _split(data, source, repeat, seed, rng)
    parts = []
    for which in PARTS:
        rows = np.flatnonzero(part == which)
        if limit is not None and len(rows) > limit:
            rows = np.sort(rng.choice(rows, limit, replace=False))
        parts.append((data.X[rows], data.y[rows]))
    if name in FEATURES:
        features = WindowFeatures().fit(parts[0][0])  # only training rows may be learned from
        parts = [(features.transform(X), y) for X, y in parts]
    return Split(name, *parts)


def _split(data: Bunch, name: str, repeat: int, seed: int, rng: np.random.Generator) -> np.ndarray:
    """Return the part that every row belongs to."""
    if name not in WEARABLES:
        order, cut = rng.permutation(len(data.y)), (np.array([0.6, 0.8]) * len(data.y)).round().astype(int)
        part = np.empty(len(data.y), dtype="<U10")
        for which, rows in zip(PARTS, np.split(order, cut), strict=True):
            part[rows] = which
        return part
    people = np.unique(data.groups)
    turn, place = divmod(repeat, len(people) // 2)
    order = np.random.default_rng(derive_seed(seed, "people", name, turn // 2)).permutation(people)
    # In one turn of repeats each person is once in the test part and once in the validation part. The next turn puts
    # other people together.
    order = np.roll(order, 2 * place + turn % 2)
    held = np.where(np.isin(data.groups, order[:2]), "test", "train")
    return np.where(np.isin(data.groups, order[2:4]), "validation", held)


@lru_cache(maxsize=2)
def _load(name: str) -> Bunch:
    return WEARABLES[name]() if name in WEARABLES else load_thickness(name)
