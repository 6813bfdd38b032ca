"""The same numbers on a GPU; skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import svnn
from svnn import ACV, RCV, HardThreshold, SampleCovariance, SoftThreshold, SVNNClassifier, SVNNRegressor, as_operator
from svnn import functional as F
from svnn.nn import CovarianceFilter

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def data(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((80, 1)) + rng.standard_normal((80, 12))


def test_functions_stay_on_the_device_and_agree():
    C = np.cov(data().T)
    T = torch.tensor(C, device="cuda")
    P = F.rcv_probabilities(C, 0.4, 0)
    for a, b in [
        (F.hard_threshold(T, 0.5), F.hard_threshold(C, 0.5)),
        (F.soft_threshold(T, 0.5), F.soft_threshold(C, 0.5)),
        (F.acv_probabilities(T, 0.3), F.acv_probabilities(C, 0.3)),
        (F.rcv_probabilities(T, 0.4, 0), P),
        (F.largest_pairs(T, 0.3), F.largest_pairs(C, 0.3)),
        (F.sparsify(T, torch.tensor(P, device="cuda"), 0, True), F.sparsify(C, P, 0, True)),
        (F.psd_repair(F.hard_threshold(T, 0.9), "shrink"), F.psd_repair(F.hard_threshold(C, 0.9), "shrink")),
    ]:
        assert a.is_cuda
        np.testing.assert_allclose(a.cpu().numpy(), b, rtol=1e-9, atol=1e-9)


def test_covariances_stay_on_the_device_and_agree():
    X = data()
    for make in (
        SampleCovariance,
        HardThreshold,
        lambda: SoftThreshold(density=0.4),
        lambda: svnn.AdaptiveThreshold(delta=1.0),
        lambda: ACV(random_state=0),
        lambda: RCV(random_state=0),
        lambda: HardThreshold(tau="cv", random_state=0),
    ):
        a, b = make().fit(torch.tensor(X, device="cuda")), make().fit(X)
        assert a.covariance_.is_cuda and a.location_.is_cuda
        expected = b.covariance_ if isinstance(b.covariance_, np.ndarray) else b.covariance_.toarray()
        np.testing.assert_allclose(a.covariance_.to_dense().cpu().numpy(), expected, rtol=1e-9, atol=1e-9)


def test_filters_agree_forward_and_backward():
    C = F.hard_threshold(np.cov(data().T), 0.6)
    for backend in ("dense", "csr", "lowrank"):
        for width in ((2, 5), (5, 2)):
            layer = CovarianceFilter(*width, order=3).double()
            x = torch.randn(4, 12, width[0], dtype=torch.float64)
            results = []
            for device in ("cpu", "cuda"):
                layer = layer.to(device)
                layer.zero_grad()
                signal = x.detach().clone().to(device).requires_grad_()
                y = layer(signal, as_operator(C, backend=backend, device=device))
                (y**2).sum().backward()
                results.append([v.detach().cpu() for v in (y, signal.grad, layer.weight.grad, layer.bias.grad)])
            for a, b in zip(*results, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_wrong_device_is_named():
    with pytest.raises(ValueError, match="x is on cuda:0, the operator on cpu"):
        as_operator(np.eye(3)) @ torch.ones(3, 1, device="cuda")


def test_estimators_train_store_and_predict_as_on_the_cpu(tmp_path):
    X = data()
    model = SVNNRegressor(device="auto", max_epochs=50, random_state=0).fit(X, X[:, 0])
    assert next(model.module_.parameters()).is_cuda and model.operator_.device.type == "cuda"
    assert model.score(X, X[:, 0]) > 0.6
    model.save(tmp_path / "model.safetensors")
    on_cpu = svnn.load(tmp_path / "model.safetensors", device="cpu")
    np.testing.assert_allclose(on_cpu.predict(X), model.predict(X), rtol=1e-6, atol=1e-6)
    again = SVNNRegressor(device="cuda", max_epochs=50, random_state=0).fit(X, X[:, 0])
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-3, atol=1e-3)
    labels = X[:, 0] > 0
    stochastic = SVNNClassifier(covariance="rcv", resample="shift", max_epochs=20, random_state=0).fit(X, labels)
    assert stochastic.predict_proba(X).shape == (80, 2)
