"""Frequency responses of the layers of trained networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svnn import SVNNRegressor
from svnn.nn import SVNN, CovarianceFilter
from svnn.stability import layer_response, network_response


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


def test_network_response_of_a_module_takes_the_scale():
    module = SVNN(1, 1, hidden=(3,))
    lam = np.linspace(0, 2, 5)
    np.testing.assert_allclose(network_response(module, lam, scale=2.0)[0], network_response(module, lam / 2)[0])


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="CovarianceFilter"):
        layer_response(torch.nn.Linear(1, 1), 0.0)
    with pytest.raises(TypeError, match="fit it first"):
        network_response(SVNNRegressor(), 0.0)
