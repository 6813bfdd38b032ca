"""Recordings of several people with a label for every time step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._download import fetch_missing
from svnn.datasets._files import PathLike, open_members, require
from svnn.datasets._sources import Source
from svnn.datasets._splits import split_by_groups
from svnn.datasets._windows import check_window, run_edges, sliding_windows


def load_recordings(
    source: Source,
    root: PathLike | None,
    *,
    subjects: Sequence[int] | None,
    everyone: range,
    n_columns: int,
    columns: list[int],
    names: list[str],
    activities: Sequence[int],
    activity_names: Sequence[str],
    window: int,
    overlap: float,
    validation: Sequence[int],
    test: Sequence[int],
    download: bool,
) -> Bunch:
    """Read the recordings of some people, cut them into windows and split them by subject.

    ``columns`` are the inputs among the ``n_columns`` of a file; the last column is the label.
    """
    check_window(window, overlap)
    chosen = check_subjects(subjects, everyone)
    if download:
        fetch_missing(source, root)
    classes = np.array(sorted(set(activities)))
    parts: list[dict[str, Any]] = []
    runs_before = 0
    with open_members(source, root) as members:
        require(members, source, [s for s in chosen if (s,) not in members.names], "subjects")
        for subject in chosen:
            name = members.names[subject,]
            values, runs = read_recording(members.read(name), n_columns, classes, members.title(name))
            windows, first = sliding_windows(values[:, columns], runs, window=window, overlap=overlap)
            parts.append(
                {
                    "X": windows,
                    "y": np.searchsorted(classes, values[first, -1]),
                    "groups": np.full(len(first), subject),
                    "runs": runs_before + runs[first],
                }
            )
            runs_before += int(runs.max(initial=-1)) + 1
        origin = members.path
    X, y, groups, runs = (np.concatenate([part[key] for part in parts]) for key in ("X", "y", "groups", "runs"))
    if not len(X):
        raise ValueError(f"{origin} has no run of the chosen activities of {window} time steps; use a shorter window.")
    return Bunch(
        X=X,
        y=y,
        groups=groups,
        runs=runs,
        split=held_out(groups, validation, test),
        feature_names=names,
        target_names=[activity_names[code - 1] for code in classes],
        DESCR=(
            f"{source.title} (UCI {source.number}, {source.page}), read from {origin}.\n"
            f"{len(X)} windows of {window} time steps at 50 Hz, {overlap:.0%} overlap, within one run of one "
            f"activity; {X.shape[1]} channels as nodes; {len(classes)} activities; "
            f"subjects {', '.join(map(str, chosen))}."
        ),
    )


def read_recording(text: bytes, n_columns: int, activities: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Parse the time steps of some activities, and number the runs they are from.

    Runs are told apart in the whole recording, before the other time steps are dropped: otherwise two runs
    of an activity with a pause between them would become one.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{name} is empty; it must have {n_columns} numbers a line.")
    try:
        labels = np.array([line.rsplit(None, 1)[-1] for line in lines], dtype=bytes).astype(float)
        edges = run_edges(labels)
        runs = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        kept = np.isin(labels, activities)
        values = np.zeros((0, n_columns), dtype=np.float32)
        if kept.any():
            values = np.loadtxt([lines[i] for i in np.flatnonzero(kept)], dtype=np.float32, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"{name} is not a recording of {n_columns} numbers a line: {error}") from error
    if values.shape[1] != n_columns or (labels != np.round(labels)).any():
        raise ValueError(
            f"{name} must have {n_columns} columns, the last one a whole number (the label); "
            f"it has {values.shape[1]}. Is it the official file?"
        )
    return values, runs[kept]


def check_subjects(subjects: Sequence[int] | None, everyone: Sequence[int]) -> list[int]:
    """Return the chosen subjects in order, all of them by default."""
    chosen = sorted(set(everyone if subjects is None else subjects))
    if not chosen or not set(chosen) <= set(everyone):
        raise ValueError(f"subjects must be some of {everyone[0]} to {everyone[-1]}, got {subjects!r}.")
    return chosen


def held_out(groups: np.ndarray, validation: Sequence[int], test: Sequence[int]) -> np.ndarray:
    """Split by subject; people who were not asked for are left out of the lists, mistakes are not."""
    if both := set(validation) & set(test):
        raise ValueError(f"validation and test share the subjects {sorted(both)}; nobody may be in two splits.")
    present = set(groups.tolist())
    if present <= set(validation) | set(test):  # only held-out people were asked for
        return np.where(np.isin(groups, list(test)), "test", "validation").astype("<U10")
    return split_by_groups(groups, validation=set(validation) & present, test=set(test) & present)
