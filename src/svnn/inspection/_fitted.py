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
from torch import Tensor

from svnn._types import DataLike, Matrix
from svnn.estimators import BlendClassifier, BlendRegressor
from svnn.estimators._base import BaseSVNN, check_one_covariance
from svnn.estimators._data import check_signals
from svnn.estimators._linear import LinearClassifier, LinearFitted, LinearRegressor
from svnn.estimators._units import Standardizer
from svnn.functional._matrix import numpy_matrix
from svnn.nn import SVNN
from svnn.nn._powers import Powers
from svnn.nn._stacked import StackedNetworks
from svnn.operators import CovarianceOperator

#: A fitted S-VNN, or a blend.
Model: TypeAlias = BaseSVNN | BlendRegressor | BlendClassifier
BLENDS, LINEAR = (BlendRegressor, BlendClassifier), (LinearRegressor, LinearClassifier)

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
    n_values = next((part.fitted_.n_values for _, part in model_parts(model).values() if _is_known(part)), None)
    shape = np.shape(X)
    return check_signals(model, X, (shape[2] if len(shape) > 2 else 1) if n_values is None else n_values)


def standardised(model: Model, X: DataLike) -> np.ndarray:
    """Return data as the first of the networks gets them: (t, N, F), in standard deviations of the training data."""
    return check_finite(np.asarray(standardizer_of(model)(signals_of(model, X)), dtype=np.float64))


def standardizer_of(model: Model) -> Standardizer:
    """Return the units in which a model is inspected: those of its S-VNN with edges, or of its first part."""
    parts = [part for _, part in model_parts(model).values()]
    known = [part for part in parts if _is_known(part)]
    part = network_part(model)[1] if any(isinstance(part, BaseSVNN) for part in parts) else known[0]
    return part.fitted_.standardizer


def check_finite(values: np.ndarray) -> np.ndarray:
    """Return values that were computed from ``X``, or raise an error where one is not finite."""
    if not np.isfinite(values).all():
        raise ValueError("X holds values too far from those of the training data to compute with.")
    return values


def _is_known(part: Any) -> bool:
    return isinstance(part, (BaseSVNN, *LINEAR))


# -- predictions as functions -----------------------------------------------------------------------


@dataclass(frozen=True)
class PartFunction:
    """The weighted predictions (t, m) of a part of a model, for signals in the units of the model.

    ``combine`` makes predictions from the outputs of the ``networks``, (members, t, n_outputs). ``factor`` and
    ``offset`` turn signals into those in the units of the part.
    """

    networks: StackedNetworks
    combine: Callable[[Tensor], Tensor]
    weight: float
    factor: Tensor
    offset: Tensor

    def __call__(self, x: Tensor, shift: CovarianceOperator | None = None) -> Tensor:
        """Return the predictions on the shift of the part, unless another one is given."""
        return self.weight * self.combine(self.networks(x * self.factor + self.offset, shift))


