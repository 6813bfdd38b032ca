"""z-scores with training statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Standardizer:
    """``(X - mean) / scale`` for every node and value; constant ones are only centred."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, weight: np.ndarray, active: bool = True) -> Standardizer:
        if not active:
            return cls.identity()
        mean = np.average(X, axis=0, weights=weight)
        scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
        # What rounding alone leaves of a constant is not a spread.
        constant = scale <= 10 * np.finfo(X.dtype).eps * np.abs(mean)
        return cls(mean, np.where(constant, 1.0, scale))

    @classmethod
    def identity(cls) -> Standardizer:
        return cls(np.zeros(()), np.ones(()))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean) / self.scale

    def inverse(self, Z: np.ndarray) -> np.ndarray:
        return Z * self.scale + self.mean
