"""Recordings of wearable sensors: windows of labelled time steps, or segments of one activity; split by person."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._recordings import check_window, run_edges, sliding_windows, split_by_groups
from svnn.paper.data._download import fetch_missing
from svnn.paper.data._uci import DSADS, MHEALTH, REALDISP, Source, open_members, require
from svnn.sources._frames import PathLike

MHEALTH_ACTIVITIES = (
    "standing still", "sitting and relaxing", "lying down", "walking", "climbing stairs", "waist bends forward",
    "frontal elevation of arms", "knees bending (crouching)", "cycling", "jogging", "running", "jump front & back",
)  # fmt: skip
REALDISP_ACTIVITIES = (
    "walking", "jogging", "running", "jump up", "jump front & back", "jump sideways", "jump leg/arms open/closed",
    "jump rope", "trunk twist (arms outstretched)", "trunk twist (elbows bended)", "waist bends forward",
    "waist rotation", "waist bends (reach foot with opposite hand)", "reach heels backwards", "lateral bend",
    "lateral bend arm up", "repetitive forward stretching", "upper trunk and lower body opposite twist",
    "arms lateral elevation", "arms frontal elevation", "frontal hand claps", "arms frontal crossing",
    "shoulders high amplitude rotation", "shoulders low amplitude rotation", "arms inner rotation",
    "knees (alternatively) to the breast", "heels (alternatively) to the backside", "knees bending (crouching)",
    "knees (alternatively) bend forward", "rotation on the knees", "rowing", "elliptic bike", "cycling",
)  # fmt: skip
DSADS_ACTIVITIES = (
    "sitting", "standing", "lying on back", "lying on right side", "ascending stairs", "descending stairs",
    "standing in an elevator still", "moving around in an elevator", "walking in a parking lot",
    "walking on a treadmill, flat", "walking on a treadmill, inclined", "running on a treadmill",
    "exercising on a stepper", "exercising on a cross trainer", "cycling on an exercise bike, horizontal",
    "cycling on an exercise bike, vertical", "rowing", "jumping", "playing basketball",
)  # fmt: skip
DSADS_CHANNELS = tuple(
    f"{part}_{kind}_{axis}"
    for part in ("torso", "right_arm", "left_arm", "right_leg", "left_leg")
    for kind in ("acc", "gyro", "mag")
    for axis in "xyz"
)
DSADS_STEPS = 125
#: The ten activities of REALDISP that the paper names.
REALDISP_PAPER = (1, 2, 3, 9, 10, 11, 29, 31, 32, 33)


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


_AXES = tuple(f"{kind}_{axis}" for kind in ("acc", "gyro", "mag") for axis in "xyz")
_CHEST = ("chest_acc_x", "chest_acc_y", "chest_acc_z", "chest_ecg_1", "chest_ecg_2")
_MHEALTH = Recordings(
    source=MHEALTH,
    people=range(1, 11),
    n_columns=24,
    channels=dict(enumerate((*_CHEST, *(f"{part}_{axis}" for part in ("ankle", "arm") for axis in _AXES)))),
    activities=MHEALTH_ACTIVITIES,
)
#: The nine sensors are, in the order of the columns, on lower and upper arms (la, ua), back, calves (c) and thighs (t),
#: right (r) and left (l). Before them stand two columns of times.
_SENSORS = ("rla", "rua", "back", "lua", "lla", "rc", "rt", "lt", "lc")
_QUATERNION = tuple(f"quat_{i}" for i in range(1, 5))
_REALDISP = Recordings(
    source=REALDISP,
    people=range(1, 18),
    n_columns=120,
    channels=dict(enumerate((f"{part}_{name}" for part in _SENSORS for name in (*_AXES, *_QUATERNION)), start=2)),
    activities=REALDISP_ACTIVITIES,
)


def load_mhealth(
    root: PathLike | None = None,
    *,
    ecg: bool = False,
    window: int = 128,
    overlap: float = 0.5,
    subjects: Sequence[int] | None = None,
    validation: Sequence[int] = (6, 10),
    test: Sequence[int] = (2, 9),
    download: bool = False,
) -> Bunch:
    r"""Load MHEALTH (UCI 319), motion of ten people; a row is a window of one activity, a column a sensor's channel.

    Three sensors, on chest, ankle and arm, recorded twelve activities at 50 Hz.

    Parameters
    ----------
    root : path, optional
        A folder with the official zip or with ``mHealth_subject<N>.log`` files, or the zip itself, which is read
        without unpacking. By default the folder that the environment variable ``SVNN_DATA`` names.
    ecg : bool, default=False
        Keep the two leads of the electrocardiogram, columns 4 and 5. Then there are 23 nodes, as in the table of the
        paper; without them there are the 21 of its text.
    window : int, default=128
        Time steps in a window. No window crosses from one activity, or one run of it, to another (`sliding_windows`).
    overlap : float in [0, 1), default=0.5
        The share that a window has in common with the next one.
    subjects : sequence of int from 1 to 10, optional
        Which people; by default all of them.
    validation, test : sequence of int
        The people held out for validation and for testing. By default they are those of the paper.
    download : bool, default=False
        Download the official zip into the data folder if the files are not there (`fetch`).

    Returns
    -------
    Bunch with
        X : float32 array of shape (t, 21, window), or (t, 23, window) with ``ecg``; values as recorded, not scaled
        y : int array of shape (t,), the activity as a position in ``target_names``
        groups : int array of shape (t,), the person
        runs : int array of shape (t,), the number of the run that the window was cut from
        split : array of shape (t,) of "train", "validation" and "test"; nobody is in two of them
        feature_names, target_names, DESCR

    Notes
    -----
    Column 24 of the files is the label; it is never an input. Time steps without an activity, label 0, are dropped.

    References
    ----------
    Banos et al., mHealthDroid: a novel framework for agile development of mobile health applications, 2014.

    Examples
    --------
    A recording of 256 steps of walking, in the official format:

    >>> import tempfile
    >>> import numpy as np
    >>> steps = np.zeros((256, 24))
    >>> steps[:, 23] = 4
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savetxt(f"{folder}/mHealth_subject1.log", steps, delimiter="\t")
    ...     data = load_mhealth(folder, subjects=[1])
    >>> data.X.shape, [data.target_names[label] for label in set(data.y)]
    ((3, 21, 128), ['walking'])
    """
    channels = {i: name for i, name in _MHEALTH.channels.items() if ecg or "ecg" not in name}
    return replace(_MHEALTH, channels=channels).load(
        root, subjects, range(1, 13), cut=(window, overlap), held_out=(validation, test), download=download
    )


def load_realdisp(
    root: PathLike | None = None,
    *,
    window: int = 128,
    overlap: float = 0.5,
    activities: Sequence[int] = REALDISP_PAPER,
    subjects: Sequence[int] | None = None,
    validation: Sequence[int] = (10, 11, 12),
    test: Sequence[int] = (13, 14, 15, 16, 17),
    download: bool = False,
) -> Bunch:
    r"""Load REALDISP (UCI 305), motion of 17 people; a row is a window of one activity, a column a sensor's channel.

    Nine sensors, placed on the body by an instructor ("ideal placement"), recorded up to 33 activities at 50 Hz.

    Parameters
    ----------
    root : path, optional
        Where the official zip, or its files ``subject<N>_ideal.log``, are: a folder, or the zip, which stays packed. By
        default ``SVNN_DATA``, an environment variable, names the folder.
    window, overlap : int and float, default=128 and 0.5
        Time steps in a window, and the share it has in common with the next one. See `sliding_windows`: a window stays
        in one run of one activity.
    activities : sequence of int from 1 to 33, optional
        Which activities; by default the ten that the paper names.
    subjects : sequence of int from 1 to 17, optional
        Which people; all seventeen by default.
    validation, test : sequence of int
        Which people are held out. The default is the split of the paper.
    download : bool, default=False
        Download the official zip (about 2.7 GB) with `fetch` unless the files are in the data folder.

    Returns
    -------
    Bunch with
        X : float32 array of shape (t, 117, window), in the units of the files
        y : int array of shape (t,), positions in ``target_names``
        groups : int array of shape (t,), the person who was recorded
        runs : int array of shape (t,), equal for windows that were cut from the same run
        split : array of shape (t,) of "train", "validation" and "test", by person
        feature_names, target_names, DESCR

    Notes
    -----
    Columns 1 and 2 are the time, 3 to 119 the channels, 120 the label. Time and label are never inputs.

    References
    ----------
    Banos et al., A benchmark dataset to evaluate sensor displacement in activity recognition, 2012.

    Examples
    --------
    A recording of 192 steps of rowing:

    >>> import pathlib, tempfile
    >>> step = "\t".join(["0"] * 119 + ["31"]) + "\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "subject1_ideal.log").write_text(192 * step)
    ...     data = load_realdisp(folder, subjects=[1])
    >>> data.X.shape, data.target_names[data.y[0]]
    ((2, 117, 128), 'rowing')
    """
    if not set(activities) <= set(range(1, 34)) or not len(activities):
        raise ValueError(f"activities must be numbers from 1 to 33, got {tuple(activities)!r}.")
    return _REALDISP.load(
        root, subjects, activities, cut=(window, overlap), held_out=(validation, test), download=download
    )


def load_dsads(
    root: PathLike | None = None,
    *,
    subjects: Sequence[int] | None = None,
    segments: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    test: Sequence[int] = (),
    download: bool = False,
) -> Bunch:
    """Load Daily and Sports Activities (UCI 256); a row is five seconds of an activity, a column a sensor's channel.

    Eight people did nineteen activities with five sensors, which recorded at 25 Hz.

    Parameters
    ----------
    root : path, optional
        A folder with the official zip, or with ``data/aNN/pN/sNN.txt`` files, or the zip itself. Zips are read
        without unpacking. Where ``root`` is not given, the environment variable ``SVNN_DATA`` names the folder.
    subjects : sequence of int from 1 to 8, optional
        Which people; all eight by default.
    segments : sequence of int from 1 to 60, optional
        Which of the sixty segments of each person and activity; by default all that are there.
    validation, test : sequence of int
        People to hold out. The data set has no official split: without them ``split`` is None, and ``groups``
        serves for cross-validation by person (scikit-learn's ``LeaveOneGroupOut``).
    download : bool, default=False
        Download the official zip into the data folder if it is not there (see `fetch`).

    Returns
    -------
    Bunch with
        X : float32 array of shape (t, 45, 125), as recorded, not scaled
        y : int array of shape (t,), the activity as a position in ``target_names``
        groups : int array of shape (t,), the person
        segments : int array of shape (t,), the number of each segment
        split : array of shape (t,) of "train", "validation" and "test", or None
        feature_names, target_names, DESCR

    Notes
    -----
    Rows are in the order of person, activity and segment. The label is the name of the folder; the files hold
    channels only. The segments of one person and activity are parts of one recording of five minutes. A random split
    would put neighbours into training and test data, so split by person.

    References
    ----------
    Altun, Barshan & Tunçel, Comparative study on classifying human activities with miniature inertial and
    magnetic sensors, Pattern Recognition, 2010.

    Examples
    --------
    One segment of jumping, in the official format:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = pathlib.Path(root, "data", "a18", "p1")
    ...     folder.mkdir(parents=True)
    ...     np.savetxt(folder / "s01.txt", np.zeros((125, 45)), delimiter=",")
    ...     data = load_dsads(root, subjects=[1])
    >>> data.X.shape, data.target_names[data.y[0]]
    ((1, 45, 125), 'jumping')
    """
    chosen = check_subjects(subjects, range(1, 9))
    if segments is not None and not set(segments) <= set(range(1, 61)):
        raise ValueError(f"segments must be some of 1 to 60, got {segments!r}.")
    if download:
        fetch_missing(DSADS, root)
    with open_members(DSADS, root) as members:
        require(members, DSADS, sorted(set(chosen) - {person for _, person, _ in members.names}), "subjects")
        keys = sorted(
            (person, activity, segment)
            for activity, person, segment in members.names
            if person in chosen and 1 <= activity <= len(DSADS_ACTIVITIES) and (segments is None or segment in segments)
        )
        if not keys:
            raise ValueError(f"{members.path} has none of the segments {segments!r}.")
        X = np.empty((len(keys), len(DSADS_CHANNELS), DSADS_STEPS), dtype=np.float32)
        for row, (person, activity, segment) in zip(X, keys, strict=True):
            name = members.names[activity, person, segment]
            row[...] = _read_segment(members.read(name), members.title(name)).T
        origin = members.path
    groups, activities, numbers = np.array(keys).T
    return Bunch(
        X=X,
        y=activities - 1,
        groups=groups,
        segments=numbers,
        split=split_people(groups, validation, test) if len(validation) or len(test) else None,
        feature_names=list(DSADS_CHANNELS),
        target_names=list(DSADS_ACTIVITIES),
        DESCR=(
            f"{DSADS.title} (UCI {DSADS.number}, {DSADS.page}), read from {origin}.\n"
            f"{len(X)} segments of {DSADS_STEPS} time steps at 25 Hz; {X.shape[1]} channels as nodes; "
            f"{len(set(activities))} activities; subjects {', '.join(map(str, chosen))}."
        ),
    )


def _read_segment(text: bytes, name: str) -> np.ndarray:
    """Return the (125, 45) numbers in the text of a file; ``name`` is for messages."""
    shape = DSADS_STEPS, len(DSADS_CHANNELS)
    if not text.strip():
        raise ValueError(f"{name} is empty; it must have {shape[0]} lines of {shape[1]} numbers.")
    try:
        values = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.float32, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"{name} is not a table of numbers: {error}") from error
    if values.shape != shape:
        raise ValueError(f"{name} must have {shape[0]} lines of {shape[1]} numbers, its shape is {values.shape}.")
    return values


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
