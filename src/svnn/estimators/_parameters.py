"""Checks of the estimators' parameters: what is wrong, and the way out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import torch

from svnn.estimators._covariances import is_precomputed

RESAMPLE = ("fixed", "epoch", "forward", "shift")


def check_training(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter of network or training that cannot be."""
    if not isinstance(estimator.lr, Real) or not float(estimator.lr) > 0:
        raise ValueError(f"lr must be a positive number, got {estimator.lr!r}.")
    for name in ("max_epochs", "patience"):
        if not whole(getattr(estimator, name), 1):
            raise ValueError(f"{name} must be a positive integer, got {getattr(estimator, name)!r}.")
    if estimator.batch_size not in (None, "auto") and not whole(estimator.batch_size, 1):
        raise ValueError(f'batch_size must be "auto", None or a positive integer, got {estimator.batch_size!r}.')
    for name in _own(estimator, "hidden", "mlp"):
        sizes = getattr(estimator, name)
        if isinstance(sizes, str) or not isinstance(sizes, Iterable) or not all(whole(s, 1) for s in sizes):
            raise ValueError(f"{name} must be a sequence of positive integers such as (32,), got {sizes!r}.")
    for name in _own(estimator, "validation_fraction", "averaging", "dropout", "node_dropout"):
        value: Any = getattr(estimator, name)
        if not isinstance(value, Real) or not 0 <= float(value) < 1:
            raise ValueError(f"{name} must be in [0, 1), got {value!r}.")
    for name in _own(estimator, "weight_decay", "tol", "cache_bytes"):
        value = getattr(estimator, name)
        if not isinstance(value, Real) or float(value) < 0:
            raise ValueError(f"{name} must not be negative, got {value!r}.")
    if not isinstance(estimator.callbacks, Iterable):
        raise ValueError(f"callbacks must be a sequence of callables, got {estimator.callbacks!r}.")


def check_parameters(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter of an S-VNN estimator that cannot be."""
    check_training(estimator)
    if estimator.use not in ("covariance", "precision"):
        raise ValueError(f'use must be "covariance" or "precision", got {estimator.use!r}.')
    if estimator.resample not in RESAMPLE:
        raise ValueError(f"resample must be one of {RESAMPLE}, got {estimator.resample!r}.")
    check_covariance(estimator)


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
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f'device must be "auto" or a torch device such as "cpu" or "cuda", got {device!r}.') from error
    if picked.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f'device="{device}" is not available here; use device="auto".')
    return picked


def fits(device: torch.device, n_bytes: int) -> bool:
    """Say whether ``n_bytes`` take at most half of what is free on a GPU; main memory is not asked."""
    return device.type != "cuda" or n_bytes <= torch.cuda.mem_get_info(device)[0] // 2


def cuda_devices(device: torch.device) -> list[torch.device]:
    """Return the GPUs whose generators a seed on ``device`` would touch."""
    return [device] if device.type == "cuda" else []
