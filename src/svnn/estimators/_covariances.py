"""From the ``covariance`` and ``shift`` of an estimator, or of its ``on``, to a fitted covariance."""

from __future__ import annotations

from typing import Any

import numpy as np

from svnn.covariance._resolve import fit_covariance, resolve, seeded


def is_precomputed(covariance: Any) -> bool:
    """Say whether the matrix is given as ``shift``."""
    return isinstance(covariance, str) and covariance == "precomputed"


def fit_seeded(covariance: Any, Z: np.ndarray, weight: np.ndarray | None, seed: int, y: Any = None) -> Any:
    """Return an estimator for a name or an estimator, fitted on signals (t, N, F); its seed is ``seed`` unless set."""
    return fit_covariance(seeded(resolve(covariance), seed), Z, weight, y)


def fitted_covariance(covariance: Any, Z: np.ndarray | None) -> Any:
    """Return a matrix, operator or fitted estimator as it is; fit what is not fitted yet on signals (t, N, F)."""
    if isinstance(covariance, str) or (hasattr(covariance, "fit") and not hasattr(covariance, "covariance_")):
        if Z is None:
            raise ValueError("a covariance that is not fitted yet needs data to fit it on: pass X=.")
        return fit_covariance(resolve(covariance), Z)
    return covariance
