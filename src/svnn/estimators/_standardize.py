"""z-scores with training statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from svnn.functional._spread import centre, deviation, is_constant
from svnn.functional.moments import check_weight


@dataclass
class Standardizer:
    """``(X - mean) / scale`` for every node and value; constant ones are only centred."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, weight: np.ndarray, active: bool = True) -> Standardizer:
        if not active:
            return cls.identity()
        weight = check_weight(weight, X)
        kept = weight > 0
        share = weight[kept] / weight.sum()
        centred = centre(X[kept].reshape(len(share), -1), share)
        scale = np.where(centred.constant, 1.0, deviation(centred, share))
        return cls(centred.location.reshape(X.shape[1:]), scale.reshape(X.shape[1:]))

    @classmethod
    def identity(cls) -> Standardizer:
        return cls(np.zeros(()), np.ones(()))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        Z = (X - self.mean) / self.scale
        alone = self.scale == 1
        if alone.any() and alone.shape:
            # What rounding leaves of a constant is zero here too, not a feature of its own.
            same = alone & is_constant(np.minimum(X, self.mean), np.maximum(X, self.mean))
            Z = np.where(same, 0.0, Z).astype(Z.dtype, copy=False)
        return Z

    def inverse(self, Z: np.ndarray) -> np.ndarray:
        return Z * self.scale + self.mean
