"""The eigenvalues of the correlations against those that noise alone would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from svnn.functional._matrix import numpy_matrix
from svnn.plotting import _style as style
from svnn.plotting._matrices import correlation, dense, sample_correlation
from svnn.stability import marchenko_pastur_edge

if TYPE_CHECKING:
    from svnn._types import DataLike, MatrixLike
    from svnn.plotting._style import Axes

#: Eigenvalues below this share of the largest count as zero.
_ZERO = 1e-10
#: Where an axis that is not logarithmic ends, in multiples of the edge.
_BEYOND = 3


class SpectrumDisplay(style.Display):
    r"""Eigenvalues of a correlation matrix against the Marchenko–Pastur law.

    That law is the spectrum of independent features: eigenvalues beyond its edge :math:`(1 + \sqrt{N/t})^2` are more
    than noise.

    Parameters
    ----------
    eigenvalues : ndarray of shape (N,)
        Of the sample correlations.
    n_samples : float
        t, the number of samples behind them.
    after : ndarray of shape (N,), optional
        Eigenvalues after sparsification.

    Attributes
    ----------
    edge_ : float
        The largest eigenvalue that noise alone gives.
    n_above_ : int
        How many eigenvalues are larger.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.plotting import SpectrumDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 20)) + rng.standard_normal((400, 1))  # one factor
    >>> display = SpectrumDisplay.from_data(X)
    >>> display.n_above_, round(display.edge_, 2)
    (1, 1.5)
    """

    def __init__(self, eigenvalues: np.ndarray, n_samples: float, after: np.ndarray | None = None) -> None:
        self.eigenvalues = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
        self.n_samples = n_samples
        self.after = None if after is None else np.sort(np.asarray(after, dtype=np.float64))[::-1]

    @classmethod
    def from_estimator(cls, estimator: object, X: DataLike, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the spectra of the sample correlations of ``X`` and of a fitted S-VNN or covariance estimator."""
        C = dense(correlation(numpy_matrix(estimator)))
        if np.ndim(X) < 2 or np.shape(X)[1] != len(C):
            raise ValueError(f"X has shape {np.shape(X)}, but the covariance has {len(C)} features; they must agree.")
        before = np.linalg.eigvalsh(sample_correlation(X))
        return cls(before, _rows(X), np.linalg.eigvalsh(C)).plot(ax, **kwargs)

    @classmethod
    def from_data(cls, X: DataLike, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the spectrum of the sample correlations of ``X``."""
        return cls(np.linalg.eigvalsh(sample_correlation(X)), _rows(X)).plot(ax, **kwargs)

    @classmethod
    def from_matrix(cls, C: MatrixLike, n_samples: float, *, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the spectrum of a sample covariance of ``n_samples`` rows, divided by the standard deviations."""
        R = dense(correlation(numpy_matrix(C)))
        return cls(np.linalg.eigvalsh(R), n_samples).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, log: bool = True, bins: int = 30) -> Self:
        """Draw the histogram of the eigenvalues, and the numbers in its bins that noise alone would give.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        log : bool, default=True
            Whether the axis of the eigenvalues is logarithmic; those that are not positive are then left out. An
            axis that is not ends at three times the edge. The title counts what is left out.
        bins : int, default=30

        Returns
        -------
        self
        """
        n = len(self.eigenvalues)
        self.edge_ = marchenko_pastur_edge(self.n_samples, n)
        self.n_above_ = int((self.eigenvalues > self.edge_).sum())
        spectra = [self.eigenvalues] if self.after is None else [self.eigenvalues, self.after]
        positive = [values[values > _ZERO * self.eigenvalues[0]] for values in spectra]
        shown = positive if log else spectra
        # The smallest eigenvalue, other than 0, that noise gives.
        lowest = max((1 - np.sqrt(n / self.n_samples)) ** 2, 1e-3)
        low = min([lowest, *(values.min() for values in shown if len(values))])
        high = 1.05 * max([self.edge_, *(values.max() for values in shown if len(values))])
        high = high if log else min(high, _BEYOND * self.edge_)
        edges: Any = np.geomspace(0.95 * low, high, bins + 1) if log else np.linspace(min(low, 0.0), high, bins + 1)
        with style.context():
            (axis,) = self._start(ax, (6.0, 3.8))
            filled: dict[str, Any] = {"color": style.PALETTE[5], "edgecolor": "white", "linewidth": 0.6}
            axis.hist(shown[0], edges, label="sample correlations", **filled)
            if self.after is not None:
                outline: dict[str, Any] = {"histtype": "step", "color": style.PALETTE[1], "linewidth": 1.6}
                axis.hist(shown[1], edges, label="after sparsification", **outline)
            expected = n * np.diff(marchenko_pastur_share(edges, self.n_samples, n))
            middles = np.sqrt(edges[1:] * edges[:-1]) if log else (edges[1:] + edges[:-1]) / 2
            seen = expected > 0
            axis.plot(middles[seen], expected[seen], ".-", color="black", label="independent features (noise)")
            label = f"edge of noise, λ = {self.edge_:.3g}"
            axis.axvline(self.edge_, color=style.GREY, linestyle="--", linewidth=1.2, label=label)
            if log:
                axis.set_xscale("log")
            axis.set_xlabel("eigenvalue λ of the correlations" + (" (log scale)" if log else ""))
            axis.set_ylabel("eigenvalues in a bin (count)")
            style.note(axis, self._title(log, positive))
            axis.legend(loc="best" if log else "upper right")
        return self

    def _title(self, log: bool, positive: list[np.ndarray]) -> str:
        n = len(self.eigenvalues)
        text = f"{self.n_above_} of {n} eigenvalues above the edge, N = {n}, t = {self.n_samples:g}"
        if log:
            words = ["before", "after"] if self.after is not None else [""]
            counts = [n - len(values) for values in positive]
            hidden = [f"{count} {word}".strip() for count, word in zip(counts, words, strict=True) if count]
            text += f"\nnot shown, as they are zero or negative: {', '.join(hidden)}" if hidden else ""
        elif beyond := int((self.eigenvalues > _BEYOND * self.edge_).sum()):
            text += f"\nnot shown, as they are too large: {beyond}, up to {self.eigenvalues[0]:.3g}"
        return text


