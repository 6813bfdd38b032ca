"""Rules for the parameters of networks; the classes that have them write out names, defaults and documentation."""

from __future__ import annotations

from svnn._parameters import (
    Rule,
    anything,
    boolean,
    callables,
    class_weights,
    either,
    integer,
    number,
    one_of,
    seed,
    sizes,
)
from svnn.estimators.training import LOSSES, SCHEDULES
from svnn.nn._layers import ACTIVATIONS
from svnn.nn._readout import READOUTS

#: Of every training.
TRAINING: dict[str, Rule] = {
    "standardize": boolean(),
    "lr": number(above=True),
    "weight_decay": number(),
    "max_epochs": either(integer(1), "auto"),
    "patience": either(integer(1), None),
    "batch_size": either(integer(1), "auto", None),
    "validation_fraction": number(0, 1),
    "device": anything("str"),
    "random_state": seed(),
    "verbose": boolean()._replace(kind="int"),
    "callbacks": callables(),
}
#: Of every network of layers.
LAYERS: dict[str, Rule] = {"hidden": sizes(least=1), "dropout": number(0, 1), "batch_norm": boolean()}
#: Of S-VNNs.
_SVNN: dict[str, Rule] = {
    "covariance": anything("name, estimator or matrix"),
    "use": one_of("auto", "covariance", "log", "precision"),
    "order": either(integer(0), "auto"),
    "members": integer(1),
    "activation": one_of(*ACTIVATIONS),
    "readout": one_of(*READOUTS),
    "heads": either(integer(1), "auto"),
    "mlp": sizes(),
    "node_dropout": number(0, 1),
    "resample": one_of("fixed", "epoch", "forward", "shift"),
    "covariance_per": one_of("table", "sample", "group"),
    "shrink": boolean(),
    "schedule": one_of(*SCHEDULES),
    "warm_start": boolean(),
    **LAYERS,
    **TRAINING,
}
SVNN_REGRESSOR: dict[str, Rule] = {**_SVNN, "loss": one_of(*LOSSES)}
SVNN_CLASSIFIER: dict[str, Rule] = {**_SVNN, "class_weight": class_weights()}
