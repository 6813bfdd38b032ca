"""All that inspection, stability, plots and reports read of a fitted model.

A model is an S-VNN or a blend. The rest of these rooms takes the values that these functions return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from svnn._types import DataLike, Matrix
from svnn.estimators import BlendClassifier, BlendRegressor
from svnn.estimators._base import BaseSVNN, check_one_covariance
from svnn.estimators._data import check_signals
from svnn.estimators._linear import LinearClassifier, LinearFitted, LinearRegressor
from svnn.estimators._units import Standardizer
from svnn.functional._matrix import numpy_matrix
from svnn.nn._powers import Powers
from svnn.nn._stacked import StackedNetworks
from svnn.operators import CovarianceOperator

#: A fitted S-VNN, or a blend.
Model: TypeAlias = BaseSVNN | BlendRegressor | BlendClassifier
BLENDS = BlendRegressor, BlendClassifier
_KNOWN = BaseSVNN, LinearRegressor, LinearClassifier

#: Hidden values held at once, in double precision. What a pass keeps for its gradients is a few hundred megabytes.
_VALUES = 2**19


def check_model(model: Any, purpose: str = "svnn.inspection") -> None:
    """Raise an error unless ``model`` is a fitted S-VNN or blend with one covariance for all rows."""
    if not isinstance(model, (BaseSVNN, *BLENDS)):
        hint = "; give its last step, and X as that step gets it" if hasattr(model, "steps") else ""
        raise TypeError(f"model must be a fitted S-VNN or a blend, got {type(model).__name__}{hint}.")
    check_is_fitted(model)
    for _, part in model_parts(model).values():
        if isinstance(part, BaseSVNN):
            check_one_covariance(part, purpose)


def model_parts(model: Model) -> dict[str, tuple[float, Any]]:
    """Return the parts of a model by their names, each with its weight; an S-VNN is its only part."""
    if isinstance(model, BaseSVNN):
        return {"": (1.0, model)}
    return {name: (model.blend_[name], part) for name, part in model.parts_.items()}


def network_part(model: Model) -> tuple[float, BaseSVNN]:
    """Return the S-VNN that uses the covariance, with its weight: the model itself, or a part of the blend."""
    parts = model_parts(model)
    networks = [name for name, (_, part) in parts.items() if isinstance(part, BaseSVNN)]
    if not networks:
        raise ValueError(f"none of the parts of the {type(model).__name__} is an S-VNN: {', '.join(parts)}.")
    with_edges = None if isinstance(model, BaseSVNN) else model.network_part
    return parts[networks[0] if with_edges is None else with_edges]


def network_of(model: Any) -> Any:
    """Return the S-VNN of a blend that uses the covariance; any other model is one itself."""
    return network_part(model)[1] if isinstance(model, BLENDS) else model


def trained_use(model: Model) -> str:
    """Return what the filters are polynomials of: "covariance", "log" or "precision"."""
    return network_part(model)[1].shift_.use


def graph_matrix(model: Model) -> Matrix:
    """Return the matrix whose entries are the edges of the model: its covariance, or precision where it uses that."""
    shift = network_part(model)[1].shift_
    if shift.use == "precision" and shift.estimator is not None:
        return numpy_matrix(shift.estimator.precision_, "precision_")  # type: ignore[attr-defined]
    return shift.covariance


def n_networks(model: Model) -> int:
    """Return the number of networks that were trained."""
    return sum(len(part.fitted_.networks) for _, part in model_parts(model).values() if isinstance(part, BaseSVNN))


def predicts_std(model: Model) -> bool:
    """Return whether ``predict`` of a regressor can return standard deviations."""
    networks = [part for weight, part in model_parts(model).values() if weight and isinstance(part, BaseSVNN)]
    return model.fitted_.noise is not None or any(len(part.fitted_.networks) > 1 for part in networks)


def feature_names(model: Model) -> np.ndarray:
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


# -- data -------------------------------------------------------------------------------------------


def signals_of(model: Model, X: DataLike) -> np.ndarray:
    """Return checked data as signals (t, N, F), in the units of ``X``."""
    shape, known = np.shape(X), (part for _, part in model_parts(model).values() if isinstance(part, _KNOWN))
    n_values = next((part.fitted_.n_values for part in known), shape[2] if len(shape) > 2 else 1)
    return check_signals(model, X, n_values)


def standardised(model: Model, X: DataLike) -> np.ndarray:
    """Return data as the S-VNN of a model gets them: (t, N, F), in standard deviations of the training data."""
    return check_finite(np.asarray(units_of(model)(signals_of(model, X)), dtype=np.float64))


def units_of(model: Model) -> Standardizer:
    """Return the units in which a model is inspected: those of its S-VNN with edges, or else of its first part."""
    parts = [part for _, part in model_parts(model).values() if isinstance(part, _KNOWN)]
    networks = any(isinstance(part, BaseSVNN) for part in parts)
    standardizer: Standardizer = (network_part(model)[1] if networks else parts[0]).fitted_.standardizer
    return standardizer


def check_finite(values: np.ndarray) -> np.ndarray:
    """Return values that were computed from ``X``, or raise an error where one is not finite."""
    if not np.isfinite(values).all():
        raise ValueError("X holds values too far from those of the training data to compute with.")
    return values


# -- predictions as functions -----------------------------------------------------------------------


class LinearMap(nn.Module):
    """A linear model of standardised signals, called as :class:`~svnn.nn._stacked.StackedNetworks`."""

    filters = head = ()
    weight: Tensor
    bias: Tensor

    def __init__(self, fitted: LinearFitted) -> None:
        super().__init__()
        self.register_buffer("weight", torch.as_tensor(fitted.weight.T, dtype=torch.float64))
        self.register_buffer("bias", torch.as_tensor(fitted.bias, dtype=torch.float64))
        self.widest = fitted.n_values

    def forward(self, x: Tensor, own: CovarianceOperator | None = None) -> Tensor:
        return (x.flatten(1) @ self.weight + self.bias)[None]


@dataclass(frozen=True)
class PartFunction:
    """The predictions (t, m) of an S-VNN or a linear model, for standardised signals (t, N, F), in double precision.

    Attributes
    ----------
    networks : StackedNetworks or LinearMap
    combine : function
        Makes predictions from the outputs (members, t, n_outputs) of the networks.
    labels : ndarray of shape (m,) or None
        The names of the outputs; None where a sample has one number only.
    unit : ndarray of shape (m,) or None
        The size of a difference that counts: the standard deviation of the target, or 1 for probabilities and logits.
        None where the part was trained on unscaled targets.
    is_linear : bool
        Whether predictions are linear in the outputs of the networks.
    """

    networks: Any
    combine: Callable[[Tensor], Tensor]
    labels: np.ndarray | None
    unit: np.ndarray | None
    is_linear: bool

    def __call__(self, x: Tensor, shift: CovarianceOperator | None = None) -> Tensor:
        """Return the predictions for a tensor of signals, on the shift of the part unless another one is given."""
        return self.combine(self.networks(x, shift))

    def values(self, Z: np.ndarray) -> np.ndarray:
        """Return the predictions for an array of signals, some rows at a time."""
        with torch.no_grad():
            parts = [self(part) for part in self.tensor(Z).split(self.rows_at_once(Z.shape[1]))]
        return torch.cat(parts).cpu().numpy()

    def tensor(self, Z: Any) -> Tensor:
        """Return an array as a tensor of double precision on the device of the networks."""
        return torch.as_tensor(Z, dtype=torch.float64, device=next(self.networks.buffers()).device)

    def rows_at_once(self, n_nodes: int) -> int:
        """Return how many rows fit in one pass."""
        return max(1, _VALUES // (n_nodes * self.networks.widest))

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Return (…, m) values without their last axis where there is one number per sample."""
        return values if self.labels is not None else values[..., 0]