@dataclass(frozen=True)
class ModelFunction:
    """The predictions of a model, (t, m), for standardised signals (t, N, F), in double precision.

    Attributes
    ----------
    parts : tuple of PartFunction
        The predictions are the sum of theirs.
    labels : ndarray of shape (m,) or None
        The names of the outputs; None where a sample has one number only.
    unit : ndarray of shape (m,) or None
        The size of a difference that counts: the standard deviation of the target, or 1 for probabilities and logits.
        None where the model was trained on unscaled targets.
    linear : bool
        Whether predictions are linear in the outputs of the networks.
    """

    parts: tuple[PartFunction, ...]
    labels: np.ndarray | None
    unit: np.ndarray | None
    linear: bool

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return self.parts[0].factor.device

    def __call__(self, x: Tensor, shift: CovarianceOperator | None = None) -> Tensor:
        """Return the predictions for a tensor of signals, on the shift of each part unless another one is given."""
        return torch.stack([part(x, shift) for part in self.parts]).sum(0)

    def values(self, Z: np.ndarray) -> np.ndarray:
        """Return the predictions for an array of signals, some rows at a time."""
        with torch.no_grad():
            parts = [self(part) for part in self.tensor(Z).split(self.rows_at_once(Z.shape[1]))]
        return torch.cat(parts).cpu().numpy()

    def tensor(self, Z: np.ndarray) -> Tensor:
        """Return an array as a tensor of double precision on the device of the networks."""
        return torch.as_tensor(Z, dtype=torch.float64, device=self.device)

    def rows_at_once(self, n_nodes: int) -> int:
        """Return how many rows fit in one pass."""
        return max(1, _VALUES // (n_nodes * max(part.networks.widest for part in self.parts)))

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Return (…, m) values without their last axis where there is one number per sample."""
        return values if self.labels is not None else values[..., 0]


def model_function(model: Model, class_: Any = None, logit: bool = False) -> ModelFunction:
    """Return a checked model as a function; of a classifier with the outputs of all classes or of one."""
    targets: Any = model.fitted_.targets
    chosen = slice(None)
    if not targets.are_labels:
        if class_ is not None or logit:
            name = "class_" if class_ is not None else "logit"
            raise ValueError(f"{name} is for classifiers only, and model is a {type(model).__name__}; drop it.")
        labels = np.arange(targets.shape[0]) if targets.shape else None
        is_scaled = not isinstance(model, BaseSVNN) or model.fitted_.standardize
        unit = np.asarray(targets.standardizer.scale) if is_scaled else None
    else:
        chosen = slice(None) if class_ is None else _class_index(class_, targets.classes)
        labels, unit = (targets.classes if class_ is None else None), np.ones(())
    used = {name: (weight, part) for name, (weight, part) in model_parts(model).items() if weight > 0}
    for name, (_, part) in used.items():
        if not _is_known(part):
            raise ValueError(
                f"part {name!r} ({type(part).__name__}) cannot be split into contributions. Inspect a part alone, such "
                'as model.parts_["with edges"], or use grouped_permutation_importance, which works for any.'
            )
    units = standardizer_of(model)
    functions = [_part_function(part, weight, units, chosen, logit) for weight, part in used.values()]
    return ModelFunction(tuple(functions), labels, unit, linear=logit or not targets.are_labels)


def _part_function(part: Any, weight: float, units: Standardizer, chosen: slice, logit: bool) -> PartFunction:
    """Return an S-VNN or a linear model as a function of signals in ``units``."""
    fitted, is_linear = part.fitted_, isinstance(part, LINEAR)
    members = [linear_network(fitted, part.n_features_in_)] if is_linear else fitted.networks
    networks = StackedNetworks(members, Powers(None if is_linear else part.shift_.operator, members[0].order))
    device = next(networks.buffers()).device

    def tensor(values: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.float64), device=device)

    own = fitted.standardizer
    factor, offset = tensor(units.scale / own.scale), tensor((units.mean - own.mean) / own.scale)
    if not fitted.targets.are_labels:
        mean, scale = tensor(fitted.targets.standardizer.mean), tensor(fitted.targets.standardizer.scale)
        return PartFunction(networks, lambda outputs: outputs.mean(0) * scale + mean, weight, factor, offset)

    def combine(outputs: Tensor) -> Tensor:
        if not logit:
            return outputs.softmax(-1).mean(0)[:, chosen]
        logits = outputs.mean(0)
        # A number added to all logits changes nothing, so their mean is set to zero.
        return (logits - logits.mean(-1, keepdim=True))[:, chosen]

    return PartFunction(networks, combine, weight, factor, offset)


def linear_network(fitted: LinearFitted, n_nodes: int) -> Any:
    """Return a linear model as a network that passes its signals on to the head."""
    F = fitted.n_values
    network: Any = SVNN(
        F,
        len(fitted.bias),
        (F,),
        order=0,
        activation="identity",
        batch_norm=False,
        readout="flatten",
        n_nodes=n_nodes,
        mlp=(),
    )
    network = network.double().eval()
    with torch.no_grad():
        network.filters[0].weight.copy_(torch.eye(F)[None])
        network.filters[0].bias.zero_()
        network.head[0].weight.copy_(torch.as_tensor(fitted.weight))
        network.head[0].bias.copy_(torch.as_tensor(fitted.bias))
    return network


def _class_index(class_: Any, classes: np.ndarray) -> slice:
    index = np.flatnonzero(classes == class_)
    if len(index) != 1:
        raise ValueError(f"class_={class_!r} is none of the classes of the model: {classes.tolist()}.")
    return slice(int(index[0]), int(index[0]) + 1)
