"""Training: the loop, the ways to take its steps, and what they ask of torch."""

from svnn.estimators.training._compiled_trainer import CompiledTrainer, has_kernel
from svnn.estimators.training._graph_trainer import GraphTrainer
from svnn.estimators.training._loop import (
    LOSSES,
    SCHEDULES,
    Callback,
    Course,
    Trainer,
    batch_ends,
    batch_rows,
    constant,
    epochs,
    train,
)
from svnn.estimators.training._module_trainer import Batch, ModuleTrainer, Optimiser, Shifts, Validation
from svnn.estimators.training._recorded import Recorded
from svnn.estimators.training._stacked_networks import Plan, StackedTrainer
from svnn.estimators.training._teams import Teams
from svnn.estimators.training._torch_modes import draw_weights, fits, pick_device, plain_torch

__all__ = [
    "LOSSES",
    "SCHEDULES",
    "Batch",
    "Callback",
    "CompiledTrainer",
    "Course",
    "GraphTrainer",
    "ModuleTrainer",
    "Optimiser",
    "Plan",
    "Recorded",
    "Shifts",
    "StackedTrainer",
    "Teams",
    "Trainer",
    "Validation",
    "batch_ends",
    "batch_rows",
    "constant",
    "draw_weights",
    "epochs",
    "fits",
    "has_kernel",
    "pick_device",
    "plain_torch",
    "train",
]
