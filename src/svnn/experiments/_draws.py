"""One trained network on many random realisations of its covariance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from svnn.experiments._jobs import derive_seed
from svnn.functional import acv_probabilities, rcv_probabilities, sparsify

#: The paper's two rules, ACV with a budget, and each with kept entries divided by their probability.
RULES = ("RCV", "ACV", "ACV, budget")
METHODS = tuple(f"{rule}{kind}" for rule in RULES for kind in ("", ", unbiased"))


class Sparsifier(NamedTuple):
    """A way to sparsify, its keep-probabilities and the p that was asked for (None: the rule has no budget)."""

    method: str
    p: float | None
    probabilities: np.ndarray
    unbiased: bool


def sparsifiers(C: np.ndarray, levels: Sequence[float], seed: int) -> Iterator[Sparsifier]:
    """Yield every method at every level for the covariance ``C``."""
    for method in METHODS:
        unbiased = method.endswith("unbiased")
        if method.startswith("ACV") and "budget" not in method:
            yield Sparsifier(method, None, acv_probabilities(C), unbiased)
            continue
        for p in levels:
            P = rcv_probabilities(C, p, derive_seed(seed, "ranks", p)) if "RCV" in method else acv_probabilities(C, p)
            yield Sparsifier(method, p, P, unbiased)


def realisations(C: np.ndarray, how: Sparsifier, draws: int, seed: int) -> Iterator[np.ndarray]:
    """Yield ``draws`` sparsified covariances; the biased and the unbiased form of a rule share their masks."""
    rule = how.method.removesuffix(", unbiased")
    for draw in range(draws):
        yield sparsify(C, how.probabilities, derive_seed(seed, rule, how.p, draw), how.unbiased)


def density(C: Any) -> float:
    """Return the share of off-diagonal entries of a matrix, dense or sparse, that are not zero."""
    n = C.shape[0]
    kept = C.count_nonzero() if sp.issparse(C) else np.count_nonzero(C)
    return float((kept - np.count_nonzero(C.diagonal())) / (n * (n - 1)))
