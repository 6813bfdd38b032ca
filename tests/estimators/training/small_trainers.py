"""Small networks and the ways to train them, for tests of what these have in common."""

from __future__ import annotations

import pytest
import torch

from svnn import as_operator
from svnn._compiled import load
from svnn.estimators.training import LOSSES, Batch, CompiledTrainer, ModuleTrainer, Optimiser, Plan, Shifts
from svnn.nn import SVNN
from svnn.nn._shifted import PowerSignals

KERNELS = "svnn.estimators.training._member_kernels"
needs_numba = pytest.mark.skipif(load(KERNELS) is None, reason="numba is switched off or not installed")


def network(n=5, **options):
    options = {"hidden": (4,), "order": 1, "readout": "weighted", "batch_norm": False, "mlp": (3,)} | options
    return SVNN(1, 2, n_nodes=n, heads=2 if options["readout"] == "weighted" else 1, **options)


def trainer(kind, x, loss="huber", noise=0, **options):
    """Two networks on signals (t, N, 1), of which they hold some out."""
    torch.manual_seed(0)
    networks = [network(x.shape[1], **options) for _ in range(2)]
    shift = as_operator(torch.eye(x.shape[1])).normalized()
    signals = PowerSignals.from_shift(x, shift, 1)
    signals.scale = shift.scale
    codes = torch.arange(len(x)) % 2
    y = codes if loss == "cross_entropy" else torch.stack([x[:, 0, 0].sin(), x[:, 1, 0]], 1).nan_to_num(0, 0, 0)

    def losses(output, target):
        if loss == "cross_entropy":
            return torch.nn.functional.cross_entropy(output, target, reduction="none")
        return LOSSES[loss](output, target).mean(-1)

    data = Batch(signals, y, torch.ones(len(x)))
    validation = data[:6]
    data.weight = (torch.arange(len(x)) >= 6).float()
    draws = [torch.Generator().manual_seed(noise + member) for member in range(2)]
    rest = losses, data, validation
    optimiser = Optimiser(weight_decay=1e-3, averaging=0.9)
    if kind is ModuleTrainer:
        return kind(networks, *rest, Shifts(shift), optimiser, draws)
    made = kind(networks, Plan.of(networks[0], x.shape[1]), *rest, optimiser, draws)
    return made.prepare(loss) if kind is CompiledTrainer else made
