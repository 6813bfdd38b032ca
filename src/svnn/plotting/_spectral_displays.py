"""Displays of spectra: eigenvalues against those of noise alone, and the responses of learned filters to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from svnn.functional._matrix import numpy_matrix
from svnn.inspection._fitted import check_model, network_part
from svnn.plotting import _style as style
from svnn.plotting._matrices import correlation, dense, eigenvalues, sample_correlation, shown_matrix
from svnn.stability import marchenko_pastur_edge, network_response

if TYPE_CHECKING:
    from svnn._types import DataLike, MatrixLike
    from svnn.inspection._fitted import Model
    from svnn.plotting._style import Axes

#: Eigenvalues below this share of the largest count as zero.
_ZERO = 1e-10
#: Where an axis that is not logarithmic ends, in multiples of the edge.
_BEYOND = 3
#: Features up to which all eigenvalues are computed, and the number of the largest ones beyond.
_MOST_DECOMPOSED, _LARGEST = 3000, 100
#: The smallest eigenvalue, as a share of the largest, that the logarithm tells from zero.
_SMALLEST = 1e-8
#: Points of a curve.
_POINTS = 300


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
    ax_, figure_ : Axes and Figure of matplotlib

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
        """Draw the spectra of the sample correlations of ``X`` and of a fitted S-VNN, blend or covariance estimator."""
        C = dense(correlation(shown_matrix(estimator, covariance=True)))
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


class ResponseDisplay(style.Display):
    r"""Frequency responses of the filters of a trained network: the factor for each direction of the covariance.

    The filters of a layer multiply the part of a signal along an eigenvector of eigenvalue :math:`\lambda` by
    :math:`h(\lambda)`. The marks below the curves are the eigenvalues.

    Parameters
    ----------
    lam : ndarray of shape (L,)
        Eigenvalues at which the responses are known, as shares of the largest one.
    responses : ndarray of shape (L, members, filters)
    eigenvalues : ndarray of shape (n,)
        Eigenvalues of the covariance on the same scale.
    use : {"covariance", "log", "precision"}, default="covariance"
        What the filters are polynomials of.
    layer : int, default=0

    Attributes
    ----------
    gains_ : ndarray of shape (L, members)
        The root mean square of a member's responses.
    ax_, figure_ : Axes and Figure of matplotlib

    Examples
    --------
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> from svnn.plotting import ResponseDisplay
    >>> data = make_sparse_cov(n_samples=100, n_features=10, random_state=0)
    >>> model = SVNNRegressor(members=3, max_epochs=5, random_state=0).fit(data.X, data.y)
    >>> display = ResponseDisplay.from_estimator(model)
    >>> display.responses.shape, display.ax_.get_xscale()
    ((300, 3, 8), 'log')
    """

    def __init__(
        self,
        lam: np.ndarray,
        responses: np.ndarray,
        eigenvalues: np.ndarray,
        *,
        use: str = "covariance",
        layer: int = 0,
    ) -> None:
        self.lam, self.responses, self.eigenvalues = lam, responses, eigenvalues
        self.use, self.layer = use, layer
        self.gains_ = np.sqrt((responses**2).mean(-1))

    @classmethod
    def from_estimator(cls, estimator: Model, *, layer: int = 0, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the responses of a layer of a fitted S-VNN, or of the one with edges of a blend.

        Parameters
        ----------
        estimator : fitted S-VNN or blend
        layer : int, default=0
        ax : matplotlib Axes, optional
        **kwargs : see :meth:`plot`

        Notes
        -----
        With more than 3000 features only the 100 largest eigenvalues are computed and marked.
        """
        check_model(estimator, "a display of responses")
        _, network = network_part(estimator)
        matrix, use, scale = shown_matrix(network), network.shift_.use, network.shift_.scale
        shares = eigenvalues(matrix, _MOST_DECOMPOSED, _LARGEST) / scale
        if use == "log":
            low = shares[shares > _SMALLEST].min(initial=1.0)
            lam = np.geomspace(max(low / 1.5, _SMALLEST), max(shares.max(), 1.0), _POINTS)
        else:
            lam = np.linspace(min(shares.min(), 0.0), max(shares.max(), 1.0), _POINTS)
        layers = network_response(network, lam * scale)
        if not -len(layers) <= layer < len(layers):
            raise ValueError(
                f"layer must be from 0 to {len(layers) - 1}, as the network has {len(layers)}, got {layer}."
            )
        members = len(network.fitted_.networks)
        of_layer = layers[layer]
        by_member = of_layer.reshape(len(lam), of_layer.shape[1], members, -1).swapaxes(1, 2)
        responses = by_member.reshape(len(lam), members, -1)
        return cls(lam, responses, shares, use=use, layer=layer % len(layers)).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, kind: str = "gain") -> Self:
        """Draw the responses.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        kind : {"gain", "filters"}, default="gain"
            "gain" draws the root mean square over a member's filters, every member faint and their mean bold;
            "filters" draws h(λ) of every filter, those of a member in one colour.

        Returns
        -------
        self
        """
        if kind not in ("gain", "filters"):
            raise ValueError(f'kind must be "gain" or "filters", got {kind!r}.')
        n_members, n_filters = self.responses.shape[1:]
        with style.context():
            (axis,) = self._start(ax, (6.0, 3.8))
            notes = []
            if self.use == "log" and (count := int((self.eigenvalues <= _SMALLEST).sum())):
                notes.append(f"{count} of {len(self.eigenvalues)} eigenvalues are below 1e-8, and count as that")
            if kind == "gain":
                faint = axis.plot(self.lam, self.gains_, color=style.PALETTE[5], linewidth=1, alpha=0.7)
                faint[0].set_label(f"{n_members} members" if n_members > 1 else "the network")
                if n_members > 1:
                    axis.plot(self.lam, self.gains_.mean(1), color=style.PALETTE[0], linewidth=2.6, label="their mean")
                axis.set_ylim(bottom=0)
                axis.set_ylabel(f"gain of layer {self.layer + 1}:\nroot mean square of its {n_filters} filters")
                axis.legend(loc="best")
            else:
                for member in range(n_members):
                    colour = style.PALETTE[member % len(style.PALETTE)]
                    axis.plot(self.lam, self.responses[:, member], color=colour, linewidth=0.9, alpha=0.6)
                axis.axhline(0, color=style.GREY, linewidth=0.8)
                axis.set_ylabel(f"response h(λ) of the filters of layer {self.layer + 1}")
                notes.append(f"{n_filters} filters of each of {n_members} members, a colour for each member")
            style.note(axis, "\n".join(notes))
            inside = self.eigenvalues[self.eigenvalues > (_SMALLEST if self.use == "log" else -np.inf)]
            axis.plot(
                inside,
                np.full(len(inside), 0.02),
                "|",
                color=style.GREY,
                markersize=8,
                transform=axis.get_xaxis_transform(),
                gid="eigenvalues",
            )
            matrix = "precision" if self.use == "precision" else "covariance"
            label = f"eigenvalue λ of the {matrix}, as a share of the largest"
            if self.use == "log":
                axis.set_xscale("log")
                label += "\n(log axis: the filters are polynomials of log λ)"
            axis.set_xlabel(label)
        return self
