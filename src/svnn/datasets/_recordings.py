"""Labelled recordings: windows that are cut from them, and splits that keep all rows of a group together."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike


def sliding_windows(
    signal: ArrayLike, labels: ArrayLike, *, window: int = 128, overlap: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Cut a recording into windows of equal length, none of which spans a change of label.

    A run is a stretch of time steps with the same label. Two runs of one label with another label between them stay
    apart: no window joins them. Time steps at the end of a run that do not fill a window are dropped.

    Parameters
    ----------
    signal : array of shape (T, N)
        T time steps of N channels.
    labels : array of shape (T,)
        The label of every time step, such as what a person was doing.
    window : int, default=128
        Time steps in a window.
    overlap : float in [0, 1), default=0.5
        The share of a window that it has in common with the next one of its run.

    Returns
    -------
    windows : ndarray of shape (t, N, window)
        The channels as nodes, the time steps as the values of a node.
    first : ndarray of shape (t,)
        The time step at which each window begins: ``labels[first]`` are the labels of the windows.

    Examples
    --------
    >>> signal = np.arange(20).reshape(10, 2)
    >>> windows, first = sliding_windows(signal, [7, 7, 7, 7, 7, 0, 0, 7, 7, 7], window=3, overlap=0.5)
    >>> windows.shape, first.tolist()
    ((3, 2, 3), [0, 2, 7])
    """
    signal, labels = np.asarray(signal), np.asarray(labels)
    if signal.ndim != 2 or labels.shape != signal.shape[:1]:
        raise ValueError(f"signal must have shape (T, N) and labels (T,), got {signal.shape} and {labels.shape}.")
    step = check_window(window, overlap)
    edges = run_edges(labels)
    starts = [np.arange(a, b - window + 1, step) for a, b in pairwise(edges)]
    first = np.concatenate(starts) if starts else np.zeros(0, dtype=int)
    if not len(first):
        return np.zeros((0, signal.shape[1], window), dtype=signal.dtype), first.astype(int)
    return np.lib.stride_tricks.sliding_window_view(signal, window, axis=0)[first], first


def run_edges(labels: np.ndarray) -> np.ndarray:
    """Return the positions at which runs of equal labels begin, and at the end the number of labels."""
    if not len(labels):
        return np.zeros(1, dtype=int)
    return np.concatenate([[0], np.flatnonzero(labels[1:] != labels[:-1]) + 1, [len(labels)]])


def check_window(window: int, overlap: float) -> int:
    """Return the number of time steps from the start of one window to the start of the next."""
    if not isinstance(window, Integral) or isinstance(window, bool) or window < 1:
        raise ValueError(f"window must be a number of time steps, at least 1, got {window!r}.")
    if not 0 <= overlap < 1:
        raise ValueError(f"overlap must be at least 0 and below 1, got {overlap!r}.")
    return max(1, round(window * (1 - overlap)))


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
