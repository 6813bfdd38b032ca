"""All that inspection, plots and reports read of a fitted model.

The rest of these rooms takes the values that these functions return: a change of how estimators keep their networks, or
of how members are combined, needs a change here only.
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

from svnn._types import DataLike, Matrix
from svnn.estimators._covariance_network import CovarianceNetwork, networks_of
from svnn.estimators._tasks import Classification, Regression
from svnn.functional._matrix import numpy_matrix
from svnn.operators import plain_matrix

#: Hidden values held at once, in double precision. What a pass keeps for its gradients is a few hundred megabytes.
_VALUES = 2**19


@dataclass(frozen=True)
class NetworkFunction:
    """What a model predicts, (t, m), for standardised signals (t, N, F), in double precision.

    ``labels`` are the names of the m outputs, None where a sample has one number only. ``unit`` is the size of a
    difference that counts, (m,): the standard deviation of the target, or 1 for probabilities and logits. It is None
    where the model was trained on unscaled targets. ``linear``: whether ``combine``, which makes the outputs from those
    of the members, is linear.
    """

    module: nn.Module
    device: torch.device
    shift: Any
    combine: Callable[[Tensor], Tensor]
    labels: np.ndarray | None
    unit: np.ndarray | None
    linear: bool

    @property
    def networks(self) -> list[Any]:
        """The members that are networks."""
        return list(networks_of(self.module))

    def __call__(self, x: Tensor, shift: Any = None) -> Tensor:
        """Return the outputs for a tensor of signals, on the model's shift unless another one is given."""
        module: Any = self.module
        shift = self.shift if shift is None else shift
        members = module.outputs(x, shift) if hasattr(module, "outputs") else module(x, shift)[None]
        return self.combine(members)

    def values(self, Z: np.ndarray) -> np.ndarray:
        """Return the outputs for an array of signals, some rows at a time."""
        with torch.no_grad():
            parts = [self(part) for part in self.tensor(Z).split(self.rows_at_once(Z.shape[1]))]
        return torch.cat(parts).cpu().numpy()

    def tensor(self, Z: np.ndarray) -> Tensor:
        """Return an array as a tensor of double precision on the device of the network."""
        return torch.as_tensor(Z, dtype=torch.float64, device=self.device)

    def rows_at_once(self, n_nodes: int) -> int:
        """Return how many rows fit in one pass."""
        module: Any = self.module
        return max(1, _VALUES // (n_nodes * int(module.widest)))

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Return (…, m) values without their last axis where there is one number per sample."""
        return values if self.labels is not None else values[..., 0]


def check_model(model: Any, purpose: str = "svnn.inspection") -> None:
    """Raise an error unless ``model`` is a fitted covariance network with one covariance for all rows."""
    if not isinstance(model, CovarianceNetwork):
        hint = "; give its last step, and X as that step gets it" if hasattr(model, "steps") else ""
        raise TypeError(f"model must be a fitted SVNNRegressor or SVNNClassifier, got {type(model).__name__}{hint}.")
    check_is_fitted(model)
    model._of_one_covariance(purpose)


def network_function(model: CovarianceNetwork, class_: Any = None, logit: bool = False) -> NetworkFunction:
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
        return NetworkFunction(
            module,
            device,
            model.operator_,
            lambda members: torch.tensordot(weights, members, 1) * scale + mean,
            np.arange(shape[0]) if shape else None,
            np.asarray(units.scale) if model._as_trained("standardize") else None,
            linear=True,
        )
    assert isinstance(model, Classification)
    classes: np.ndarray = model.classes_
    chosen = slice(None) if class_ is None else _class_index(class_, classes)

    def combine(members: Tensor) -> Tensor:
        if not logit:
            return torch.tensordot(weights, members.softmax(-1), 1)[:, chosen]
        logits = torch.tensordot(weights, members, 1)
        # A number added to all logits changes nothing, so their mean is set to zero.
        return (logits - logits.mean(-1, keepdim=True))[:, chosen]

    labels = classes if class_ is None else None
    return NetworkFunction(module, device, model.operator_, combine, labels, np.ones(()), linear=logit)


def _class_index(class_: Any, classes: np.ndarray) -> slice:
    index = np.flatnonzero(classes == class_)
    if len(index) != 1:
        raise ValueError(f"class_={class_!r} is none of the classes of the model: {classes.tolist()}.")
    return slice(int(index[0]), int(index[0]) + 1)


def signals_of(model: CovarianceNetwork, X: DataLike) -> np.ndarray:
    """Return checked data as signals (t, N, F), in the units of ``X``."""
    return np.asarray(model._signals(X))


def standardised(model: CovarianceNetwork, X: DataLike) -> np.ndarray:
    """Return data as the network gets it: (t, N, F), in units of the training data's standard deviations."""
    return check_finite(np.asarray(model._standardizer(model._signals(X)), dtype=np.float64))


def standardised_baseline(model: CovarianceNetwork, baseline: np.ndarray) -> np.ndarray:
    """Return a sample (N, F) as the network gets it."""
    return np.asarray(model._standardizer(baseline), dtype=np.float64)


def check_finite(values: np.ndarray) -> np.ndarray:
    """Return values that were computed from ``X``, or raise an error where one is not finite."""
    if not np.isfinite(values).all():
        raise ValueError("X holds values too far from those of the training data to compute with.")
    return values


def trained_use(model: CovarianceNetwork) -> str:
    """Return what the filters are polynomials of: "covariance", "log" or "precision"."""
    return str(model._as_trained("use"))


def graph_matrix(model: CovarianceNetwork) -> Matrix:
    """Return the matrix whose entries are the edges of the model: its covariance, or precision where it uses that."""
    if trained_use(model) == "precision" and model.covariance_estimator_ is not None:
        return numpy_matrix(model.covariance_estimator_.precision_, "precision_")  # type: ignore[attr-defined]
    return model.covariance_


def scaled_shift(model: CovarianceNetwork) -> tuple[Matrix, float]:
    """Return the matrix that the filters shift by, in double precision, and the number that it was divided by."""
    return plain_matrix(model.operator_).astype(np.float64), float(model.operator_.scale or 1.0)


def scaled_covariance(model: CovarianceNetwork) -> tuple[np.ndarray, float]:
    """Return the dense covariance divided by the number of the training, and that number."""
    C = model.covariance_
    return np.asarray(C if isinstance(C, np.ndarray) else C.toarray(), dtype=np.float64) / model._scale, model._scale


def n_networks(model: CovarianceNetwork) -> int:
    """Return the number of networks that were trained."""
    return int(model._n_members)


def predicts_std(model: CovarianceNetwork) -> bool:
    """Return whether ``predict`` of a regressor can return standard deviations."""
    return getattr(model, "_noise", None) is not None or model._n_members > 1


def feature_names(model: CovarianceNetwork) -> np.ndarray:
    """Return the names of the features: those of the training table, or x0, x1, …"""
    given = getattr(model, "feature_names_in_", None)
    if given is not None:
        return np.asarray(given, dtype=object)
    return np.array([f"x{i}" for i in range(model.n_features_in_)], dtype=object)


def feature_index(feature: Any, names: np.ndarray, argument: str) -> int:
    """Return the column of a feature that is given by its number or by its name."""
    if isinstance(feature, (int, np.integer)):
        if 0 <= feature < len(names):
            return int(feature)
        raise ValueError(f"{argument} holds the column {feature}, but there are {len(names)} features.")
    index = np.flatnonzero(names == feature)
    if len(index) != 1:
        raise ValueError(f"{argument} holds {feature!r}, which is not the name of a feature, such as {names[0]!r}.")
    return int(index[0])
