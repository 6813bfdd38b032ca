"""The contract of a covariance estimator, as checks that say what is broken."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from sklearn.base import clone

from svnn._types import DataLike, FloatArray
from svnn.operators import as_operator
from svnn.testing._expect import expect, expect_close, expect_error, run_checks


class Estimator(Protocol):
    """An estimator to check: an object with ``fit`` that sets ``covariance_``."""

    def fit(self, X: Any) -> Any:
        """Estimate the covariance of ``X`` and return self."""
        ...


def check_covariance(
    estimator: Estimator, *, tensors: bool = False, skip: Collection[str] = (), tolerance: float = 1e-6
) -> None:
    r"""Check that a covariance estimator can be used wherever svnn takes one.

    Beside scikit-learn's own ``check_estimator``, which knows nothing about covariances.

    Parameters
    ----------
    estimator : object with ``fit(X)`` that sets ``covariance_``
        It is cloned, never fitted itself.
    tensors : bool, default=False
        Whether the estimator also takes torch tensors, and gives a tensor for one.
    skip : collection of str
        Names of checks, from the list below, that the estimator does not claim to pass: a fixed threshold knows about
        units, random dropping knows about the order of the features, shrinkage gives constant features a variance.
    tolerance : float, default=1e-6
        How far entries may be apart in "permutation" and "scaling", relative to the largest one. Estimators that
        stop an iteration early need more.

    Raises
    ------
    AssertionError
        At the first check that fails, with a sentence that says what is broken.

    Notes
    -----
    The checks are, in this order:

    - ``"parameters"``: ``get_params`` and scikit-learn's ``clone`` work, and ``fit`` changes no parameter;
    - ``"fit"``: ``fit`` returns self and leaves ``X`` as it was; ``covariance_`` is (N, N), real, finite, symmetric,
      without negative variances; ``location_`` and ``n_features_in_``, where there are any, have the right size;
    - ``"operator"``: ``svnn.as_operator`` takes ``covariance_``;
    - ``"refit"``: a second ``fit``, on data with other features, forgets the first;
    - ``"seed"``: the same data and ``random_state`` give the same result;
    - ``"permutation"``: features in another order give the same matrix in that order;
    - ``"scaling"``: data in units four times as small give a matrix sixteen times as large;
    - ``"constant"``: a constant feature has a row and a column of zeros;
    - ``"missing"``: NaN and infinity are a ``ValueError`` (NaN only where the estimator's tags do not allow it);
    - ``"single"``: data in single precision give the same matrix up to rounding;
    - ``"partial_fit"``: where there is such a method, rows in pieces give the matrix of one ``fit`` on all of them,
      also with a half-life where there is a parameter ``halflife``, and a piece that fails changes nothing;
    - ``"tensors"``: a tensor gives the same matrix as a tensor; left out unless ``tensors=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from sklearn.utils.validation import validate_data
    >>> from svnn.testing import check_covariance
    >>> class Diagonal(BaseEstimator):
    ...     "Variances only."
    ...
    ...     def fit(self, X, y=None):
    ...         X = validate_data(self, X)
    ...         self.covariance_ = np.diag(X.var(axis=0))
    ...         return self
    >>> check_covariance(Diagonal())

    A mistake is named:

    >>> class Silent(Diagonal):
    ...     def fit(self, X, y=None):
    ...         super().fit(X)
    >>> check_covariance(Silent())
    Traceback (most recent call last):
        ...
    AssertionError: Silent: fit must return self, it returned NoneType.

    scikit-learn's estimators pass, but for what shrinkage does to constant features:

    >>> from sklearn.covariance import LedoitWolf
    >>> check_covariance(LedoitWolf(), skip=["constant"])
    """
    checks = CHECKS | {
        "permutation": partial(check_permutation, tolerance=tolerance),
        "scaling": partial(check_scaling, tolerance=tolerance),
    }
    if not tensors:
        del checks["tensors"]
    run_checks(checks, skip, estimator)


def sample_data() -> FloatArray:
    """Return 60 samples of nine correlated features in different units, which single precision holds exactly."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((60, 1))
    X = (common * rng.uniform(-1, 1, 9) + rng.standard_normal((60, 9))) * np.linspace(0.5, 3, 9)
    return X.astype(np.float32).astype(np.float64)


def _named(estimator: Estimator, sentence: str) -> str:
    return f"{type(estimator).__name__}: {sentence}"


def _fitted(estimator: Estimator, X: DataLike) -> Any:
    """Fit a fresh copy with a seed and return it."""
    fresh: Any = clone(estimator, safe=False)
    if "random_state" in _parameters(fresh) and fresh.get_params()["random_state"] is None:
        fresh.set_params(random_state=0)
    return _refitted(fresh, X)


def _refitted(estimator: Any, X: Any) -> Any:
    """Fit this very estimator, with two classes as targets where targets are required, and return it."""
    targets = [np.arange(len(X)) % 2] if _tag(estimator, "target_tags", "required") else []
    result = estimator.fit(X, *targets)
    expect(result is estimator, _named(estimator, f"fit must return self, it returned {type(result).__name__}."))
    expect(hasattr(estimator, "covariance_"), _named(estimator, "fit must set covariance_."))
    return estimator


def _tag(estimator: Any, group: str, name: str) -> bool:
    tags = getattr(estimator, "__sklearn_tags__", None)
    return tags is not None and bool(getattr(getattr(tags(), group), name))


def _parameters(estimator: Any) -> dict[str, Any]:
    return estimator.get_params() if hasattr(estimator, "get_params") else {}


def _dense(covariance: Any) -> FloatArray:
    """Return a matrix of any kind as a dense numpy array, without checking it."""
    if isinstance(covariance, torch.Tensor):
        covariance = covariance.to_dense().cpu().numpy()
    return np.asarray(covariance.toarray() if hasattr(covariance, "toarray") else covariance)


def _covariance(estimator: Estimator, X: DataLike) -> FloatArray:
    return _dense(_fitted(estimator, X).covariance_)


def _expect_same(found: FloatArray, expected: FloatArray, sentence: str, tolerance: float) -> None:
    expect_close(found, expected, sentence, rtol=0.0, atol=tolerance * np.abs(expected).max())


def check_parameters(estimator: Estimator) -> None:
    """``get_params`` and ``clone`` work, and ``fit`` changes no parameter."""
    sentence = "it needs get_params and set_params; inherit from sklearn.base.BaseEstimator."
    expect(hasattr(estimator, "get_params") and hasattr(estimator, "set_params"), _named(estimator, sentence))
    before = _parameters(clone(estimator))
    for name, value in _parameters(estimator).items():
        unfitted = repr(clone(value, safe=False))  # a fitted estimator prints more than its parameters
        expect(repr(before[name]) == unfitted, _named(estimator, f"clone changes {name} to {before[name]!r}."))
    fitted = clone(estimator)
    before = {name: id(value) for name, value in fitted.get_params(deep=False).items()}
    _refitted(fitted, sample_data())
    for name, value in fitted.get_params(deep=False).items():
        expect(id(value) == before[name], _named(estimator, f"fit must not change parameters; it changed {name}."))


def check_fit(estimator: Estimator) -> None:
    """``fit`` returns self, leaves ``X`` as it was, and sets a real, finite, symmetric (N, N) matrix."""
    X = sample_data()
    given = X.copy()
    fitted = _fitted(estimator, given)
    expect(bool((given == X).all()), _named(estimator, "fit must not change the data it is given."))
    C, n = _dense(fitted.covariance_), X.shape[1]
    expect(C.shape == (n, n), _named(estimator, f"covariance_ has shape {C.shape}, expected {(n, n)}."))
    expect(C.dtype.kind == "f", _named(estimator, f"covariance_ has dtype {C.dtype}, expected floating numbers."))
    expect(bool(np.isfinite(C).all()), _named(estimator, "covariance_ must be finite."))
    _expect_same(C, C.T, _named(estimator, "covariance_ must be symmetric."), 1e-12)
    expect(bool((C.diagonal() >= 0).all()), _named(estimator, "covariance_ has a negative variance."))
    if hasattr(fitted, "location_"):
        shape = tuple(np.shape(fitted.location_))
        expect(shape == (n,), _named(estimator, f"location_ has shape {shape}, expected {(n,)}."))
    seen = getattr(fitted, "n_features_in_", n)
    expect(seen == n, _named(estimator, f"n_features_in_ is {seen}, expected {n}."))


def check_takes_operator(estimator: Estimator) -> None:
    """``as_operator`` takes the result."""
    covariance = _fitted(estimator, sample_data()).covariance_
    try:
        dense = as_operator(covariance).to_dense().numpy()
    except (TypeError, ValueError) as error:
        raise AssertionError(_named(estimator, f"svnn.as_operator refuses covariance_: {error}")) from error
    _expect_same(dense, _dense(covariance), _named(estimator, "the operator of covariance_ is another matrix."), 1e-12)


def check_refit(estimator: Estimator) -> None:
    """A second ``fit`` forgets the first."""
    X = sample_data()
    once = _fitted(estimator, X[:, :5])
    twice = _refitted(_fitted(estimator, X), X[:, :5])
    sentence = _named(estimator, "a second fit must give what a first fit on the same data gives.")
    _expect_same(_dense(twice.covariance_), _dense(once.covariance_), sentence, 1e-12)


def check_seed(estimator: Estimator) -> None:
    """The same data and ``random_state`` give the same result."""
    X = sample_data()
    sentence = _named(estimator, "two fits with the same data and random_state must give the same matrix.")
    _expect_same(_covariance(estimator, X), _covariance(estimator, X), sentence, 0.0)


def check_permutation(estimator: Estimator, tolerance: float = 1e-6) -> None:
    """Features in another order give the same matrix in that order."""
    X = sample_data()
    order = np.random.default_rng(1).permutation(X.shape[1])
    sentence = "the order of the features matters; skip=['permutation'] if it is meant to."
    expected = _covariance(estimator, X)[np.ix_(order, order)]
    _expect_same(_covariance(estimator, X[:, order]), expected, _named(estimator, sentence), tolerance)


def check_scaling(estimator: Estimator, tolerance: float = 1e-6) -> None:
    """Data in other units give the same matrix in those units."""
    X = sample_data()
    sentence = "data times 4 must give covariance_ times 16; skip=['scaling'] if the units are meant to matter."
    expected = 16 * _covariance(estimator, X)
    _expect_same(_covariance(estimator, 4 * X), expected, _named(estimator, sentence), tolerance)


def check_constant(estimator: Estimator) -> None:
    """A constant feature has a row and a column of zeros."""
    X = sample_data()
    X[:, 3] = 7.0
    C = _covariance(estimator, X)
    expect(
        bool(np.isfinite(C).all()), _named(estimator, "a constant feature must not make covariance_ infinite or NaN.")
    )
    zero = not C[3].any() and not C[:, 3].any()
    expect(zero, _named(estimator, "a constant feature must have a row and a column of zeros."))


def check_missing(estimator: Estimator) -> None:
    """NaN, unless the tags allow it, and infinity are errors."""
    for value in (np.nan, np.inf):
        if np.isnan(value) and _tag(estimator, "input_tags", "allow_nan"):
            continue
        X = sample_data()
        X[5, 2] = value
        with expect_error(ValueError, _named(estimator, f"fit must raise a ValueError where X contains {value}.")):
            _covariance(estimator, X)


def check_single(estimator: Estimator) -> None:
    """Data in single precision give the same matrix up to rounding."""
    X = sample_data()
    sentence = _named(estimator, "data in single precision must give the same matrix up to rounding.")
    _expect_same(_covariance(estimator, X.astype(np.float32)), _covariance(estimator, X), sentence, 1e-3)


def check_partial_fit(estimator: Estimator) -> None:
    """Rows in pieces give the matrix of one ``fit`` on all of them, and a piece that fails changes nothing."""
    if not hasattr(estimator, "partial_fit"):
        return
    X = sample_data()
    halflives: list[dict[str, float]] = [{}, {"halflife": 20.0}] if "halflife" in _parameters(estimator) else [{}]
    for parameters in halflives:
        fresh: Any = clone(estimator, safe=False)
        fresh.set_params(**parameters)
        whole = _covariance(fresh, X)
        pieces: Any = clone(_fitted(fresh, X[:20]), safe=False)  # with the seed that it was given
        for rows in (X[:20], X[20:21], X[21:]):
            result = pieces.partial_fit(rows)
            expect(result is pieces, _named(estimator, "partial_fit must return self."))
            with expect_error(ValueError, _named(estimator, "partial_fit must refuse rows with other features.")):
                pieces.partial_fit(rows[:, :-1])
        sentence = f"partial_fit in pieces must give what fit gives on all rows {parameters or ''}."
        _expect_same(_dense(pieces.covariance_), whole, _named(estimator, sentence), 1e-9)
        sentence = _named(estimator, "partial_fit after fit must go on from its rows.")
        after = _fitted(fresh, X[:30]).partial_fit(X[30:])
        _expect_same(_dense(after.covariance_), whole, sentence, 1e-9)


def check_tensors(estimator: Estimator) -> None:
    """A tensor gives the same matrix as a tensor."""
    X = sample_data()
    fitted = _fitted(estimator, torch.tensor(X))
    kind = type(fitted.covariance_).__name__
    sentence = f"covariance_ of a tensor must be a tensor, it is {kind}."
    expect(isinstance(fitted.covariance_, torch.Tensor), _named(estimator, sentence))
    sentence = _named(estimator, "a tensor must give the same matrix as an array.")
    _expect_same(_dense(fitted.covariance_), _covariance(estimator, X), sentence, 1e-9)


CHECKS: dict[str, Callable[[Estimator], None]] = {
    "parameters": check_parameters,
    "fit": check_fit,
    "operator": check_takes_operator,
    "refit": check_refit,
    "seed": check_seed,
    "permutation": check_permutation,
    "scaling": check_scaling,
    "constant": check_constant,
    "missing": check_missing,
    "single": check_single,
    "partial_fit": check_partial_fit,
    "tensors": check_tensors,
}
