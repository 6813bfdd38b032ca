"""Predictions of fitted networks, in double precision: a row's result does not depend on the rows it comes with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from svnn.nn import SVNN, Members
from svnn.nn._powers import Powers
from svnn.nn._stacked import StackedNetworks

if TYPE_CHECKING:
    from svnn.estimators._per_sample import RowMatrices
    from svnn.estimators._shift import Shift

#: Hidden values held at once when predicting: a megabyte, which the C library has at hand (fresh memory is cleared page
#: by page, which takes longer than the prediction). For rows of many values it is up to eight times as much, which
#: sparse products make the best of; on a GPU 32 times.
_PREDICT_VALUES, _TOGETHER, _ON_GPU = 2**17, 8, 32


def networks_of(module: nn.Module) -> list[SVNN]:
    """Return the networks of a fitted module as a list."""
    if isinstance(module, Members):
        return module.networks
    assert isinstance(module, SVNN)
    return [module]


def evaluate(
    module: nn.Module, shift: Shift, Z: np.ndarray, matrices: RowMatrices | None = None, embed: bool = False
) -> np.ndarray:
    """Return the outputs of all networks, (members, t, n_outputs), for standardised signals (t, N, F).

    With ``embed``, return the embeddings of the nodes, (t, N, members * hidden[-1]). ``matrices`` are those of the
    rows, where they have their own.
    """
    networks = networks_of(module)
    stacked = StackedNetworks(networks, Powers(shift.operator, networks[0].order))
    device = next(module.parameters()).device
    x = torch.as_tensor(Z, dtype=torch.float64, device=device)
    # Where rows have their own matrices, more of them at once: those of one matrix are shifted together.
    values = x.shape[1] * (stacked.widest if matrices is None else networks[0].widest)
    most = _PREDICT_VALUES * (1 if device.type == "cpu" else _ON_GPU)
    rows = max(most // values, min(_TOGETHER, _TOGETHER * most // values), 1)
    run, parts = stacked.embed if embed else stacked, []
    with torch.no_grad():
        for start in range(0, len(x), rows):
            some = slice(start, start + rows)
            own = None if matrices is None else matrices[some].operator(shift.scale, x.dtype, device)
            parts.append(run(x[some], own))
    return torch.cat(parts, 0 if embed else 1).cpu().numpy()
