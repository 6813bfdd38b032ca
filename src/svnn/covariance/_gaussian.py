"""The Gaussian of a covariance matrix: its inverse, distances and likelihoods, one connected part after the other.

Features that no chain of covariances links are independent, and the inverse falls into the same parts. Thresholded
covariances have many of them, most of one or two features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from svnn._types import FloatArray, IntArray, Matrix
from svnn.functional.spectrum import blocks, connected_parts

#: Features of a sparse matrix's largest connected part beyond which it is not inverted.
LARGEST_PART = 4096
#: Up to this size a dense solver finds the norm of a sparse matrix.
_DENSE_NORM = 512


class Parts(NamedTuple):
    """The connected parts of one size: their features, and the eigenvalues and eigenvectors of their inverses.

    ``features`` has shape (parts, size), ``inverse`` (parts, size), ``vectors`` (parts, size, size). ``inverse`` is
    zero where an eigenvalue of the covariance is zero, up to rounding.
    """

    features: IntArray
    inverse: FloatArray
    vectors: FloatArray


def inverse_parts(C: Matrix) -> list[Parts]:
    """Return the pseudo-inverse of a symmetric matrix; eigenvalues are zero by the rule of ``scipy.linalg.pinvh``.

    Raises
    ------
    ValueError
        Where ``C`` is sparse and has a connected part of more than ``LARGEST_PART`` features.
    """
    n = C.shape[0]
    parts = connected_parts(C)
    largest = parts[-1].shape[1]
    if sp.issparse(C) and largest > LARGEST_PART:
        raise ValueError(
            f"covariance_ is sparse, but links {largest} of its {n} features with each other, and the inverse of "
            f"that part is a dense matrix. Use GraphicalLasso, whose precision_ is sparse, or keep fewer pairs; where "
            "memory allows it, scipy.linalg.pinvh(covariance_.toarray()) inverts the whole matrix."
        )
    solved = [(features, *np.linalg.eigh(blocks(C, features))) for features in parts]
    cutoff = n * np.finfo(np.float64).eps * max(np.abs(values).max() for _, values, _ in solved)
    return [
        Parts(features, np.where(np.abs(values) > cutoff, 1 / np.where(values == 0, 1, values), 0), vectors)
        for features, values, vectors in solved
    ]


def precision(C: Matrix) -> Matrix:
    """Return the pseudo-inverse of a symmetric matrix, sparse where it is."""
    parts = inverse_parts(C)
    inverses = [(p.vectors * p.inverse[:, None, :]) @ p.vectors.transpose(0, 2, 1) for p in parts]
    rows = np.concatenate([np.repeat(p.features, p.features.shape[1]) for p in parts])
    columns = np.concatenate([np.repeat(p.features, p.features.shape[1], axis=0).ravel() for p in parts])
    values = np.concatenate([((part + part.transpose(0, 2, 1)) / 2).ravel() for part in inverses])
    if sp.issparse(C):
        return sp.csr_array((values, (rows, columns)), shape=C.shape)
    P = np.zeros(C.shape)
    P[rows, columns] = values
    return P


def squared_distances(C: Matrix | list[Parts], rest: FloatArray) -> FloatArray:
    r"""Return :math:`x^T C^{-1} x` for each row x of ``rest``; the parts of ``C`` may be given."""
    total = np.zeros(len(rest))
    for part in C if isinstance(C, list) else inverse_parts(C):
        projected = np.swapaxes(rest[:, part.features], 0, 1) @ part.vectors  # (parts, rows, size)
        total += np.einsum("ptk,pk->t", projected**2, part.inverse)
    return total


def log_likelihood(C: Matrix, rest: FloatArray) -> float:
    """Return the mean log-likelihood of centred rows, minus infinity where ``C`` is not positive definite."""
    parts = inverse_parts(C)
    if any((part.inverse <= 0).any() for part in parts):
        return -np.inf
    log_determinant = sum(float(np.log(part.inverse).sum()) for part in parts)  # of the inverse
    n, mean = C.shape[0], float(squared_distances(parts, rest).mean())
    return (log_determinant - mean - n * float(np.log(2 * np.pi))) / 2


def squared_norm(error: Matrix, norm: str) -> float:
    """Return the squared Frobenius or spectral norm of a symmetric matrix."""
    if norm == "frobenius":
        return float(((error if isinstance(error, np.ndarray) else error.data) ** 2).sum())
    if norm != "spectral":
        raise NotImplementedError(f'norm must be "frobenius" or "spectral", got {norm!r}.')
    if not isinstance(error, np.ndarray) and error.shape[0] <= _DENSE_NORM:
        error = error.toarray()
    if isinstance(error, np.ndarray):
        return float(np.abs(np.linalg.eigvalsh(error)).max() ** 2)
    start = np.random.default_rng(0).standard_normal(error.shape[0])
    largest = eigsh(error, k=1, which="LM", v0=start, return_eigenvectors=False) if error.count_nonzero() else [0.0]
    return float(largest[0] ** 2)
