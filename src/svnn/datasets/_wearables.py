"""Recordings of wearable sensors with one label a time step: MHEALTH and REALDISP."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.utils import Bunch

from svnn.datasets._files import PathLike
from svnn.datasets._recordings import load_recordings
from svnn.datasets._sources import MHEALTH, REALDISP

MHEALTH_ACTIVITIES = (
    "standing still",
    "sitting and relaxing",
    "lying down",
    "walking",
    "climbing stairs",
    "waist bends forward",
    "frontal elevation of arms",
    "knees bending (crouching)",
    "cycling",
    "jogging",
    "running",
    "jump front & back",
)
MHEALTH_CHANNELS = (
    *(f"chest_acc_{axis}" for axis in "xyz"),
    "chest_ecg_1",
    "chest_ecg_2",
    *(f"{part}_{kind}_{axis}" for part in ("ankle", "arm") for kind in ("acc", "gyro", "mag") for axis in "xyz"),
)
REALDISP_ACTIVITIES = (
    "walking",
    "jogging",
    "running",
    "jump up",
    "jump front & back",
    "jump sideways",
    "jump leg/arms open/closed",
    "jump rope",
    "trunk twist (arms outstretched)",
    "trunk twist (elbows bended)",
    "waist bends forward",
    "waist rotation",
    "waist bends (reach foot with opposite hand)",
    "reach heels backwards",
    "lateral bend",
    "lateral bend arm up",
    "repetitive forward stretching",
    "upper trunk and lower body opposite twist",
    "arms lateral elevation",
    "arms frontal elevation",
    "frontal hand claps",
    "arms frontal crossing",
    "shoulders high amplitude rotation",
    "shoulders low amplitude rotation",
    "arms inner rotation",
    "knees (alternatively) to the breast",
    "heels (alternatively) to the backside",
    "knees bending (crouching)",
    "knees (alternatively) bend forward",
    "rotation on the knees",
    "rowing",
    "elliptic bike",
    "cycling",
)
#: The ten activities that the paper names.
REALDISP_PAPER = (1, 2, 3, 9, 10, 11, 29, 31, 32, 33)
#: Nine sensors in the order of the columns: lower and upper arms, back, calves and thighs, right and left.
REALDISP_CHANNELS = tuple(
    f"{part}_{channel}"
    for part in ("rla", "rua", "back", "lua", "lla", "rc", "rt", "lt", "lc")
    for channel in (
        *(f"{kind}_{axis}" for kind in ("acc", "gyro", "mag") for axis in "xyz"),
        *(f"quat_{i}" for i in range(1, 5)),
    )
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
    r"""Load MHEALTH (UCI 319): twelve activities of ten people, three sensors at 50 Hz, cut into windows.

    Parameters
    ----------
    root : path, optional
        A folder with the official zip or with ``mHealth_subject<N>.log`` files, or the zip itself. The
        environment variable ``SVNN_DATA`` names it where ``root`` is not given. Zips are read without unpacking.
    ecg : bool, default=False
        Keep the two leads of the electrocardiogram, columns 4 and 5: 23 nodes, as in the paper's table,
        instead of the 21 of its text.
    window, overlap : int and float, default=128 and 0.5
        Time steps in a window, and the share it has in common with the next. See `sliding_windows`: no window
        crosses from one activity, or one run of it, to another.
    subjects : sequence of int, optional
        Which people; all ten by default.
    validation, test : sequence of int
        The people held out; the paper's by default. Nobody is in two splits.
    download : bool, default=False
        Fetch the official zip into the data folder if the files are not there (see `fetch`).

    Returns
    -------
    Bunch with
        X : float32 array of shape (t, N, window), as recorded: nothing is scaled.
        y : int array of shape (t,), positions in ``target_names``
        groups : int array of shape (t,), the subject of each window
        runs : int array of shape (t,), the run of one activity that each window is from
        split : array of shape (t,) of "train", "validation" and "test"
        feature_names, target_names, DESCR

    Notes
    -----
    Column 24 is the label; it is never an input. Time steps without an activity, label 0, are dropped.

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
    channels = [i for i in range(23) if ecg or i not in (3, 4)]
    return load_recordings(
        MHEALTH,
        root,
        subjects=subjects,
        everyone=range(1, 11),
        n_columns=24,
        columns=channels,
        names=[MHEALTH_CHANNELS[i] for i in channels],
        activities=range(1, 13),
        activity_names=MHEALTH_ACTIVITIES,
        window=window,
        overlap=overlap,
        validation=validation,
        test=test,
        download=download,
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
    r"""Load REALDISP (UCI 305), ideal placement: seventeen people, nine sensors at 50 Hz, cut into windows.

    Parameters
    ----------
    root : path, optional
        A folder with the official zip or with ``subject<N>_ideal.log`` files, or the zip itself. The environment
        variable ``SVNN_DATA`` names it where ``root`` is not given. Zips are read without unpacking.
    window, overlap : int and float, default=128 and 0.5
        Time steps in a window, and the share it has in common with the next. See `sliding_windows`: no window
        crosses from one activity, or one run of it, to another.
    activities : sequence of int from 1 to 33, optional
        Which activities; the ten that the paper names by default.
    subjects : sequence of int, optional
        Which people; all seventeen by default.
    validation, test : sequence of int
        The people held out; the paper's by default. Nobody is in two splits.
    download : bool, default=False
        Fetch the official zip (about 2.7 GB) into the data folder if the files are not there (see `fetch`).

    Returns
    -------
    Bunch with
        X : float32 array of shape (t, 117, window), as recorded: nothing is scaled.
        y : int array of shape (t,), positions in ``target_names``
        groups : int array of shape (t,), the subject of each window
        runs : int array of shape (t,), the run of one activity that each window is from
        split : array of shape (t,) of "train", "validation" and "test"
        feature_names, target_names, DESCR

    Notes
    -----
    Columns 1 and 2 are the time, 3 to 119 the channels, 120 the label. Time and label are never inputs.

    References
    ----------
    Banos et al., A benchmark dataset to evaluate sensor displacement in activity recognition, 2012.

    Examples
    --------
    A recording of 192 steps of rowing, in the official format:

    >>> import tempfile
    >>> import numpy as np
    >>> steps = np.zeros((192, 120))
    >>> steps[:, 119] = 31
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savetxt(f"{folder}/subject1_ideal.log", steps, delimiter="\t")
    ...     data = load_realdisp(folder, subjects=[1])
    >>> data.X.shape, [data.target_names[label] for label in set(data.y)]
    ((2, 117, 128), ['rowing'])
    """
    if not set(activities) <= set(range(1, 34)) or not len(activities):
        raise ValueError(f"activities must be numbers from 1 to 33, got {tuple(activities)!r}.")
    return load_recordings(
        REALDISP,
        root,
        subjects=subjects,
        everyone=range(1, 18),
        n_columns=120,
        columns=list(range(2, 119)),
        names=list(REALDISP_CHANNELS),
        activities=activities,
        activity_names=REALDISP_ACTIVITIES,
        window=window,
        overlap=overlap,
        validation=validation,
        test=test,
        download=download,
    )
