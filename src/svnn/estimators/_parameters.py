"""Checks of the estimators' parameters: what is wrong, and the way out."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import torch

RESAMPLE = ("fixed", "epoch", "forward", "shift")


def check_parameters(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter that cannot be."""
    positive: dict[str, Any] = {"lr": estimator.lr, "max_epochs": estimator.max_epochs, "patience": estimator.patience}
    for name, value in positive.items():
        if not isinstance(value, Real) or not float(value) > 0:
            raise ValueError(f"{name} must be a positive number, got {value!r}.")
    if estimator.batch_size is not None and (
        not isinstance(estimator.batch_size, Integral) or estimator.batch_size < 1
    ):
        raise ValueError(f"batch_size must be None or a positive integer, got {estimator.batch_size!r}.")
    if not 0 <= estimator.validation_fraction < 1:
        raise ValueError(f"validation_fraction must be in [0, 1), got {estimator.validation_fraction!r}.")
    if not 0 <= estimator.averaging < 1:
        raise ValueError(f"averaging must be in [0, 1), got {estimator.averaging!r}.")
    if estimator.weight_decay < 0:
        raise ValueError(f"weight_decay must not be negative, got {estimator.weight_decay!r}.")
    if estimator.use not in ("covariance", "precision"):
        raise ValueError(f'use must be "covariance" or "precision", got {estimator.use!r}.')
    if estimator.resample not in RESAMPLE:
        raise ValueError(f"resample must be one of {RESAMPLE}, got {estimator.resample!r}.")
    precomputed = isinstance(estimator.covariance, str) and estimator.covariance == "precomputed"
    if precomputed and estimator.shift is None:
        raise ValueError('covariance="precomputed" needs the matrix as shift=.')
    if not precomputed and estimator.shift is not None:
        raise ValueError('shift= is used with covariance="precomputed" only; drop it or set covariance.')


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
