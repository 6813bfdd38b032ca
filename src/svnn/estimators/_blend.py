"""Blends: models of different kinds that predict together, weighted by rows that none of them has seen."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from svnn._parameters import Rule, anything, boolean, check_parameters, integer, seed
from svnn._summary import FittedSummary
from svnn._types import ColumnLike, CovarianceLike, DataLike, MatrixLike, RandomState
from svnn._validation import at_once
from svnn.estimators._base import BaseSVNN
from svnn.estimators._blend_weights import blend_in_words, class_weights, number_weights, with_doubt
from svnn.estimators._classifier import SVNNClassifier
from svnn.estimators._data import check_sample_weight, check_signals, member_folds, relative, with_class_weight
from svnn.estimators._linear import LinearClassifier, LinearRegressor, is_small_enough
from svnn.estimators._model_file import PathLike
from svnn.estimators._noise import Noise, learn_noise
from svnn.estimators._per_sample import check_no_shift
from svnn.estimators._regressor import SVNNRegressor
from svnn.estimators._summary import network_facts
from svnn.estimators._units import LabelTargets, NumberTargets, Targets, check_targets
from svnn.estimators.training import LOSSES, plain_torch
from svnn.functional._array import generator

#: Held-out rows from which on they say how much the parts count.
_FEWEST_HELD_OUT = 4
#: Members of a part, at least: with several they hold out the same rows as the members of other parts.
_FEWEST_MEMBERS = 2
#: Training rows by which the members' agreement is measured.
_AGREEMENT_ROWS = 1000
_TINY = 1e-12


@dataclass(frozen=True)
class BlendFitted:
    """What a blend has learned: its fitted parts, their weights, and the units of what is predicted.

    ``out_of_fold`` holds the weighted predictions, or probabilities, for the rows that all parts held out, and NaN for
    the others; ``noise`` says how far targets lie from predictions, in standardised units.
    """

    parts: dict[str, Any]
    blend: dict[str, float]
    targets: Targets
    out_of_fold: np.ndarray | None = None
    noise: Noise | None = None


class _Blend(FittedSummary, _BaseComposition):
    """Base of :class:`BlendRegressor` and :class:`BlendClassifier`: all that does not depend on what is predicted."""

    _rules: ClassVar[dict[str, Rule]] = {
        "parts": anything('"auto", an S-VNN or list of (name, estimator)'),
        "cv": integer(2),
        "random_state": seed(),
        "verbose": boolean(),
    }
    _are_labels: ClassVar[bool]
    _network_type: ClassVar[Any]
    _linear_type: ClassVar[Any]

    fitted_: BlendFitted

    def __init__(
        self, parts: Any = "auto", *, cv: int = 5, random_state: RandomState = None, verbose: int = 0
    ) -> None:
        self.parts = parts
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` also those of the parts, as ``name__parameter``."""
        return cast("dict[str, Any]", self._get_params("parts", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the parts, as ``name__parameter``."""
        self._set_params("parts", **params)
        return self

    # -- fitting ----------------------------------------------------------------------------------

    @at_once
    def fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        groups: ColumnLike | None = None,
        validation_data: tuple[Any, ...] | None = None,
        shift: ArrayLike | None = None,
    ) -> Self:
        """Fit the parts, and learn from held-out rows how much each of them counts.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,), or (t, n_outputs) for regression
        sample_weight : array of shape (t,), optional
            For the parts whose ``fit`` takes it, and for the weights of all parts. Only ratios count.
        groups : array of shape (t,), optional
            Rows of one group are held out together.
        validation_data : tuple (X, y), optional
            Rows that say how much the parts count, in place of training rows that are held out; S-VNNs also stop early
            by them. Where rows come with matrices or groups, theirs are its third part.
        shift : array of shape (t, N, N), optional
            A matrix for every row, for the S-VNNs among the parts.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups=groups, validation_data=validation_data, shift=shift)

    def _fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None,
        *,
        validation_data: tuple[Any, ...] | None = None,
        classes: ColumnLike | None = None,
        incremental: bool = False,
        **rows: Any,
    ) -> Self:
        check_parameters(self)
        parts, state = self._new_parts(X)
        given = check_targets(y, self._are_labels)
        check_consistent_length(X, given)
        weight = relative(check_sample_weight(sample_weight, len(given)))
        targets = self._learn_targets(given, weight, classes)
        check_no_shift(None if any(_reads_covariance(part) for part in parts.values()) else rows.get("shift"))
        rows["sample_weight"] = sample_weight
        templates = {name: clone(part) for name, part in parts.items()}
        for part in parts.values():
            more = {"validation_data": validation_data, "classes": classes}
            _fit_part(part, X, y, incremental=incremental, **rows, **more)

        if len(parts) > 1 and (network := _first_svnn(parts)) is not None:
            class_weight = getattr(network, "class_weight", None)
            weight = weight if class_weight is None else with_class_weight(weight, class_weight, given)
        if validation_data is not None:
            X_held, y_held, *own = validation_data
            extra = {"shift": own[0], "groups": own[0]} if own else {}
            outputs = np.array([_predictions(part, X_held, targets, **extra) for part in parts.values()])
            codes = targets.encode(check_targets(y_held, self._are_labels))
            weight_held = np.ones(len(codes))
        else:
            folds = member_folds(given, rows["groups"], weight, 1 / int(self.cv), int(self.cv), state, self._are_labels)
            outputs = np.array(
                [
                    _held_out_predictions(part, templates[name], X, y, folds, targets, **rows)
                    for name, part in parts.items()
                ]
            )
            codes, weight_held = targets.encode(given), weight
        known = np.isfinite(outputs).all((0, 2)) & (weight_held > 0)
        weights = self._weigh(parts, outputs[:, known], codes[known], weight_held[known], targets)
        self.fitted_ = BlendFitted(parts, dict(zip(parts, weights.tolist(), strict=True)), targets)
        if not known.any():
            return self
        if validation_data is None:
            mixed = np.full(outputs.shape[1:], np.nan)
            mixed[known] = np.tensordot(weights, outputs[:, known], 1)
            shape = (len(mixed), *targets.shape) if isinstance(targets, NumberTargets) else mixed.shape
            self.fitted_ = replace(self.fitted_, out_of_fold=mixed.reshape(shape))
        if isinstance(targets, NumberTargets):
            some = np.flatnonzero(weight > 0)[:_AGREEMENT_ROWS]
            own_rows = {name: _some(rows.get(name), some) for name in ("shift", "groups")}
            within = self._within(_some(X, some), **own_rows).mean(0)
            seen = targets.standardizer(outputs[:, known])
            prediction, between = np.tensordot(weights, seen, 1), _variance(seen, weights)
            noise = learn_noise(prediction, between, codes[known], weight_held[known], within)
            self.fitted_ = replace(self.fitted_, noise=noise)
        return self

    def _learn_targets(self, y: np.ndarray, weight: np.ndarray, classes: ColumnLike | None) -> Targets:
        if not self._are_labels:
            return NumberTargets.learn(y, np.arange(len(y)), weight, True)
        return LabelTargets.learn(y) if classes is None else LabelTargets.known(classes, y)

    def _weigh(
        self, parts: Mapping[str, Any], outputs: np.ndarray, codes: np.ndarray, weight: np.ndarray, targets: Targets
    ) -> np.ndarray:
        """Return the weights of the parts, from their outputs for held-out rows."""
        n = len(parts)
        prior = np.full(n, 1 / n)
        if "linear" in parts and not isinstance(self.parts, (list, tuple)):
            prior = np.array([float(name == "linear") for name in parts])
        if n == 1 or len(codes) < _FEWEST_HELD_OUT:
            return prior
        if isinstance(targets, NumberTargets):
            loss = next((part.loss for part in parts.values() if getattr(part, "loss", None) in LOSSES), "huber")
            weights = number_weights(targets.standardizer(outputs), codes, weight, str(loss))
        else:
            weights = class_weights(np.log(np.maximum(outputs, _TINY)), codes, weight)
        return with_doubt(weights, prior, len(codes))

    # -- the parts --------------------------------------------------------------------------------

    def _new_parts(self, X: DataLike) -> tuple[dict[str, Any], int]:
        """Return unfitted parts, and the seed that they share."""
        if isinstance(self.parts, (list, tuple)):
            names = [name for name, _ in self.parts]
            if not names:
                raise ValueError("parts is an empty list; give it at least one (name, estimator).")
            self._validate_names(names)
            validate_data(self, X, skip_check_array=True)
            state = int(generator(self.random_state).integers(2**31))
            parts = {name: clone(part) for name, part in self.parts}
        else:
            network = self._network_type() if isinstance(self.parts, str) and self.parts == "auto" else self.parts
            if not isinstance(network, self._network_type):
                name = self._network_type.__name__
                raise ValueError(
                    f'parts must be "auto", an {name} or a list of (name, estimator), got {self.parts!r}.'
                )
            check_parameters(network)
            signals = check_signals(self, X)
            given = network.random_state if self.random_state is None else self.random_state
            state = int(generator(given).integers(2**31))
            parts = {name: part.set_params(random_state=state) for name, part in self._around(network, signals).items()}
        for name, part in parts.items():
            if self._are_labels and not hasattr(part, "predict_proba"):
                raise ValueError(
                    f"part {name!r} ({type(part).__name__}) has no predict_proba, but classifiers are blended by their "
                    "probabilities; leave it out, or give it some, as sklearn.calibration.CalibratedClassifierCV does."
                )
            if not self._are_labels and is_classifier(part):
                raise ValueError(f"part {name!r} ({type(part).__name__}) is a classifier; give BlendRegressor regressors.")
            known = part.get_params(deep=False)
            if "random_state" in known and known["random_state"] is None:
                part.set_params(random_state=state)
            if self.verbose and "verbose" in known:
                part.set_params(verbose=self.verbose)
        return parts, state

    def _around(self, network: Any, signals: np.ndarray) -> dict[str, Any]:
        """Return the default parts around an S-VNN."""
        members, (n_rows, n_nodes, n_values) = int(network.members), signals.shape
        name = "without edges" if network.order == 0 else "with edges"
        parts = {name: clone(network)}
        if members == 1 or network.readout == "mean":
            return parts
        if network.order != 0:
            parts[name].set_params(members=max(members - members // 2, _FEWEST_MEMBERS))
            parts["without edges"] = clone(network).set_params(
                members=max(members // 2, _FEWEST_MEMBERS),
                order=0,
                covariance=sp.eye_array(n_nodes, format="csr"),  # it is not used
                use="covariance",
                resample="fixed",
                covariance_per="table",
                callbacks=(),  # a checkpoint is the other part's
            )
        if is_small_enough(n_rows, n_nodes * n_values):
            linear = self._linear_type()
            shared = linear.get_params().keys() & network.get_params(deep=False).keys()
            parts["linear"] = linear.set_params(**{key: getattr(network, key) for key in shared})
        return parts

    # -- fitted attributes --------------------------------------------------------------------------

    @property
    def parts_(self) -> dict[str, Any]:
        """The fitted parts by their names."""
        return self.fitted_.parts

    @property
    def blend_(self) -> dict[str, float]:
        """How much each part counts; the weights add up to 1."""
        return self.fitted_.blend

    @property
    def out_of_fold_(self) -> np.ndarray | None:
        """Predictions, or probabilities, for rows that all parts held out; NaN for the others."""
        return self.fitted_.out_of_fold

    @property
    def network_part(self) -> str | None:
        """The name of the first part that is an S-VNN with edges, or None."""
        return next((name for name, part in self.parts_.items() if _reads_covariance(part)), None)

    # -- prediction and more ------------------------------------------------------------------------

    def _outputs(self, X: DataLike, **rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictions (parts, t, n_outputs) of the parts that count, and their weights."""
        check_is_fitted(self)
        check_no_shift(None if any(_needs(part) == "shift" for part in self.parts_.values()) else rows.get("shift"))
        used = {name: weight for name, weight in self.blend_.items() if weight > 0}
        targets = self.fitted_.targets
        outputs = [_predictions(self.parts_[name], X, targets, **rows) for name in used]
        return np.array(outputs), np.array(list(used.values()))

    def _within(self, X: DataLike, **rows: Any) -> np.ndarray:
        """Return how far the members of the parts differ: weighted variances (t, n_outputs) in standardised units."""
        units = cast(NumberTargets, self.fitted_.targets).standardizer
        variance: Any = np.zeros((1, 1))
        for name, weight in self.blend_.items():
            part = self.parts_[name]
            if weight > 0 and hasattr(part, "_member_variance"):
                variance = variance + weight * part._member_variance(X, **_rows_for(part, rows))
        found: np.ndarray = variance / np.square(units.scale)
        return found

    def _update(
        self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, classes: ColumnLike | None = None
    ) -> Self:
        """Update the parts that have ``partial_fit``; the weights of all parts stay as they are."""
        parts = copy.deepcopy(self.parts_)
        for part in parts.values():
            if hasattr(part, "partial_fit"):
                _fit_part(part, X, y, incremental=True, sample_weight=sample_weight, classes=classes)
        self.fitted_ = replace(self.fitted_, parts=parts)
        return self

    def _check_incremental(self) -> None:
        """Raise an error where no part can be updated."""
        parts = [part for _, part in self.parts] if isinstance(self.parts, (list, tuple)) else []
        if parts and not any(hasattr(part, "partial_fit") for part in parts):
            raise ValueError("partial_fit needs a part that has it; fit all rows again.")

    def on(self, covariance: CovarianceLike | MatrixLike, X: DataLike | None = None) -> Self:
        """Return the same blend whose S-VNNs with edges run on another covariance; see :meth:`SVNNRegressor.on`."""
        check_is_fitted(self)
        other, parts = copy.copy(self), dict(self.parts_)
        for name, part in parts.items():
            if _reads_covariance(part):
                parts[name] = part.on(covariance, X)
                if parts[name].n_features_in_ != self.n_features_in_:
                    other.n_features_in_ = parts[name].n_features_in_
                    vars(other).pop("feature_names_in_", None)
        other.fitted_ = replace(self.fitted_, parts=parts)
        return other

    def save(self, path: PathLike) -> None:
        """Write the fitted blend to ``path``, for :func:`svnn.load`; see :meth:`SVNNRegressor.save`."""
        from svnn.estimators._storage import save

        save(self, path)

    @plain_torch()
    def to_torch(self, dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
        """Return the fitted blend as a plain torch module; see :meth:`SVNNRegressor.to_torch`."""
        from svnn.estimators._export import plain_module

        check_is_fitted(self)
        return plain_module(self, dtype)

    @plain_torch()
    def export(self, path: PathLike, dtype: torch.dtype = torch.float32) -> None:
        """Write :meth:`to_torch` to a file that runs without svnn; see :meth:`SVNNRegressor.export`."""
        from svnn.estimators._export import export

        check_is_fitted(self)
        export(self, path, dtype)

    def report(self, X: DataLike, y: ColumnLike | None, path: str | Path) -> Path:
        """Write one HTML file about the model and these rows: :func:`svnn.reporting.write_report`."""
        check_is_fitted(self)
        from svnn.reporting import write_report

        return write_report(path, model=self, X=X, y=y)

    def _summary(self) -> Mapping[str, str]:
        if "fitted_" not in vars(self):
            return {}
        facts = {} if self.network_part is None else network_facts(self.parts_[self.network_part])
        return {**facts, "blend": "blend: " + blend_in_words(self.blend_)}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.three_d_array = True
        tags.target_tags.multi_output = not self._are_labels
        return tags
