"""Which covariance a model uses, and how dense it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.estimators._summary import blend_in_words
from svnn.functional._matrix import numpy_matrix
from svnn.reporting._html import Markup, facts, joined, paragraph, section, warning
from svnn.reporting._words import number, percent

#: A covariance that keeps this share of the pairs keeps nearly everything.
NEARLY_ALL = 0.9
#: Where this share of the features has no edge, nearly nothing was kept.
MOSTLY_ALONE = 0.5


@dataclass(frozen=True)
class Density:
    """How many pairs of features a covariance keeps, and the number of edges of every feature."""

    kept: int
    degrees: np.ndarray

    @property
    def n_features(self) -> int:
        """N."""
        return len(self.degrees)

    @property
    def pairs(self) -> int:
        """Number of pairs of features."""
        return self.n_features * (self.n_features - 1) // 2

    @property
    def share(self) -> float:
        """Share of the pairs that are kept."""
        return self.kept / max(self.pairs, 1)

    @property
    def alone(self) -> int:
        """Number of features without an edge."""
        return int((self.degrees == 0).sum())

    @property
    def verdict(self) -> str:
        """ "nearly everything", "nearly nothing", or "" between the two."""
        if self.n_features < 2:
            return ""
        if self.alone >= MOSTLY_ALONE * self.n_features:
            return "nearly nothing"
        return "nearly everything" if self.share >= NEARLY_ALL else ""


def density_of(matrix: np.ndarray | sp.csr_array) -> Density:
    """Count the edges of a covariance: its entries beside the diagonal that are not zero.

    Examples
    --------
    >>> found = density_of(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> found.kept, found.share.__round__(2), found.alone
    (1, 0.33, 1)
    """
    edges = sp.csr_array(matrix != 0)
    edges.eliminate_zeros()
    degrees = np.diff(edges.indptr) - (edges.diagonal() != 0)
    return Density(int(degrees.sum()) // 2, degrees)


def graph_matrix(model: CovarianceNetwork) -> np.ndarray | sp.csr_array:
    """Return the matrix whose entries are the edges of the model: its covariance, or precision where it uses that."""
    if model._as_trained("use") == "precision" and model.covariance_estimator_ is not None:
        return numpy_matrix(model.covariance_estimator_.precision_, "precision_")  # type: ignore[attr-defined]
    return model.covariance_


def covariance_name(model: CovarianceNetwork) -> str:
    """Return the name of the estimator of the covariance."""
    estimator = model.covariance_estimator_
    return "a matrix of your own" if estimator is None else type(estimator).__name__


def threshold_of(model: CovarianceNetwork) -> float | None:
    """Return the one threshold that the covariance applied, where it has one."""
    found = getattr(model.covariance_estimator_, "threshold_", None)
    return float(found) if isinstance(found, (float, np.floating)) else None


def density_section(model: CovarianceNetwork, density: Density) -> Markup:
    """Return the section about the covariance of a model."""
    used = {
        "log": "its logarithm, in which directions of small variance count as much as large ones",
        "precision": "its inverse, the precision matrix",
    }.get(model._as_trained("use"), "the covariance itself")
    estimator = model.covariance_estimator_
    rows: list[tuple[str, object]] = [
        ("Estimator", covariance_name(model) if estimator is None else repr(clone(estimator))),
        ("The filters are polynomials of", used),
        ("Parts of a prediction, by weight", blend_in_words(model.blend_)),
        ("Features", number(density.n_features)),
        ("Pairs kept", f"{number(density.kept)} of {number(density.pairs)} ({percent(density.share)})"),
        ("Edges of a feature, median", number(float(np.median(density.degrees)))),
        ("Features without an edge", number(density.alone)),
    ]
    threshold = threshold_of(model)
    if threshold is not None:
        rows.insert(1, ("Threshold", number(threshold)))
    meaning = paragraph(
        "Each feature is a node, and each covariance that was kept is an edge between two of them. The network lets "
        "information flow along paths of such edges only. Networks without edges and a linear model may take part in a "
        "prediction: the weights come from rows that none of them was trained on, and a small weight of the networks "
        "with edges says that the covariance adds little here."
    )
    return section("covariance", "The covariance", joined([_warnings(density), meaning]), facts("Covariance", rows))


def _warnings(density: Density) -> Markup | str:
    """State what was kept where that is nearly everything or nothing, and how to find out whether it matters."""
    ask = (
        "Another density is not better or worse as such. Which covariance predicts best, and whether the covariance "
        "matters at all, is measured by svnn.advise(X, y), or svnn advise FILE --target NAME on the command line."
    )
    if density.verdict == "nearly everything":
        return warning(
            "Nearly everything was kept.",
            f"{percent(density.share)} of the pairs are edges, so the network runs on nearly the full covariance and "
            "the sparsification does little.",
            ask,
        )
    if density.verdict == "nearly nothing":
        return warning(
            "Nearly nothing was kept.",
            f"{number(density.alone)} of {number(density.n_features)} features have no edge, so the network treats "
            "them almost as if they were independent.",
            ask,
        )
    return ""
