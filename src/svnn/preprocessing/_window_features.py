"""Windows of raw samples, summarised by a few features per node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import Rule, anything, boolean, check_parameters, either, number, one_of, sizes
from svnn._types import DataLike
from svnn._validation import check_data
from svnn.functional._array import to_numpy
from svnn.functional._centring import is_constant, power_of_two

MOMENTS = ("mean", "std", "skewness", "kurtosis")
EXTRAS = ("range", "min", "max", "roughness", "crossings")
#: Features that are magnitudes: positive numbers that are compared by their ratios.
_MAGNITUDES = ("std", "kurtosis", "range", "roughness")
#: A magnitude below this part of its typical value is raised to it before the logarithm is taken.
_FLOOR = 1e-3
#: Values of X that are worked on at once. It bounds memory and does not change results.
_VALUES = 2**22


def _some_of(known: tuple[str, ...]) -> Rule:
    """Some of these names, in any order."""

    def holds(value: object) -> bool:
        return isinstance(value, Collection) and not isinstance(value, str) and set(value) <= set(known)

    named = ", ".join(f'"{name}"' for name in known)
    return Rule(f"a sequence of names from {known}", holds, f"sequence of {{{named}}}")


def _shares() -> Rule:
    """A sequence of numbers between 0 and 1."""

    def holds(value: object) -> bool:
        return isinstance(value, Collection) and all(isinstance(q, Real) and 0 <= float(q) <= 1 for q in value)

    return Rule("a sequence of numbers in [0, 1]", holds, "sequence of float in [0, 1]")


class WindowFeatures(TransformerMixin, BaseEstimator):
    r"""Summarise windows (t, N, F) of raw samples by D features per node.

    A covariance filter takes the F values of a node in the same order for every sample. In a window cut from a
    running measurement this order means nothing: a step of the left foot may come at any of the F times, and a filter
    on raw samples cannot see past that phase. Moments and energies of frequency bands do not depend on the phase.

    Parameters
    ----------
    moments : sequence of {"mean", "std", "skewness", "kurtosis"}, default=('mean', 'std', 'skewness', 'kurtosis')
        Which moments of a window become features.
    extras : sequence of {"range", "min", "max", "roughness", "crossings"}, default=('range',)
        Other features of a window. "roughness" is the root mean square of the steps from sample to sample (the jerk of
        an acceleration), "crossings" the share of the steps on which the window crosses its mean.
    quantiles : sequence of float in [0, 1], default=()
        Which quantiles of a window become features.
    bands : int or sequence of float, default=4
        Energies of frequency bands: either the number of bands, whose edges then grow geometrically from the lowest
        frequency to the highest, or the edges themselves, in units of ``sampling_rate``. 0 leaves the bands out.
    lags : sequence of int, default=()
        The lags whose autocorrelations become features.
    sampling_rate : float or None, default=None
        Samples per unit of time. Without it frequencies are in cycles per sample, at most 0.5.
    log : bool, default=True
        Take the logarithm of magnitudes: standard deviation, kurtosis, range, roughness and energies. Magnitudes that
        differ between people or devices by a factor then differ by a shift.
    layout : {"nodes", "table"}, default="nodes"
        "nodes" gives (t, N, D), D values for each of the N nodes. "table" gives (t, N·D), where every feature of every
        channel is a node of its own, so that a covariance sees how features go together, across channels and within.

    Attributes
    ----------
    value_names_ : list of D names
    floor_ : ndarray of shape (N, D)
        The least value of each magnitude, a thousandth of its median in training. The logarithm of a constant window
        is the logarithm of this value.
    band_edges_ : ndarray of the bands' edges, in units of the sampling rate; empty without bands
    n_features_in_ : int
        N.
    n_steps_in_ : int
        F.

    See Also
    --------
    svnn.datasets.sliding_windows : cuts a recording into windows.
    svnn.covariance.WithinClass : a covariance without the differences between the classes.

    Notes
    -----
    With :math:`z = (x - \bar x)/s` and the discrete Fourier transform :math:`\hat x` of a window,

    .. math:: \text{skewness} = \frac1F \sum_s z_s^3, \quad \text{kurtosis} = \frac1F \sum_s z_s^4, \quad
              E_b = \frac{2}{F^2} \sum_{k \in b} |\hat x_k|^2,

    where the energies :math:`E_b` of bands that cover all frequencies sum to :math:`s^2`. Constant windows have
    skewness 0, kurtosis 3 and autocorrelations 0. Correlations between channels within a window belong to pairs of
    nodes, not to nodes, and are left out.

    ``fit`` learns only the floors of the logarithms; a change of units shifts the logarithms and changes nothing else.

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

    _rules: ClassVar[dict[str, Rule]] = {
        "moments": _some_of(MOMENTS),
        "extras": _some_of(EXTRAS),
        "quantiles": _shares(),
        "bands": anything("int or sequence of float"),
        "lags": sizes(),
        "sampling_rate": either(number(above=True), None),
        "log": boolean(),
        "layout": one_of("nodes", "table"),
    }

    def __init__(
        self,
        *,
        moments: Sequence[str] = ("mean", "std", "skewness", "kurtosis"),
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

    def fit(self, X: DataLike, y: object = None) -> Self:
        """Learn the floors of the magnitudes.

        Parameters
        ----------
        X : array of shape (t, N, F)
        y : ignored

        Returns
        -------
        self
        """
        check_parameters(self)
        windows = self._windows(X, reset=True)
        self.n_steps_in_ = windows.shape[2]
        self._edges = self._band_bins()
        if not all(lag < self.n_steps_in_ for lag in self.lags):
            raise ValueError(
                f"lags must be integers from 1 to {self.n_steps_in_ - 1}, since X has windows of {self.n_steps_in_} "
                f"samples; got {self.lags!r}."
            )
        rate = self.sampling_rate or 1.0
        self.band_edges_ = np.array([min(k / self.n_steps_in_, 0.5) * rate for k in self._edges])
        names, logarithmic = self._names()
        self._logarithmic = np.array(logarithmic, dtype=bool)
        if not names:
            raise ValueError("WindowFeatures has no features to compute; name some in moments, extras or bands.")
        self.value_names_ = names
        self.floor_ = np.zeros((windows.shape[1], len(names)))
        if self._logarithmic.any():
            magnitudes = np.concatenate([part[..., self._logarithmic] for part in self._parts(windows)])
            self.floor_[:, self._logarithmic] = _floors(magnitudes)
        return self

    def transform(self, X: DataLike) -> np.ndarray:
        """Return the features of windows, of shape (t, N, D), or (t, N·D) with ``layout="table"``.

        Parameters
        ----------
        X : array of shape (t, N, F)
        """
        check_is_fitted(self)
        windows = self._windows(X, reset=False)
        if windows.shape[2] != self.n_steps_in_:
            raise ValueError(
                f"X has windows of {windows.shape[2]} samples, but WindowFeatures was fitted on windows of "
                f"{self.n_steps_in_}."
            )
        result = np.empty((*windows.shape[:2], len(self.value_names_)), dtype=windows.dtype)
        start = 0
        for part in self._parts(windows):
            logs = self._logarithmic
            part[..., logs] = np.log(np.maximum(part[..., logs], self.floor_[:, logs]))
            result[start : start + len(part)] = part
            start += len(part)
        return result.reshape(len(windows), -1) if self.layout == "table" else result

    # A frame has no third axis. With layout="nodes" this method does not exist, and set_output leaves arrays alone.
    @available_if(lambda self: self.layout == "table")  # type: ignore[untyped-decorator]
    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> np.ndarray:
        """Return the N·D names of the columns of a table, ``<node>_<value>``."""
        check_is_fitted(self)
        # The names of the nodes are those that a transformer with one output per input would return.
        nodes = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return np.array([f"{node}_{value}" for node in nodes for value in self.value_names_], dtype=object)

    def _windows(self, X: DataLike, reset: bool) -> np.ndarray:
        windows = to_numpy(check_data(self, X, reset=reset))
        if windows.ndim != 3:
            raise ValueError(
                f"WindowFeatures: X must have shape (t, N, F), windows of F samples of N channels, got "
                f"{windows.shape}; a single channel is X[:, None, :]."
            )
        return windows

    def _band_bins(self) -> list[int]:
        """Return the edges of the bands as numbers k of frequencies k/F; the last edge is not in the last band."""
        steps, bands = self.n_steps_in_, self.bands
        if isinstance(bands, Integral) and not isinstance(bands, bool):
            if not 0 <= int(bands) <= steps // 2:
                raise ValueError(
                    f"bands={bands} is not possible: windows of {steps} samples have {steps // 2} frequencies. Use "
                    f"bands={min(4, steps // 2)} or fewer, or longer windows."
                )
            return octave_edges(int(bands), steps) if bands else []
        edges = np.asarray(bands, dtype=float)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ValueError(f"bands must be a number of bands or at least two increasing edges, got {bands!r}.")
        frequencies = np.arange(steps // 2 + 1) / steps * (self.sampling_rate or 1.0)
        # Frequency 0, the mean, belongs to no band; the last band includes its upper edge.
        bins = np.maximum(np.searchsorted(frequencies, edges * (1 - 1e-12)), 1)
        bins[-1] = np.searchsorted(frequencies, edges[-1] * (1 + 1e-12), side="right")
        empty = np.flatnonzero(np.diff(bins) <= 0)
        if len(empty):
            lower, upper = edges[empty[0]], edges[empty[0] + 1]
            raise ValueError(
                f"bands: there is no frequency from {lower:g} to {upper:g}; windows of {steps} samples have the "
                f"multiples of {frequencies[min(1, len(frequencies) - 1)]:g} up to {frequencies[-1]:g}."
            )
        return [int(k) for k in bins]

    def _names(self) -> tuple[list[str], list[bool]]:
        """Return the names of the features, and for each of them whether it is a logarithm."""
        bands = [f"band_{a:.3g}_{b:.3g}" for a, b in zip(self.band_edges_[:-1], self.band_edges_[1:], strict=True)]
        names = [*self.moments, *self.extras, *(f"quantile_{q:g}" for q in self.quantiles), *bands]
        names += [f"lag_{lag}" for lag in self.lags]
        logarithmic = [bool(self.log) and (name in _MAGNITUDES or name in bands) for name in names]
        return [f"log_{name}" if is_log else name for name, is_log in zip(names, logarithmic, strict=True)], logarithmic

    def _parts(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the features of some rows after the other, (rows, N, D) in float64, before logarithms are taken."""
        rows = max(1, _VALUES // (X.shape[1] * X.shape[2]))
        for start in range(0, len(X), rows):
            # Overflow is found below. A number that is too small for its square counts as zero, and gets the floor.
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                values = self._values(X[start : start + rows].astype(np.float64))
            if not np.isfinite(values).all():
                raise ValueError("WindowFeatures: X has values too large for their squares; rescale it.")
            yield values

    def _values(self, X: np.ndarray) -> np.ndarray:
        """Return all features of windows (rows, N, F), in the order of their names."""
        rest, scale = centred(X)
        z = rest / np.where(scale > 0, scale, 1.0)[..., None]
        single = {
            "mean": lambda: X.mean(-1),
            "std": lambda: scale,
            "skewness": lambda: np.mean(z**3, -1),
            "kurtosis": lambda: _kurtosis(z),
            "range": lambda: np.ptp(X, -1),
            "min": lambda: X.min(-1),
            "max": lambda: X.max(-1),
            "roughness": lambda: np.sqrt(_mean_step(np.diff(X, axis=-1) ** 2)) * (self.sampling_rate or 1.0),
            "crossings": lambda: _mean_step((z[..., 1:] > 0) != (z[..., :-1] > 0)),
        }
        parts = [single[name]()[..., None] for name in (*self.moments, *self.extras)]
        if len(self.quantiles):
            parts.append(np.moveaxis(np.quantile(X, np.asarray(self.quantiles, dtype=float), axis=-1), 0, -1))
        if self._edges:
            parts.append(band_energies(rest, self._edges))
        if len(self.lags):
            parts.append(autocorrelations(z, self.lags))
        return np.concatenate(parts, -1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _floors(magnitudes: np.ndarray) -> np.ndarray:
    """Return the floor of each of the N D magnitudes: a part of the median of those among the t that are not zero."""
    positive = np.where(magnitudes > 0, magnitudes, np.nan)
    some = (magnitudes > 0).any(0)
    typical = np.nanmedian(np.where(some, positive, 1.0), axis=0)
    result: np.ndarray = _FLOOR * typical
    return result


# -- statistics of windows (…, F) in float64: finite also for constant windows and for those of one sample;
# standardised windows have mean 0 and standard deviation 1, or are zero where they were constant


def centred(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return windows minus their means, and their standard deviations (…); both are exactly zero for constant ones."""
    low, high = X.min(-1, keepdims=True), X.max(-1, keepdims=True)
    unit = power_of_two(np.maximum(abs(low), abs(high)))
    rest = X / unit
    rest = rest - rest.mean(-1, keepdims=True)
    rest = np.where(is_constant(low, high), 0.0, rest - rest.mean(-1, keepdims=True))
    scale = np.sqrt(np.mean(rest**2, -1, keepdims=True))
    return rest * unit, (scale * unit)[..., 0]


def _kurtosis(z: np.ndarray) -> np.ndarray:
    """Return the fourth moment of standardised windows, at least 1; for constant ones 3, as for normal samples."""
    fourth = np.mean(z**4, -1)
    return np.where(fourth > 0, np.maximum(fourth, 1.0), 3.0)


def _mean_step(steps: np.ndarray) -> np.ndarray:
    """Return the mean of values of the steps between samples; 0 for windows of a single sample."""
    return steps.mean(-1) if steps.shape[-1] else np.zeros(steps.shape[:-1])


def autocorrelations(z: np.ndarray, lags: Sequence[int]) -> np.ndarray:
    r"""Return :math:`\frac1F \sum_s z_s z_{s+l}` of standardised windows for every lag l, of shape (…, lags)."""
    steps = z.shape[-1]
    return np.stack([np.einsum("...s,...s->...", z[..., : steps - lag], z[..., lag:]) / steps for lag in lags], -1)


def band_energies(rest: np.ndarray, edges: Sequence[int]) -> np.ndarray:
    r"""Return the energy of centred windows in bands of frequencies, of shape (…, number of bands).

    With :math:`\hat x_k` the discrete Fourier transform, frequency k/F has the energy
    :math:`2 |\hat x_k|^2 / F^2` (half of it for k = F/2); the energies of all frequencies sum to the variance of the
    window. Band i holds the k from ``edges[i]`` to ``edges[i + 1] - 1``.
    """
    steps = rest.shape[-1]
    power = np.abs(np.fft.rfft(rest, axis=-1)) ** 2 * (2 / steps**2)
    if steps % 2 == 0:
        power[..., -1] /= 2
    # reduceat sums from every edge to the next one, and from the last edge to the end, so the end is cut off first.
    result: np.ndarray = np.add.reduceat(power[..., : edges[-1]], edges[:-1], axis=-1)
    return result


def octave_edges(bands: int, steps: int) -> list[int]:
    """Return the edges of bands whose widths grow geometrically, from the lowest frequency to the highest.

    Every band holds at least one frequency, so in short windows, which have few low frequencies, the widths are less
    even.
    """
    highest = steps // 2
    edges = [1]
    for i in range(1, bands):
        geometric = round(float((highest + 1) ** (i / bands)))
        # Leave one frequency for this band and one for each band after it.
        edges.append(min(max(geometric, edges[-1] + 1), highest + 1 - (bands - i)))
    return [*edges, highest + 1]
