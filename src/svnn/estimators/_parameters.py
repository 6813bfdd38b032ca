"""Checks of the estimators' parameters: what is wrong, and the way out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from svnn.estimators._covariances import is_precomputed
from svnn.nn._layers import ACTIVATIONS
from svnn.nn._readout import READOUTS

RESAMPLE = ("fixed", "epoch", "forward", "shift")


def check_training(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter of network or training that cannot be."""
    if not _number(estimator.lr) or not 0 < float(estimator.lr) < math.inf:
        raise ValueError(f"lr must be a positive number, got {estimator.lr!r}.")
    for name in _own(estimator, "max_epochs", "patience", "heads"):
        if not whole(getattr(estimator, name), 1):
            raise ValueError(f"{name} must be a positive integer, got {getattr(estimator, name)!r}.")
    if hasattr(estimator, "order") and not whole(estimator.order, 0):
        raise ValueError(f"order must be an integer >= 0, got {estimator.order!r}.")
    size = estimator.batch_size
    if size is not None and not (isinstance(size, str) and size == "auto") and not whole(size, 1):
        raise ValueError(f'batch_size must be "auto", None or a positive integer, got {size!r}.')
    for name in _own(estimator, "hidden", "mlp"):
        if not _sizes(getattr(estimator, name)):
            value: Any = getattr(estimator, name)
            raise ValueError(f"{name} must be a sequence of positive integers such as (32,), got {value!r}.")
    if not len(estimator.hidden):
        raise ValueError("hidden must name at least one layer, e.g. (32,).")
    for name in _own(estimator, "validation_fraction", "averaging", "dropout", "node_dropout"):
        value = getattr(estimator, name)
        if not _number(value) or not 0 <= float(value) < 1:
            raise ValueError(f"{name} must be in [0, 1), got {value!r}.")
    for name in _own(estimator, "weight_decay", "tol", "cache_bytes"):
        value = getattr(estimator, name)
        if not _number(value) or not 0 <= float(value) < math.inf:
            raise ValueError(f"{name} must not be negative or infinite, got {value!r}.")
    for name in _own(estimator, "batch_norm", "standardize", "verbose"):
        yes_or_no(estimator, name)
    for name, options in (("activation", tuple(ACTIVATIONS)), ("readout", READOUTS)):
        if hasattr(estimator, name):
            one_of(estimator, name, options)
    callbacks = estimator.callbacks
    if not isinstance(callbacks, Sequence) or not all(callable(callback) for callback in callbacks):
        raise ValueError(f"callbacks must be a sequence of callables, got {callbacks!r}.")
    seed = estimator.random_state
    if isinstance(seed, Integral) and int(seed) < 0:
        raise ValueError(f"random_state must not be negative, got {seed!r}.")


def check_parameters(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter of an S-VNN estimator that cannot be."""
    check_training(estimator)
    one_of(estimator, "use", ("covariance", "precision"))
    one_of(estimator, "resample", RESAMPLE)
    check_covariance(estimator)


def one_of(estimator: Any, name: str, options: tuple[str, ...]) -> None:
    """Raise a ``ValueError`` where a parameter is none of the words it may be."""
    value = getattr(estimator, name)
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {options}, got {value!r}.")


def yes_or_no(estimator: Any, name: str) -> None:
    """Raise a ``ValueError`` where a parameter is neither a truth value nor a number that stands for one."""
    value = getattr(estimator, name)
    if not isinstance(value, (bool, np.bool_, Integral)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_covariance(estimator: Any) -> None:
    """Raise a ``ValueError`` where ``covariance`` and ``shift`` do not go together."""
    precomputed = is_precomputed(estimator.covariance)
    if precomputed and estimator.shift is None:
        raise ValueError('covariance="precomputed" needs the matrix as shift=.')
    if not precomputed and estimator.shift is not None:
        raise ValueError('shift= is used with covariance="precomputed" only; drop it or set covariance.')


def _own(estimator: Any, *names: str) -> list[str]:
    """Return those of the names that are parameters of the estimator."""
    return [name for name in names if hasattr(estimator, name)]


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _sizes(values: Any) -> bool:
    """Say whether ``values`` is a sequence or an array of positive integers."""
    listed = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim == 1)
    return listed and not isinstance(values, str) and all(whole(size, 1) for size in values)


def whole(value: Any, least: int) -> bool:
    """Say whether ``value`` is an integer of at least ``least``."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def batch_rows(batch_size: Any, n_rows: int) -> int:
    """Return the rows of a gradient step.

    "auto" is the power of two at or above a quarter of the rows, but no more than 32: tiny data
    sets need several steps an epoch as well.
    """
    if batch_size == "auto":
        return min(32, 2 ** math.ceil(math.log2(max(n_rows / 4, 2))))
    return int(batch_size or n_rows)


def pick_device(device: Any) -> torch.device:
    """Return the torch device for a name; "auto" is the GPU where there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f'device must be "auto" or a torch device such as "cpu" or "cuda", got {device!r}.') from error
    try:
        torch.zeros(1, device=picked).item()  # a number can be put there and read back
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f'device="{device}" is not available here; use device="auto".') from error
    return picked


def fits(device: torch.device, n_bytes: int) -> bool:
    """Say whether ``n_bytes`` take at most half of what is free on a GPU; main memory is not asked."""
    return device.type != "cuda" or n_bytes <= torch.cuda.mem_get_info(device)[0] // 2
