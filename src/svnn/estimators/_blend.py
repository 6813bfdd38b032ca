"""Blends: models of different kinds that predict together, weighted by rows that none of them has seen."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from svnn._parameters import Rule, anything, check_parameters, integer
from svnn._summary import FittedSummary
from svnn._types import ColumnLike, CovarianceLike, DataLike, MatrixLike, RandomState
from svnn._validation import at_once
from svnn.estimators._base import fitted_property, predictor_tags
from svnn.estimators._blend_parts import (
    BlendFitted,
    fit_part,
    held_out_by_caller,
    held_out_by_parts,
    member_variance,
    needs,
    new_parts,
    noise_around,
    part_weights,
    predictions,
    reads_covariance,
    some_rows,
    variance_between,
)
from svnn.estimators._blend_weights import blend_in_words
from svnn.estimators._classifier import SVNNClassifier
from svnn.estimators._data import check_sample_weight, relative
from svnn.estimators._linear import LinearClassifier, LinearRegressor
from svnn.estimators._model_file import PathLike
from svnn.estimators._per_sample import check_no_shift
from svnn.estimators._regressor import SVNNRegressor
from svnn.estimators._rules import TRAINING
from svnn.estimators._summary import network_facts
from svnn.estimators._units import LabelTargets, NumberTargets, Targets, check_targets
from svnn.estimators.training import plain_torch

#: Training rows by which the members' agreement is measured.
_AGREEMENT_ROWS = 1000


class _Blend(FittedSummary, _BaseComposition):
    """Base of :class:`BlendRegressor` and :class:`BlendClassifier`: all that does not depend on what is predicted."""

    _rules: ClassVar[dict[str, Rule]] = {
        "parts": anything('"auto", S-VNN or list of (name, estimator)'),
        "folds": integer(2),
        "random_state": TRAINING["random_state"],
        "verbose": TRAINING["verbose"],
    }
    _are_labels: ClassVar[bool]
    _network: ClassVar[Any]
    _linear: ClassVar[Any]

    fitted_: BlendFitted

    def __init__(
        self, parts: Any = "auto", *, folds: int = 5, random_state: RandomState = None, verbose: int = 0
    ) -> None:
        self.parts = parts
        self.folds = folds
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` also those of the parts, as ``name__parameter``."""
        return cast("dict[str, Any]", self._get_params("parts", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the parts, as ``name__parameter``."""
        self._set_params("parts", **params)
        return self

    def __sklearn_tags__(self) -> Tags:
        return predictor_tags(super().__sklearn_tags__(), self)

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
            For the parts whose ``fit`` takes it, and for the weights of the parts. Only ratios count.
        groups : array of shape (t,), optional
            Rows of one group are held out together.
        validation_data : tuple (X, y), optional
            Rows that say how much the parts count, in place of training rows that are held out; S-VNNs also stop early
            by them. Where rows come with matrices or groups, theirs are its third part.
        shift : array of shape (t, N, N), optional
            A matrix for every row, for the S-VNNs with edges.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, validation_data=validation_data, groups=groups, shift=shift)

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
        given = check_targets(y, self._are_labels)
        check_consistent_length(X, given)
        weight = relative(check_sample_weight(sample_weight, len(given)))
        targets = self._learn_targets(given, weight, classes)
        parts, state = new_parts(self, X)
        if not any(map(reads_covariance, parts.values())):
            check_no_shift(rows.get("shift"))
        for part in parts.values():
            extra = {"validation_data": validation_data, "classes": classes, "sample_weight": sample_weight}
            fit_part(part, X, y, incremental=incremental, **rows, **extra)
        if validation_data is not None:
            held = held_out_by_caller(parts, validation_data, targets)
        else:
            rows["sample_weight"] = sample_weight
            held = held_out_by_parts(parts, X, given, weight, targets, n_folds=int(self.folds), seed=state, **rows)
        is_default = not isinstance(self.parts, (list, tuple))
        weights = part_weights(parts, held, targets, "linear" if is_default else None)
        blend = dict(zip(parts, weights.tolist(), strict=True))
        noise = None
        if isinstance(targets, NumberTargets) and len(held.weight):
            some = np.flatnonzero(weight > 0)[:_AGREEMENT_ROWS]
            own = {name: some_rows(rows[name], some) for name in ("shift", "groups") if name in rows}
            variance = member_variance(parts, blend, targets.standardizer, some_rows(X, some), **own)
            noise = noise_around(held, weights, variance.mean(0), targets)
        self.fitted_ = BlendFitted(parts, blend, targets, held.in_table(weights, len(given), targets), noise)
        return self

    def _learn_targets(self, y: np.ndarray, weight: np.ndarray, classes: ColumnLike | None) -> Targets:
        if not self._are_labels:
            return NumberTargets.learn(y, np.arange(len(y)), weight, True)
        return LabelTargets.learn(y) if classes is None else LabelTargets.known(classes, y)

    def _update(
        self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, classes: ColumnLike | None = None
    ) -> Self:
        """Fit the parts to new rows in the first call; then update those that have ``partial_fit``."""
        if "fitted_" not in vars(self):
            return self._fit(X, y, sample_weight, classes=classes, incremental=True)
        parts = copy.deepcopy(self.parts_)
        for part in parts.values():
            if hasattr(part, "partial_fit"):
                fit_part(part, X, y, incremental=True, sample_weight=sample_weight, classes=classes)
        self.fitted_ = replace(self.fitted_, parts=parts)
        return self

    # -- fitted attributes --------------------------------------------------------------------------

    parts_ = fitted_property("fitted_.parts", "The fitted parts by their names.")
    blend_ = fitted_property("fitted_.blend", "The weights of the parts; they add up to 1.")
    out_of_fold_ = fitted_property("fitted_.out_of_fold", "Predictions for the rows that all parts held out.")

    @property
    def network_part(self) -> str | None:
        """The name of the first part that is an S-VNN with edges, or None."""
        return next((name for name, part in self.parts_.items() if reads_covariance(part)), None)

    # -- prediction and more ------------------------------------------------------------------------

    def _outputs(self, X: DataLike, **rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictions (parts, t, n_outputs) of the parts that count, and their weights."""
        check_is_fitted(self)
        if all(needs(part) != "shift" for part in self.parts_.values()):
            check_no_shift(rows.get("shift"))
        used = {name: weight for name, weight in self.blend_.items() if weight > 0}
        outputs = [predictions(self.parts_[name], X, self.fitted_.targets, **rows) for name in used]
        return np.array(outputs), np.array(list(used.values()))

    def on(self, covariance: CovarianceLike | MatrixLike, X: DataLike | None = None) -> Self:
        """Return the same blend whose S-VNNs with edges run on another covariance; see :meth:`SVNNRegressor.on`."""
        check_is_fitted(self)
        other, parts = copy.copy(self), dict(self.parts_)
        for name, part in self.parts_.items():
            if reads_covariance(part):
                parts[name] = part.on(covariance, X)
                if parts[name].n_features_in_ != self.n_features_in_:
                    other.n_features_in_ = parts[name].n_features_in_
                    other.__dict__.pop("feature_names_in_", None)
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


class BlendRegressor(RegressorMixin, _Blend):
    """Regression by several models, each with the weight that suits held-out rows best.

    By default half of the members of an S-VNN ignore the covariance, and ridge regression takes part as well: where the
    covariance says nothing about the target, or the target is linear, these predict better.

    Parameters
    ----------
    parts : "auto", SVNNRegressor or list of (str, regressor), default="auto"
        The models. An S-VNN is split into the parts "with edges" and "without edges", half of its members each, and the
        part "linear"; a single member, or one with ``readout="mean"``, stays alone. "auto" splits the default S-VNN. A
        list may hold any scikit-learn regressors.
    folds : int, default=5
        How often parts without ``out_of_fold_`` are fitted again to predict rows that they have not seen.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the parts that have none of their own, and of the rows that they hold out.
    verbose : int, default=0
        Given to the parts that have such a parameter.

    Attributes
    ----------
    parts_ : dict
        The fitted parts by their names.
    blend_ : dict
        How much each part counts. A few held-out rows do not outvote the part "linear", or equal weights in a list.
    out_of_fold_ : ndarray of the shape of y, or None
        Predictions for the rows that all parts held out; NaN for the others.
    network_part : str or None
        The name of the first part that is an S-VNN with edges.
    n_features_in_, feature_names_in_
        As in :class:`SVNNRegressor`.

    See Also
    --------
    BlendClassifier : the same for labels.
    SVNNRegressor : the S-VNN alone.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from svnn import BlendRegressor, SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=200, n_features=20, random_state=0)
    >>> model = BlendRegressor(SVNNRegressor(max_epochs=20), random_state=0).fit(data.X, data.y)
    >>> list(model.blend_)
    ['with edges', 'without edges', 'linear']
    >>> parts = [("network", SVNNRegressor(max_epochs=20)), ("forest", RandomForestRegressor(20))]
    >>> mean, std = BlendRegressor(parts, random_state=0).fit(data.X, data.y).predict(data.X, return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((200,), True)
    """

    _are_labels, _network, _linear = False, SVNNRegressor, LinearRegressor

    @at_once
    def partial_fit(self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None = None) -> Self:
        """Update the parts that have ``partial_fit`` with new rows; the first call is :meth:`fit`.

        The weights of the parts stay those of the first call.
        """
        return self._update(X, y, sample_weight)

    def predict(
        self, X: DataLike, return_std: bool = False, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None
    ) -> Any:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``.

        With ``return_std`` standard deviations of the same shape come too: how far a target is expected to lie from its
        prediction, by how far the parts, and the members of each, disagree about this row, and how far held-out targets
        with such predictions lay from them. ``shift`` and ``groups`` are as in :meth:`SVNNRegressor.predict`.
        """
        outputs, weights = self._outputs(X, shift=shift, groups=groups)
        fitted, targets = self.fitted_, cast(NumberTargets, self.fitted_.targets)
        prediction, units = np.tensordot(weights, outputs, 1), targets.standardizer
        mean = prediction.reshape(-1, *targets.shape)
        if not return_std:
            return mean
        variance = member_variance(fitted.parts, fitted.blend, units, X, shift=shift, groups=groups)
        if fitted.noise is not None:
            variance = variance + fitted.noise.variance(units(prediction), variance_between(units(outputs), weights))
        elif not variance.any():
            raise ValueError("return_std=True needs held-out rows in fit, or an S-VNN of several members.")
        return mean, (np.sqrt(variance) * units.scale).reshape(mean.shape)


class BlendClassifier(ClassifierMixin, _Blend):
    """Classification by several models, each with the weight that suits held-out rows best.

    The probabilities of the parts are averaged. The parts are as for :class:`BlendRegressor`; "linear" is a shrunk
    linear discriminant.

    Parameters
    ----------
    parts : "auto", SVNNClassifier or list of (str, classifier), default="auto"
        The models; those of a list need ``predict_proba``.
    folds, random_state, verbose
        As in :class:`BlendRegressor`.

    Attributes
    ----------
    parts_, blend_
        As in :class:`BlendRegressor`.
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    out_of_fold_ : ndarray of shape (t, n_classes) or None
        Probabilities for the rows that all parts held out; NaN for the others.
    network_part, n_features_in_, feature_names_in_
        As in :class:`BlendRegressor`.

    See Also
    --------
    BlendRegressor : the same for numbers.
    SVNNClassifier : the S-VNN alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn import BlendClassifier, SVNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BlendClassifier(SVNNClassifier(max_epochs=20), random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _are_labels, _network, _linear = True, SVNNClassifier, LinearClassifier
    classes_ = fitted_property("fitted_.targets.classes", "The labels, in order.")

    @at_once
    def partial_fit(
        self, X: DataLike, y: ColumnLike, classes: ColumnLike | None = None, sample_weight: ColumnLike | None = None
    ) -> Self:
        """Update the parts that have ``partial_fit``; as :meth:`BlendRegressor.partial_fit`.

        ``classes`` names all labels that will ever come, in the first call; by default those of its ``y``.
        """
        return self._update(X, y, sample_weight, classes)

    def predict_proba(
        self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None
    ) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``."""
        outputs, weights = self._outputs(X, shift=shift, groups=groups)
        mixed: np.ndarray = np.tensordot(weights, outputs, 1)
        return mixed

    def predict(self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None) -> np.ndarray:
        """Return the most probable label of every row."""
        probabilities = self.predict_proba(X, shift=shift, groups=groups)
        return self.fitted_.targets.decode(probabilities)
