"""The order in which ``advise`` lists covariances by their errors: the first of them is the one it recommends."""

from __future__ import annotations

from svnn.stability._records import Records

#: What a candidate is in the table: of the kind that suits the data and as good as the best; another that is allowed;
#: or one that is only there to compare with.
STANDINGS = PREFERRED, POSSIBLE, REFERENCE = "preferred", "possible", "for comparison"


def preferred_kind(dense: bool) -> str:
    """Return the kind of sparsifier that suits a covariance that looks dense, or sparse."""
    return "stochastic" if dense else "threshold"


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
        range(len(ranked)),
        key=lambda i: (STANDINGS.index(ranked[i]["standing"]), fewest[i], ranked[i]["error"]),
    )
    return Records(ranked[i] for i in order)
