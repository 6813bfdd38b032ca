"""Loaders: gene expression and stock prices from numpy archives, and near-infrared spectra of meat from tables.

One table of spectra comes with the package.
"""

from __future__ import annotations

import io
import zipfile
from importlib.resources import as_file, files
from itertools import pairwise
from numbers import Integral
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._files import UNREADABLE, PathLike, find_file, read_member, read_table

#: Into how many shares a split divides one. The logarithms are far larger than the returns of a usual day.
SPLIT_RATIOS = (1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
#: What the meat is made of.
TARGETS = ("fat", "water", "protein")
#: The rows before this one are the official training and monitoring samples; the others are for testing.
_FIRST_TEST_ROW = 172


def load_genes(name: str, root: PathLike | None = None) -> Bunch:
    """Load gene expression of two types of tumour; a row is a sample of tissue, a column is a gene.

    Parameters
    ----------
    name : {"golub", "gordon"}
        "golub" holds leukaemia, of type ALL or AML: 72 samples, 7129 genes. "gordon" holds tumours of the lung,
        mesothelioma or adenocarcinoma: 181 samples, 12533 genes.
    root : path, optional
        The folder of ``genes_<name>.npz``, or the file. By default the folder that the environment variable
        ``SVNN_DATA`` names.

    Returns
    -------
    Bunch with
        X : float32 array of shape (t, N)
        y : int array of shape (t,), the type of tumour as a position in ``target_names``
        groups, split : None
        feature_names, target_names, DESCR

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/genes_golub.npz", x=np.zeros((3, 5), np.float32), y=["AML", "ALL", "AML"])
    ...     data = load_genes("golub", folder)
    >>> data.X.shape, data.y.tolist(), data.target_names
    ((3, 5), [1, 0, 1], ['ALL', 'AML'])
    """
    if name not in (known := ("golub", "gordon")):
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}.")
    where = "It is in the R package datamicroarray: save its matrix as x and its classes as y with numpy.savez."
    path = find_file(root, (f"genes_{name}.npz",), f"genes, {name}", where)
    arrays = _read_arrays(path, "x", "y")
    X, labels = _real(arrays["x"], np.float32), arrays["y"]
    if X is None or X.ndim != 2 or not X.size:
        raise ValueError(f"{path}: x must be a matrix of samples by genes, of finite numbers.")
    if labels.ndim != 1 or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise ValueError(f"{path}: y must be a list of classes, one for each sample.")
    if len(X) != len(labels):
        raise ValueError(f"{path} has {len(X)} rows of x and {len(labels)} of y; they must belong together.")
    classes, y = np.unique(labels, return_inverse=True)
    return Bunch(
        X=X,
        y=y,
        groups=None,
        split=None,
        feature_names=[f"gene{i}" for i in range(X.shape[1])],
        target_names=[str(label) for label in classes],
        DESCR=f"Gene expression ({name}, R package datamicroarray), read from {path}.",
    )


