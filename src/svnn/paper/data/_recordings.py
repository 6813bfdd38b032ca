"""Recordings of several people, with a label for every time step, cut into windows and split by person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._files import PathLike
from svnn.datasets._splits import split_by_groups
from svnn.datasets._windows import check_window, run_edges, sliding_windows
from svnn.paper.data._download import fetch_missing
from svnn.paper.data._members import open_members, require
from svnn.paper.data._sources import Source


@dataclass(frozen=True)
class Recordings:
    """A published set of recordings: one file per person, one line per time step, the label in the last column.

    ``channels`` names the columns that are inputs, by their position; ``activities`` names the labels 1, 2, ….
    """

    source: Source
    people: range
    n_columns: int
    channels: dict[int, str]
    activities: tuple[str, ...]

    def load(
        self,
        root: PathLike | None,
        subjects: Sequence[int] | None,
        labels: Sequence[int],
        *,
        cut: tuple[int, float],
        held_out: tuple[Sequence[int], Sequence[int]],
        download: bool,
    ) -> Bunch:
        """Read the recordings of some people, cut them into windows and split them by person.

        ``labels`` are the activities to keep. ``cut`` holds the length and the overlap of the windows, ``held_out`` the
        people for validation and for testing.
        """
        window, overlap = cut
        check_window(window, overlap)
        chosen = check_subjects(subjects, self.people)
        if download:
            fetch_missing(self.source, root)
        classes = np.array(sorted(set(labels)))
        X, y, groups, run_numbers = [], [], [], []
        runs_before = 0
        with open_members(self.source, root) as members:
            require(members, self.source, [s for s in chosen if (s,) not in members.names], "subjects")
            for subject in chosen:
                name = members.names[subject,]
                values, runs = read_recording(members.read(name), self.n_columns, classes, members.title(name))
                windows, first = sliding_windows(values[:, list(self.channels)], runs, window=window, overlap=overlap)
                X.append(windows)
                y.append(np.searchsorted(classes, values[first, -1]))
                groups.append(np.full(len(first), subject))
                run_numbers.append(runs_before + runs[first])
                runs_before += int(runs.max(initial=-1)) + 1
            origin = members.path
        rows, person = np.concatenate(X), np.concatenate(groups)
        if not len(rows):
            raise ValueError(
                f"{origin} has no run of the chosen activities of {window} time steps; use a shorter window."
            )
        return Bunch(
            X=rows,
            y=np.concatenate(y),
            groups=person,
            runs=np.concatenate(run_numbers),
            split=split_people(person, *held_out),
            feature_names=list(self.channels.values()),
            target_names=[self.activities[label - 1] for label in classes],
            DESCR=(
                f"{self.source.title} (UCI {self.source.number}, {self.source.page}), read from {origin}.\n"
                f"{len(rows)} windows of {window} time steps at 50 Hz, {overlap:.0%} overlap, within one run of one "
                f"activity; {rows.shape[1]} channels as nodes; {len(classes)} activities; "
                f"subjects {', '.join(map(str, chosen))}."
            ),
        )


def read_recording(text: bytes, n_columns: int, activities: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the time steps of some activities, and for each of them the number of the run that it is from.

    A run is a stretch of time steps with the same label. Runs are numbered in the whole recording, before the other
    time steps are dropped: otherwise two runs of an activity with a pause between them would become one.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{name} is empty; it must have {n_columns} numbers per line.")
    try:
        labels = np.array([line.rsplit(None, 1)[-1] for line in lines], dtype=bytes).astype(float)
        edges = run_edges(labels)
        runs = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        kept = np.isin(labels, activities)
        values = np.zeros((0, n_columns), dtype=np.float32)
        if kept.any():
            values = np.loadtxt([lines[i] for i in np.flatnonzero(kept)], dtype=np.float32, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"{name} is not a recording of {n_columns} numbers per line: {error}") from error
    if values.shape[1] != n_columns or (labels != np.round(labels)).any():
        raise ValueError(
            f"{name} must have {n_columns} columns, the last one a whole number (the label); "
            f"it has {values.shape[1]}. Is it the official file?"
        )
    return values, runs[kept]


def check_subjects(subjects: Sequence[int] | None, everyone: Sequence[int]) -> list[int]:
    """Return the chosen people in order; without a choice, everyone."""
    chosen = sorted(set(everyone if subjects is None else subjects))
    if not chosen or not set(chosen) <= set(everyone):
        raise ValueError(f"subjects must be some of {everyone[0]} to {everyone[-1]}, got {subjects!r}.")
    return chosen


def split_people(groups: np.ndarray, validation: Sequence[int], test: Sequence[int]) -> np.ndarray:
    """Return "train", "validation" or "test" for every row, by its person.

    ``validation`` and ``test`` may name people whose recordings were not asked for.
    """
    if both := set(validation) & set(test):
        raise ValueError(f"validation and test share the subjects {sorted(both)}; nobody may be in two splits.")
    present = set(groups.tolist())
    if present <= set(validation) | set(test):  # split_by_groups demands somebody to train on
        return np.where(np.isin(groups, list(test)), "test", "validation").astype("<U10")
    return split_by_groups(groups, validation=set(validation) & present, test=set(test) & present)
