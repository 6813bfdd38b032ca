"""A fitted model as a function of standardised signals that can be differentiated.

This is all that the package knows about networks: a change of how members are combined needs a change here only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from svnn._types import DataLike
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators._tasks import Classification, Regression

#: Hidden values held at once, in double precision. What a pass keeps for its gradients is a few hundred megabytes.
_VALUES = 2**19


@dataclass(frozen=True)
class Outputs:
    """What a model predicts, (t, m), for standardised signals (t, N, F), in double precision.

    ``labels`` are the names of the m outputs, None where a sample has one number only. ``unit`` is the size of a
    difference that counts, (m,): the standard deviation of the target, or 1 for probabilities and logits. It is None
    where the model was trained on targets as they are. ``linear`` says that ``combined``, which makes the outputs from
    those of the members, is linear.
    """

    module: nn.Module
    shift: Any
    combined: Callable[[Tensor], Tensor]
    labels: np.ndarray | None
    unit: np.ndarray | None
    linear: bool

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.module.parameters()).device

    def __call__(self, x: Tensor, shift: Any = None) -> Tensor:
        """Return the outputs for a tensor of signals, on the model's own shift unless another one is given."""
        module: Any = self.module
        own = self.shift if shift is None else shift
        members = module.outputs(x, own) if hasattr(module, "outputs") else module(x, own)[None]
        return self.combined(members)

    def values(self, Z: np.ndarray) -> np.ndarray:
        """Return the outputs for an array of signals, some rows at a time."""
        with torch.no_grad():
            parts = [self(part) for part in self.tensor(Z).split(self.rows(Z.shape[1]))]
        return torch.cat(parts).cpu().numpy()

    def tensor(self, Z: np.ndarray) -> Tensor:
        """Return signals as the network takes them."""
        return torch.as_tensor(Z, dtype=torch.float64, device=self.device)

    def rows(self, n_nodes: int) -> int:
        """Return how many rows to work on at once."""
        module: Any = self.module
        return max(1, _VALUES // (n_nodes * int(module.widest)))

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Return (…, m) values without their last axis where there is one number per sample."""
        return values if self.labels is not None else values[..., 0]


def check_model(model: Any) -> None:
    """Raise an error unless ``model`` is a fitted covariance network."""
    if not isinstance(model, CovarianceNetwork):
        hint = "; give its last step, and X as that step gets it" if hasattr(model, "steps") else ""
        raise TypeError(f"model must be a SVNNRegressor or SVNNClassifier, got {type(model).__name__}{hint}.")
    check_is_fitted(model)
    model._of_one_covariance("svnn.inspection")


def outputs_of(model: CovarianceNetwork, class_: Any = None, logit: bool = False) -> Outputs:
    """Return what a checked model predicts; of a classifier the outputs of all classes or of one."""
    module: Any = copy.deepcopy(model.module_).double().eval()
    device = next(module.parameters()).device
    weights = getattr(module, "weights", torch.ones(1, dtype=torch.float64, device=device))
    if isinstance(model, Regression):
        if class_ is not None or logit:
            name = "class_" if class_ is not None else "logit"
            raise ValueError(f"{name} is for classifiers only, and model is a {type(model).__name__}; drop it.")
        units = model._target_standardizer
        mean, scale = (torch.as_tensor(v, dtype=torch.float64, device=device) for v in (units.mean, units.scale))
        shape = model._targets.shape  # type: ignore[union-attr]
        return Outputs(
            module,
            model.operator_,
            lambda members: torch.tensordot(weights, members, 1) * scale + mean,
            np.arange(shape[0]) if shape else None,
            np.asarray(units.scale) if model._as_trained("standardize") else None,
            linear=True,
        )
    assert isinstance(model, Classification)
    classes: np.ndarray = model.classes_
    kept = slice(None) if class_ is None else _place(class_, classes)

    def combined(members: Tensor) -> Tensor:
        if not logit:
            return torch.tensordot(weights, members.softmax(-1), 1)[:, kept]
        logits = torch.tensordot(
            weights, members, 1
        )  # a number added to all of them changes nothing: their mean is made zero
        return (logits - logits.mean(-1, keepdim=True))[:, kept]

    return Outputs(module, model.operator_, combined, classes if class_ is None else None, np.ones(()), linear=logit)


def _place(class_: Any, classes: np.ndarray) -> slice:
    found = np.flatnonzero(classes == class_)
    if len(found) != 1:
        raise ValueError(f"class_={class_!r} is none of the classes of the model: {classes.tolist()}.")
    return slice(int(found[0]), int(found[0]) + 1)


def standardised(model: CovarianceNetwork, X: DataLike) -> np.ndarray:
    """Return data as the network gets it: (t, N, F), in units of the training data's standard deviations."""
    return finite(np.asarray(model._standardizer(model._signals(X)), dtype=np.float64))


def finite(values: np.ndarray) -> np.ndarray:
    """Return what was made of ``X``, or raise an error where that is no number."""
    if not np.isfinite(values).all():
        raise ValueError("X holds values too far from those of the training data to compute with.")
    return values


def feature_names(model: CovarianceNetwork) -> np.ndarray:
    """Return the names of the features: those of the training table, or x0, x1, …"""
    given = getattr(model, "feature_names_in_", None)
    if given is not None:
        return np.asarray(given, dtype=object)
    return np.array([f"x{i}" for i in range(model.n_features_in_)], dtype=object)


def feature_place(feature: Any, names: np.ndarray, argument: str) -> int:
    """Return the column of a feature that is given by its number or by its name."""
    if isinstance(feature, (int, np.integer)):
        if 0 <= feature < len(names):
            return int(feature)
        raise ValueError(f"{argument} holds the column {feature}, but there are {len(names)} features.")
    found = np.flatnonzero(names == feature)
    if len(found) != 1:
        raise ValueError(f"{argument} holds {feature!r}, which is not the name of a feature, such as {names[0]!r}.")
    return int(found[0])
