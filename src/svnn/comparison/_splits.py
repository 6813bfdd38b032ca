"""The splits of a comparison: repeated cross-validation, the same for every model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from svnn._jobs import derive_seed
from svnn.comparison._names import REGRESSION

FOLDS = 5
#: How often the rows are dealt into folds anew: usually, and in a quick comparison.
REPEATS, QUICK_REPEATS = 5, 1
LEAST_ROWS = 20


@dataclass(frozen=True)
class Plan:
    """How rows are split: ``folds`` folds, dealt out ``repeats`` times. ``group_folds`` is for choices in training."""

    folds: int
    repeats: int
    group_folds: int | None
    notes: tuple[str, ...] = ()


def plan(y: np.ndarray, groups: np.ndarray | None, task: str, quick: bool) -> Plan:
    """Return how to split these rows, or raise an error where they are too few."""
    repeats = QUICK_REPEATS if quick else REPEATS
    if len(y) < LEAST_ROWS:
        raise ValueError(f"y has {len(y)} rows; a comparison needs at least {LEAST_ROWS}.")
    if task != REGRESSION:
        classes, counts = np.unique(y, return_counts=True)
        rare = [str(name) for name in classes[counts < FOLDS]]
        if rare:
            shown = ", ".join(rare[:5]) + (", …" if len(rare) > 5 else "")
            raise ValueError(
                f"y has classes with fewer than {FOLDS} rows ({shown}): remove these rows or merge the classes, or use "
                "task='regression' where the target is a number."
            )
    if groups is None:
        return Plan(FOLDS, repeats, None)
    n_groups = len(np.unique(groups))
    if n_groups < 3:
        raise ValueError(f"groups holds {n_groups} group(s); a comparison by groups needs at least 3.")
    folds = min(FOLDS, n_groups)
    in_training = n_groups - -(-n_groups // folds)
    if folds < n_groups or repeats == 1:
        return Plan(folds, repeats, min(3, in_training))
    note = f"There are {n_groups} groups, so each is left out once; another repeat would give the same splits."
    return Plan(folds, 1, min(3, in_training), (note,))


def splits(
    plan: Plan, y: np.ndarray, groups: np.ndarray | None, task: str, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows for training and those for testing, fold by fold and repeat by repeat."""
    kinds: dict[tuple[bool, bool], Any] = {
        (True, False): KFold,
        (False, False): StratifiedKFold,
        (True, True): GroupKFold,
        (False, True): StratifiedGroupKFold,
    }
    kind = kinds[task == REGRESSION, groups is not None]
    for repeat in range(plan.repeats):
        folds = kind(plan.folds, shuffle=True, random_state=derive_seed(seed, "folds", repeat))
        for train, test in folds.split(np.zeros(len(y)), y, groups):
            if task != REGRESSION and len(np.unique(y[train])) < 2:
                raise ValueError("groups: all rows but those of one fold are of one class; give other groups or none.")
            yield train, test
