"""The sparsifiers that ``advise`` chooses from, the error of each on held-out rows, and signs of a sparse matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.covariance import LedoitWolf, ledoit_wolf_shrinkage

from svnn.covariance import ACV, RCV, AdaptiveThreshold, HardThreshold, SampleCovariance, SoftThreshold
from svnn.functional import (
    Moments,
    acv_probabilities,
    largest_pairs,
    product_variances,
    rcv_probabilities,
    sample_moments,
    soft_threshold,
    threshold_for_density,
    universal_threshold,
)
from svnn.functional._array import upper_values
from svnn.functional.thresholds import RULES
from svnn.stability._sparsification import realisation_moments

#: Densities at which every kind is tried, and factors of the universal and the adaptive threshold.
DENSITIES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
HARD_SCALES = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
SOFT_SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
DELTAS = (1.0, 1.5, 2.0)

#: The median absolute value of a standard normal variable.
_MEDIAN = 0.6744897501960817
#: The mean of what a candidate makes of some rows, and the variance of every entry; None where nothing is random.
CandidateMoments: TypeAlias = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class Part:
    """Some of the rows: their correlations and, where candidates are fitted on them, what these need besides."""

    R: np.ndarray
    n_samples: int
    rng: np.random.Generator
    theta: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))  # (N, N), variances of products of features
    shrinkage: float = 0.0  # that of Ledoit and Wolf
    _probabilities: dict[tuple[type, float], np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, Z: np.ndarray, rng: np.random.Generator, for_fitting: bool = True) -> Part:
        """Take the correlations of rows of shape (t, N) or (t, N, F); held-out rows need nothing else."""
        mean, C, _ = sample_moments(Z)
        sd = np.sqrt(np.clip(C.diagonal(), 0, None))
        sd = np.where(sd > 0, sd, 1.0)
        R = C / (sd[:, None] * sd)
        if not for_fitting:
            return cls(R, len(Z), rng)
        wide = (slice(None),) + (None,) * (Z.ndim - 2)  # one number per node, for all its values
        Z = (Z - mean[wide]) / sd[wide]
        rows = Z if Z.ndim == 2 else Z.transpose(0, 2, 1).reshape(-1, Z.shape[1])
        theta = product_variances(Z, Moments(0 * mean, R, len(Z)))
        return cls(R, len(Z), rng, theta, float(ledoit_wolf_shrinkage(rows, assume_centered=True)))

    def universal(self, scale: float) -> float:
        """Return ``scale sqrt(log N / t)``."""
        return universal_threshold(self.n_samples, max(len(self.R), 2), scale)

    def probabilities(self, cls: type, density: float) -> np.ndarray:
        """Return the probabilities with which ACV or RCV keeps entries; the biased and the unbiased one share them."""
        if (cls, density) not in self._probabilities:
            found = acv_probabilities(self.R, density) if cls is ACV else rcv_probabilities(self.R, density, self.rng)
            self._probabilities[cls, density] = found
        return self._probabilities[cls, density]


class Candidate(NamedTuple):
    """An estimator, its name, its kind, and a function that says what it would make of some rows."""

    estimator: BaseEstimator
    label: str
    kind: str
    moments: Callable[[Part], CandidateMoments]
    density: float | None = None
    scale: float | None = None  # of a universal hard threshold


def candidates(budget: float, factor: float = 1.0) -> list[Candidate]:
    """Return the sparsifiers, at densities up to ``budget``, and the dense references.

    The factors of universal thresholds are multiplied by ``factor``, where only some of the features are looked at.
    """
    found = [
        Candidate(SampleCovariance(), "SampleCovariance()", "dense", lambda part: (part.R, None), 1.0),
        Candidate(LedoitWolf(), "LedoitWolf()", "dense", _shrunk, 1.0),
    ]
    for cls, rule, scales in ((HardThreshold, "hard", HARD_SCALES), (SoftThreshold, "soft", SOFT_SCALES)):
        for s in scales:
            one = _candidate(cls, {"scale": round(s * factor, 3)}, "threshold", _universal(s, rule))
            found.append(one._replace(scale=s) if rule == "hard" else one)
    for rule in ("hard", "soft"):
        for s in DELTAS:
            parameters: dict[str, float | str] = {"delta": round(s * factor, 3), "rule": rule}
            found.append(_candidate(AdaptiveThreshold, parameters, "threshold", _universal(s, rule, adaptive=True)))
    for d in sorted({*(d for d in DENSITIES if d < budget), budget}):
        found.append(_candidate(HardThreshold, {"density": d}, "threshold", _hard_at(d), d))
        found.append(_candidate(SoftThreshold, {"density": d}, "threshold", _soft_at(d), d))
        for weights in ({}, {"unbiased": True}):
            for kind, name in ((ACV, "density"), (RCV, "p")):
                found.append(_candidate(kind, {name: d, **weights}, "stochastic", _random(kind, d, bool(weights)), d))
    return found


def _candidate(
    cls: type[BaseEstimator],
    parameters: dict[str, float | str],
    kind: str,
    moments: Callable[[Part], CandidateMoments],
    density: float | None = None,
) -> Candidate:
    label = f"{cls.__name__}({', '.join(f'{k}={v!r}' for k, v in parameters.items())})"
    return Candidate(cls(**parameters), label, kind, moments, density)


class HeldOut(NamedTuple):
    """Squared errors on held-out rows, of a shifted signal and of the matrix, and the density."""

    shift: float
    frobenius: float
    density: float


def held_out_error(candidate: Candidate, train: Part, test: Part) -> HeldOut:
    r"""Return the exact expected errors of a candidate fitted on ``train``, against ``test``.

    :math:`C_m` is the mean and V the variance of every entry of what the candidate makes of the training part, C the
    held-out correlations, and the signals have :math:`\mathbb E[xx^\top] = C`:

    .. math:: \mathbb E\|\tilde Cx - Cx\|^2 = \operatorname{tr}((C_m - C) C (C_m - C)) + \sum_{ij} v_{ij} c_{jj}, \qquad
              \mathbb E\|\tilde C - C\|_F^2 = \|C_m - C\|_F^2 + \sum_{ij} v_{ij}
    """
    mean, variance = candidate.moments(train)
    C, n = test.R, len(test.R)
    E = mean - C
    shift, frobenius = float(((E @ C) * E).sum()), float((E**2).sum())
    if variance is not None:
        shift += float((variance @ C.diagonal()).sum())
        frobenius += float(variance.sum())
    density = candidate.density
    if density is None:
        density = (np.count_nonzero(mean) - np.count_nonzero(mean.diagonal())) / max(n * (n - 1), 1)
    return HeldOut(shift, frobenius, float(density))


def _shrunk(part: Part) -> tuple[np.ndarray, None]:
    # On the scale of correlations the mean of the variances is one, which the diagonal keeps.
    R = (1 - part.shrinkage) * part.R
    np.fill_diagonal(R, part.R.diagonal())
    return R, None


def _universal(scale: float, rule: str, adaptive: bool = False) -> Callable[[Part], CandidateMoments]:
    def moments(part: Part) -> tuple[np.ndarray, None]:
        threshold = part.universal(scale)
        return RULES[rule](part.R, threshold * np.sqrt(part.theta) if adaptive else threshold), None

    return moments


def _hard_at(density: float) -> Callable[[Part], CandidateMoments]:
    return lambda part: (np.where(largest_pairs(part.R, density), part.R, 0.0), None)


def _soft_at(density: float) -> Callable[[Part], CandidateMoments]:
    return lambda part: (soft_threshold(part.R, threshold_for_density(part.R, density)), None)


def _random(cls: type, density: float, unbiased: bool) -> Callable[[Part], CandidateMoments]:
    return lambda part: realisation_moments(part.R, part.probabilities(cls, density), unbiased)


# -- does the covariance look sparse? ---------------------------------------------------------------


def marchenko_pastur_edge(n_samples: float, n_features: int, variance: float = 1.0) -> float:
    r"""Return the largest eigenvalue that noise alone gives a sample covariance.

    .. math:: \lambda_+ = \sigma^2 \left(1 + \sqrt{N / t}\right)^2

    Parameters
    ----------
    n_samples : float
        t, the number of samples.
    n_features : int
        N, the number of features.
    variance : float, default=1.0
        :math:`\sigma^2`, the variance of independent features; 1 for correlations.

    Returns
    -------
    float

    Notes
    -----
    This is the upper end of the Marchenko–Pastur law, the limit of the spectrum for independent features as N and t
    grow in proportion. At finite N the largest eigenvalue exceeds it by a share of order :math:`N^{-2/3}`.

    References
    ----------
    V. A. Marchenko and L. A. Pastur, Distribution of eigenvalues for some sets of random matrices, 1967.

    Examples
    --------
    >>> round(marchenko_pastur_edge(n_samples=400, n_features=100), 4)
    2.25
    """
    if n_samples <= 0 or n_features < 1 or variance < 0:
        raise ValueError(
            f"n_samples, n_features and variance must be positive, got {n_samples!r}, {n_features!r}, {variance!r}."
        )
    return variance * (1 + math.sqrt(n_features / n_samples)) ** 2


class NoiseSpectrum(NamedTuple):
    """The eigenvalues of a correlation matrix that noise does not explain.

    ``n_above`` of them are larger than ``edge``, the largest that pure noise would give, and carry the share
    ``variance_above`` of the variance. ``spread`` is the share of the pairs over which their part of the correlations
    extends: near 1 for factors that all features share, the density of the blocks for blocks, 0 where no eigenvalue
    is above the edge.
    """

    edge: float
    n_above: int
    variance_above: float
    spread: float


def noise_spectrum(R: np.ndarray, n_samples: float) -> NoiseSpectrum:
    r"""Compare the spectrum of a correlation matrix with the Marchenko–Pastur edge.

    Parameters
    ----------
    R : ndarray of shape (N, N)
    n_samples : float

    Returns
    -------
    NoiseSpectrum

    Notes
    -----
    With :math:`L = \sum_{\lambda_k > \lambda_+} (\lambda_k - 1) v_k v_k^\top`, the part of R above the edge, the
    spread is the participation ratio of its off-diagonal entries,
    :math:`(\sum |l_{ij}|)^2 / (M \sum l_{ij}^2)` over the M pairs. It is 1 where all entries are alike, and
    :math:`2/\pi` for Gaussian ones. Eigenvectors of close eigenvalues mix in any way, and single ones say little; the
    spread does not depend on that.

    Examples
    --------
    >>> import numpy as np
    >>> factor = np.full((50, 50), 0.5) + 0.5 * np.eye(50)
    >>> noise_spectrum(factor, n_samples=200)
    NoiseSpectrum(edge=2.25, n_above=1, variance_above=0.51, spread=1.0)
    """
    n = len(R)
    edge = marchenko_pastur_edge(n_samples, n)
    values, vectors = np.linalg.eigh(R)
    above = values > edge
    if not above.any():
        return NoiseSpectrum(edge, 0, 0.0, 0.0)
    V = vectors[:, above]
    entries = abs(upper_values((V * (values[above] - 1)) @ V.T))
    spread = entries.sum() ** 2 / (len(entries) * (entries**2).sum())
    share = values[above].sum() / values.sum()
    return NoiseSpectrum(edge, int(above.sum()), round(float(share), 12), round(float(spread), 12))


def related_share(R: np.ndarray, theta: np.ndarray, n_samples: float) -> float:
    r"""Estimate the share of the pairs of features that are related.

    Parameters
    ----------
    R : ndarray of shape (N, N)
        Sample correlations.
    theta : ndarray of shape (N, N)
        Variances of the products behind them, see :func:`svnn.functional.product_variances`.
    n_samples : float

    Returns
    -------
    float between 0 and 1

    Notes
    -----
    With :math:`z_{ij} = r_{ij} \sqrt{t/\theta_{ij}}`, half of the pairs that are not related have
    :math:`|z_{ij}| < 0.674`, the median absolute value of a standard normal variable; of the related ones few do, as t
    grows. Twice the share of such pairs therefore estimates the share of unrelated ones (Storey 2002). It is too large
    rather than too small: relations too weak for t samples are not seen. With :math:`\theta_{ij}` this holds for heavy
    tails and for rows that are loud or quiet as a whole, too.

    References
    ----------
    J. D. Storey, A direct approach to false discovery rates, JRSS B 2002.

    Examples
    --------
    >>> import numpy as np
    >>> R = np.array([[1.0, 0.01, 0.5], [0.01, 1.0, 0.5], [0.5, 0.5, 1.0]])
    >>> round(related_share(R, np.ones((3, 3)), n_samples=100), 3)
    0.333
    """
    r, theta = upper_values(R), upper_values(theta)
    if len(r) == 0:
        return 0.0
    small = r**2 * n_samples < _MEDIAN**2 * theta
    return float(max(0.0, 1 - 2 * (small | (r == 0)).mean()))
