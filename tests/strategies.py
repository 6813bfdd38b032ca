"""Random matrices for property tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st


@st.composite
def covariances(draw: Any, min_nodes: int = 2, max_nodes: int = 12) -> np.ndarray:
    """Sample covariances of Gaussian data, of mixed scales."""
    n = draw(st.integers(min_nodes, max_nodes))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((draw(st.integers(2, 30)), n)) * rng.uniform(0.1, 10, n)
    return np.cov(X.T, ddof=0).reshape(n, n)


@st.composite
def tied_matrices(draw: Any) -> np.ndarray:
    """Symmetric matrices with many equal absolute values, zeros and both signs."""
    n = draw(st.integers(2, 9))
    values = st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])
    C = np.array([[draw(values) for _ in range(n)] for _ in range(n)])
    return np.triu(C, 1) + np.triu(C, 1).T + np.eye(n)


densities = st.floats(0, 1)
seeds = st.integers(0, 2**32 - 1)
