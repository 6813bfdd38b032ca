"""All realisations of a small sparsified covariance with their probabilities, and exact errors from them."""

from __future__ import annotations

import itertools

import numpy as np

from svnn.functional import acv_probabilities, floor_probabilities, rcv_probabilities


def all_realisations(C, P, unbiased=False):
    """Return the 2^(N(N-1)/2) realisations of C and their probabilities."""
    rows, columns = np.triu_indices(len(C), 1)
    keep = floor_probabilities(P[rows, columns]) if unbiased else P[rows, columns]
    kept = np.array(list(itertools.product((0, 1), repeat=len(keep))))
    weight = np.where(kept, keep, 1 - keep).prod(1)
    scale = np.repeat(np.eye(len(C))[None], len(kept), 0)
    scale[:, rows, columns] = scale[:, columns, rows] = kept / keep if unbiased else kept
    return scale * C, weight


def enumerated_error(W, C, P, X, unbiased=False, reference=None, shared=False):
    """Return E‖Y - Ỹ‖² and ‖Y - E[Ỹ]‖², Y = sum_k C^k X W_k, from all sequences of realisations."""
    matrices, probability = all_realisations(C, P, unbiased)
    reference = C if reference is None else reference
    target = sum(np.linalg.matrix_power(reference, k) @ X @ w for k, w in enumerate(W))
    Z, Y, weight = X[None], (X @ W[0])[None], np.ones(1)
    for k, w in enumerate(W[1:]):
        if shared and k:
            Z = matrices @ Z
        else:
            Z = (matrices @ Z[:, None]).reshape(-1, *X.shape)
            Y = np.repeat(Y, len(matrices), 0)
            weight = np.outer(weight, probability).ravel()
        Y = Y + Z @ w
    bias = (np.tensordot(weight, Y, 1) - target) ** 2
    return weight @ ((Y - target) ** 2).sum((1, 2)), bias.sum()


def covariance(n, rng, t=12):
    """Return a sample covariance with variances that differ."""
    return np.cov(rng.standard_normal((t, n)) * rng.uniform(0.5, 1.5, n), rowvar=False, ddof=0)


def keep_probabilities(kind, C, rng, least=0.0):
    """Return keep-probabilities of a kind, none below ``least``."""
    P = {
        "uniform": lambda: np.full(C.shape, 0.6),
        "acv": lambda: acv_probabilities(C),
        "acv density": lambda: acv_probabilities(C, 0.5),
        "rcv": lambda: rcv_probabilities(C, 0.5, rng),
    }[kind]()
    return P.clip(least, 1)
