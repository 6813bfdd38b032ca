"""Advice as an object: the candidates in the order of recommendation, and the sentences that explain it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from svnn.stability._records import Records, aligned

#: The standing of a candidate: of the type that suits the data and as good as the best; another one that is allowed;
#: or one that is listed for comparison only.
STANDINGS = PREFERRED, POSSIBLE, REFERENCE = "preferred", "possible", "for comparison"
#: Names of the types of covariances in sentences.
KINDS = {"threshold": "thresholding rule", "stochastic": "stochastic sparsifier", "dense": "dense covariance"}
#: What follows from held-out rows without a target, and what does not.
KNOWN = (
    "These errors say how well each estimate agrees with the covariance of held-out rows. They cannot say whether "
    "predictions get better: advise(X, y) measures that."
)


@dataclass(frozen=True, eq=False, repr=False)
class Advice:
    """The answer of :func:`svnn.advise` without a target; ``print(advice)`` shows it as text.

    Attributes
    ----------
    looks : {"sparse", "dense"}
        Whether the covariance looks sparse or dense.
    estimator : covariance estimator
        The recommended covariance, not fitted, for ``SVNNRegressor(covariance=advice.estimator)``.
    table : Records
        All candidates in the order of recommendation, see the notes of :func:`svnn.stability.advise`;
        ``pandas.DataFrame(advice.table)`` makes a frame of it. Columns: ``estimator``, ``kind`` ("threshold",
        "stochastic" or "dense"), ``density`` (the share of the pairs that are kept), two relative errors on held-out
        samples: ``error`` of a shifted signal, and ``matrix_error`` in the Frobenius norm, and ``standing``:
        "preferred" (of the type that suits the data, and as good as the best), "possible" or "for comparison".
    density : float
        The largest density that was allowed; 1 where no pair has to be dropped.
    tolerance : float
        Errors count as equally good up to this share above the smallest.
    related_share : float
        Estimated share of the pairs of features that are related.
    edge, n_above, variance_above, spread : float, int, float, float
        The Marchenko–Pastur edge, which is the largest eigenvalue of pure noise; the number of eigenvalues above it;
        the share of the variance that they explain; and the share of the pairs over which their correlations extend.
    cv_threshold, cv_density : float
        The hard threshold of correlations chosen by cross-validation, and the share of the pairs that it keeps.
    n_samples, n_features : int
        Of the data.
    notes : tuple of str
        Features that were left out of the data.

    Examples
    --------
    >>> from svnn.paper import make_large_cov
    >>> from svnn.stability import advise
    >>> advice = advise(make_large_cov(200, 30, random_state=0).X, density=0.5, random_state=0)
    >>> print(advice.reasons[0])
    About 100 % of the pairs of features are related.
    """

    looks: str
    estimator: BaseEstimator
    table: Records
    density: float
    tolerance: float
    related_share: float
    edge: float
    n_above: int
    variance_above: float
    spread: float
    cv_threshold: float
    cv_density: float
    n_samples: int
    n_features: int
    notes: tuple[str, ...] = ()

    @property
    def row(self) -> dict[str, Any]:
        """The row of the recommendation, which is the first of the table."""
        return self.table[0]

    @property
    def label(self) -> str:
        """The recommended covariance as text."""
        return str(self.row["estimator"])

    @property
    def covariance(self) -> BaseEstimator:
        """The same as ``estimator``, under the name of the parameter of ``SVNNRegressor``."""
        return self.estimator

    @property
    def reasons(self) -> tuple[str, ...]:
        """Sentences with the numbers that led to the recommendation."""
        row = self.row
        whole = next(r["error"] for r in self.table if r["estimator"] == "SampleCovariance()")
        count = {0: "No eigenvalue", 1: "1 eigenvalue"}.get(self.n_above, f"{self.n_above} eigenvalues")
        spectrum = (
            f"{count} of the correlation matrix {'is' if self.n_above < 2 else 'are'} larger than {self.edge:.2f}, the "
            "largest of pure noise (the Marchenko–Pastur edge)."
        )
        if self.n_above:
            spectrum += (
                f" {'It explains' if self.n_above == 1 else 'Together they explain'} {self.variance_above:.0%} of "
                f"the variance, and their correlations extend over {self.spread:.0%} of the pairs."
            )
        cut = f"correlations below {self.cv_threshold:.3f}" if self.cv_threshold else "nothing"
        reasons = [
            f"About {self.related_share:.0%} of the pairs of features are related.",
            spectrum,
            f"The hard threshold chosen by cross-validation sets {cut} to zero and keeps {self.cv_density:.0%} of "
            "the pairs.",
            f"{self.label} keeps {row['density']:.0%} of the pairs. Compared with the covariance of held-out samples, "
            f"it shifts signals with an error of {row['error']:.1%}, and the full sample covariance with an error of "
            f"{whole:.1%}. Both errors include the noise of the held-out samples.",
            self._why_first(),
        ]
        other = next((r for r in self.table if r["standing"] != REFERENCE and r["kind"] != row["kind"]), None)
        if other is not None:
            reasons.append(
                f"The best {KINDS[other['kind']]}, {other['estimator']}, has an error of {other['error']:.1%}."
            )
        return (*(text.replace("%", " %") for text in reasons), *self.notes, KNOWN)

    def _why_first(self) -> str:
        kind = preferred_kind(self.looks == "dense")
        name, near = KINDS[kind], f"within {self.tolerance:.1%} of the smallest error"
        dense = self.density >= 1
        if self.row["standing"] != PREFERRED:
            return "It comes first because its error is the smallest" + ("." if dense else f": no {name} is {near}.")
        near += " and not above that of a dense covariance" * dense
        best = "keeps the fewest pairs" if kind == "stochastic" else "has the smallest error"
        return f"It comes first because, for a {self.looks} covariance, of every {name} {near} it {best}."

    def __str__(self) -> str:
        first: dict[str, dict[str, Any]] = {}
        for row in self.table:  # the first row of each class
            if row["kind"] == "dense" or row["standing"] != REFERENCE:
                first.setdefault(row["estimator"].split("(")[0], row)
        columns = ("density", "error", "matrix_error")
        lines = [
            ["→" if row is self.row else "", row["estimator"], *(100 * row[c] for c in columns), row["standing"]]
            for row in first.values()
        ]
        return "\n".join(
            [
                f"The covariance looks {self.looks}. Recommended: {self.label}",
                *(f"- {reason}" for reason in self.reasons),
                "",
                aligned(["", "in %", *columns, ""], lines, ".1f"),
            ]
        )

    def __repr__(self) -> str:
        return f"<Advice: looks {self.looks}, {self.label}>"


def rank(table: Records, budget: float, tolerance: float, dense: bool) -> Records:
    """Return the rows in the order of recommendation, with a column ``standing``.

    Parameters
    ----------
    table : Records
        Rows with ``kind``, ``density`` and ``error``.
    budget : float
        The largest density that is allowed; 1 allows dense covariances, too.
    tolerance : float
        Errors count as equally good up to this share above the smallest.
    dense : bool
        Whether the covariance looks dense.

    Returns
    -------
    Records

    Examples
    --------
    >>> from svnn.stability._records import Records
    >>> rows = [("a", "dense", 1.0, 0.1), ("b", "threshold", 0.5, 0.2), ("c", "stochastic", 0.4, 0.203)]
    >>> table = Records(dict(zip(("estimator", "kind", "density", "error"), row)) for row in rows)
    >>> [(row["estimator"], row["standing"]) for row in rank(table, 0.9, 0.025, dense=True)]
    [('c', 'preferred'), ('b', 'possible'), ('a', 'for comparison')]

    Where dense covariances are allowed, no sparsifier is preferred to one that has a smaller error.

    >>> [(row["estimator"], row["standing"]) for row in rank(table, 1.0, 0.025, dense=True)]
    [('a', 'possible'), ('b', 'possible'), ('c', 'possible')]
    """
    kind = preferred_kind(dense)
    allowed = [row["density"] <= budget + 1e-9 for row in table]
    permitted = [row for row, fits in zip(table, allowed, strict=True) if fits]
    limit = (1 + tolerance) * min((row["error"] for row in permitted), default=0.0)
    limit = min([limit, *(row["error"] for row in permitted if row["kind"] == "dense")])
    ranked = []
    for row, fits in zip(table, allowed, strict=True):
        good = row["kind"] == kind and row["error"] <= limit
        standing = (PREFERRED if good else POSSIBLE) if fits else REFERENCE
        ranked.append({**row, "standing": standing})
    fewest = [row["density"] if dense and row["standing"] == PREFERRED else 0.0 for row in ranked]
    order = sorted(
        range(len(ranked)), key=lambda i: (STANDINGS.index(ranked[i]["standing"]), fewest[i], ranked[i]["error"])
    )
    return Records(ranked[i] for i in order)


def preferred_kind(dense: bool) -> str:
    """Return the type of sparsifier for a covariance that looks dense, or sparse."""
    return "stochastic" if dense else "threshold"