def load_stocks(
    root: PathLike | None = None, *, window: int = 5, horizon: int = 5, target: str = "volatility", adjust: bool = True
) -> Bunch:
    r"""Load daily returns of stocks of the S&P 500; a row is a few days in a row, a column is one of 452 stocks.

    The target is how much the market moves, or where to, in the days after.

    Parameters
    ----------
    root : path, optional
        The folder of ``stockdata.npz``, or the file. By default ``SVNN_DATA`` names the folder.
    window : int, default=5
        How many days of returns a row of X holds.
    horizon : int, default=5
        How many days after them the target is about.
    target : {"volatility", "return"}, default="volatility"
        How much the market will move, or where to. Volatility can be predicted to some degree, the return hardly.
    adjust : bool, default=True
        Correct the returns for share splits. The closing prices are as quoted, so the split of one share into two
        looks like a fall by half. Where a logarithmic return is beyond 0.3 and within 0.1 of the logarithm of 3/2, 2,
        3, 4, 5, 6, 8 or 10, only the difference to that logarithm is kept.

    Returns
    -------
    Bunch with
        X : float32 array of shape (t, N, window), or (t, N) with ``window=1``
        y : float64 array of shape (t,)
        groups : None
        split : array of shape (t,) of "train", "validation" and "test": the first 60 % of the days, the next 20 %
            and the last 20 %. Rows that would share a day with the part before are left out.
        returns : float32 array of shape (1257, N), for covariances
        sectors : list of N str
        feature_names (ticker symbols), DESCR

    Notes
    -----
    With :math:`r_{d,j}` the logarithmic return of stock j on day d, row i holds the returns of the ``window``
    days that end on day d, and y looks at the H = ``horizon`` days after it:

    .. math:: y_i^{vol} = \log \frac{1}{HN} \sum_{h=1}^{H} \sum_j |r_{d+h,j}|, \qquad
              y_i^{ret} = \frac{1}{N} \sum_{h=1}^{H} \sum_j r_{d+h,j}

    Examples
    --------
    Three stocks over forty days:

    >>> import tempfile
    >>> prices = np.exp(np.random.default_rng(0).normal(0, 0.01, (40, 3)).cumsum(0))
    >>> info = ["A", "B", "C", "Energy", "Energy", "Utilities", "A Inc", "B Inc", "C Inc"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/stockdata.npz", close=prices, info=info)
    ...     data = load_stocks(folder, window=4, horizon=2)
    >>> data.X.shape, data.feature_names, data.sectors
    ((24, 3, 4), ['A', 'B', 'C'], ['Energy', 'Energy', 'Utilities'])
    """
    if target not in ("volatility", "return"):
        raise ValueError(f'target must be "volatility" or "return", got {target!r}.')
    for days in (window, horizon):
        if not isinstance(days, Integral) or isinstance(days, bool) or days < 1:
            raise ValueError(f"window and horizon must be at least one day, got {window!r} and {horizon!r}.")
    where = "It is the data set stockdata of the R package huge: save its prices as close, its info column by column."
    path = find_file(root, ("stockdata.npz",), "stocks", where)
    arrays = _read_arrays(path, "close", "info")
    prices = _real(arrays["close"], np.float64)
    if prices is None or prices.ndim != 2 or not prices.size or not (prices > 0).all():
        raise ValueError(f"{path}: close must be a matrix of days by stocks, of positive prices.")
    n = prices.shape[1]
    if arrays["info"].ndim != 1 or len(arrays["info"]) < 2 * n:
        raise ValueError(f"{path}: info must be a list of the {n} symbols of the stocks, then their {n} sectors.")
    returns = np.diff(np.log(prices), axis=0)
    if not returns.any():
        raise ValueError(f"{path}: the prices in close never change, so there is nothing to learn from them.")
    if adjust:
        returns = without_splits(returns)
    n_rows = len(returns) - window - horizon + 1
    split, kept = _chronological(n_rows, window + horizon - 1)
    past = np.lib.stride_tricks.sliding_window_view(returns, window, axis=0)[:n_rows]
    future = np.lib.stride_tricks.sliding_window_view(returns, horizon, axis=0)[window:]
    if target == "volatility":
        moves = np.abs(future).mean((1, 2))
        if len(still := kept[moves[kept] == 0]):
            raise ValueError(
                f"{path}: no price changes for {horizon} days in a row from day {still[0] + window} on, so their "
                'volatility has no logarithm; use a longer horizon, or target="return".'
            )
        y = np.log(moves[kept])
    else:
        y = future.mean(1).sum(1)[kept]
    X = past[kept].astype(np.float32)
    return Bunch(
        X=X[:, :, 0] if window == 1 else X,
        y=y,
        groups=None,
        split=split,
        returns=returns.astype(np.float32),
        feature_names=[str(ticker) for ticker in arrays["info"][:n]],
        sectors=[str(sector) for sector in arrays["info"][n : 2 * n]],
        DESCR=(
            f"S&P 500 closing prices (R package huge), read from {path}: {window} days of logarithmic returns of "
            f"{n} stocks; the target is the {target} of the {horizon} days after."
        ),
    )


def without_splits(returns: np.ndarray) -> np.ndarray:
    """Return logarithmic returns without the jumps that share splits make: the logarithm of the ratio is subtracted."""
    jumps = np.log(SPLIT_RATIOS)
    rows, columns = np.nonzero(np.abs(returns) > 0.3)
    moves = returns[rows, columns]
    left = np.abs(moves)[:, None] - jumps
    nearest = np.take_along_axis(left, np.abs(left).argmin(1)[:, None], 1)[:, 0]
    adjusted = returns.copy()
    adjusted[rows, columns] = np.where(np.abs(nearest) < 0.1, np.sign(moves) * nearest, moves)
    return adjusted


def _chronological(n_rows: int, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of each row that is kept, and the numbers of these rows.

    The parts are "train", "validation" and "test", with 60, 20 and 20 % of the rows in the order of time; between two
    of them ``gap`` rows are left out.
    """
    edges = [0, int(0.6 * n_rows), int(0.8 * n_rows), n_rows]
    if min(b - a for a, b in pairwise(edges)) <= gap:
        raise ValueError("There are prices of too few days for this window and horizon; make them shorter.")
    parts = [np.arange(edges[k] + (gap if k else 0), edges[k + 1]) for k in range(3)]
    split = np.repeat(np.array(["train", "validation", "test"], dtype="<U10"), [len(part) for part in parts])
    return split, np.concatenate(parts)


def _real(values: np.ndarray, dtype: type) -> np.ndarray | None:
    """Return an array of finite real numbers in the given dtype; return None where the values are anything else."""
    if values.dtype.kind not in "biuf":
        return None
    with np.errstate(over="ignore"):
        values = values.astype(dtype)
    return values if np.isfinite(values).all() else None


def _read_arrays(path: Path, *names: str) -> dict[str, np.ndarray]:
    """Read the named arrays of a numpy archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: _array(read_member(archive, f"{name}.npy")) for name in names}
    except (*UNREADABLE, KeyError, OSError, MemoryError) as error:
        raise ValueError(f"{path} must be a numpy archive with {' and '.join(names)}: {error}") from error


def _array(content: bytes) -> np.ndarray:
    """Read an array, without pickle, from the bytes of its file, whose checksum the zip has compared."""
    file = io.BytesIO(content)
    array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    if file.tell() < len(content):
        raise ValueError("an array is smaller than the file that holds it")
    return array


# -- spectra of meat -------------------------------------------------------------------------------


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
