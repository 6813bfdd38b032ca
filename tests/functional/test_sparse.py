"""Sparse matrices whose arrays point outside of them are errors, wherever they come in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svnn import HardThreshold, as_operator
from svnn.functional import psd_repair
from svnn.functional._matrix import LowRankPlusSparse
from svnn.functional._sparse import check_sparse
from svnn.graphs import correlation_graph, edge_list
from svnn.sources import as_table

FORMATS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")
#: An array of a matrix of seven entries or more, the place in it, and the value that goes there.
DAMAGES = [(name, place, value) for name in ("indices", "indptr") for place in (0, 2, -1) for value in (10**6, -3)]


def matrix(form="csr", n=6):
    C = np.eye(n) + np.eye(n, k=1) / 2 + np.eye(n, k=-1) / 2
    return sp.csr_array(C).asformat(form)


def damaged(form, name, place, value):
    found = matrix(form)
    getattr(found, name)[place] = value
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_good_matrices_pass(form):
    for kind in (matrix(form), sp.csr_matrix(matrix()).asformat(form), sp.csr_array((3, 3)).asformat(form)):
        assert (check_sparse(kind).toarray() == kind.toarray()).all()
    doubled = sp.csr_array(([1.0, 2.0], [1, 1], [0, 2]), shape=(1, 2))  # an entry in two parts
    assert check_sparse(doubled) is doubled


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
@pytest.mark.parametrize(
    "use",
    [
        check_sparse,
        as_operator,
        lambda C: psd_repair(C, "load"),
        edge_list,
        lambda C: LowRankPlusSparse(np.ones((6, 1)), C),
        as_table,
        lambda C: correlation_graph(C, top_k=1),
        lambda C: HardThreshold(dense_limit=0).fit(C),
        lambda C: HardThreshold().fit(C),
    ],
)
def test_indices_outside(form, damage, use):
    with pytest.raises(ValueError, match="is a damaged sparse matrix: ") as caught:
        use(damaged(form, *damage))
    assert "\n" not in str(caught.value)


def test_arrays_of_other_lengths():
    for name, size in (("data", 5), ("indices", 5), ("indptr", 4), ("indptr", 12)):
        C = matrix()
        setattr(C, name, np.resize(getattr(C, name), size))
        with pytest.raises(ValueError, match="is a damaged sparse matrix"):
            check_sparse(C)


@pytest.mark.parametrize("name", ["row", "col"])
def test_places_outside(name):
    C = matrix("coo")
    getattr(C, name)[3] = 10**6
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        check_sparse(C)
    rows = sp.lil_array((3, 3))
    rows.rows[1], rows.data[1] = [10**6], [1.0]
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        check_sparse(rows)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")
def test_tensors(layout):
    block = {"blocksize": (2, 2)} if layout.startswith("b") else {}
    tensor = torch.from_numpy(matrix().toarray()).to_sparse(layout=getattr(torch, f"sparse_{layout}"), **block)
    np.testing.assert_array_equal(as_operator(tensor).to_dense(), matrix().toarray())
    starts, places = ("crow", "col") if layout in ("csr", "bsr") else ("ccol", "row")
    for name, place, value in [
        (starts, 0, 1),
        (starts, 1, 10**6),
        (starts, -1, 10**6),
        (places, 2, 10**6),
        (places, 0, -3),
    ]:
        parts = {each: getattr(tensor, f"{each}_indices")().clone() for each in (starts, places)}
        parts[name][place] = value
        C = torch.sparse_compressed_tensor(
            *parts.values(), tensor.values(), tensor.shape, layout=tensor.layout, check_invariants=False
        )
        with pytest.raises(ValueError, match="C is a damaged sparse matrix"):
            as_operator(C)


@pytest.mark.parametrize("place", [10**6, 2, -1])
def test_tensors_of_places(place):
    C = torch.sparse_coo_tensor([[0, 1], [1, place]], [1.0, 1.0], (2, 2), check_invariants=False)
    with pytest.raises(ValueError, match=f"C is a damaged sparse matrix: an index of its columns is {place}, but"):
        as_operator(C)
