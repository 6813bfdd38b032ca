"""The parts of a blend: which they are, how each is fitted, and what each predicts for rows that it has not seen."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import validate_data

from svnn._parameters import check_parameters
from svnn._types import ColumnLike, DataLike
from svnn.estimators._base import BaseSVNN
from svnn.estimators._blend_weights import class_weights, number_weights, with_doubt
from svnn.estimators._data import check_signals, member_folds, with_class_weight
from svnn.estimators._linear import is_small_enough
from svnn.estimators._noise import Noise, learn_noise
from svnn.estimators._units import NumberTargets, Standardizer, Targets, check_targets
from svnn.estimators.training import LOSSES
from svnn.functional._array import generator

#: Members of a default part, at least: with several they hold out the same rows as the members of the other parts.
_FEWEST_MEMBERS = 2
#: Held-out rows from which on they say how much the parts count.
_FEWEST_HELD_OUT = 4
_TINY = 1e-12


@dataclass(frozen=True)
class BlendFitted:
    """Values that a blend learned.

    Attributes
    ----------
    parts : dict
        The fitted parts by their names.
    blend : dict
        The weights of the parts.
    targets : Targets
        The units of what is predicted.
    out_of_fold : ndarray or None
        Weighted predictions, or probabilities, for the rows that all parts held out; NaN for the others.
    noise : Noise or None
        How far targets lie from predictions, in standardised units; None where no row was held out.
    """

    parts: dict[str, Any]
    blend: dict[str, float]
    targets: Targets
    out_of_fold: np.ndarray | None = None
    noise: Noise | None = None


class PartsHeldOut(NamedTuple):
    """Predictions of every part (parts, n, n_outputs), in the units of y, for rows that it has not seen.

    ``targets`` and ``weight`` are those of these rows; ``places`` are their places in the caller's table, None for rows
    that were given as validation data.
    """

    outputs: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    places: np.ndarray | None

    def in_table(self, weights: np.ndarray, n_rows: int, targets: Targets) -> np.ndarray | None:
        """Return the weighted predictions at their places in a table of n rows; None where there are none."""
        if self.places is None or not len(self.places):
            return None
        shape = targets.shape if isinstance(targets, NumberTargets) else (targets.n_outputs,)
        found = np.full((n_rows, *shape), np.nan)
        found[self.places] = np.tensordot(weights, self.outputs, 1).reshape(-1, *shape)
        return found


def new_parts(model: Any, X: DataLike) -> tuple[dict[str, Any], int]:
    """Return the unfitted parts of a blend, and the seed that they share."""
    if isinstance(model.parts, (list, tuple)):
        if not model.parts:
            raise ValueError("parts is an empty list; give it at least one (name, estimator).")
        model._validate_names([name for name, _ in model.parts])
        validate_data(model, X, skip_check_array=True)
        state = int(generator(model.random_state).integers(2**31))
        parts = {name: clone(part) for name, part in model.parts}
    else:
        network = model._network() if isinstance(model.parts, str) and model.parts == "auto" else model.parts
        if not isinstance(network, model._network):
            kind = model._network.__name__
            raise ValueError(f'parts must be "auto", an {kind} or a list of (name, estimator), got {network!r}.')
        check_parameters(network)
        random_state = network.random_state if model.random_state is None else model.random_state
        state = int(generator(random_state).integers(2**31))
        parts = default_parts(network, model._linear(), check_signals(model, X))
        for part in parts.values():  # of one integer, so that all hold out the same rows
            part.set_params(random_state=state)
    for name, part in parts.items():
        if model._are_labels and not hasattr(part, "predict_proba"):
            raise ValueError(
                f"part {name!r} ({type(part).__name__}) has no predict_proba, but classifiers are blended by their "
                "probabilities; leave it out, or wrap it in sklearn.calibration.CalibratedClassifierCV."
            )
        if not model._are_labels and is_classifier(part):
            raise ValueError(f"part {name!r} ({type(part).__name__}) is a classifier; use BlendClassifier.")
        known = part.get_params(deep=False)
        if "random_state" in known and known["random_state"] is None:
            part.set_params(random_state=state)
        if model.verbose and "verbose" in known:
            part.set_params(verbose=model.verbose)
    return parts, state


def default_parts(network: Any, linear: Any, signals: np.ndarray) -> dict[str, Any]:
    """Return the default parts around an unfitted S-VNN: with edges, without edges, and a linear model.

    A single member, and members with ``readout="mean"``, which knows nothing about single nodes, stay alone.
    """
    members, (n_rows, n_nodes, n_values) = int(network.members), signals.shape
    name = "with edges" if reads_covariance(network) else "without edges"
    parts = {name: clone(network)}
    if members == 1 or network.readout == "mean":
        return parts
    if reads_covariance(network):
        parts[name].set_params(members=max(members - members // 2, _FEWEST_MEMBERS))
        parts["without edges"] = clone(network).set_params(
            members=max(members // 2, _FEWEST_MEMBERS),
            order=0,
            covariance=sp.eye_array(n_nodes, format="csr"),  # with order 0 nothing reads it
            use="covariance",
            resample="fixed",
            covariance_per="table",
            callbacks=(),  # a checkpoint is that of the part with edges
        )
    if is_small_enough(n_rows, n_nodes * n_values):
        shared = linear.get_params().keys() & network.get_params(deep=False).keys()
        parts["linear"] = linear.set_params(**{key: getattr(network, key) for key in shared})
    return parts


def reads_covariance(part: Any) -> bool:
    """Return whether a part is an S-VNN with edges."""
    return isinstance(part, BaseSVNN) and part.order != 0


def needs(part: Any) -> str | None:
    """Return which argument a fitted part needs with its rows: "shift", "groups" or None."""
    per_sample = part.shift_.per_sample if isinstance(part, BaseSVNN) else None
    return None if per_sample is None else per_sample.needs


def rows_for(part: Any, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of ``shift`` and ``groups`` that a fitted part needs with its rows."""
    return {name: value for name, value in rows.items() if name == needs(part)}


