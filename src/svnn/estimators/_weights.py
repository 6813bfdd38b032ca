"""Weights of samples and classes: only their ratios count."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

from svnn.functional._array import as_floating, is_torch, to_numpy

#: Bits of a weight that count.
_BITS = 32


def check_sample_weight(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Return one weight for every row of ``X``, ones by default, or raise an error that names ``sample_weight``."""
    if is_torch(sample_weight):
        sample_weight = to_numpy(as_floating(sample_weight).double())
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def relative(weight: np.ndarray) -> np.ndarray:
    """Return weights divided by the largest of them; all zero where they all are.

    They are rounded to 32 bits, nine digits: what the rounding of another unit leaves must not show, and training
    would magnify it.
    """
    largest = weight.max(initial=0.0)
    if largest == 0:
        return weight
    # By a power of two first, which is exact: the smallest numbers have too few digits to be divided by.
    power = np.frexp(largest)[1]
    fraction, exponent = np.frexp(np.ldexp(weight, -power) / np.ldexp(largest, -power))
    return np.ldexp(np.rint(np.ldexp(fraction, _BITS)), exponent - _BITS)


def check_class_weight(class_weight: Any) -> None:
    """Raise a ``ValueError`` where ``class_weight`` is nothing that classes can be weighted by."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(f'class_weight must be None, "balanced" or a dict of numbers, got {class_weight!r}.')
    values = list(class_weight.values())
    if not all(isinstance(v, Real) and 0 <= float(v) < float("inf") for v in values) or not any(values):
        raise ValueError(f"class_weight must hold finite numbers >= 0, not all of them zero, got {class_weight!r}.")


def with_class_weight(weight: np.ndarray, class_weight: Any, labels: np.ndarray) -> np.ndarray:
    """Return the weights of samples times those of their classes, relative to the largest."""
    if class_weight is None:
        return weight
    if isinstance(class_weight, Mapping):  # of plain numbers, the largest 1: none overflows
        sizes = relative(np.array([float(v) for v in class_weight.values()]))
        class_weight = dict(zip(class_weight, sizes.tolist(), strict=True))
    weighted = relative(weight * compute_sample_weight(class_weight, labels))
    if not weighted.any():
        raise ValueError("class_weight and sample_weight leave no training row any weight; give some of them weight.")
    return weighted
