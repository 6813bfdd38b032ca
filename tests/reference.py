"""The mathematics in plain float64 numpy, written without the library: what every backend is held to.

Filters are sums of explicit matrix powers, sample by sample; gradients are the formulas of the derivative.
"""

from __future__ import annotations

import numpy as np


def filter_bank(C, x, weight, bias):
    """Y_b = Σ_k C^k X_b W_k + 1 bᵀ for x (B, N, in), weight (K + 1, in, out)."""
    powers = [np.linalg.matrix_power(C, k) for k in range(len(weight))]
    return np.stack([sum(P @ sample @ W for P, W in zip(powers, weight, strict=True)) for sample in x]) + bias


def filter_bank_gradients(C, x, weight, dy):
    """The gradients of Σ dY ∘ Y: (dx, dweight, dbias, dC).

    dX = Σ_k C^k dY W_kᵀ,  dW_k = Σ_b X_bᵀ C^k dY_b,  db = Σ dY,
    dC = Σ_b Σ_k Σ_{j<k} C^j dY_b (C^{k-1-j} X_b W_k)ᵀ; C is symmetric.
    """
    powers = [np.linalg.matrix_power(C, k) for k in range(len(weight))]
    dx, dw, dC = np.zeros_like(x), np.zeros_like(weight), np.zeros_like(C)
    for b in range(len(x)):
        for k, W in enumerate(weight):
            dx[b] += powers[k] @ dy[b] @ W.T
            dw[k] += x[b].T @ powers[k] @ dy[b]
            for j in range(k):
                dC += powers[j] @ dy[b] @ (powers[k - 1 - j] @ x[b] @ W).T
    return dx, dw, dy.sum((0, 1)), dC


def spectral_norm(C):
    return np.abs(np.linalg.eigvalsh(C)).max()


def logarithm(C):
    """The matrix with the eigenvalues 1 + log10(λ) / 8, and 0 below 1e-8, for C of norm 1."""
    values, vectors = np.linalg.eigh(C)
    return vectors @ np.diag([1 + np.log10(v) / 8 if v > 1e-8 else 0.0 for v in values]) @ vectors.T


def member_states(state):
    """The states of the members of a network, or the only one."""
    prefixes = sorted({".".join(name.split(".")[:2]) + "." for name in state if name.startswith("members.")})
    return [{k.removeprefix(p): v for k, v in state.items() if k.startswith(p)} for p in prefixes] or [state]


ACTIVATIONS = {"leaky_relu": lambda u: np.where(u > 0, u, 0.01 * u), "silu": lambda u: u / (1 + np.exp(-u))}


def network(C, x, state, n_layers, activation="leaky_relu", use="covariance", eps=1e-5):
    """The trained network in evaluation: filters on C / ‖C‖, running batch norm if any, activation, readout, head."""
    sigma = ACTIVATIONS[activation]
    C = C / (spectral_norm(C) or 1.0)
    C = logarithm(C) if use == "log" else C
    u = x
    for layer in range(n_layers):
        u = filter_bank(C, u, state[f"filters.{layer}.weight"], state.get(f"filters.{layer}.bias", 0.0))
        if f"norms.{layer}.weight" in state:
            norm = {name: state[f"norms.{layer}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")}
            u = (u - norm["running_mean"]) / np.sqrt(norm["running_var"] + eps) * norm["weight"] + norm["bias"]
        u = sigma(u)
    weights = state.get("readout.weight", np.ones((1, len(C)))) / len(C)
    v = np.stack([(weights @ sample).ravel() for sample in u])
    layers = sorted(int(name.split(".")[1]) for name in state if name.startswith("head.") and name.endswith(".weight"))
    for i in layers:
        v = v @ state[f"head.{i}.weight"].T + state[f"head.{i}.bias"]
        v = v if i == layers[-1] else sigma(v)
    return v


def _blocks(n, rng):
    C = np.zeros((n, n))
    for i in range(0, n, 4):
        C[i : i + 4, i : i + 4] = 1.0
    order = rng.permutation(n)
    return C[np.ix_(order, order)]


def _symmetric(A):
    return np.triu(A) + np.triu(A, 1).T


def awkward_matrices(n=12, seed=0):
    """Symmetric matrices by name, among them those on which Krylov iterations end early."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((n, 1))
    one_edge = np.eye(n)
    one_edge[0, 1] = one_edge[1, 0] = 0.5
    A = rng.standard_normal((n, n))
    return {
        "identity": np.eye(n),
        "minus identity": -np.eye(n),
        "zero": np.zeros((n, n)),
        "ones": np.ones((n, n)),
        "identity with one edge": one_edge,
        "diagonal": np.diag(np.linspace(-1, 2, n)),
        "one large variance": np.diag(np.r_[1e6, np.ones(n - 1)]),
        "rank one": v @ v.T,
        "blocks of ones": _blocks(n, rng),
        "plus and minus one": _symmetric(np.sign(A)),
        "sparse": _symmetric(A * (rng.random((n, n)) < 0.3)),
        "indefinite": _symmetric(A),
        "covariance": A @ A.T / n,
        "few samples": A[:, :2] @ A[:, :2].T,
    }


def standardize(X):
    """z-scores of every column; a constant one is zero."""
    spread = X.std(0)
    return (X - X.mean(0)) / np.where(X.max(0) == X.min(0), 1.0, spread)


def thresholded_correlation(Z, rule):
    """The default thresholds on standardised data: 2 √(log N / t) on correlations, the diagonal kept."""
    C = Z.T @ Z / len(Z)
    if rule == "sample":
        return C
    level = 2 * np.sqrt(np.log(C.shape[0]) / len(Z))
    # The columns have unit variance, or none at all: covariances are correlations.
    kept = np.where(np.abs(C) >= level, C, 0.0) if rule == "hard" else np.sign(C) * np.maximum(np.abs(C) - level, 0)
    np.fill_diagonal(kept, np.diagonal(C))
    return kept


def covariance(X, weight=None):
    """Σ w (x - μ)(x - μ)ᵀ / Σ w, column by column about the exact mean of what varies."""
    weight = np.ones(len(X)) if weight is None else weight / weight.max()
    X = X.astype(np.float64)
    centred = X - (weight @ X) / weight.sum()
    centred[:, X.max(0) == X.min(0)] = 0.0
    return (centred * weight[:, None]).T @ centred / weight.sum()


def nonzero_covariances(X):
    """Which pairs of columns have a covariance that is not zero beyond rounding."""
    C = covariance(X)
    spread = np.sqrt(C.diagonal())
    return np.abs(C) > 1e-9 * np.outer(spread, spread)


#: Symmetric matrices of size 200 with few distinct eigenvalues, on which Lanczos iterations end early.
EARLY = {
    "identity": np.eye(200),
    "zero": np.zeros((200, 200)),
    "ones": np.ones((200, 200)),
    "minus ones": -np.ones((200, 200)),
    "identity with an edge": np.eye(200)
    + 0.5 * (np.eye(200)[[3]].T @ np.eye(200)[[9]] + np.eye(200)[[9]].T @ np.eye(200)[[3]]),
    "blocks": np.kron(np.eye(50), np.ones((4, 4))),
    "swaps": np.kron(np.eye(100), np.array([[0.0, 1.0], [1.0, 0.0]])),
    "complete bipartite": np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.ones((100, 100))),
    "signs": np.kron(np.eye(50), np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1.0, -1, -1, 1]])),
    "rank one": np.outer(np.arange(200.0), np.arange(200.0)),
    "one of many": np.diag(np.r_[-5.0, np.ones(199)]),
}
