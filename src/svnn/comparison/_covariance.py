"""The covariance of the S-VNN in a comparison: what it is called, and whether a table can have it."""

from __future__ import annotations

import numpy as np

from svnn._types import CovarianceLike
from svnn.comparison._checks import LIMITS
from svnn.comparison._fits import complete
from svnn.comparison._names import DENSE
from svnn.comparison._scores import Problem
from svnn.comparison._splits import splits
from svnn.covariance._resolve import fit_covariance, resolve
from svnn.estimators._training_data import Standardizer

#: Covariances that are full matrices, whatever the number of features.
FULL = ("sample", "ledoit_wolf", "oas", "graphical_lasso")


def in_words(covariance: CovarianceLike) -> str:
    """Return a covariance as one writes it.

    Examples
    --------
    >>> in_words("soft")
    '"soft"'
    """
    return f'"{covariance}"' if isinstance(covariance, str) else repr(covariance)


def check_name(covariance: CovarianceLike, n_features: int) -> None:
    """Raise a ``ValueError`` where no covariance has this name, or where it would be too large a matrix."""
    resolve(covariance)
    _, most, why = LIMITS[DENSE]
    if covariance in FULL and n_features > most:
        raise ValueError(
            f"covariance={in_words(covariance)} takes at most {most} features, because {why}; there are {n_features}."
        )


def check_covariance(covariance: CovarianceLike, problem: Problem) -> None:
    """Raise a ``ValueError`` where this covariance cannot be fitted to the training rows of the first split."""
    check_name(covariance, problem.X.shape[1])
    train, _ = next(splits(problem.how, problem.y, problem.groups, problem.task, problem.seed))
    X, _ = complete(problem.X[train], problem.X[train])
    try:
        fit_covariance(resolve(covariance, problem.seed), Standardizer.fit(X, np.ones(len(X)))(X), y=problem.y[train])
    except (ValueError, MemoryError) as error:
        raise ValueError(f"covariance={in_words(covariance)} cannot be fitted to this table: {error}") from error
