"""The Daily and Sports Activities data set, with one file per segment of five seconds."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._files import PathLike
from svnn.paper.data._download import fetch_missing
from svnn.paper.data._uci import DSADS, open_members, require
from svnn.paper.data._wearables import check_subjects, split_people

ACTIVITIES = (
    "sitting",
    "standing",
    "lying on back",
    "lying on right side",
    "ascending stairs",
    "descending stairs",
    "standing in an elevator still",
    "moving around in an elevator",
    "walking in a parking lot",
    "walking on a treadmill, flat",
    "walking on a treadmill, inclined",
    "running on a treadmill",
    "exercising on a stepper",
    "exercising on a cross trainer",
    "cycling on an exercise bike, horizontal",
    "cycling on an exercise bike, vertical",
    "rowing",
    "jumping",
    "playing basketball",
)
CHANNELS = tuple(
    f"{part}_{kind}_{axis}"
    for part in ("torso", "right_arm", "left_arm", "right_leg", "left_leg")
    for kind in ("acc", "gyro", "mag")
    for axis in "xyz"
)
STEPS = 125


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
            if person in chosen and 1 <= activity <= len(ACTIVITIES) and (segments is None or segment in segments)
        )
        if not keys:
            raise ValueError(f"{members.path} has none of the segments {segments!r}.")
        X = np.empty((len(keys), len(CHANNELS), STEPS), dtype=np.float32)
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
        feature_names=list(CHANNELS),
        target_names=list(ACTIVITIES),
        DESCR=(
            f"{DSADS.title} (UCI {DSADS.number}, {DSADS.page}), read from {origin}.\n"
            f"{len(X)} segments of {STEPS} time steps at 25 Hz; {X.shape[1]} channels as nodes; "
            f"{len(set(activities))} activities; subjects {', '.join(map(str, chosen))}."
        ),
    )


def _read_segment(text: bytes, name: str) -> np.ndarray:
    """Return the (125, 45) numbers in the text of a file; ``name`` is for messages."""
    if not text.strip():
        raise ValueError(f"{name} is empty; it must have {STEPS} lines of {len(CHANNELS)} numbers.")
    try:
        values = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.float32, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"{name} is not a table of numbers: {error}") from error
    if values.shape != (STEPS, len(CHANNELS)):
        raise ValueError(f"{name} must have {STEPS} lines of {len(CHANNELS)} numbers, its shape is {values.shape}.")
    return values