def marchenko_pastur_share(values: np.ndarray, n_samples: float, n_features: int) -> np.ndarray:
    r"""Return the share of the eigenvalues of pure noise that lie in (0, value].

    Parameters
    ----------
    values : ndarray
        In increasing order.
    n_samples : float
        t
    n_features : int
        N

    Notes
    -----
    The integral of the Marchenko–Pastur density
    :math:`\sqrt{(\lambda_+ - \lambda)(\lambda - \lambda_-)} / (2 \pi \lambda N / t)`. With N > t the share
    :math:`1 - t/N` of the eigenvalues is zero, and not counted here.

    Examples
    --------
    >>> marchenko_pastur_share(np.array([0.0, 1.0, 4.0]), n_samples=100, n_features=50).round(3).tolist()
    [0.0, 0.576, 1.0]
    """
    ratio = n_features / n_samples
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    # λ = middle - half · cos(angle) makes the integrand smooth at both ends.
    angles = (np.arange(4000) + 0.5) * np.pi / 4000
    half = (high - low) / 2
    at = (high + low) / 2 - half * np.cos(angles)
    mass = (half * np.sin(angles)) ** 2 / (2 * np.pi * ratio * at) * np.pi / 4000
    total = np.concatenate([[0.0], np.cumsum(mass)])
    return np.interp(values, np.concatenate([[low], at]), total)


def _rows(X: DataLike) -> int:
    """Return the number of observations: rows, times values per node."""
    shape = np.shape(X)
    return int(shape[0] * (shape[2] if len(shape) == 3 else 1))
