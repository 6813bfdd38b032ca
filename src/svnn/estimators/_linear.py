"""Linear models in closed form, as scikit-learn estimators: ridge regression and the shrunk linear discriminant."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import Rule, boolean, check_parameters, class_weights, integer, number, seed
from svnn._types import ColumnLike, DataLike, RandomState
from svnn._validation import at_once
from svnn.estimators._base import fitted_property, predictor_tags
from svnn.estimators._blend_weights import sharpness
from svnn.estimators._closed_form import Linear, discriminants, gram_matrix, ridge, strongest, updated_linear
from svnn.estimators._data import Data, Rows, check_signals, more_rows, prepare
from svnn.estimators._units import NumberTargets, Standardizer, Targets, softmax
from svnn.functional._array import generator

#: Rows or values of a row, whichever are fewer, and values of the table, up to which a linear model is found within
#: seconds and a gigabyte; also the values of a row up to which ``partial_fit`` keeps their second moments.
_MOST_LINEAR, _MOST_LINEAR_VALUES = 3000, 2**25


def is_small_enough(n_rows: int, n_columns: int) -> bool:
    """Return whether a table of N F columns is small enough for a linear model.

    Examples
    --------
    >>> is_small_enough(1000, 20_000), is_small_enough(10_000, 20_000), is_small_enough(10_000, 4000)
    (True, False, False)
    """
    return min(n_rows, n_columns) <= _MOST_LINEAR and n_rows * n_columns <= _MOST_LINEAR_VALUES


@dataclass(frozen=True)
class LinearFitted:
    """A linear function of standardised signals, its units, and the second moments of the rows so far.

    ``weight`` has shape (n_outputs, N F), ``bias`` (n_outputs,). ``gram`` is None where a row has too many values.
    ``unseen`` are the places of classes that had no rows yet.
    """

    weight: np.ndarray
    bias: np.ndarray
    standardizer: Standardizer
    targets: Targets
    n_values: int
    gram: np.ndarray | None = None
    unseen: tuple[int, ...] = ()

    @property
    def linear(self) -> Linear:
        """The function itself."""
        return Linear(self.weight, self.bias)


class _OutOfFold(NamedTuple):
    """Outputs (models, n, n_outputs) for rows that the models have not seen, and where these stand in the table."""

    outputs: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    places: np.ndarray | None  # None for rows that the caller gave apart


class _LinearModel(BaseEstimator):
    """Base of both linear models: check, standardise, fit, choose by held-out rows, update."""

    _rules: ClassVar[dict[str, Rule]] = {
        "standardize": boolean(),
        "validation_fraction": number(0, 1),
        "folds": integer(1),
        "random_state": seed(),
    }
    _are_labels: ClassVar[bool]
    random_state: RandomState
    fitted_: LinearFitted
    out_of_fold_: np.ndarray | None

    @at_once
    def fit(
        self, X: DataLike, y: ColumnLike, sample_weight: Any = None, *, groups: Any = None, validation_data: Any = None
    ) -> Self:
        """Fit the model, as :meth:`svnn.SVNNRegressor.fit`; with ``validation_data`` no rows are held out."""
        return self._fit(X, y, sample_weight, groups=groups, validation_data=validation_data)

    def __sklearn_tags__(self) -> Tags:
        return predictor_tags(super().__sklearn_tags__(), self)

    def _fit(self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, **given: Any) -> Self:
        model: Any = self
        check_parameters(self)
        state, n_folds = int(generator(model.random_state).integers(2**31)), int(model.folds)
        data = prepare(self, X, y, sample_weight, seed=state, are_labels=self._are_labels, n_folds=n_folds, **given)
        rows, n_outputs = data.training, data.targets.n_outputs
        models = self._models(rows, n_outputs)
        held = self._held_out(data, models)
        number, factor = self._choice(models, held)
        linear = models[number]
        Z = _flat(rows.signals)
        unseen: tuple[int, ...] = ()
        if self._are_labels:
            unseen = tuple(np.setdiff1d(np.arange(n_outputs), rows.targets[rows.weight > 0]).tolist())
        self.fitted_ = LinearFitted(
            factor * linear.weight,
            factor * linear.bias,
            data.standardizer,
            data.targets,
            rows.signals.shape[2],
            gram_matrix(Z, rows.weight) if Z.shape[1] <= _MOST_LINEAR else None,
            unseen,
        )
        self.out_of_fold_ = None
        if held is not None and held.places is not None:
            predictions = self._predictions(factor * held.outputs[number])
            self.out_of_fold_ = np.full((data.n_rows, *predictions.shape[1:]), np.nan)
            self.out_of_fold_[held.places] = predictions
        return self

    def _models(self, rows: Rows, n_outputs: int) -> list[Linear]:
        """Return linear models of the rows that have weight, one or several to choose from."""
        used = rows.weight > 0
        Z, targets, weight = _flat(rows.signals[used]), rows.targets[used], rows.weight[used]
        if self._are_labels:
            return discriminants(Z, targets, weight, n_outputs)
        return [ridge(Z, targets, weight)]

    def _held_out(self, data: Data, models: list[Linear]) -> _OutOfFold | None:
        """Return outputs for held-out rows, in the units of the whole fit; None where there are none."""
        if data.callers_rows and data.held_out is not None:
            Z = _flat(data.held_out.signals)
            outputs = np.array([model(Z) for model in models])
            return _OutOfFold(outputs, data.held_out.targets, data.held_out.weight, None)
        parts, rows = [], data.training
        for left_out in data.folds:
            part = data.without(left_out, bool(cast(Any, self).standardize))
            weight = part.training.weight.copy()
            weight[left_out] = 0
            others = self._models(part.training._replace(weight=weight), data.targets.n_outputs)
            outputs = np.array([model(_flat(part.training.signals[left_out])) for model in others])
            if isinstance(part.targets, NumberTargets):  # in units of these rows, relative to those of the whole fit
                outputs = part.targets.standardizer.inverse(outputs)
            parts.append(outputs)
        if not parts:
            return None
        places = np.concatenate(data.folds)
        return _OutOfFold(np.concatenate(parts, 1), rows.targets[places], rows.weight[places], data.rows[places])

    def _choice(self, models: list[Linear], held: _OutOfFold | None) -> tuple[int, float]:
        """Return which of the models held-out rows choose, and the factor of its outputs."""
        return len(models) - 1, 1.0

    def _predictions(self, outputs: np.ndarray) -> np.ndarray:
        """Return outputs as out-of-fold predictions: probabilities, or numbers in the units of y."""
        return softmax(outputs) if self._are_labels else self.fitted_.targets.decode(outputs)

    def _outputs(self, X: DataLike) -> np.ndarray:
        check_is_fitted(self)
        Z = self.fitted_.standardizer(check_signals(self, X, self.fitted_.n_values))
        return self.fitted_.linear(_flat(Z))

    def predict(self, X: DataLike) -> np.ndarray:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``, or labels."""
        outputs = self._outputs(X)
        return self.fitted_.targets.decode(outputs)

    def _update(
        self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, classes: ColumnLike | None = None
    ) -> Self:
        """Fit the model in the first call; then update it by new rows."""
        if not hasattr(self, "fitted_"):
            return self._fit(X, y, sample_weight, classes=classes)
        check_parameters(self)
        fitted = self.fitted_
        if fitted.gram is None:
            raise ValueError(
                f"partial_fit of a linear model needs at most {_MOST_LINEAR:,} values per row, got "
                f"{fitted.weight.shape[1]:,}; fit all rows again."
            )
        rows = more_rows(self, fitted, X, y, sample_weight).training
        Z, targets, weight = _flat(rows.signals), rows.targets, rows.weight
        A, b = fitted.weight.copy(), fitted.bias.copy()
        first = [k for k in fitted.unseen if k in targets[weight > 0]]
        seen = [k for k in range(len(b)) if k not in fitted.unseen]
        for k in first:  # the fit made classes without rows all but impossible
            A[k], b[k] = A[seen].mean(0), b[seen].mean()
        A, b = updated_linear(Linear(A, b), Z, targets, weight, fitted.gram)
        unseen = tuple(k for k in fitted.unseen if k not in first)
        gram = fitted.gram + gram_matrix(Z, weight)
        self.fitted_ = replace(fitted, weight=A, bias=b, gram=gram, unseen=unseen)
        return self

    def _in_units_of_y(self) -> tuple[np.ndarray, Any]:
        """Return the coefficients and intercepts for X and y in their own units."""
        fitted = self.fitted_
        shape = (self.n_features_in_, fitted.n_values)
        mean, scale = (
            np.broadcast_to(each, shape).ravel() for each in (fitted.standardizer.mean, fitted.standardizer.scale)
        )
        A = fitted.weight / scale
        b = fitted.bias - A @ mean
        if not isinstance(fitted.targets, NumberTargets):
            return A, b
        units, of_y = fitted.targets.standardizer, fitted.targets.shape
        return (A * np.reshape(units.scale, (-1, 1))).reshape(*of_y, -1), units.inverse(b).reshape(of_y)[()]

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features, for predictions or logits."""
        return self._in_units_of_y()[0]

    @property
    def intercept_(self) -> Any:
        """Predictions, or logits, where all features are zero."""
        return self._in_units_of_y()[1]


class LinearRegressor(RegressorMixin, _LinearModel):
    """Ridge regression whose penalty leaves the smallest errors when each row in turn is left out.

    Parameters
    ----------
    standardize : bool, default=True
        Whether features and targets get mean 0 and standard deviation 1 in the training rows.
    validation_fraction : float in [0, 1), default=0.1
        Share of the rows that is held out at a time; 0 holds none out. A discriminant is then shrunk to the identity.
    folds : int, default=4
        Number of sets of rows that are held out, at most.
    random_state : int, Generator, RandomState or None, default=None
        Seed of these sets. S-VNNs with the same integer hold out the same rows.

    Attributes
    ----------
    coef_ : ndarray of shape (N F,), (n_outputs, N F) or (n_classes, N F)
    intercept_ : float or ndarray of shape (n_outputs,) or (n_classes,)
    out_of_fold_ : ndarray of the shape of y, or (t, n_classes), or None
        Predictions, or probabilities, of held-out rows by models of the other rows; NaN for rows not held out.
    fitted_ : LinearFitted
        The same in standardised units.
    n_features_in_, feature_names_in_
        As in :class:`svnn.SVNNRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = LinearRegressor(random_state=0).fit(X, X @ [1.0, 2.0, 0.0] + 5)
    >>> model.coef_.round(3) + 0.0, round(float(model.intercept_), 3)
    (array([1., 2., 0.]), 5.0)
    >>> int(np.isfinite(model.out_of_fold_).sum())
    20
    """

    _are_labels = False

    def __init__(
        self,
        *,
        standardize: bool = True,
        validation_fraction: float = 0.1,
        folds: int = 4,
        random_state: RandomState = None,
    ) -> None:
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.folds = folds
        self.random_state = random_state

    @at_once
    def partial_fit(self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None = None) -> Self:
        """Update the model by recursive least squares, in the units of the first call, which is :meth:`fit`."""
        return self._update(X, y, sample_weight)


class LinearClassifier(ClassifierMixin, _LinearModel):
    """Linear discriminant analysis whose covariance within classes is shrunk by as much as suits held-out rows.

    Parameters
    ----------
    standardize, validation_fraction, folds
        As in :class:`LinearRegressor`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    random_state
        As in :class:`LinearRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
    coef_, intercept_, out_of_fold_, fitted_, n_features_in_, feature_names_in_
        As in :class:`LinearRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> round(LinearClassifier(random_state=0).fit(iris.data, iris.target).score(iris.data, iris.target), 2)
    0.98
    """

    _are_labels = True
    classes_ = fitted_property("fitted_.targets.classes", "The labels, in order.")
    _rules: ClassVar[dict[str, Rule]] = {**_LinearModel._rules, "class_weight": class_weights()}

    def __init__(
        self,
        *,
        standardize: bool = True,
        validation_fraction: float = 0.1,
        folds: int = 4,
        class_weight: Mapping[Hashable, float] | str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.folds = folds
        self.class_weight = class_weight
        self.random_state = random_state

    @at_once
    def partial_fit(
        self, X: DataLike, y: ColumnLike, classes: ColumnLike | None = None, sample_weight: ColumnLike | None = None
    ) -> Self:
        """Update the model by new rows and the moments of earlier ones; as :meth:`svnn.SVNNClassifier.partial_fit`."""
        return self._update(X, y, sample_weight, classes)

    def _choice(self, models: list[Linear], held: _OutOfFold | None) -> tuple[int, float]:
        if held is None:
            return super()._choice(models, held)
        factors, losses = zip(*(sharpness(each, held.targets, held.weight) for each in held.outputs), strict=True)
        best = strongest(losses)
        return best, factors[best]

    def predict_proba(self, X: DataLike) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``."""
        return softmax(self._outputs(X))


def _flat(signals: np.ndarray) -> np.ndarray:
    """Return signals (t, N, F) as a table (t, N F) in double precision."""
    return signals.reshape(len(signals), -1).astype(np.float64, copy=False)