def fit_part(part: Any, X: DataLike, y: ColumnLike, *, incremental: bool = False, **given: Any) -> None:
    """Fit a part with as much of what is given as its ``fit``, or ``partial_fit``, takes."""
    method = part.partial_fit if incremental and hasattr(part, "partial_fit") else part.fit
    if not reads_covariance(part):
        given.pop("shift", None)
    if given.get("validation_data") is not None:
        per_row = reads_covariance(part) and (given.get("shift") is not None or part.covariance_per == "group")
        given["validation_data"] = given["validation_data"][: 3 if per_row else 2]
    known = inspect.signature(method).parameters
    method(X, y, **{name: value for name, value in given.items() if value is not None and name in known})


def predictions(part: Any, X: DataLike, targets: Targets, **rows: Any) -> np.ndarray:
    """Return the predictions (t, n_outputs) of a fitted part in the units of y, or its probabilities of all classes."""
    rows = rows_for(part, rows)
    if not targets.are_labels:
        numbers = np.asarray(part.predict(X, **rows), dtype=np.float64)
        return numbers.reshape(len(numbers), -1)
    known = part.predict_proba(X, **rows)
    found = np.zeros((len(known), targets.n_outputs))
    found[:, np.searchsorted(targets.classes, part.classes_)] = known  # type: ignore[union-attr]
    return found


def member_variance(
    parts: Mapping[str, Any], blend: Mapping[str, float], units: Standardizer, X: DataLike, **rows: Any
) -> Any:
    """Return the standardised variance (t, n_outputs) of members around the mean of their part, weighted by parts."""
    found: Any = np.zeros((1, 1))
    for name, part in parts.items():
        if blend[name] > 0 and hasattr(part, "_member_deviation"):
            deviation = part._member_deviation(X, **rows_for(part, rows)) / units.scale
            found = found + blend[name] * np.square(deviation)
    return found


def held_out_by_caller(parts: Mapping[str, Any], validation_data: tuple[Any, ...], targets: Targets) -> PartsHeldOut:
    """Return the predictions of fitted parts for the rows that a caller gave as validation data."""
    if not isinstance(validation_data, (tuple, list)) or len(validation_data) not in (2, 3):
        raise ValueError("validation_data must be a pair (X, y).")
    X, y, *own = validation_data
    rows = {"shift": own[0], "groups": own[0]} if own else {}
    outputs = np.array([predictions(part, X, targets, **rows) for part in parts.values()])
    codes = targets.encode(check_targets(y, targets.are_labels))
    return PartsHeldOut(outputs, codes, np.ones(len(codes)), None)


