"""One way in for matrices: every kind that stands for a matrix works wherever a matrix is taken."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import EmpiricalCovariance

from strategies import covariances, seeds, tied_matrices
from svnn import HardThreshold, as_operator, metrics, stability
from svnn.functional import LowRankPlusSparse, psd_repair, smallest_eigenvalue
from svnn.functional._matrix import numpy_matrix, plain_values, stored_matrix, unchecked_matrix
from svnn.operators import plain_matrix

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support", "ignore:the matrix subclass")


class Fitted:
    """An estimator of another package."""

    def __init__(self, covariance):
        self.covariance_ = covariance


#: Every way to hand over a matrix, from a float64 array.
KINDS = {
    "array": lambda C: C,
    "array in Fortran's order": np.asfortranarray,
    "read-only array": lambda C: np.broadcast_to(C, C.shape),
    "reversed array": lambda C: C[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian array": lambda C: C.astype(">f8"),
    "long double": lambda C: C.astype(np.longdouble),
    "objects": lambda C: C.astype(object),
    "np.matrix": np.asmatrix,
    "list": lambda C: C.tolist(),
    "pandas": pd.DataFrame,
    "polars": lambda C: pl.DataFrame(C, schema=[f"c{i}" for i in range(len(C))]),
    "tensor": torch.tensor,
    "learned tensor": lambda C: torch.tensor(C, requires_grad=True),
    "COO tensor": lambda C: torch.tensor(C).to_sparse_coo(),
    "uncoalesced tensor": lambda C: torch.tensor(C).to_sparse_coo() / 2 + torch.tensor(C).to_sparse_coo() / 2,
    "CSR tensor": lambda C: torch.tensor(C).to_sparse_csr(),
    "CSC tensor": lambda C: torch.tensor(C).to_sparse_csc(),
    "CSR": sp.csr_array,
    "CSR with duplicates": lambda C: sp.csr_array(
        (
            np.repeat(C.ravel() / 2, 2),
            np.tile(np.repeat(np.arange(len(C)), 2), len(C)),
            np.arange(len(C) + 1) * 2 * len(C),
        )
    ),
    "CSC": sp.csc_array,
    "COO": sp.coo_array,
    "LIL": sp.lil_array,
    "DOK": sp.dok_array,
    "DIA": sp.dia_array,
    "BSR": sp.bsr_array,
    "spmatrix": sp.csr_matrix,
    "dense operator": lambda C: as_operator(C, "dense"),
    "CSR operator": lambda C: as_operator(C, "csr"),
    "low-rank operator": lambda C: as_operator(C, "lowrank"),
    "factors and a rest": lambda C: LowRankPlusSparse(np.zeros((len(C), 1)), sp.csr_array(C)),
    "sum operator": lambda C: as_operator(LowRankPlusSparse(np.zeros((len(C), 1)), sp.csr_array(C))),
    "normalised operator": lambda C: as_operator(C, "dense").normalized(),
    "normalised CSR operator": lambda C: as_operator(C, "csr").normalized(7.0),
    "estimator": Fitted,
    "estimator of a tensor": lambda C: Fitted(torch.tensor(C)),
    "estimator of a sparse tensor": lambda C: Fitted(torch.tensor(C).to_sparse_csr()),
    "estimator of a sparse array": lambda C: Fitted(sp.csr_array(C)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
#: Kinds that may round: their matrix passes through factors or a division.
ROUNDED = {"low-rank operator", "normalised operator", "normalised CSR operator"}

C = np.array([[2.0, -1.0, 0.0, 0.0], [-1.0, 3.0, 0.5, 0.0], [0.0, 0.5, 1.0, 0.0], [0.0, 0.0, 0.0, 0.25]])
OTHER = np.diag([1.0, 2.0, 3.0, 4.0])
#: Eigenvalues of both signs.
INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.5]])


def dense(matrix):
    matrix = plain_values(matrix)
    return matrix.toarray() if sp.issparse(matrix) else matrix


# -- every kind gives the same matrix -----------------------------------------------------------------


@every_kind
@settings(max_examples=20)
@given(C=covariances() | tied_matrices())
def test_all_kinds_give_the_same_matrix(kind, C):
    given_matrix = KINDS[kind](C)
    exact = kind not in ROUNDED
    for take in (numpy_matrix, stored_matrix):
        found = dense(take(given_matrix))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, C, rtol=0, atol=0 if exact else 1e-12 * abs(C).max())
    matrix = dense(numpy_matrix(given_matrix))
    assert (matrix == matrix.T).all()


@every_kind
def test_sparse_stays_sparse_and_tensors_stay_tensors(kind):
    found = stored_matrix(KINDS[kind](C))
    source = KINDS[kind](C)
    source = getattr(source, "covariance_", source)
    is_sparse = sp.issparse(source) or "CSR operator" in kind
    assert sp.issparse(found) == is_sparse
    assert isinstance(found, torch.Tensor) == (
        not is_sparse and (isinstance(source, torch.Tensor) or "operator" in kind)
    )
    if isinstance(found, torch.Tensor):
        sparse = isinstance(source, torch.Tensor) and source.layout != torch.strided
        assert found.layout == (torch.sparse_csr if sparse else torch.strided)
    assert sp.issparse(numpy_matrix(KINDS[kind](C))) == (
        is_sparse or ("tensor" in kind and found.layout != torch.strided)
    )


USES = {
    "as_operator": lambda M: as_operator(M).to_dense().detach().numpy() * (as_operator(M).scale or 1.0),
    "plain_matrix": lambda M: dense(plain_matrix(M)).astype(float) * (as_operator(M).scale or 1.0),
    "psd_repair": lambda M: dense(psd_repair(M, "load")),
    "smallest_eigenvalue": smallest_eigenvalue,
    "support_recovery": lambda M: metrics.support_recovery(C, M, tol=1e-9),
    "filter_bound": lambda M: stability.filter_bound([1.0, 0.5, 0.2], OTHER, M),
    "pca_distance": lambda M: stability.pca_distance(M, OTHER, 2),
    "sparsification_error": lambda M: stability.sparsification_error(M, 0.5)[0],
    "Spectrum": lambda M: stability.Spectrum.of(M).low,
}


@pytest.mark.parametrize("use", USES)
def test_every_kind_works_in_every_place(use):
    expected = USES[use](C)
    for kind, make in KINDS.items():
        if use != "psd_repair" or kind != "learned tensor":
            np.testing.assert_allclose(USES[use](make(C)), expected, atol=1e-9, err_msg=kind)


@pytest.mark.parametrize("tensor", [False, True])
def test_estimators_fitted_on_tensors_are_taken_everywhere(rng, tensor):
    X = rng.standard_normal((50, 4)) @ np.linalg.cholesky(C).T
    fitted = HardThreshold(tau=0.2).fit(torch.tensor(X) if tensor else X)
    plain = HardThreshold(tau=0.2).fit(X).covariance_
    for use in USES.values():
        np.testing.assert_allclose(use(fitted), use(plain), atol=1e-9)
    for use in USES.values():
        use(EmpiricalCovariance().fit(X))


def test_tiled_estimators_of_tensors_are_taken_everywhere(rng):
    X = rng.standard_normal((30, 60)) + rng.standard_normal((30, 1))
    array = HardThreshold(density=0.1, dense_limit=10).fit(X)
    tensor = HardThreshold(density=0.1, dense_limit=10).fit(torch.tensor(X))
    assert sp.issparse(array.covariance_) and tensor.covariance_.layout != torch.strided
    np.testing.assert_allclose(dense(numpy_matrix(tensor)), dense(numpy_matrix(array)), atol=1e-9)
    assert stability.pca_distance(array, tensor, 2) == pytest.approx(0, abs=1e-6)
    assert metrics.support_recovery(array, tensor).f1 == 1
    torch.testing.assert_close(as_operator(array).to_dense(), as_operator(tensor).to_dense())


# -- what is kept, and what is copied ---------------------------------------------------------------------


def test_nothing_is_copied_that_need_not_be():
    array, tensor, sparse = C.copy(), torch.tensor(C), sp.csr_array(C)
    assert stored_matrix(array) is array and numpy_matrix(array) is array
    assert stored_matrix(tensor) is tensor and np.shares_memory(numpy_matrix(tensor), tensor.numpy())
    assert np.shares_memory(stored_matrix(sparse).data, sparse.data)


@every_kind
def test_an_operator_leaves_what_it_is_given_alone(kind):
    for backend in ("auto", "dense", "csr"):
        source = KINDS[kind](C)
        matrix = getattr(source, "covariance_", source)
        before = dense(unchecked_matrix(source)).copy()
        operator = as_operator(source, backend)
        if "operator" not in kind and kind != "learned tensor":  # which are not copied
            with torch.no_grad():
                for tensor in operator._tensors():
                    tensor.zero_()
        np.testing.assert_array_equal(dense(unchecked_matrix(source)), before)
        if isinstance(matrix, sp.csr_array):
            assert matrix.indptr[-1] == len(matrix.data)  # also where it has duplicates, which the copy adds up


def test_changes_of_a_sparse_tensor_do_not_reach_the_operator():
    coo = torch.tensor(C).to_sparse_coo().coalesce()
    operator = as_operator(coo, "csr")
    coo.values().zero_()
    np.testing.assert_array_equal(operator.to_dense().numpy(), C)


@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
def test_gradients_are_kept(layout):
    leaf = torch.tensor(C, requires_grad=True)
    matrix = {"strided": leaf, "coo": leaf.to_sparse_coo(), "csr": leaf.to_sparse_csr()}[layout]
    stored = stored_matrix(matrix)
    assert stored.requires_grad
    (gradient,) = torch.autograd.grad(stored.to_dense().sum(), leaf)
    assert (gradient != 0).sum() == (16 if layout == "strided" else np.count_nonzero(C))
    assert not isinstance(numpy_matrix(matrix), torch.Tensor)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo, torch.sparse_csr])
def test_precision_is_kept(dtype, layout):
    matrix = torch.eye(3, dtype=dtype)
    matrix = matrix if layout == torch.strided else matrix.to_sparse(layout=layout)
    assert stored_matrix(matrix).dtype == dtype and numpy_matrix(matrix).dtype == np.float64
    assert as_operator(matrix).dtype == dtype
    assert psd_repair(matrix, "load").dtype == dtype
    assert smallest_eigenvalue(matrix) == pytest.approx(1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8, np.int64, bool])
def test_arrays_of_other_numbers(dtype):
    array = np.eye(3, dtype=dtype)
    expected = dtype if np.dtype(dtype).kind == "f" else np.float64
    assert stored_matrix(array).dtype == expected
    assert numpy_matrix(array).dtype == np.float64
    assert smallest_eigenvalue(array) == pytest.approx(1)
    for method in ("load", "shrink", "clip"):
        assert psd_repair(array, method).dtype == expected


# -- rounding ----------------------------------------------------------------------------------------------


@given(C=covariances(), seed=seeds, kind=st.sampled_from(["array", "tensor", "CSR", "COO tensor", "CSR tensor"]))
def test_what_differs_by_rounding_is_made_exactly_symmetric(C, seed, kind):
    noise = 1e-7 * abs(C).max() * np.random.default_rng(seed).uniform(-1, 1, C.shape)
    source = KINDS[kind](C + noise)
    for take in (numpy_matrix, stored_matrix):
        found = dense(take(source))
        assert (found == found.T).all()
        np.testing.assert_allclose(found, C, atol=2e-7 * abs(C).max())
    operator = as_operator(source).to_dense()
    assert bool((operator == operator.T).all())


@pytest.mark.parametrize("kind", ["array", "tensor", "CSR", "COO tensor", "CSR tensor", "list", "learned tensor"])
@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
def test_what_differs_by_more_is_an_error_everywhere(kind, unit):
    source = C.copy()
    source[0, 1] += 1e-3
    source = KINDS[kind](source * unit)
    for use in (numpy_matrix, stored_matrix, as_operator, smallest_eigenvalue, lambda M: psd_repair(M, "load")):
        with pytest.raises(ValueError, match=r"C is not symmetric: entries differ by up to (0\.001|1e-203|1e\+197)"):
            use(source)


def test_half_precision_may_differ_in_its_third_digit():
    matrix = torch.eye(2, dtype=torch.float16)
    matrix[0, 1] = 1e-3
    assert bool((stored_matrix(matrix) == stored_matrix(matrix).T).all())
    with pytest.raises(ValueError, match="not symmetric"):
        stored_matrix(matrix.float())


# -- what is no matrix ---------------------------------------------------------------------------------------


HOSTILE = {
    "no square": (np.ones((2, 3)), "square"),
    "a vector": (np.ones(3), "square"),
    "a number": (1.0, "square"),
    "three axes": (np.ones((2, 2, 3)), "square"),
    "nothing": (np.zeros((0, 0)), "(at least one row|has 0 features)"),
    "sparse, no square": (sp.csr_array(np.ones((2, 3))), "square"),
    "a sparse tensor, no square": (torch.ones(2, 3).to_sparse_coo(), "square"),
    "NaN": (np.array([[np.nan, 0], [0, 1.0]]), "NaN or infinite"),
    "sparse infinity": (sp.csr_array(np.array([[np.inf, 0], [0, 1.0]])), "NaN or infinite"),
    "a tensor with NaN": (torch.tensor([[float("nan"), 0], [0, 1]]), "NaN or infinite"),
    "a sparse tensor with NaN": (torch.tensor([[float("nan"), 0], [0, 1]]).to_sparse_coo(), "NaN or infinite"),
    "masked values": (np.ma.masked_array(np.eye(2), mask=[[True, False], [False, False]]), "NaN or infinite"),
    "complex": (np.eye(2) * 1j, "real"),
    "a complex tensor": (torch.eye(2, dtype=torch.complex64), "real"),
    "a complex sparse tensor": (torch.eye(2, dtype=torch.complex64).to_sparse_coo(), "real"),
    "complex and sparse": (sp.csr_array(np.eye(2) * 1j), "real"),
    "words": ([["a", "b"], ["c", "d"]], "real numbers"),
    "numbers as words": ([["1", "0"], ["0", "1"]], "real numbers"),
    "a word": ("C", "real numbers"),
    "dates": (np.full((2, 2), np.datetime64("2020-01-01")), "real numbers"),
    "ragged lists": ([[1.0], [1.0, 2.0]], "real numbers"),
    "None": (None, "real numbers"),
    "an object": (object(), "real numbers"),
    "a frame of words": (pd.DataFrame([["a", "b"], ["b", "a"]]), "real numbers"),
    "an estimator before fit": (HardThreshold(), "HardThreshold without a covariance; fit it first"),
    "an estimator of nothing": (Fitted(None), "real numbers"),
}
TAKERS = {
    "numpy_matrix": numpy_matrix,
    "as_operator": as_operator,
    "smallest_eigenvalue": smallest_eigenvalue,
    "psd_repair": lambda M: psd_repair(M, "shrink"),
    "pca_distance": lambda M: stability.pca_distance(M, OTHER, 2),
    "support_recovery": lambda M: metrics.support_recovery(M, C),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_matrix_is_named(taker):
    name = {"pca_distance": "A", "support_recovery": "C_true"}.get(taker, "C")
    for source, message in HOSTILE.values():
        with pytest.raises(ValueError, match=f"^{name} .*{message}"):
            TAKERS[taker](source)


def test_the_argument_is_named():
    with pytest.raises(ValueError, match=r"^P must be a square matrix"):
        stored_matrix(np.ones((2, 3)), "P")
    with pytest.raises(ValueError, match=r"^P is not symmetric.*pass \(P \+ P\.T\) / 2"):
        numpy_matrix([[1.0, 2.0], [0.0, 1.0]], "P")


# -- repairs of every kind ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["load", "shrink", "clip"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"learned tensor", "CSC tensor"}])
def test_a_repair_gives_the_same_kind(kind, method):
    source = KINDS[kind](INDEFINITE)
    given_matrix = getattr(source, "covariance_", source)
    repaired = psd_repair(source, method)
    np.testing.assert_allclose(dense(repaired), psd_repair(INDEFINITE, method), atol=1e-9)
    if isinstance(given_matrix, torch.Tensor):
        assert isinstance(repaired, torch.Tensor)
        assert (repaired.layout, repaired.dtype, repaired.device) == (
            given_matrix.layout,
            given_matrix.dtype,
            given_matrix.device,
        )
    else:
        assert sp.issparse(repaired) == (sp.issparse(given_matrix) or "CSR operator" in kind)


@pytest.mark.parametrize("kind", ["array", "tensor", "COO tensor", "CSR tensor", "estimator of a tensor"])
@pytest.mark.parametrize("method", ["load", "shrink", "clip"])
def test_where_nothing_is_to_repair_nothing_is_made(kind, method):
    source = KINDS[kind](C)
    assert psd_repair(source, method) is getattr(source, "covariance_", source)


@pytest.mark.parametrize("method", ["load", "shrink", "clip"])
def test_gradients_pass_through_a_repair_or_are_refused(method):
    leaf = torch.tensor(INDEFINITE, requires_grad=True)
    (gradient,) = torch.autograd.grad(psd_repair(leaf, method).sum(), leaf)
    assert gradient.abs().max() > 0
    with pytest.raises(ValueError, match="requires gradients"):
        psd_repair(leaf.to_sparse_coo(), method)
