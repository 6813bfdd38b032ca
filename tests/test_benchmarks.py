"""The benchmarks run, and compare like with like: rivals that compute the same thing.

How fast anything is, is not tested: that takes a quiet machine and ``make bench``.
"""

from __future__ import annotations

import json

import _measure
import auto
import curves
import filters
import gpu
import plot
import pytest
import scale
import torch
import training

RATES = {"sgemm GFLOP/s": 1.0, "copy GB/s": 1.0}


def stored(result):
    """What comes back from the JSON that a run writes."""
    return json.loads(json.dumps(result))


@pytest.mark.parametrize("name", filters.NAMES)
@pytest.mark.parametrize("w", [filters.Workload(3, 20, 1, 0.3), filters.Workload(2, 17, 40, 1.0, order=2)])
def test_rivals_compute_what_we_compute(name, w):
    C = filters.random_covariance(w.nodes, w.density)
    x, weight, bias, g = filters.tensors(w)
    expected = sum(torch.from_numpy(C.toarray()).matrix_power(k) @ x @ weight[k] for k in range(w.order + 1)) + bias
    one = filters.candidate(name, C, weight, bias, w.batch)
    torch.testing.assert_close(one.forward(x), expected, rtol=1e-4, atol=1e-4)
    if one.parameters:
        gradients = one.gradients(x, one.forward(x), g)
        torch.testing.assert_close(gradients, torch.autograd.grad(expected, [x, weight, bias], g), rtol=1e-3, atol=1e-3)


def test_a_wrong_rival_is_caught():
    right, wrong = torch.ones(3), torch.tensor([1.0, 1.0, 1.1])
    filters.check("right", [right], [right])
    with pytest.raises(AssertionError, match="the output differs from ours by"):
        filters.check("wrong", [wrong], [right])
    with pytest.raises(AssertionError, match="gradient of x"):
        filters.check("nan", [right, wrong * float("nan")], [right, right])


def test_random_covariances_are_symmetric_with_their_density_and_diagonal():
    C = filters.random_covariance(200, 0.1)
    assert abs(C - C.T).max() == 0 and (C.diagonal() != 0).all()
    assert C.nnz / 200**2 == pytest.approx(0.1, abs=0.01)


def test_calls_take_turns_and_slow_ones_are_made_once(monkeypatch):
    calls = []
    monkeypatch.setattr(_measure, "BURST", 0.0)
    times = _measure.round_robin(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b"), "slow": lambda: calls.append("slow")},
        seconds=0.0,
        first={"a": 0.1, "slow": 100.0},
    )
    assert calls == ["a", "b"] * 3
    assert times["slow"] == 100.0 and times["a"] < 1


@pytest.mark.parametrize("with_pyg", [True, False])
def test_filters_report_every_workload(with_pyg, monkeypatch):
    if not with_pyg:
        monkeypatch.setattr(filters, "find_spec", lambda name: None)
    rows = stored(filters.measure(RATES, quick=True))
    table = filters.report(rows)
    assert len(rows) == len(filters.QUICK) and all(w.shape in table for w in filters.QUICK)
    assert all(row["times"]["ours"][1] > 0 and row["times"]["scipy"][1] is None for row in rows)


def test_training_starts_from_the_same_weights_and_has_the_same_losses():
    rows = stored(training.measure(RATES, quick=True))
    assert all(row["loss difference"] < 1e-4 for row in rows)
    assert "quick regressor" in training.report(rows)


def test_scale_agrees_with_numpy():
    assert scale.numpy_fit(300, 100)["nnz"] == scale.fit(300, 100)["nnz"] > 300


def test_fresh_processes_return_results_and_name_failures():
    assert _measure.fresh_process("_measure", "number", value=0.125) == "0.125"
    with pytest.raises(RuntimeError, match=r"number ended with status 1: TypeError"):
        _measure.fresh_process("_measure", "number", wrong=1)


def test_auto_reports_its_losses():
    result = stored(auto.measure(RATES, quick=True))
    assert len(result["rows"]) == 6
    assert "6 held-out shapes" in auto.report(result)


def test_curves_are_drawn(tmp_path):
    points = {name: [1.0, 2.0] for name in curves.NAMES} | {"PyG CSR": [3.0, None]}
    result = {
        "batch": 2,
        "features": 2,
        "density": {"nodes": 9, "x": [0.1, 1.0], "ms": points},
        "size": {"density": 0.1, "x": [10, 100], "ms": points},
        "memory": {"density": 0.1, "x": [10, 100], "GB": points},
    }
    assert "| 0.1 " in curves.report(result)
    assert plot.draw(result, tmp_path / "bench.png").stat().st_size > 10_000


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_gpu_part_says_so(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    assert gpu.main() == 2
    assert "needs a GPU" in capsys.readouterr().out
