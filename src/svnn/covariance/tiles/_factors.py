"""Factors of standardised data, and the residuals, without an N×N matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from svnn.covariance.tiles._observations import Observations, common_unit
from svnn.functional.spectrum import NO_RESIDUAL

#: Up to this many observations all their products are formed; beyond, Lanczos iterations find the leading vectors.
_GRAM_LIMIT = 2048
#: Features taken to double precision at once.
_ROWS = 4096


class Factors(NamedTuple):
    """The leading directions of observations: eigenvalues of the correlations, and (observations, r) unit vectors."""

    eigenvalues: np.ndarray
    vectors: Tensor


def leading_factors(data: Observations, count: int) -> Factors:
    """Return the ``count`` largest eigenvalues of the correlations, descending, and the directions of the rows.

    ``data`` holds correlations. The products of the observations with each other have the same eigenvalues as those of
    the features, and there are fewer of them: N t² operations up to 2048 observations, N t for each of some dozen
    iterations beyond.
    """
    Z, n, size = data.Z, data.n_features, data.Z.shape[1]
    if size <= max(_GRAM_LIMIT, 2 * count):
        gram = torch.zeros((size, size), dtype=torch.float64, device=Z.device)
        for a in range(0, n, _ROWS):
            part = Z[a : min(a + _ROWS, n)].double()
            gram.addmm_(part.T, part)
        values, vectors = torch.linalg.eigh(gram)
        best = torch.arange(size - 1, size - 1 - count, -1, device=Z.device)
        eigenvalues, vectors = values[best].cpu().numpy(), vectors[:, best]
    else:

        def product(v: np.ndarray) -> np.ndarray:
            q = torch.from_numpy(v.reshape(-1, 1)).to(Z.device, torch.float32)
            shifted: np.ndarray = (Z[:n].T @ (Z[:n] @ q)).double().cpu().numpy()[:, 0]
            return shifted

        start = np.random.default_rng(0).standard_normal(size)
        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        eigenvalues, basis = eigsh(operator, k=count, which="LA", v0=start, tol=1e-6)
        eigenvalues, vectors = eigenvalues[::-1], torch.from_numpy(basis[:, ::-1].copy()).to(Z.device)
    return Factors(np.clip(eigenvalues, 0, None) * data.scale, vectors)


def without_factors(data: Observations, vectors: Tensor, *, correlations: bool) -> tuple[Tensor, Observations]:
    """Return the loadings (N, r), on the scale of covariances, and the data without their part in the factors.

    The table of ``data`` is overwritten. ``correlations`` says on which scale the result is to be.
    """
    Z, n = data.Z, data.n_features
    spread = data.variance.sqrt()
    loadings = torch.empty((n, vectors.shape[1]), dtype=torch.float64, device=Z.device)
    size = torch.empty_like(spread)
    for a in range(0, n, _ROWS):
        b = min(a + _ROWS, n)
        part = Z[a:b].double()
        loadings[a:b] = part @ vectors
        part -= loadings[a:b] @ vectors.T
        size[a:b] = torch.linalg.vector_norm(part, dim=1)
        left = size[a:b] ** 2 * data.scale > NO_RESIDUAL
        part *= torch.where(left, 1 / size[a:b] if correlations else 1.0, 0.0)[:, None]
        Z[a:b].copy_(part)
    count = 1 / data.scale  # the observations, without padding
    loadings *= (spread / count**0.5)[:, None]
    # Rows of unit length here: their products are correlations of the residuals.
    rest = spread * size / count**0.5
    if correlations:
        return loadings, data._replace(variance=rest**2, unit=rest, scale=1.0)
    power = common_unit(spread)
    for a in range(0, n, _ROWS):
        b = min(a + _ROWS, n)
        Z[a:b] *= (spread[a:b] / power).float()[:, None]
    unit = torch.full_like(spread, power / count**0.5)
    return loadings, data._replace(variance=rest**2, unit=unit, scale=power**2 / count, correlations=False)
