"""SparseCov, LargeCov and SmallCov, the synthetic data of the paper: new draws, and those that were released."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_regression
from sklearn.utils import Bunch

from svnn._types import RandomState
from svnn.datasets import make_sparse_covariance
from svnn.datasets._files import find_file, read_table
from svnn.functional import sample_moments
from svnn.functional._array import generator
from svnn.sources._frames import PathLike

#: Standard deviation of the noise in the targets.
NOISE = 3.0


def make_sparse_cov(
    n_samples: int = 1000, n_features: int = 100, density: float = 0.1, random_state: RandomState = None
) -> Bunch:
    """Draw a regression problem with a sparse covariance; a row is a sample, a column is a Gaussian feature.

    It is the data set that the paper calls SparseCov: ``y = wᵀx + u`` with ``w`` uniform on (0, 1) and noise ``u`` of
    standard deviation 3.

    Returns
    -------
    Bunch with X, y, covariance (the true one), coef (the ``w``)

    Examples
    --------
    >>> data = make_sparse_cov(random_state=0)
    >>> data.X.shape, data.covariance.shape
    ((1000, 100), (100, 100))
    """
    rng = generator(random_state)
    C = make_sparse_covariance(n_features, density, "random", rng)
    return _regression(rng.multivariate_normal(np.zeros(n_features), C, n_samples), C, rng)


def make_large_cov(n_samples: int = 1000, n_features: int = 100, random_state: RandomState = None) -> Bunch:
    """Draw a regression problem with large covariances; a row is a sample, a column is a Gaussian feature.

    It is the data set that the paper calls LargeCov: the covariance is dense, and one common factor explains about
    three quarters of every variance. (The data released with the paper has similar features, but its targets
    vary less than these coefficients imply.)

    Returns
    -------
    Bunch with X, y, covariance (the true one), coef (the weights of the features in y)

    Examples
    --------
    >>> bool((make_large_cov(random_state=0).covariance > 0.3).all())
    True
    """
    rng = generator(random_state)
    common = rng.uniform(0.65, 0.87, n_features)
    A = rng.standard_normal((n_features, n_features))
    C = np.outer(common, common) + 0.2 * A @ A.T / n_features
    return _regression(rng.multivariate_normal(np.zeros(n_features), C, n_samples), C, rng)


def make_small_cov(
    n_samples: int = 1000, n_features: int = 100, tail_strength: float = 0.2, random_state: RandomState = None
) -> Bunch:
    """Draw a regression problem with small covariances; a row is a sample, a column is a feature.

    It is the data set that the paper calls SmallCov: scikit-learn's ``make_regression`` with features of low rank plus
    a tail. The effective rank is a quarter of the number of features, and a quarter of them have coefficients, uniform
    on (0, 100), as the data released with the paper seems to have.

    Returns
    -------
    Bunch with X, y, covariance (of these samples; no true one is known), coef

    Examples
    --------
    >>> data = make_small_cov(random_state=0)
    >>> bool(abs(data.covariance).max() < 0.001)
    True
    """
    quarter = max(1, n_features // 4)
    X, y, coef = make_regression(
        n_samples,
        n_features,
        n_informative=quarter,
        effective_rank=quarter,
        tail_strength=tail_strength,
        noise=NOISE,
        coef=True,
        random_state=int(generator(random_state).integers(2**31)),
    )
    return Bunch(X=X, y=y, covariance=sample_moments(X).covariance, coef=coef)


def _regression(X: np.ndarray, C: np.ndarray, rng: np.random.Generator) -> Bunch:
    """Return the data with targets that are linear in the features, plus noise."""
    coef = rng.uniform(0, 1, X.shape[1])
    y = X @ coef + rng.normal(0, NOISE, len(X))
    return Bunch(X=X, y=y, covariance=C, coef=coef)


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
    make_sparse_cov, make_large_cov, make_small_cov : new data with the same properties, and the true covariance.

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
