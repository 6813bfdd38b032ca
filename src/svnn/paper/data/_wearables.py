"""Recordings of wearable sensors with one label per time step: MHEALTH and REALDISP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sklearn.utils import Bunch

from svnn.datasets._files import PathLike
from svnn.paper.data._recordings import Recordings
from svnn.paper.data._sources import MHEALTH, REALDISP

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
#: The ten activities of REALDISP that the paper names.
REALDISP_PAPER = (1, 2, 3, 9, 10, 11, 29, 31, 32, 33)

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
