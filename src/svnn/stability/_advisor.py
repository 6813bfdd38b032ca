"""Which covariance? Advice by predictions of a target, or by the covariance of held-out rows alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from svnn._types import ColumnLike, DataLike, RandomState
from svnn.functional._array import generator, non_negative, unit_interval
from svnn.functional._centring import centre, deviation, is_constant
from svnn.stability._advice import Advice, rank
from svnn.stability._candidates import Candidate, Sample, candidates, held_out_error, noise_spectrum, related_share
from svnn.stability._inputs import check_integer, data
from svnn.stability._records import Records

if TYPE_CHECKING:
    from svnn.comparison import PredictionAdvice

#: The largest density at which sparsifiers are tried where the user sets no limit.
_MOST = 0.9
_MIN_SAMPLES = 10
_FOLDS = 5
#: Correlations of factors that all features share extend over a larger share of the pairs. Those of random (Gaussian)
#: eigenvectors extend over 2/pi, or 64 %, of them.
_FACTOR_SPREAD = 0.75


def advise(
    X: DataLike,
    y: ColumnLike | None = None,
    *,
    groups: ColumnLike | None = None,
    task: str | None = None,
    covariances: Sequence[str] | None = None,
    max_rows: int = 500,
    n_jobs: int | None = None,
    density: float | None = None,
    n_splits: int = 10,
    tolerance: float = 0.025,
    max_features: int = 300,
    random_state: RandomState = 0,
) -> Advice | PredictionAdvice:
    r"""Recommend a covariance for ``X``: the one that predicts ``y`` best, or that agrees best with held-out rows.

    With ``y`` the network is trained with each of a few covariances, and without edges, on the same splits of the rows.
    Covariances are ranked by the mean absolute error of the predictions, or the share of wrong classes. The default is
    recommended unless another one is significantly better. Without ``y`` estimates are compared with the covariance of
    held-out rows. That is quick, but says nothing about predictions: a well estimated covariance may predict badly.

    Parameters
    ----------
    X : array or data frame of shape (t, N)
        Without ``y`` also of shape (t, N, F). With ``y`` missing values are NaN.
    y : array of shape (t,), optional
        Numbers or classes to predict.
    groups : array of shape (t,), optional
        With ``y``: rows of one group, such as those of one person, are never on both sides of a split.
    task : {"regression", "classification"}, optional
        With ``y``: by default text, booleans and at most ten different integers are classes.
    covariances : sequence of str, optional
        With ``y``: names of covariances to compare with the default. By default "soft", "sample", "ledoit_wolf",
        "factors", "acv" and "rcv".
    max_rows : int, default=500
        With ``y``: larger tables are reduced to this many random rows, which bounds the cost to about a minute.
    n_jobs : int, optional
        With ``y``: the number of processes; the answer does not depend on it. By default all fits run in this one.
    density : float in [0, 1], optional
        Without ``y``: the largest share of the pairs of features that may be kept. By default all may be, and dense
        covariances are candidates, too.
    n_splits : int, default=10
        Without ``y``: how often the samples are split into a part to fit on and a fifth that is held out. The splits
        come from rounds of five random folds.
    tolerance : float, default=0.025
        Without ``y``: candidates count as equally good where their errors exceed the smallest one by at most this share
        of it.
    max_features : int, default=300
        Without ``y``: wider tables are reduced to this many random features, which bounds the cost. The error of
        stochastic sparsifiers is then overestimated, because the noise of their masks averages out over the neighbours
        of a node, and some of these are missing.
    random_state : int, default=0
        Seed of everything that is drawn. Without ``y`` it may be a Generator, or None, which draws anew each time.

    Returns
    -------
    PredictionAdvice or Advice
        ``covariance``, ``label``, ``reasons``, ``table`` and the numbers; ``print`` shows them. With ``y`` the
        ``covariance`` is a name, otherwise an estimator.

    Notes
    -----
    *With a target.* There are five folds. Covariance, standardisation, weights and imputed values come from the
    training rows of each. Another covariance than the default is recommended where a one-sided
    paired test over the folds, with the variance that Nadeau and Bengio correct for shared training rows, has
    p < 0.05 divided by the number of candidates beside the default. Candidates have few members (4) here. The gain of
    a recommended covariance is measured on the rows that chose it; on others it is a little smaller.

    *Without a target.* The remaining notes are about this case. Features are standardised, as
    :class:`svnn.SVNNRegressor` does. Standardise the data first where you fit ``advice.estimator`` yourself.

    *Sparse or dense.* The covariance looks dense if one of three conditions holds: more than half of the pairs are
    related, by the distribution of their z-scores; the hard threshold chosen by cross-validation (Bickel & Levina
    2008) keeps more than half of them; or the eigenvalues above the Marchenko–Pastur edge, the largest of pure noise,
    belong to factors that all features share (their correlations extend over more than 75 % of the pairs). Relations
    that are too weak for t samples are not detected: with few samples every covariance looks sparse.

    *Which covariance.* Every candidate is fitted on four fifths of the samples and compared with the correlations C of
    the rest by the error of a shifted signal, relative to its size,

    .. math:: \text{error}^2 = \frac{\mathbb E\|\tilde C x - C x\|^2}{\mathbb E\|C x\|^2}
              = \frac{\operatorname{tr}((C_m - C) C (C_m - C)) + \sum_{ij} v_{ij} c_{jj}}{\operatorname{tr} C^3},

    which is exact over the random masks (mean :math:`C_m`, variance V) and over signals with the held-out covariance:
    no mask is drawn. The error includes the noise of C, which is the same for all candidates.

    *Order.* The recommendation is the first row of the table. The table starts with the candidates of the preferred
    type whose errors are within the ``tolerance`` of the smallest, and not above that of a dense covariance
    where ``density`` allows one: thresholding rules where the covariance looks sparse, by their errors, and stochastic
    sparsifiers where it looks dense, those that keep the fewest pairs first. The others follow by their errors, so
    that the best of all comes first where none of the preferred type is good enough. Covariances that keep more pairs
    than ``density`` allows are listed last, for comparison.

    The Frobenius error (``matrix_error``) is reported but does not decide. Of all ways to keep a share of the
    entries, keeping the largest is always closest to the sample covariance in that norm. A shifted signal shows more:
    cutting the small entries of a common factor changes every output in the same direction, while entries dropped at
    random, with weights 1/p (``unbiased=True``), average out over the neighbours of a node.

    References
    ----------
    P. J. Bickel and E. Levina, Covariance regularization by thresholding, Annals of Statistics 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.datasets import make_sparse_covariance
    >>> from svnn.paper import make_large_cov
    >>> C = make_sparse_covariance(40, density=0.1, kind="block", random_state=0)
    >>> X = np.random.default_rng(0).multivariate_normal(np.zeros(40), C, 300)
    >>> advice = advise(X, random_state=0)
    >>> advice.looks, advice.label
    ('sparse', 'HardThreshold(scale=2.0)')
    >>> advise(make_large_cov(300, 40, random_state=0).X, density=0.5, random_state=0).label
    'ACV(density=0.5, unbiased=True)'

    With a target that is the sum of all features the covariance gains nothing:

    >>> answer = advise(X[:60, :8], X[:60, :8].sum(1), covariances=["soft"])
    >>> answer.covariance
    'hard'
    """
    if y is not None:
        if density is not None:
            raise ValueError("advise: density= is for advice without y; with y give the names of covariances=.")
        from svnn.comparison._advisor import advise_by_prediction

        return advise_by_prediction(
            X,
            y,
            groups=groups,
            task=task,
            covariances=covariances,
            max_rows=max_rows,
            n_jobs=n_jobs,
            random_state=random_state,  # type: ignore[arg-type]  # which it checks
        )
    if not (groups is None and task is None and covariances is None):
        raise ValueError("advise: groups=, task= and covariances= need y, the target.")
    n_splits = check_integer(n_splits, "n_splits must be an integer >= 1", 1)
    max_features = check_integer(max_features, "max_features must be an integer >= 2", 2)
    tolerance = non_negative(tolerance, "tolerance")
    budget = 1.0 if density is None else unit_interval(density, "density")
    rng = generator(random_state)
    Z, n_features, notes = _standardised(X, max_features, rng)
    # The universal threshold grows with log N: a factor for some of the features is restated for all of them.
    options = candidates(_MOST if density is None else budget, math.sqrt(math.log(Z.shape[1]) / math.log(n_features)))
    table = _cross_validated(options, Z, n_splits, rng)

    whole = Sample.of(Z, rng)
    spectrum = noise_spectrum(whole.R, len(Z))
    related = related_share(whole.R, whole.theta, len(Z))
    cv = min(
        (i for i, option in enumerate(options) if option.scale is not None), key=lambda i: table[i]["matrix_error"]
    )
    cv_density = table[cv]["density"]
    dense = related > 0.5 or cv_density > 0.5 or spectrum.spread > _FACTOR_SPREAD
    ranked = rank(table, budget, tolerance, dense)
    return Advice(
        looks="dense" if dense else "sparse",
        estimator=next(option.estimator for option in options if option.label == ranked[0]["estimator"]),
        table=ranked,
        density=budget,
        tolerance=tolerance,
        related_share=related,
        edge=spectrum.edge,
        n_above=spectrum.n_above,
        variance_above=spectrum.variance_above,
        spread=spectrum.spread,
        cv_threshold=whole.universal(options[cv].scale or 0.0),
        cv_density=cv_density,
        n_samples=len(Z),
        n_features=n_features,
        notes=notes,
    )


def _standardised(X: DataLike, max_features: int, rng: np.random.Generator) -> tuple[np.ndarray, int, tuple[str, ...]]:
    """Return the examined features, standardised; the number of all features; notes on those left out."""
    X = data(X, "advise").astype(np.float64)
    n = X.shape[1]
    if len(X) < _MIN_SAMPLES:
        raise ValueError(f"advise needs at least {_MIN_SAMPLES} samples to hold some of them out, got {len(X)}.")
    notes = []
    varies = ~is_constant(X.min(0), X.max(0))
    varies = varies if X.ndim == 2 else varies.any(1)
    if not varies.all():
        notes.append(f"{n - varies.sum()} of the {n} features are constant and left out.")
        X = X[:, varies]
    if X.shape[1] < 2:
        raise ValueError(f"advise needs at least 2 features that are not constant, got {X.shape[1]}.")
    if X.shape[1] > max_features:
        notes.append(f"{max_features} of the {n} features are examined, drawn at random (max_features).")
        X = X[:, np.sort(rng.choice(X.shape[1], max_features, replace=False))]
    share = np.full(len(X), 1 / len(X))
    centred = centre(X.reshape(len(X), -1), share)
    scale = np.where(centred.constant, 1.0, deviation(centred, share) / centred.unit)
    return (centred.rest / scale).reshape(X.shape), n, tuple(notes)


def _cross_validated(options: list[Candidate], Z: np.ndarray, n_splits: int, rng: np.random.Generator) -> Records:
    """Return the root mean squared errors of every candidate over the splits, relative to what is estimated."""
    totals, sizes = np.zeros((len(options), 3)), np.zeros(2)
    for split in range(n_splits):
        if split % _FOLDS == 0:
            # Folds hold out every sample equally often, outliers included.
            fold = rng.permutation(len(Z)) % _FOLDS
        held_out = fold == split % _FOLDS
        train, test = Sample.of(Z[~held_out], rng), Sample.of(Z[held_out], rng, for_fitting=False)
        totals += [held_out_error(option, train, test) for option in options]
        sizes += ((test.R @ test.R) * test.R).sum(), (test.R**2).sum()
    errors = np.sqrt(totals[:, :2] / sizes)
    return Records(
        {
            "estimator": option.label,
            "kind": option.kind,
            "density": float(total[2] / n_splits),
            "error": float(error),
            "matrix_error": float(matrix_error),
        }
        for option, total, (error, matrix_error) in zip(options, totals, errors, strict=True)
    )
