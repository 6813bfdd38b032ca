"""Windows of raw samples as a few features per node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from svnn._validation import check_data
from svnn.functional._array import to_numpy
from svnn.preprocessing import _statistics as stats

MOMENTS = ("mean", "std", "skewness", "kurtosis")
EXTRAS = ("range", "min", "max", "roughness", "crossings")
LAYOUTS = ("nodes", "table")
#: Features that are magnitudes: positive, and compared by ratios.
_MAGNITUDES = ("std", "kurtosis", "range", "roughness")
#: Part of a magnitude's typical value at which its logarithm is cut off.
_FLOOR = 1e-3
#: Values of X that are worked on at once; bounds memory, not results.
_VALUES = 2**22


class WindowFeatures(TransformerMixin, BaseEstimator):
    r"""Summarise windows (t, N, F) of raw samples by D features per node.

    A covariance filter takes the F values of a node in the same order for every sample. In a window cut from a
    running measurement they have none: a step of the left foot may come at any of the F times, and a filter on raw
    samples cannot see past that phase. Moments and energies of frequency bands do not depend on it.

    Parameters
    ----------
    moments : sequence of {"mean", "std", "skewness", "kurtosis"}, default=all four
    extras : sequence of {"range", "min", "max", "roughness", "crossings"}, default=("range",)
        "roughness" is the root mean square of the steps from sample to sample (the jerk of an acceleration),
        "crossings" the share of the steps on which the window crosses its mean.
    quantiles : sequence of float in [0, 1], default=()
    bands : int or sequence of float, default=4
        Energies of frequency bands: so many bands with geometric edges between the lowest frequency and the highest,
        or the edges themselves, in units of ``sampling_rate``. 0 leaves them out.
    lags : sequence of int, default=()
        Autocorrelations at these lags.
    sampling_rate : float, optional
        Samples per unit of time. Without it frequencies are in cycles per sample, at most 0.5.
    log : bool, default=True
        Take the logarithm of magnitudes: standard deviation, kurtosis, range, roughness and energies. What differs
        between people or devices by a factor then differs by a shift.
    layout : {"nodes", "table"}, default="nodes"
        "nodes" gives (t, N, D), D values for each of the N nodes. "table" gives (t, N·D), every feature of every
        channel as a node of its own, so that a covariance sees how features go together, across channels and within.

    Attributes
    ----------
    value_names_ : list of D names
    floor_ : ndarray of shape (N, D)
        Least magnitudes, a thousandth of their median in training: the logarithm of a constant window is theirs.
    band_edges_ : ndarray of the bands' edges, in units of the sampling rate; empty without bands
    n_features_in_ : int
        N.
    n_steps_in_ : int
        F.

    See Also
    --------
    svnn.datasets.sliding_windows : windows from a recording.
    svnn.covariance.WithinClass : a covariance that takes out what varies within the classes.

    Notes
    -----
    With :math:`z = (x - \bar x)/s` and the discrete Fourier transform :math:`\hat x` of a window,

    .. math:: \text{skewness} = \frac1F \sum_s z_s^3, \quad \text{kurtosis} = \frac1F \sum_s z_s^4, \quad
              E_b = \frac{2}{F^2} \sum_{k \in b} |\hat x_k|^2,

    where the energies :math:`E_b` of bands that cover all frequencies sum to :math:`s^2`. Constant windows have
    skewness 0, kurtosis 3 and autocorrelations 0. Correlations between channels within a window belong to pairs of
    nodes, not to nodes, and are left out.

    ``fit`` learns the floors of the logarithms and nothing else; a change of units only shifts the logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.preprocessing import WindowFeatures
    >>> X = np.random.default_rng(0).standard_normal((100, 6, 128))
    >>> features = WindowFeatures(bands=2, sampling_rate=50).fit(X)
    >>> features.transform(X).shape
    (100, 6, 7)
    >>> features.value_names_
    ['mean', 'log_std', 'skewness', 'log_kurtosis', 'log_range', 'log_band_0.391_3.12', 'log_band_3.12_25']
    >>> WindowFeatures(layout="table").fit_transform(X).shape
    (100, 54)
    """

    def __init__(
        self,
        *,
        moments: Sequence[str] = MOMENTS,
        extras: Sequence[str] = ("range",),
        quantiles: Sequence[float] = (),
        bands: int | Sequence[float] = 4,
        lags: Sequence[int] = (),
        sampling_rate: float | None = None,
        log: bool = True,
        layout: str = "nodes",
    ) -> None:
        self.moments = moments
        self.extras = extras
        self.quantiles = quantiles
        self.bands = bands
        self.lags = lags
        self.sampling_rate = sampling_rate
        self.log = log
        self.layout = layout

    def fit(self, X: Any, y: Any = None) -> WindowFeatures:
        """Learn the floors of the magnitudes.

        Parameters
        ----------
        X : array of shape (t, N, F)
        y : ignored

        Returns
        -------
        self
        """
        X = self._windows(X, reset=True)
        self._edges = self._band_bins()
        rate = self.sampling_rate or 1.0
        self.band_edges_ = np.array([min(k / self.n_steps_in_, 0.5) * rate for k in self._edges])
        names, logarithmic = self._names()
        self._logarithmic = np.array(logarithmic, dtype=bool)
        if not names:
            raise ValueError("WindowFeatures has no features to compute; name some in moments, extras or bands.")
        self.value_names_ = names
        self.floor_ = np.zeros((X.shape[1], len(names)))
        if self._logarithmic.any():
            magnitudes = np.concatenate([part[..., self._logarithmic] for part in self._parts(X)])
            self.floor_[:, self._logarithmic] = _floors(magnitudes)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of windows, of shape (t, N, D), or (t, N·D) with ``layout="table"``.

        Parameters
        ----------
        X : array of shape (t, N, F)
        """
        check_is_fitted(self)
        X = self._windows(X, reset=False)
        result = np.empty((*X.shape[:2], len(self.value_names_)), dtype=X.dtype)
        start = 0
        for part in self._parts(X):
            logs = self._logarithmic
            part[..., logs] = np.log(np.maximum(part[..., logs], self.floor_[:, logs]))
            result[start : start + len(part)] = part
            start += len(part)
        return result.reshape(len(X), -1) if self.layout == "table" else result

    # A frame has no third axis: with layout="nodes" there are no names, and set_output leaves arrays as they are.
    @available_if(lambda self: self.layout == "table")  # type: ignore[untyped-decorator]
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the N·D names of the columns of a table, ``<node>_<value>``."""
        check_is_fitted(self)
        nodes = _check_feature_names_in(self, input_features)
        return np.array([f"{node}_{value}" for node in nodes for value in self.value_names_], dtype=object)

    # -- checks -----------------------------------------------------------------------------------

    def _windows(self, X: Any, reset: bool) -> np.ndarray:
        X = to_numpy(check_data(self, X, reset=reset))
        if X.ndim != 3:
            raise ValueError(
                f"WindowFeatures: X must have shape (t, N, F), windows of F samples of N channels, got {X.shape}; "
                "a single channel is X[:, None, :]."
            )
        if reset:
            self._check_parameters(X.shape[2])
            self.n_steps_in_ = X.shape[2]
        elif X.shape[2] != self.n_steps_in_:
            raise ValueError(
                f"X has windows of {X.shape[2]} samples, WindowFeatures was fitted on windows of {self.n_steps_in_}."
            )
        return X

    def _check_parameters(self, steps: int) -> None:
        for parameter, known in (("moments", MOMENTS), ("extras", EXTRAS)):
            names = getattr(self, parameter)
            if isinstance(names, str) or not set(names) <= set(known):
                raise ValueError(f"{parameter} must be a sequence of names from {known}, got {names!r}.")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {LAYOUTS}, got {self.layout!r}.")
        if not all(isinstance(q, Real) and 0 <= float(q) <= 1 for q in self.quantiles):
            raise ValueError(f"quantiles must lie in [0, 1], got {self.quantiles!r}.")
        if not all(isinstance(lag, Integral) and 0 < int(lag) < steps for lag in self.lags):
            raise ValueError(
                f"lags must be integers from 1 to {steps - 1}, X has windows of {steps}; got {self.lags!r}."
            )
        rate = self.sampling_rate
        if rate is not None and not (isinstance(rate, Real) and 0 < float(rate) < np.inf):
            raise ValueError(f"sampling_rate must be a positive number or None, got {rate!r}.")

    def _band_bins(self) -> list[int]:
        """Return the bands' edges as numbers k of frequencies k/F, the last one beyond the last band."""
        steps, bands = self.n_steps_in_, self.bands
        if isinstance(bands, Integral) and not isinstance(bands, bool):
            if not 0 <= int(bands) <= steps // 2:
                raise ValueError(
                    f"bands={bands} is not possible: windows of {steps} samples have {steps // 2} frequencies. Use "
                    f"bands={min(4, steps // 2)} or fewer, or longer windows."
                )
            return stats.octave_edges(int(bands), steps) if bands else []
        edges = np.asarray(bands, dtype=float)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ValueError(f"bands must be a number of bands or at least two increasing edges, got {bands!r}.")
        frequencies = np.arange(steps // 2 + 1) / steps * (self.sampling_rate or 1.0)
        # The mean is no oscillation; the last band includes its upper edge.
        bins = np.maximum(np.searchsorted(frequencies, edges * (1 - 1e-12)), 1)
        bins[-1] = np.searchsorted(frequencies, edges[-1] * (1 + 1e-12), side="right")
        empty = np.flatnonzero(np.diff(bins) <= 0)
        if len(empty):
            lower, upper = edges[empty[0]], edges[empty[0] + 1]
            raise ValueError(
                f"bands: there is no frequency from {lower:g} to {upper:g}; windows of {steps} samples have multiples "
                f"of {frequencies[min(1, len(frequencies) - 1)]:g} up to {frequencies[-1]:g}."
            )
        return [int(k) for k in bins]

    # -- what is computed -------------------------------------------------------------------------

    def _names(self) -> tuple[list[str], list[bool]]:
        """Return the names of the features, and whether each is a logarithm."""
        bands = [f"band_{a:.3g}_{b:.3g}" for a, b in zip(self.band_edges_[:-1], self.band_edges_[1:], strict=True)]
        names = [
            *self.moments,
            *self.extras,
            *(f"quantile_{q:g}" for q in self.quantiles),
            *bands,
            *(f"lag_{lag}" for lag in self.lags),
        ]
        logarithmic = [bool(self.log) and (name in _MAGNITUDES or name in bands) for name in names]
        return [f"log_{name}" if is_log else name for name, is_log in zip(names, logarithmic, strict=True)], logarithmic

    def _parts(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the features of some rows after the other, (rows, N, D) in float64, before logarithms."""
        rows = max(1, _VALUES // (X.shape[1] * X.shape[2]))
        for start in range(0, len(X), rows):
            yield self._compute(X[start : start + rows].astype(np.float64))

    def _compute(self, X: np.ndarray) -> np.ndarray:
        # What overflows is found at the end; what is too small for its square is taken for zero, as the floors are for.
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            result = self._values(X)
        if not np.isfinite(result).all():
            raise ValueError("WindowFeatures: X has values too large for their squares; rescale it.")
        return result

    def _values(self, X: np.ndarray) -> np.ndarray:
        rest, scale = stats.centred(X)
        z = rest / np.where(scale > 0, scale, 1.0)[..., None]
        single = {
            "mean": lambda: X.mean(-1),
            "std": lambda: scale,
            "skewness": lambda: stats.skewness(z),
            "kurtosis": lambda: stats.kurtosis(z),
            "range": lambda: np.ptp(X, -1),
            "min": lambda: X.min(-1),
            "max": lambda: X.max(-1),
            "roughness": lambda: stats.roughness(X) * (self.sampling_rate or 1.0),
            "crossings": lambda: stats.crossings(z),
        }
        parts = [single[name]()[..., None] for name in (*self.moments, *self.extras)]
        if len(self.quantiles):
            parts.append(np.moveaxis(np.quantile(X, np.asarray(self.quantiles, dtype=float), axis=-1), 0, -1))
        if self._edges:
            parts.append(stats.band_energies(rest, self._edges))
        if len(self.lags):
            parts.append(stats.autocorrelations(z, self.lags))
        return np.concatenate(parts, -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _floors(magnitudes: np.ndarray) -> np.ndarray:
    """Return what counts as zero for each of the (t, N, D) magnitudes: part of the median of those that are not."""
    positive = np.where(magnitudes > 0, magnitudes, np.nan)
    some = (magnitudes > 0).any(0)
    typical = np.nanmedian(np.where(some, positive, 1.0), axis=0)
    result: np.ndarray = _FLOOR * typical
    return result
