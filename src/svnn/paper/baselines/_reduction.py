"""Fewer nodes: principal components of the node axis, in the plain way, with a kernel, or sparse."""

from __future__ import annotations

import warnings
from typing import Protocol

import numpy as np
from sklearn.decomposition import KernelPCA, SparsePCA

from svnn._parameters import declared, integer, parameter
from svnn.covariance import SampleCovariance
from svnn.covariance._resolve import fit_covariance
from svnn.functional.eigenvectors import leading_eigenvectors

REDUCTIONS = ("pca", "kernel", "sparse")

#: Values of a kernel matrix held at once when new observations are projected.
_KERNEL_VALUES = 2**24


class Reduction(Protocol):
    """A fitted projection of the nodes."""

    def transform(self, rows: np.ndarray, /) -> np.ndarray:
        """Project observations of shape (n, N) to (n, k)."""
        ...


@declared
class ReducedNodes:
    """The parameter that every reduction has."""

    n_components: int = parameter(
        default=20,
        rule=integer(1),
        doc="""Number of components, k; the paper searches 10, 20 and 50. Where the training data have fewer nodes or
        observations, so many are used, with a warning.""",
    )


class PrincipalComponents:
    r"""The projection :math:`X_k = V_k^\top X` on the k leading eigenvectors of a covariance."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Project observations of shape (n, N) to (n, k)."""
        return rows @ self.vectors


def fit_reduction(
    kind: str, Z: np.ndarray, n_components: int, weight: np.ndarray | None, seed: int, max_observations: int
) -> Reduction:
    """Fit a reduction of the node axis on signals (t, N, F); its ``transform`` maps observations (n, N) to (n, k).

    Every one of the F values of a sample is an observation of the N nodes, as for the covariance.
    """
    if kind == "pca":
        k = possible_components(n_components, nodes=Z.shape[1], observations=Z.shape[0] * Z.shape[2])
        covariance = fit_covariance(SampleCovariance(), Z, weight).covariance_
        return PrincipalComponents(leading_eigenvectors(covariance, k))
    # scikit-learn's take no weights; rows without any are left out.
    rows = as_observations(Z if weight is None else Z[weight > 0])
    if len(rows) > max_observations:
        chosen = np.random.default_rng(seed).choice(len(rows), max_observations, replace=False)
        rows = rows[np.sort(chosen)]
    if kind == "kernel":
        k = possible_components(n_components, observations=len(rows))
        return KernelPCA(k, kernel="rbf", random_state=seed).fit(rows)
    k = possible_components(n_components, nodes=Z.shape[1], observations=len(rows))
    return SparsePCA(k, random_state=seed).fit(rows)


def reduce_nodes(reduction: Reduction, Z: np.ndarray) -> np.ndarray:
    """Map signals (t, N, F) to (t, k, F), one value (time step) of a sample after the other."""
    rows = as_observations(Z)
    size = max(1, _KERNEL_VALUES // len(reduction.X_fit_)) if isinstance(reduction, KernelPCA) else len(rows)
    parts = [reduction.transform(rows[i : i + size]) for i in range(0, len(rows), size)]
    return np.concatenate(parts).reshape(len(Z), Z.shape[2], -1).transpose(0, 2, 1)


def as_observations(Z: np.ndarray) -> np.ndarray:
    """Return signals (t, N, F) as observations (t F, N) of the nodes, in float64.

    In float32 the rounding of a projected row would depend on how many rows are projected with it.
    """
    return Z.transpose(0, 2, 1).reshape(-1, Z.shape[1]).astype(np.float64, copy=False)


def possible_components(n_components: int, **limits: int) -> int:
    """Return ``n_components``, or with a warning the most that there can be."""
    what, most = min(limits.items(), key=lambda item: item[1])
    if n_components > most:
        warnings.warn(
            f"n_components={n_components} is more than the {most} {what} of the training data; {most} are used.",
            UserWarning,
            stacklevel=2,
        )
    return min(n_components, most)
