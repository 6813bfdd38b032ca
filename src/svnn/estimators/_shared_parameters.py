"""Groups of parameters and attributes that several estimators share: each is declared here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from svnn._parameters import (
    anything,
    boolean,
    callables,
    class_weights,
    declared,
    either,
    fitted,
    integer,
    number,
    one_of,
    parameter,
    seed,
    sizes,
)
from svnn._types import RandomState
from svnn.estimators.training import SCHEDULES, Callback
from svnn.nn._layers import ACTIVATIONS
from svnn.nn._readout import READOUTS


@declared
class SeenFeatures:
    """The attributes in which scikit-learn notes the features that ``fit`` saw."""

    n_features_in_: int = fitted(kind="int", doc="Number of features, N.")
    feature_names_in_: np.ndarray = fitted(
        kind="ndarray of shape (N,)", doc="Names of the features, where X has named columns."
    )


@declared
class TrainingParameters:
    """The parameters that every network has."""

    hidden: Sequence[int] = parameter(
        default=(32,),
        rule=sizes(least=1),
        doc="Values per node after each layer; its length is the number of layers.",
    )
    activation: str = parameter(
        default="leaky_relu",
        rule=one_of(*ACTIVATIONS),
        doc="The function that is applied to the values after each layer.",
    )
    dropout: float = parameter(
        default=0.0,
        rule=number(0, 1),
        doc="Share of the values after each layer that are set to zero at random during training.",
    )
    batch_norm: bool = parameter(
        default=True,
        rule=boolean(),
        doc="Whether the values after each layer are normalised over the batch, as batch normalisation does.",
    )
    standardize: bool = parameter(
        default=True,
        rule=boolean(),
        doc="""Whether every feature, and every target of a regressor, gets mean 0 and standard deviation 1 in the
        training rows.""",
    )
    lr: float = parameter(default=0.01, rule=number(above=True), doc="Learning rate of Adam.")
    weight_decay: float = parameter(
        default=1e-5, rule=number(), doc="Strength of the penalty on the squares of the weights, as Adam applies it."
    )
    schedule: str = parameter(
        default="constant",
        rule=one_of(*SCHEDULES),
        doc="""How the learning rate changes. "one_cycle" rises to ``lr`` in the first third of the epochs and then
        falls to zero; "constant" stays.""",
    )
    max_epochs: int | str = parameter(
        default="auto",
        rule=either(integer(1), "auto"),
        doc="""The most epochs to train for. "auto" is 1000 with a constant learning rate. With one cycle it is 120,
        and down to 40 where an epoch has many batches or there are many features.""",
    )
    patience: int | None = parameter(
        default=100,
        rule=either(integer(1), None),
        doc="""Stop after so many epochs without a better validation loss; None goes on to the last epoch. The best
        weights are kept.""",
    )
    tol: float = parameter(
        default=0.0,
        rule=number(),
        doc="""How much the validation loss has to fall to count as better. On separable classes it falls a little in
        every epoch; 1e-4 stops earlier there.""",
    )
    batch_size: int | str | None = parameter(
        default="auto",
        rule=either(integer(1), "auto", None),
        doc="""Rows of a gradient step. "auto" takes 64, or fewer (a power of two) where an epoch would have less than
        about four steps; None takes all rows at once.""",
    )
    averaging: float = parameter(
        default=0.99,
        rule=number(0, 1),
        doc="""Validate and predict with an exponential moving average of the weights, of this decay; it removes the
        noise of small batches. 0 uses the weights as they are.""",
    )
    validation_fraction: float = parameter(
        default=0.1,
        rule=number(0, 1),
        doc="""Share of the rows held out for early stopping where ``fit`` gets no ``validation_data``; 0 watches the
        training loss instead. Each of several members holds out other rows, at most half of them.""",
    )
    device: str = parameter(default="auto", rule=anything("str"), doc='"auto" is the GPU where there is one.')
    random_state: RandomState = parameter(
        default=None, rule=seed(), doc="Seed of the split, the weights, the batches and the realisations."
    )
    verbose: int = parameter(
        default=0,
        rule=boolean(),
        kind="int",
        doc="1 shows the progress: a bar on a terminal, lines in scripts and notebooks.",
    )
    callbacks: Sequence[Callback] = parameter(
        default=(),
        rule=callables(),
        doc="""Each is called after every epoch with a dict of ``epoch``, ``train_loss``, ``valid_loss`` and
        ``best_loss``; returning True stops the training.""",
    )
    checkpoint: str | os.PathLike[str] | None = parameter(
        default=None,
        rule=anything("str, path or None"),
        doc="""A file for the state of a long ``fit``, removed at its end. A ``fit`` with the same data and parameters
        that finds it goes on from there, with the result of one that was never interrupted; with others it is an error.
        It needs an integer as ``random_state``.""",
    )
    checkpoint_seconds: float = parameter(
        default=60.0, rule=number(), doc="The least time between two of them; 0 writes one after every epoch."
    )


@declared
class PooledNodes:
    """The parameters of networks that keep values of every node until the readout."""

    readout: str = parameter(
        default="weighted",
        rule=one_of(*READOUTS),
        doc="""How the nodes become one vector per sample. "weighted" learns weights of the nodes. "mean" averages over
        them, as the paper does: it cannot tell nodes apart and is usually less accurate, but transfers to another N.
        "flatten" feeds every node to the head.""",
    )
    heads: int | str = parameter(
        default="auto",
        rule=either(integer(1), "auto"),
        doc="""Number of weight vectors of the weighted readout. "auto" is one for each target, at least 4, or two for
        each class, at least 8; no more than 32.""",
    )
    mlp: Sequence[int] = parameter(
        default=(32,), rule=sizes(), doc="Hidden sizes of the head; empty for a linear head."
    )

    def _n_heads(self, n_outputs: int) -> int:
        """Return the number of weight vectors of a weighted readout."""
        return min(max(n_outputs, 4), 32) if self.heads == "auto" else int(self.heads)


@declared
class ClassWeight:
    """The parameter and the attribute that every classifier has."""

    class_weight: Mapping[Hashable, float] | str | None = parameter(
        default=None, rule=class_weights(), doc="Weights of the classes in the loss."
    )
    classes_: np.ndarray = fitted(kind="ndarray of shape (n_classes,)", doc="The labels, in order.")
