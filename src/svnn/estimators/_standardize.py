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
        eps = np.finfo(X.dtype).eps
        # In units of a power of two, which changes no digit, neither squares nor sums overflow or vanish.
        X, weight = X[weight > 0], weight[weight > 0]
        unit = np.ldexp(1.0, np.frexp(np.abs(X).max(axis=0))[1] - 1)
        X = X / unit
        mean = np.average(X, axis=0, weights=weight)
        scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
        # What rounding alone leaves of a constant is not a spread.
        constant = scale <= 10 * eps * np.abs(mean)
        return cls(mean * unit, np.where(constant, 1.0, scale * unit))

    @classmethod
    def identity(cls) -> Standardizer:
        return cls(np.zeros(()), np.ones(()))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean) / self.scale

    def inverse(self, Z: np.ndarray) -> np.ndarray:
        return Z * self.scale + self.mean
