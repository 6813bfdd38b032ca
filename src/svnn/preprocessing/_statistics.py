"""Statistics of windows of F samples: functions that take (…, F) arrays and return (…) or (…, D) arrays.

All of them take float64 windows. They return finite numbers for every finite window, also for constant windows and for
windows of a single sample. *Standardised* windows have mean 0 and standard deviation 1, or are zero where they were
constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from svnn.functional._centring import is_constant, power_of_two


def centred(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return windows minus their means, and their standard deviations (…); both are exactly zero for constant ones."""
    low, high = X.min(-1, keepdims=True), X.max(-1, keepdims=True)
    unit = power_of_two(np.maximum(abs(low), abs(high)))
    rest = X / unit
    rest = rest - rest.mean(-1, keepdims=True)
    rest = np.where(is_constant(low, high), 0.0, rest - rest.mean(-1, keepdims=True))
    scale = np.sqrt(np.mean(rest**2, -1, keepdims=True))
    return rest * unit, (scale * unit)[..., 0]


def skewness(z: np.ndarray) -> np.ndarray:
    """Return the third moment of standardised windows; it is 0 for constant ones."""
    result: np.ndarray = np.mean(z**3, -1)
    return result


def kurtosis(z: np.ndarray) -> np.ndarray:
    """Return the fourth moment of standardised windows, which is at least 1.

    For constant windows it is 3, as for samples from a normal distribution.
    """
    fourth = np.mean(z**4, -1)
    return np.where(fourth > 0, np.maximum(fourth, 1.0), 3.0)


def roughness(X: np.ndarray) -> np.ndarray:
    """Return the root mean square of the steps from sample to sample; it is 0 for a single sample."""
    if X.shape[-1] < 2:
        return np.zeros(X.shape[:-1])
    result: np.ndarray = np.sqrt(np.mean(np.diff(X, axis=-1) ** 2, -1))
    return result


def crossings(z: np.ndarray) -> np.ndarray:
    """Return the share of the steps on which a window crosses its mean; it is 0 for a single sample."""
    if z.shape[-1] < 2:
        return np.zeros(z.shape[:-1])
    above = z > 0
    result: np.ndarray = np.mean(above[..., 1:] != above[..., :-1], -1)
    return result


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
