"""A network taken apart: banks of filters on any form of a matrix, and responses of its layers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from filters_by_hand import symmetric
from reference import filter_bank
from svnn import BlendRegressor, SVNNRegressor
from svnn.nn import SVNN, CovarianceFilter
from svnn.operators import CSROperator
from svnn.stability import Spectrum, _bounds, _network, layer_response, network_response
from svnn.stability._bounds import apply_bank, bank_change
from svnn.stability._network import _fast_to_multiply


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (3, 3)])
@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("form", [np.asarray, lambda C: CSROperator.from_scipy(sp.csr_array(C))])
def test_a_bank_is_the_sum_of_powers(rng, shape, order, form):
    C, x, W = symmetric(rng, 7), rng.standard_normal((5, 7, shape[0])), rng.standard_normal((order + 1, *shape))
    np.testing.assert_allclose(apply_bank(form(C), x, W), filter_bank(C, x, W, 0.0), rtol=1e-10, atol=1e-9)


def test_the_form_of_a_matrix_follows_from_its_size_and_its_zeros(rng, monkeypatch):
    full, few = symmetric(rng, 30), np.eye(30)
    for C in (full, few, sp.csr_array(full), sp.csr_array(few)):
        assert isinstance(_fast_to_multiply(C), np.ndarray)
    monkeypatch.setattr(_network, "_DENSE_LIMIT", 20)
    assert isinstance(_fast_to_multiply(full), np.ndarray)
    for C in (few, sp.csr_array(few), sp.csr_array(full)):  # what came sparse does not grow
        assert sp.issparse(_fast_to_multiply(C))


def test_the_steps_of_lanczos_do_not_depend_on_the_form(rng, monkeypatch):
    W = rng.standard_normal((3, 4, 4))
    A, B = np.eye(300), np.diag(np.arange(300.0))
    B[0, 1:] = B[1:, 0] = 1.0
    for limit in (5e10, 5e6, 3e6):
        monkeypatch.setattr(_bounds, "_MULTIPLICATIONS", limit)
        counts = [
            _bounds._lanczos_steps(W, one(A), other(B))
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
        sum(np.kron(np.linalg.matrix_power(B, k) - np.linalg.matrix_power(A, k), w.T) for k, w in enumerate(W)), 2
    )
    formed, failure = bank_change(W, A, B, spectra)
    assert failure == 0 and formed == pytest.approx(truth, rel=1e-8)
    monkeypatch.setattr(_bounds, "_BLOCK_LIMIT", 0)
    certain, failure = bank_change(W, A, B, spectra, deterministic=True)
    assert failure == 0 and truth <= certain * (1 + 1e-9) and certain <= 30 * truth
    for matrices in ((A, B), (sp.csr_array(A), sp.csr_array(B))):
        likely, failure = bank_change(W, *matrices, spectra)
        assert truth <= likely * (1 + 1e-9) and likely <= min(certain, 1.1 * truth)
        assert failure == (1e-12 if order else 0)
    monkeypatch.setattr(_bounds, "_MULTIPLICATIONS", 0)  # none left for Lanczos
    assert bank_change(W, A, B, spectra) == (certain, 0.0)


def test_layer_response_is_in_units_of_the_unscaled_covariance(rng):
    layer = CovarianceFilter(2, 3, order=2).double()
    A = rng.standard_normal((6, 6))
    lam, V = np.linalg.eigh(A @ A.T)
    x = torch.from_numpy(V[:, [4]] * np.array([1.0, -2.0]))
    y = layer(x, torch.from_numpy(A @ A.T / 5)).detach().numpy() - layer.bias.detach().numpy()
    response = layer_response(layer, lam[4], scale=5)
    np.testing.assert_allclose(y, V[:, [4]] * (np.array([1.0, -2.0]) @ response), atol=1e-10)


@pytest.mark.parametrize("batch_norm", [True, False])
def test_network_response_of_a_trained_estimator(rng, batch_norm):
    X = rng.standard_normal((60, 6)) @ rng.standard_normal((6, 6))
    model = SVNNRegressor(
        covariance="sample", members=1, hidden=(4, 5), batch_norm=batch_norm, max_epochs=8, random_state=0
    )
    model.fit(X, X[:, 0])
    lam, V = np.linalg.eigh(model.covariance_)
    responses = network_response(model, lam)
    assert [r.shape for r in responses] == [(6, 1, 4), (6, 4, 5)]
    module = model.module_.double().eval()
    for layer, norm, response in zip(module.filters, module.norms, responses, strict=True):
        for j in range(6):  # every eigenvector on its own, all values of a node alike; without what the layer adds
            x = torch.from_numpy(np.repeat(V[:, [j]], layer.in_features, axis=1))
            with torch.no_grad():
                y = norm(layer(x, model.operator_)) - norm(layer(0 * x, model.operator_))
            np.testing.assert_allclose(y.numpy(), V[:, [j]] * response[j].sum(0), atol=1e-5)


def test_network_response_of_a_blend_is_that_of_its_network(rng):
    X = rng.standard_normal((60, 6))
    model = BlendRegressor(SVNNRegressor(members=4, max_epochs=3, random_state=0)).fit(X, X[:, 0])
    lam = np.linspace(0.1, 2, 5)
    for found, own in zip(network_response(model, lam), network_response(model.parts_["with edges"], lam), strict=True):
        np.testing.assert_array_equal(found, own)


def test_network_response_of_a_module_takes_the_scale():
    module = SVNN(1, 1, hidden=(3,))
    lam = np.linspace(0, 2, 5)
    np.testing.assert_allclose(network_response(module, lam, scale=2.0)[0], network_response(module, lam / 2)[0])


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="CovarianceFilter"):
        layer_response(torch.nn.Linear(1, 1), 0.0)
    with pytest.raises(TypeError, match="fit it first"):
        network_response(SVNNRegressor(), 0.0)
