"""The synthetic data that the authors of the paper released."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._csv import read_table
from svnn.datasets._files import PathLike, find_file


def load_released(name: str, root: PathLike | None = None) -> Bunch:
    """Load synthetic data that the authors of the paper released; a row is a sample, a column is a feature.

    There are three data sets, of 1000 samples of 100 features each.

    Parameters
    ----------
    name : {"SparseCov", "LargeCov", "SmallCov"}
    root : path, optional
        The folder of ``<name>.csv`` or ``<name>.csv.gz``, or the file. By default the environment variable
        ``SVNN_DATA`` names the folder.

    Returns
    -------
    Bunch with
        X : float64 array of shape (1000, 100)
        y : float64 array of shape (1000,), a number to predict: the last column of the file
        groups, split : None
        feature_names, DESCR

    See Also
    --------
    make_sparse_cov, make_large_cov, make_small_cov : new data of the same kinds, with the true covariance.

    Examples
    --------
    A file in the same format, with the index column that two of the three have:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "SparseCov.csv").write_text(",0,1,2\\n0,0.5,-1,3\\n1,2,0.25,4\\n")
    ...     data = load_released("SparseCov", folder)
    >>> data.X.tolist(), data.y.tolist()
    ([[0.5, -1.0], [2.0, 0.25]], [3.0, 4.0])
    """
    if name not in (known := ("SparseCov", "LargeCov", "SmallCov")):
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}.")
    where = "The file is released with the paper (Sparse Covariance Neural Networks)."
    table = read_table(find_file(root, (f"{name}.csv.gz", f"{name}.csv"), name, where))
    # The index column, where there is one, has no name. One header has a name twice, so columns are found by position.
    first = 1 if table.names[0] == "" else 0
    try:
        values = np.array(table.rows, dtype=float)[:, first:]
    except ValueError as error:
        raise ValueError(f"{table.path} must hold numbers only: {error}") from error
    if not np.isfinite(values).all():
        raise ValueError(f"{table.path} must hold numbers only, but it has cells that are infinite or not a number.")
    if values.shape[1] < 2:
        raise ValueError(f"{table.path} must have at least two columns of numbers: features, and the target.")
    return Bunch(
        X=np.ascontiguousarray(values[:, :-1]),
        y=values[:, -1].copy(),
        groups=None,
        split=None,
        feature_names=[f"x{i}" for i in range(values.shape[1] - 1)],
        DESCR=f"{name}, as released with the paper, read from {table.path}: y = wᵀx + u.",
    )
