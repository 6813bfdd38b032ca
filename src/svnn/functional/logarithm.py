"""The logarithm of a covariance, on a scale from 0 to 1."""

from __future__ import annotations

import numpy as np

from svnn._types import AnyArray

#: The eigenvalue, relative to the largest, from which on the logarithm is above 0.
_SMALLEST = 1e-8


def log_eigenvalues(values: AnyArray) -> np.ndarray:
    r"""Return eigenvalues on a logarithmic scale: :math:`1 + \log(\lambda) / \log(10^8)`, and 0 below :math:`10^{-8}`.

    The largest eigenvalue of a covariance of unit norm keeps its value 1. Directions of small variance are as far
    apart as those of large variance, so that a polynomial of low order can tell them apart.

    Examples
    --------
    >>> log_eigenvalues([1.0, 1e-4, 1e-8, 0.0, -0.5]).round(6).tolist()
    [1.0, 0.5, 0.0, 0.0, 0.0]
    """
    given = np.asarray(values, dtype=np.float64)
    found: np.ndarray = 1 - np.log(np.maximum(given, _SMALLEST)) / np.log(_SMALLEST)
    return found


def log_covariance(C: AnyArray) -> np.ndarray:
    r"""Return the matrix with the eigenvectors of C and the eigenvalues :func:`log_eigenvalues` of its own.

    Parameters
    ----------
    C : array of shape (N, N)
        Symmetric, of unit spectral norm; negative eigenvalues, which sparsified covariances can have, become 0.

    Returns
    -------
    ndarray of shape (N, N)

    Examples
    --------
    >>> log_covariance(np.diag([1.0, 1e-4])).round(6).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """
    values, vectors = np.linalg.eigh(np.asarray(C, dtype=np.float64))
    found: np.ndarray = (vectors * log_eigenvalues(values)) @ vectors.T
    return (found + found.T) / 2
