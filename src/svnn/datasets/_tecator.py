"""Tecator's near-infrared spectra of meat: the file that comes with the package, or the one of an R package."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._files import PathLike, find_file, read_table

TARGETS = ("fat", "water", "protein")
#: The rows before this one are the official training and monitoring samples; the others are for testing.
_FIRST_TEST_ROW = 172


def load_tecator(target: str = "fat") -> Bunch:
    """Load Tecator's near-infrared spectra of meat; a row is one of 215 samples, a column one of 100 wavelengths.

    The target is what the meat is made of. The file comes with the package, so nothing is downloaded.

    Parameters
    ----------
    target : {"fat", "water", "protein"}, default="fat"
        The percentage to predict.

    Returns
    -------
    Bunch with
        X : float64 array of shape (215, 100), absorbances
        y : float64 array of shape (215,), the percentage
        groups : None
        split : array of shape (215,), "train" (172 samples) or "test" (43 samples): the official split
        train, test : int arrays, the rows of each part
        feature_names : list of str, the wavelengths, such as "850 nm"
        wavelengths : float64 array of shape (100,), in nm
        DESCR : str, with Tecator's statement of permission

    Notes
    -----
    The three percentages nearly sum to a constant, so the two that are not the target are never inputs. The instrument
    covers 850 to 1050 nm; the channels are taken to be evenly spaced.

    Neighbouring wavelengths have correlations above 0.99, and what tells fat from water is a small difference between
    them. Such differences are directions of the covariance with small variance.

    Examples
    --------
    >>> from svnn.datasets import load_tecator
    >>> data = load_tecator()
    >>> data.X.shape, data.feature_names[0], data.feature_names[-1], len(data.train), len(data.test)
    ((215, 100), '850 nm', '1050 nm', 172, 43)
    """
    _check_target(target)
    folder = files("svnn.datasets") / "files"
    with as_file(folder / "tecator.csv.gz") as path:
        table = read_table(path)
    spectra = [name for name in table.names if name not in TARGETS]
    rows = np.arange(len(table.rows))
    wavelengths = np.linspace(850.0, 1050.0, len(spectra))
    permission = (folder / "tecator.txt").read_text(encoding="utf-8")
    return Bunch(
        X=table.numbers(spectra),
        y=table.numbers([target])[:, 0],
        groups=None,
        split=np.where(rows < _FIRST_TEST_ROW, "train", "test"),
        train=rows[:_FIRST_TEST_ROW],
        test=rows[_FIRST_TEST_ROW:],
        feature_names=[f"{nm:.0f} nm" for nm in wavelengths],
        wavelengths=wavelengths,
        DESCR=f"Tecator's near-infrared spectra of {len(rows)} samples of meat, and its {target} in %.\n\n{permission}",
    )


def load_meats(root: PathLike | None = None, *, target: str = "fat") -> Bunch:
    """Load near-infrared spectra of meat; a row is one of 215 samples of meat, a column is one of 100 wavelengths.

    The target is what the meat is made of.

    Parameters
    ----------
    root : path, optional
        The folder of ``meats.csv`` or ``meats.csv.gz``, or the file. By default the folder is that of the environment
        variable ``SVNN_DATA``.
    target : {"fat", "water", "protein"}, default="fat"
        The percentage to predict.

    Returns
    -------
    Bunch with
        X : float64 array of shape (215, 100), absorbances
        y : float64 array of shape (215,)
        groups, split : None
        feature_names, DESCR

    Notes
    -----
    The three percentages nearly sum to a constant, so the two that are not the target are never inputs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "meats.csv").write_text("x_001,x_002,water,fat,protein\\n2.6,2.7,60,22,17\\n")
    ...     data = load_meats(folder, target="protein")
    >>> data.X.tolist(), data.y.tolist()
    ([[2.6, 2.7]], [17.0])
    """
    _check_target(target)
    where = "It is the table `meats` of the R package modeldata."
    table = read_table(find_file(root, ("meats.csv.gz", "meats.csv"), "meats", where))
    features = [name for name in table.names if name.startswith("x_")]
    if not features or target not in table.names:
        raise ValueError(f"{table.path} must have columns x_001, x_002, … and {target}; it has {table.names[:3]}, ….")
    return Bunch(
        X=table.numbers(features),
        y=table.numbers([target])[:, 0],
        groups=None,
        split=None,
        feature_names=features,
        DESCR=f"Near-infrared spectra of meat and its percentage of {target}, read from {table.path}.",
    )


def _check_target(target: str) -> None:
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {target!r}.")
