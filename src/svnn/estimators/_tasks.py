"""What networks predict: numbers, or labels."""

from __future__ import annotations

from typing import cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from torch import Tensor, nn

from svnn._parameters import declared, one_of, parameter
from svnn._types import DataLike
from svnn.estimators._blend import softmax
from svnn.estimators._network_estimator import NetworkEstimator
from svnn.estimators._shared_parameters import ClassWeight
from svnn.estimators._training_data import LabelTargets, NumberTargets, Standardizer
from svnn.estimators.training import LOSSES


@declared
class Regression(RegressorMixin, NetworkEstimator):
    """A network for one or more numbers per sample."""

    loss: str = parameter(
        default="huber",
        rule=one_of(*LOSSES),
        doc="""What is minimised, on the scale of the standardised targets (their own scale with
        ``standardize=False``). "huber" is squared up to 0.5 and absolute beyond: outliers weigh less, small errors are
        treated as the squared loss treats them.""",
    )
    _target_kind = NumberTargets

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return LOSSES[self.loss](output, y).mean(-1)

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``."""
        output = self._output(X)
        return self._targets.decode(self._mean(output))

    @property
    def _target_standardizer(self) -> Standardizer:
        """The scale of the targets in training."""
        return cast(NumberTargets, self._targets).standardizer


@declared
class Classification(ClassWeight, ClassifierMixin, NetworkEstimator):
    """A network for labels, trained on the cross-entropy."""

    _target_kind = LabelTargets

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, y, reduction="none")

    def predict_proba(self, X: DataLike) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``."""
        return self._mean(softmax(self._output(X)))

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the most probable label of every row."""
        probabilities = self.predict_proba(X)
        return self._targets.decode(probabilities)
