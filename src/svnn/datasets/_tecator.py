"""Tecator's near-infrared spectra of meat, which come with the package."""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._csv import read_table

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
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {target!r}.")
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
