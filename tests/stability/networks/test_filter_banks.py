"""Banks of filters: run on any form of a matrix, and bounds on how far they move."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from filters_by_hand import symmetric
from reference import filter_bank
from svnn.stability import Spectrum
from svnn.stability.networks import _filter_banks
from svnn.stability.networks._filter_banks import bank_change, bank_on, in_fastest_form


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (3, 3)])
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_bank_is_the_sum_of_powers(rng, shape, order, form):
    C, x, W = symmetric(rng, 7), rng.standard_normal((5, 7, shape[0])), rng.standard_normal((order + 1, *shape))
    np.testing.assert_allclose(bank_on(form(C))(x, W), filter_bank(C, x, W, 0.0), rtol=1e-10, atol=1e-9)


def test_the_form_of_a_matrix_follows_from_its_size_and_its_zeros(rng, monkeypatch):
    full, few = symmetric(rng, 30), np.eye(30)
    for C in (full, few, sp.csr_array(full), sp.csr_array(few)):
        assert isinstance(in_fastest_form(C), np.ndarray)
    monkeypatch.setattr(_filter_banks, "_DENSE_LIMIT", 20)
    assert isinstance(in_fastest_form(full), np.ndarray)
    for C in (few, sp.csr_array(few), sp.csr_array(full)):  # what came sparse does not grow
        assert sp.issparse(in_fastest_form(C))


def test_the_steps_of_lanczos_do_not_depend_on_the_form(rng, monkeypatch):
    W = rng.standard_normal((3, 4, 4))
    A, B = np.eye(300), np.diag(np.arange(300.0))
    B[0, 1:] = B[1:, 0] = 1.0
    for limit in (5e10, 5e6, 3e6):
        monkeypatch.setattr(_filter_banks, "_MULTIPLICATIONS", limit)
        counts = [
            _filter_banks._lanczos_steps(W, one(A), other(B))
            for one in (np.asarray, sp.csr_array)
            for other in (np.asarray, sp.csr_array)
        ]
        assert len(set(counts)) == 1 and counts[0] > 0
    assert counts[0] < 64


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (3, 4), (4, 3)])
@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_every_bound_on_the_change_of_a_bank_holds(rng, monkeypatch, shape, order):
    n = 20
    A = rng.standard_normal((n, n))
    A = A + A.T
    A /= np.linalg.norm(A, 2)
    E = rng.standard_normal((n, n)) / 50
    B = A + E + E.T
    W = rng.standard_normal((order + 1, *shape))
    spectra = [Spectrum.of(M) for M in (A, B, B - A)]
    truth = np.linalg.norm(
        sum(np.kron(np.linalg.matrix_power(B, k) - np.linalg.matrix_power(A, k), w.T) for k, w in enumerate(W)),
        2,
    )
    formed, failure = bank_change(W, A, B, spectra)
    assert failure == 0 and formed == pytest.approx(truth, rel=1e-8)
    monkeypatch.setattr(_filter_banks, "_BLOCK_LIMIT", 0)
    certain, failure = bank_change(W, A, B, spectra, deterministic=True)
    assert failure == 0 and truth <= certain * (1 + 1e-9) and certain <= 30 * truth
    for matrices in ((A, B), (sp.csr_array(A), sp.csr_array(B))):
        likely, failure = bank_change(W, *matrices, spectra)
        assert truth <= likely * (1 + 1e-9) and likely <= min(certain, 1.1 * truth)
        assert failure == (1e-12 if order else 0)
    monkeypatch.setattr(_filter_banks, "_MULTIPLICATIONS", 0)  # none left for Lanczos
    assert bank_change(W, A, B, spectra) == (certain, 0.0)
