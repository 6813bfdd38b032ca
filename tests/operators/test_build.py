from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from svnn import as_operator
from svnn.operators import choose_backend, from_data, plain_matrix

C = np.array([[2.0, -1.0, 0.0], [-1.0, 3.0, 0.5], [0.0, 0.5, 1.0]])


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("backend", ["auto", "dense", "csr", "lowrank"])
@pytest.mark.parametrize(
    "source",
    [
        C,
        C.tolist(),
        C.astype(np.float32),
        (2 * C).astype(int) / 2,
        sp.csr_array(C),
        sp.coo_array(C),
        sp.csc_matrix(C),
        torch.tensor(C),
        torch.tensor(C).to_sparse_coo(),
        torch.tensor(C).to_sparse_csr(),
        as_operator(C),
        as_operator(C, backend="csr"),
    ],
    ids=lambda s: type(s).__name__,
)
def test_every_kind_of_matrix(source, backend):
    op = as_operator(source, backend=backend)
    np.testing.assert_allclose(op.to_dense().numpy(), C, atol=1e-6)


def test_operators_pass_through():
    op = as_operator(C)
    assert as_operator(op) is op
    assert as_operator(op.normalized(), backend="csr").scale == op.normalized().scale


def test_dtype_is_kept_or_chosen():
    assert as_operator(C).dtype == torch.float64
    assert as_operator(C.astype(np.float32)).dtype == torch.float32
    assert as_operator(np.eye(3, dtype=int)).dtype == torch.float64
    assert as_operator(C, dtype=torch.float32).dtype == torch.float32


def test_the_source_is_not_changed_by_the_operator():
    source = C.copy()
    op = as_operator(source, backend="dense")
    source[0, 0] = 100
    assert op.to_dense()[0, 0] == 2


def test_auto_takes_csr_for_sparse_matrices_and_dense_for_others():
    large = sp.eye_array(1000, format="csr")
    assert as_operator(large).backend == "csr"
    assert as_operator(np.ones((300, 300))).backend == "dense"
    assert choose_backend(5000, 0.15) == "csr"
    assert choose_backend(5000, 0.95) == "dense"
    # In the eigenbasis the cost does not grow with the order.
    assert choose_backend(117, 0.1, n_in=32, order=2) == "csr"
    assert choose_backend(117, 0.1, n_in=32, order=12) == "dense"
    assert choose_backend(2000, 0.01, device="cuda") == "csr"
    assert choose_backend(2000, 0.3, device="cuda") == "dense"


def test_an_operator_of_free_choice_runs_a_bank_in_the_better_backend():
    dense = np.ones((60, 60)) / 60
    operator = as_operator(sp.csr_array(dense) * (np.random.default_rng(0).random((60, 60)) < 2))
    x, weight = torch.randn(3, 60, 8).double(), torch.randn(9, 8, 8).double()
    expected = as_operator(dense, backend="csr").filter(x, weight)
    assert torch.allclose(operator.filter(x, weight), expected)
    sparse = as_operator(sp.eye_array(200, format="csr"))
    assert sparse.adaptive and sparse.backend == "csr"
    x = torch.randn(3, 200, 8).double()
    assert torch.allclose(sparse.filter(x, weight), x @ weight.sum(0))
    assert sparse.__dict__["_memo"]["twin"].backend == "dense"
    fixed = as_operator(sp.eye_array(200, format="csr"), backend="csr")
    fixed.filter(x, weight)
    assert not fixed.adaptive and "twin" not in fixed.__dict__["_memo"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.ones(3), "square"),
        (np.zeros((0, 0)), "square"),
        (sp.csr_array(np.ones((2, 3))), "square"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "not symmetric.*differ by up to 2"),
        (sp.csr_array(np.array([[1.0, 2.0], [0.0, 1.0]])), "not symmetric"),
        (np.array([[np.nan, 0], [0, 1.0]]), "NaN"),
        (sp.csr_array(np.array([[np.inf, 0], [0, 1.0]])), "infinite"),
        ([["a", "b"], ["c", "d"]], "real numbers"),
        ("C", "real numbers"),
        (np.array([[1, 1j], [-1j, 1]]), "complex"),
    ],
)
def test_bad_matrices_are_named(source, message):
    with pytest.raises(ValueError, match=message):
        as_operator(source)


def test_backend_is_checked():
    with pytest.raises(ValueError, match="backend must be one of"):
        as_operator(C, backend="coo")


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("shape", [(7, 50), (4, 50, 3)])
def test_from_data_is_the_sample_covariance(rng, shape, ddof):
    X = rng.standard_normal(shape) + 5
    rows = X if X.ndim == 2 else X.transpose(0, 2, 1).reshape(-1, 50)
    expected = np.cov(rows.T, ddof=0) / (1 - ddof / len(X))
    for source in (X, torch.tensor(X)):
        op = from_data(source, ddof)
        assert op.backend == "lowrank" and op.factor.shape == (50, len(rows))
        np.testing.assert_allclose(op.to_dense().numpy(), expected, rtol=1e-9, atol=1e-12)
    assert from_data(X, dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize(
    ("X", "ddof", "message"),
    [
        (np.ones(3), 0, r"\(t, N\)"),
        (np.full((3, 2), np.nan), 0, "NaN"),
        (np.ones((1, 3)), 1, "needs more than 1 samples"),
    ],
)
def test_from_data_names_bad_input(X, ddof, message):
    with pytest.raises(ValueError, match=message):
        from_data(X, ddof)


@pytest.mark.parametrize("n", [1, 2, 50, 400])
def test_spectral_norm(rng, n):
    A = rng.standard_normal((n, n))
    A = A + A.T
    assert as_operator(A).norm() == pytest.approx(abs(np.linalg.eigvalsh(A)).max(), rel=1e-5)


def test_from_data_takes_frames(rng):
    X = rng.standard_normal((7, 5))
    np.testing.assert_allclose(from_data(pd.DataFrame(X)).to_dense(), from_data(X).to_dense())


def test_a_matrix_that_is_learned_is_never_remembered():
    C = torch.eye(3, requires_grad=True)
    op = as_operator(C, backend="dense")
    x = torch.ones(3, 1, dtype=torch.float64)
    before = op @ x
    assert op.norm() == pytest.approx(1)
    with torch.no_grad():
        C *= 2
    assert op.norm() == pytest.approx(2)
    torch.testing.assert_close(op @ x, 2 * before)


def test_plain_matrices():
    sparse = sp.csr_array(C)
    for source in (C, C.tolist(), pd.DataFrame(C), sparse, torch.tensor(C), as_operator(C), as_operator(C, "csr")):
        plain = plain_matrix(source)
        assert isinstance(plain, (np.ndarray, sp.csr_array))
        np.testing.assert_allclose(plain.toarray() if sp.issparse(plain) else plain, C)
