"""What the learned filters do to every direction of the covariance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from svnn.plotting import _style as style
from svnn.plotting._display import Display
from svnn.plotting._matrices import shown_matrix
from svnn.stability import network_response

if TYPE_CHECKING:
    from svnn.plotting._display import Axes
    from svnn.stability._network import FittedNetwork

#: Features up to which all eigenvalues are found, and how many of the largest are beyond.
_MOST_DECOMPOSED, _LARGEST = 3000, 100
#: The smallest eigenvalue, as a share of the largest, that the logarithm tells from zero.
_SMALLEST = 1e-8
#: Points of a curve.
_POINTS = 300


class ResponseDisplay(Display):
    r"""Frequency responses of the filters of a trained network: what they multiply each direction by.

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
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

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
    def from_estimator(cls, estimator: FittedNetwork, *, layer: int = 0, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the responses of a layer of a fitted S-VNN.

        Parameters
        ----------
        estimator : fitted SVNNRegressor or SVNNClassifier
        layer : int, default=0
        ax : matplotlib Axes, optional
        **kwargs : see :meth:`plot`

        Notes
        -----
        With more than 3000 features only the 100 largest eigenvalues are found and marked.
        """
        found = _eigenvalues(shown_matrix(estimator)) / estimator._scale
        use = estimator._as_trained("use")
        if use == "log":
            low = found[found > _SMALLEST].min(initial=1.0)
            lam = np.geomspace(max(low / 1.5, _SMALLEST), max(found.max(), 1.0), _POINTS)
        else:
            lam = np.linspace(min(found.min(), 0.0), max(found.max(), 1.0), _POINTS)
        layers = network_response(estimator, lam * estimator._scale)
        if not -len(layers) <= layer < len(layers):
            raise ValueError(
                f"layer must be from 0 to {len(layers) - 1}, as the network has {len(layers)}, got {layer}."
            )
        members = len(getattr(estimator.module_, "networks", [None]))
        of_layer = layers[layer]
        split = of_layer.reshape(len(lam), of_layer.shape[1], members, -1)
        responses = split.swapaxes(1, 2).reshape(len(lam), members, -1)
        return cls(lam, responses, found, use=use, layer=layer % len(layers)).plot(ax, **kwargs)

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


def _eigenvalues(matrix: Any) -> np.ndarray:
    """Return the eigenvalues of a small matrix, and the largest ones of a large one."""
    if matrix.shape[0] <= _MOST_DECOMPOSED:
        return np.linalg.eigvalsh(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
    from scipy.sparse.linalg import eigsh

    return np.asarray(eigsh(matrix, k=_LARGEST, which="LA", v0=np.ones(matrix.shape[0]), return_eigenvectors=False))