def held_out_by_parts(
    parts: Mapping[str, Any],
    X: DataLike,
    y: np.ndarray,
    weight: np.ndarray,
    targets: Targets,
    *,
    n_folds: int,
    seed: int,
    **rows: Any,
) -> PartsHeldOut:
    """Return the predictions of fitted parts for rows that all of them have held out.

    Parts that held out rows have ``out_of_fold_``; others are fitted again, ``n_folds`` times.
    """
    outputs = []
    for part in parts.values():
        own = getattr(part, "out_of_fold_", None)
        if own is None and len(parts) == 1:  # its weight is 1, whatever it would predict
            own = np.full((len(y), targets.n_outputs), np.nan)
        elif own is None:
            folds = member_folds(y, rows.get("groups"), weight, 1 / n_folds, n_folds, seed, targets.are_labels)
            own = _cross_predictions(part, X, y, folds, targets, rows)
        outputs.append(own.reshape(len(y), -1))
    network = next((part for part in parts.values() if isinstance(part, BaseSVNN)), None)
    if (class_weight := getattr(network, "class_weight", None)) is not None:
        weight = with_class_weight(weight, class_weight, y)
    known = np.isfinite(outputs).all((0, 2)) & (weight > 0)
    return PartsHeldOut(np.array(outputs)[:, known], targets.encode(y[known]), weight[known], np.flatnonzero(known))


def _cross_predictions(
    part: Any, X: DataLike, y: np.ndarray, folds: list[np.ndarray], targets: Targets, rows: Mapping[str, Any]
) -> np.ndarray:
    """Return the predictions of copies of a part, each fitted without a set of rows, for that set."""
    found = np.full((len(y), targets.n_outputs), np.nan)
    for left_out in folds:
        kept = np.setdiff1d(np.arange(len(y)), left_out)
        if targets.are_labels and len(np.unique(y[kept])) < 2:
            continue
        again = clone(part)
        fit_part(again, some_rows(X, kept), y[kept], **{name: some_rows(value, kept) for name, value in rows.items()})
        others = {name: some_rows(value, left_out) for name, value in rows.items()}
        found[left_out] = predictions(again, some_rows(X, left_out), targets, **others)
    return found


def some_rows(values: Any, chosen: np.ndarray) -> Any:
    """Return some rows of a table, a frame, a list or a tensor; None of None."""
    if values is None:
        return None
    return _safe_indexing(values if hasattr(values, "__getitem__") else np.asarray(values), chosen)


def part_weights(
    parts: Mapping[str, Any], held: PartsHeldOut, targets: Targets, fallback: str | None = None
) -> np.ndarray:
    """Return the weights of the parts, from their predictions for held-out rows.

    A few rows do not outvote the part named ``fallback`` or, where there is none of this name, equal weights.
    """
    prior = np.full(len(parts), 1 / len(parts))
    if fallback in parts:
        prior = np.array([float(name == fallback) for name in parts])
    if len(parts) == 1 or len(held.weight) < _FEWEST_HELD_OUT:
        return prior
    if isinstance(targets, NumberTargets):
        loss = next((part.loss for part in parts.values() if getattr(part, "loss", None) in LOSSES), "huber")
        weights = number_weights(targets.standardizer(held.outputs), held.targets, held.weight, str(loss))
    else:
        weights = class_weights(np.log(np.maximum(held.outputs, _TINY)), held.targets, held.weight)
    return with_doubt(weights, prior, len(held.weight))


def noise_around(held: PartsHeldOut, weights: np.ndarray, variance: np.ndarray, targets: NumberTargets) -> Noise:
    """Return how far targets lie from weighted predictions; ``variance`` (n_outputs,) is the mean one of members."""
    outputs = targets.standardizer(held.outputs)
    prediction, between = np.tensordot(weights, outputs, 1), variance_between(outputs, weights)
    return learn_noise(prediction, between, held.targets, held.weight, variance)


def variance_between(outputs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the variances (t, n_outputs) of outputs (parts, t, n_outputs) whose parts have these weights."""
    centred = outputs - np.tensordot(weights, outputs, 1)
    found: np.ndarray = np.tensordot(weights, np.square(centred), 1)
    return found
