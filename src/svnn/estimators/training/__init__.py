"""Training: the loop, the ways to take its steps, and what they ask of torch."""

from svnn.estimators.training._compiled_trainer import CompiledTrainer, has_kernel
from svnn.estimators.training._graph_trainer import GraphTrainer
from svnn.estimators.training._group import Recorded, TrainerGroup
from svnn.estimators.training._loop import (
    LOSSES,
    SCHEDULES,
    Callback,
    Course,
    Loss,
    Run,
    StatefulCallback,
    Trainer,
    Training,
    train,
)
from svnn.estimators.training._module_trainer import Batch, ModuleTrainer, Optimiser, Shifts
from svnn.estimators.training._stacked_networks import Plan, StackedTrainer
from svnn.estimators.training._torch_modes import (
    draw_weights,
    fits,
    new_network,
    noise_generators,
    pick_device,
    plain_torch,
)

__all__ = [
    "LOSSES",
    "SCHEDULES",
    "Batch",
    "Callback",
    "CompiledTrainer",
    "Course",
    "GraphTrainer",
    "Loss",
    "ModuleTrainer",
    "Optimiser",
    "Plan",
    "Recorded",
    "Run",
    "Shifts",
    "StackedTrainer",
    "StatefulCallback",
    "Trainer",
    "TrainerGroup",
    "Training",
    "draw_weights",
    "fits",
    "has_kernel",
    "new_network",
    "noise_generators",
    "pick_device",
    "plain_torch",
    "train",
]
