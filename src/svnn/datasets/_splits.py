"""Splits that keep all rows of a group, such as a person, together."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike


def split_by_groups(
    groups: ArrayLike, *, validation: Collection[int | str] = (), test: Collection[int | str] = ()
) -> np.ndarray:
    """Say for every row whether it is for training, validation or testing, the same for all rows of a group.

    Parameters
    ----------
    groups : array of shape (t,)
        The group, such as the subject, of every row.
    validation, test : collection of group labels
        The groups that are held out. All others are for training.

    Returns
    -------
    ndarray of shape (t,), of the strings "train", "validation" and "test"

    Examples
    --------
    >>> split = split_by_groups([1, 1, 2, 3], validation=[2], test=[3])
    >>> split.tolist()
    ['train', 'train', 'validation', 'test']
    """
    groups = np.asarray(groups)
    if groups.ndim != 1:
        raise ValueError(f"groups must hold one label per row, got shape {groups.shape}.")
    present = set(groups.tolist())
    if both := set(validation) & set(test):
        raise ValueError(f"validation and test share the groups {sorted(both)}; a group belongs to one split only.")
    if unknown := (set(validation) | set(test)) - present:
        raise ValueError(f"validation or test name groups that have no rows: {sorted(unknown)}.")
    if not present - set(validation) - set(test):
        raise ValueError("validation and test hold every group; none is left for training.")
    split = np.full(groups.shape, "train", dtype="<U10")
    split[np.isin(groups, list(validation))] = "validation"
    split[np.isin(groups, list(test))] = "test"
    return split