def part_functions(
    model: Model, class_: Any = None, logit: bool = False
) -> list[tuple[float, Standardizer, PartFunction]]:
    """Return the parts of a checked model that count as functions, each with its weight and the units of its signals.

    The outputs of a classifier are those of all classes, or of one.
    """
    targets = model.fitted_.targets
    if not targets.are_labels and (class_ is not None or logit):
        name = "class_" if class_ is not None else "logit"
        raise ValueError(f"{name} is for classifiers only, and model is a {type(model).__name__}; drop it.")
    found = []
    for name, (weight, part) in model_parts(model).items():
        if weight > 0 and not isinstance(part, _KNOWN):
            raise ValueError(
                f"part {name!r} ({type(part).__name__}) cannot be split into contributions. Inspect a part alone, such "
                'as model.parts_["with edges"], or use grouped_permutation_importance, which works for any.'
            )
        if weight > 0:
            found.append((weight, part.fitted_.standardizer, part_function(part, class_, logit)))
    return found


def part_function(part: Any, class_: Any = None, logit: bool = False) -> PartFunction:
    """Return an S-VNN or a linear model as a function."""
    fitted = part.fitted_
    targets = fitted.targets
    if isinstance(part, BaseSVNN):
        networks: Any = StackedNetworks(fitted.networks, Powers(part.operator_, fitted.networks[0].order))
    else:
        networks = LinearMap(fitted)
    if not targets.are_labels:
        units, labels = targets.standardizer, np.arange(targets.n_outputs) if targets.shape else None
        mean, scale = (
            torch.as_tensor(each, device=next(networks.buffers()).device) for each in (units.mean, units.scale)
        )
        unit = np.asarray(units.scale) if getattr(fitted, "standardize", True) else None
        return PartFunction(networks, lambda outputs: outputs.mean(0) * scale + mean, labels, unit, True)
    chosen = slice(None) if class_ is None else _class_index(class_, targets.classes)

    def combine(outputs: Tensor) -> Tensor:
        if not logit:
            return outputs.softmax(-1).mean(0)[:, chosen]
        logits = outputs.mean(0)
        # A number added to all logits changes nothing, so their mean is set to zero.
        return (logits - logits.mean(-1, keepdim=True))[:, chosen]

    return PartFunction(networks, combine, targets.classes if class_ is None else None, np.ones(()), logit)


def _class_index(class_: Any, classes: np.ndarray) -> slice:
    index = np.flatnonzero(classes == class_)
    if len(index) != 1:
        raise ValueError(f"class_={class_!r} is none of the classes of the model: {classes.tolist()}.")
    return slice(int(index[0]), int(index[0]) + 1)
