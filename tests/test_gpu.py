"""The same numbers on a GPU; skipped where there is none."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import svnn
from svnn import ACV, RCV, HardThreshold, SampleCovariance, SoftThreshold, SVNNClassifier, SVNNRegressor, as_operator
from svnn import functional as F
from svnn.estimators.callbacks import Checkpoint
from svnn.nn import SVNN, CovarianceFilter
from svnn.operators import pack

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
        expected = b.covariance_
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


def test_fused_filter_banks_equal_dense_ones():
    C = F.hard_threshold(np.corrcoef(data().T), 0.3)
    dense = torch.tensor(C, device="cuda")
    for n_in, n_out, batch in ((1, 32, 16), (1, 4, 3), (32, 32, 5), (40, 7, 1), (3, 2, 70)):
        operator = as_operator(C, backend="csr", device="cuda")
        x = torch.randn(batch, 12, n_in, dtype=torch.float64, device="cuda", requires_grad=True)
        weight = torch.randn(4, n_in, n_out, dtype=torch.float64, device="cuda", requires_grad=True)
        powers = [x]
        for _ in range(3):
            powers.append(dense @ powers[-1])
        results = operator.filter(x, weight), torch.cat(powers, -1) @ weight.flatten(0, 1)
        gradient = torch.randn_like(results[0])
        ours, theirs = ([y, *torch.autograd.grad(y, (x, weight), gradient)] for y in results)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_a_sparse_step_allocates_no_square_matrix():
    n = 20_000
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, n, (2, 20 * n))
    upper = sp.coo_array((rng.standard_normal(20 * n).astype(np.float32), (i, j)), shape=(n, n)).tocsr()
    operator = as_operator(upper + upper.T, backend="csr", device="cuda").normalized()
    layer = CovarianceFilter(16, 16, order=2).cuda()
    x = torch.randn(2, n, 16, device="cuda", requires_grad=True)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()  # also what earlier tests left to torch
    layer(x, operator).square().sum().backward()
    assert torch.cuda.max_memory_allocated() - before < n * n


def test_signals_shifted_once_train_the_same_network(monkeypatch):
    X = data()
    y = X[:, :3].sum(1)
    same = {"max_epochs": 5, "random_state": 0, "device": "cuda", "node_dropout": 0.0, "schedule": "constant"}
    fits = [SVNNRegressor(**same).fit(X, y)]
    monkeypatch.setattr("svnn.estimators._trainers._CACHE_BYTES", 0)
    fits.append(SVNNRegressor(**same).fit(X, y))
    np.testing.assert_allclose(*(f.history_["train_loss"] for f in fits), rtol=1e-3)


@pytest.mark.parametrize("backend", ["dense", "csr"])
def test_second_derivatives_norms_and_half_precision(backend):
    C = F.hard_threshold(np.corrcoef(data().T), 0.3)
    operator = as_operator(C, backend=backend, device="cuda")
    x = torch.randn(2, 12, 3, dtype=torch.float64, device="cuda", requires_grad=True)
    for n_out in (2, 5):
        weight = torch.randn(3, 3, n_out, dtype=torch.float64, device="cuda", requires_grad=True)
        assert torch.autograd.gradgradcheck(operator.filter, (x, weight))
    for matrix in (np.eye(300), np.ones((200, 200)), C):
        expected = abs(np.linalg.eigvalsh(matrix)).max()
        assert as_operator(matrix, backend=backend, device="cuda").norm() == pytest.approx(expected, rel=1e-9)
    half = torch.randn(12, 3, device="cuda", dtype=torch.bfloat16)
    torch.testing.assert_close((operator @ half).double(), operator @ half.double(), rtol=0.05, atol=0.05)
    learned = torch.tensor(C, device="cuda", requires_grad=True)
    (gradient,) = torch.autograd.grad(as_operator(learned, backend=backend).filter(x, weight).sum(), learned)
    assert gradient.abs().max() > 0


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("labels", [False, True])
def test_recorded_steps_are_those_of_plain_torch(monkeypatch, dropout, labels):
    """Also with a last batch of another length, and with random draws made in several stretches."""
    from svnn.estimators import _trainers as family
    from svnn.estimators.training import GraphTrainer, StackedTrainer
    from svnn.estimators.training import _graph_trainer as recorded

    X = data()
    y = (X[:, 0] > X[:, 1]).astype(int) if labels else X[:, 0] + X[:, 1] ** 2
    model = SVNNClassifier if labels else SVNNRegressor
    options = {"max_epochs": 6, "members": 3, "batch_size": 30, "node_dropout": dropout, "random_state": 0}
    options["validation_fraction"] = 0.0  # all members hold out the same rows, none: one trainer
    used = []
    monkeypatch.setattr(recorded, "_DRAWN_VALUES", 3 * 12 * 40)
    replay = GraphTrainer._replay
    monkeypatch.setattr(GraphTrainer, "_replay", lambda *a: used.append(1) or replay(*a))
    fast = model(**options).fit(X, y)
    assert len(used) == 6 * 3  # the default way on a GPU
    monkeypatch.setattr(family, "GraphTrainer", StackedTrainer)
    plain = model(**options).fit(X, y)
    np.testing.assert_allclose(fast.history_["train_loss"], plain.history_["train_loss"], rtol=1e-3)
    slow = model(**options, device="cpu").fit(X, y)
    np.testing.assert_allclose(fast.history_["train_loss"], slow.history_["train_loss"], rtol=1e-3)
    for a, b in ((fast, plain), (fast, slow)):
        outputs = [m.predict_proba(X) if labels else m.predict(X) for m in (a, b)]
        np.testing.assert_allclose(*outputs, rtol=5e-3, atol=5e-3)


def test_contributions_are_those_of_a_cpu():
    X = data()
    for options in ({}, {"use": "covariance", "covariance": "hard"}):
        model = SVNNRegressor(members=2, max_epochs=5, device="cuda", random_state=0, **options).fit(X, X[:, 0])
        other = copy.copy(model)
        other.fitted_ = replace(model.fitted_, module=copy.deepcopy(model.module_).cpu())
        other.shift_ = replace(model.shift_, operator=model.operator_.to(device="cpu"))
        for function in (
            svnn.inspection.feature_contributions,
            svnn.inspection.edge_contributions,
            svnn.inspection.eigenvector_contributions,
        ):
            found, expected = function(model, X), function(other, X)
            np.testing.assert_allclose(found.contributions, expected.contributions, atol=1e-8)


def symmetric(*shape, seed=0):
    root = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return root @ root.mT


def gradients(network, *inputs):
    """The output and the gradients of all weights, on the CPU."""
    network.zero_grad()
    output = network(*inputs)
    output.square().sum().backward()
    return [output.detach().cpu(), *(p.grad.cpu().clone() for p in network.parameters())]


@pytest.mark.parametrize("kind", ["batched", "selected", "packed"])
def test_a_matrix_for_each_sample(kind):
    C, x = symmetric(4, 6, 6), torch.randn(4, 6, 2, dtype=torch.float64)
    network = SVNN(2, 3, hidden=(5, 4), batch_norm=False).double()
    operator = pack(list(C)) if kind == "packed" else as_operator(C)
    operator = operator[torch.tensor([2, 2, 0, 1])] if kind == "selected" else operator
    x = x.flatten(0, 1) if kind == "packed" else x
    expected = gradients(network, x, operator)
    found = gradients(network.cuda(), x.cuda(), operator.to("cuda"))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_operators_move_with_the_module_that_holds_them():
    holder = torch.nn.Module()
    holder.shift = as_operator(symmetric(6, 6), backend="csr").normalized()
    before, x = holder.shift @ torch.ones(6, 1, dtype=torch.float64), torch.ones(6, 1, dtype=torch.float64)
    holder.cuda()
    assert holder.shift.device.type == "cuda"
    torch.testing.assert_close((holder.shift @ x.cuda()).cpu(), before)


@pytest.mark.parametrize("backend", ["tensor", "dense", "csr", "lowrank", "batched"])
def test_compiled_networks(backend):
    C = symmetric(5, 12, 12) if backend == "batched" else symmetric(12, 12)
    C = C.float().cuda()
    shift = C if backend in ("tensor", "batched") else as_operator(C, backend=backend)
    network, x = SVNN(2, 1, hidden=(8, 4), batch_norm=False).cuda(), torch.randn(5, 12, 2, device="cuda")
    expected = gradients(network, x, shift)
    found = gradients(torch.compile(network, fullgraph=True), x, shift)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * float(b.abs().max()))


def test_a_killed_fit_is_resumed(tmp_path):
    X = data()
    settings = {"max_epochs": 6, "members": 2, "device": "cuda", "random_state": 0}

    def stop(record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    whole = SVNNRegressor(**settings).fit(X, X[:, 0])
    saved = Checkpoint(tmp_path / "state", seconds=0)
    with pytest.raises(KeyboardInterrupt):
        SVNNRegressor(**settings, callbacks=[saved, stop]).fit(X, X[:, 0])
    resumed = SVNNRegressor(**settings, callbacks=[saved]).fit(X, X[:, 0])
    np.testing.assert_allclose(resumed.predict(X), whole.predict(X), rtol=1e-4, atol=1e-4)


def test_rows_with_matrices_of_their_own_and_rows_that_come_later():
    X, C = data(), symmetric(80, 12, 12).numpy()
    settings = {"max_epochs": 4, "members": 2, "random_state": 0, "node_dropout": 0.0}
    predictions = {}
    for device in ("cpu", "cuda"):
        model = SVNNRegressor(**settings, device=device).fit(X, X[:, 0], shift=C)
        predictions[device] = model.predict(X, shift=C)
        table = SVNNRegressor(**settings, device=device).fit(X, X[:, 0])
        np.testing.assert_allclose(table.to_torch(torch.float64)(torch.from_numpy(X)), table.predict(X), atol=1e-6)
        table.partial_fit(X[:20], X[:20, 0])
        assert np.isfinite(table.predict(X)).all()
    np.testing.assert_allclose(predictions["cuda"], predictions["cpu"], atol=0.02)
