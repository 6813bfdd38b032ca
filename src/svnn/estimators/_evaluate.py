"""Prediction in double precision (temporary)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from svnn.nn import Members


def networks_of(module: Any) -> Any:
    return module.networks if isinstance(module, Members) else [module]


def evaluate(module: Any, shift: Any, Z: np.ndarray, matrices: Any = None, embed: bool = False) -> np.ndarray:
    module = copy.deepcopy(module).double().eval()
    x = torch.as_tensor(Z, dtype=torch.float64)
    op = shift.operator if matrices is None else matrices.operator(shift.scale, x.dtype, x.device)
    with torch.no_grad():
        if embed:
            return module.embed(x, op).numpy()
        return (module.outputs(x, op) if isinstance(module, Members) else module(x, op)[None]).numpy()
