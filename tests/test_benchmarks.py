"""The benchmarks run, and compare like with like: rivals that compute the same thing.

How fast anything is, is not tested: that takes a quiet machine and ``make bench``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from importlib.util import find_spec
from pathlib import Path

import _measure
import _peers
import anndata_graph
import auto
import batches
import compiled
import correlations
import curves
import filters
import gpu
import gpu_graph
import latency
import numpy as np
import plot
import pytest
import scale
import scipy.sparse as sparse
import shifts
import torch
import training
import uncertainty
import windows
from sklearn.base import clone
from sklearn.utils import Bunch

import inspection
from svnn import as_operator
from svnn._compiled import load
from svnn.nn import SVNN
from svnn.paper import make_sparse_cov

RATES = {"sgemm GFLOP/s": 1.0, "copy GB/s": 1.0}


def in_this_process(module, function, **arguments):
    """Stand in for ``fresh_process``, which the benchmarks need for their peaks of memory."""
    return stored(getattr(importlib.import_module(module), function)(**stored(arguments)))


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
    assert "quick regressor" in training.report(rows) and "quick default" in training.report(rows)
    compiled = load("svnn.estimators.training._member_kernels") is not None
    assert rows[-1]["members"] == 8 and rows[-1]["trainer"] == ("CompiledTrainer" if compiled else "StackedTrainer")


def test_the_textbook_member_is_the_network_of_the_estimator():
    torch.manual_seed(0)
    C = torch.eye(5) + 0.1
    ours = SVNN(
        2,
        3,
        hidden=(4,),
        order=2,
        activation="silu",
        batch_norm=False,
        readout="weighted",
        heads=2,
        n_nodes=5,
        mlp=(6,),
    )
    textbook = _peers.TextbookMember(2, 3, 5, 4, 2, 2, (6,), 0.0, _peers.dense_shift(C))
    textbook.load_state_dict(ours.state_dict())
    x = torch.randn(7, 5, 2)
    torch.testing.assert_close(textbook(x), ours(x, as_operator(C).normalized(1.0)))


@pytest.mark.slow
def test_every_way_to_predict_one_row_predicts_the_same(monkeypatch):
    monkeypatch.setattr(latency, "QUICK", latency.QUICK[1:])  # one export
    rows = stored(latency.measure(RATES, quick=True))
    ways = {"predict", "to_torch"} | (
        {"onnxruntime"} if find_spec("onnxruntime") and find_spec("onnxscript") else set()
    )
    assert all(set(row["seconds"]) == ways and max(row["differences"].values()) < 1e-5 for row in rows)
    assert "quick classes" in latency.report(rows)


def test_scale_agrees_with_numpy():
    assert scale.numpy_fit(300, 100)["nnz"] == scale.fit(300, 100)["nnz"] > 300


def test_fresh_processes_return_results_and_name_failures(tmp_path, monkeypatch):
    monkeypatch.setattr(_measure, "__file__", str(tmp_path / "_measure.py"))  # modules are looked for beside it
    (tmp_path / "one_part.py").write_text("import os\ndef double(x): print('hello'); return [2 * x, os.getpid()]")
    twice, process = _measure.fresh_process("one_part", "double", x=0.125)
    assert twice == 0.25 and process != os.getpid()
    with pytest.raises(RuntimeError, match=r"double ended with status 1: TypeError"):
        _measure.fresh_process("one_part", "double", wrong=1)


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


def test_the_statistics_of_uncertainty_are_right_where_they_are_known():
    rng = np.random.default_rng(0)
    std = rng.uniform(0.5, 2, 4000)
    y = std * rng.standard_normal(4000)
    found = uncertainty.statistics(y, np.zeros(4000), std)
    assert found["coverage"] == pytest.approx(0.9, abs=0.015)
    assert 0 < found["gain"] < 1 and found["area"] < 0.9 and found["rank_correlation"] > 0.2
    # The errors themselves are the best order, the reverse of it is worse than none, a constant is none.
    error = np.abs(y)
    assert uncertainty.statistics(y, np.zeros(4000), error)["gain"] == pytest.approx(1)
    assert uncertainty.statistics(y, np.zeros(4000), 9 - error)["rank_correlation"] == pytest.approx(-1)
    assert uncertainty.statistics(y, np.zeros(4000), 9 - error)["area"] > 1
    constant = uncertainty.statistics(y, np.zeros(4000), np.ones(4000))
    assert constant["area"] == pytest.approx(1) and constant["gain"] == pytest.approx(0, abs=1e-12)
    assert constant["rank_correlation"] == 0


def test_the_sparsification_area_is_a_mean_over_the_rows_that_are_left():
    error, std = np.array([1.0, 2.0, 6.0]), np.array([10.0, 20.0, 30.0])
    assert uncertainty.sparsification_area(error, std) == pytest.approx((3 + 1.5 + 1) / 3)
    # In a tie the order of the rows does not count.
    tied = np.array([10.0, 30.0, 30.0])
    swapped = uncertainty.sparsification_area(error[[0, 2, 1]], tied)
    assert uncertainty.sparsification_area(error, tied) == swapped == pytest.approx((3 + 2.5 + 1) / 3)


def test_uncertainty_is_measured_on_fresh_splits_and_written(tmp_path, monkeypatch):
    data = make_sparse_cov(n_samples=80, n_features=5, random_state=0)
    monkeypatch.setattr(uncertainty, "regressions", lambda: {"one": (data.X, data.y), "two": (data.X, -data.y)})
    uncertainty.run(tmp_path / "found.csv", range(2), only="one", members=2, max_epochs=3)
    _, seeds = zip(*(line.split(",")[:4:3] for line in (tmp_path / "found.csv").read_text().splitlines()), strict=True)
    assert seeds == ("seed", "0", "1")
    (line,) = uncertainty.table(tmp_path / "found.csv").splitlines()[2:]
    assert line.startswith("| one (80 × 5)") and line.count(" ± ") == 4


def test_inspection_plants_features_ranks_them_and_keeps_other_rows(tmp_path, monkeypatch):
    X, y, truth = inspection.planted("linear", 0)
    fit = np.linalg.lstsq(X[:, truth], y, rcond=None)[0]
    assert truth.sum() == 6 and 0.35 < 1 - (y - X[:, truth] @ fit).var() / y.var() < 0.65
    assert np.corrcoef(inspection.planted("correlated", 0)[0][:, :5].T)[0, 4] == pytest.approx(0.6, abs=0.15)
    monkeypatch.setattr(inspection, "SHAP_ROWS", 1)
    monkeypatch.setattr(inspection, "SHAP_SAMPLES", 80)
    if not find_spec("shap"):
        monkeypatch.delitem(inspection.RANKINGS, "SHAP, sampling")
    path = tmp_path / "found.csv"
    for kind in ("linear", "nonlinear", "correlated", "linear"):
        inspection.run(path, range(1), only=kind, members=2, max_epochs=20, shrink=False)
    rows = inspection.stored(path)
    assert [row["data"] for row in rows[:: len(inspection.RANKINGS)]] == list(inspection.KINDS)
    assert len(rows) == 3 * len(inspection.RANKINGS) and all(0.5 < float(row["auc"]) <= 1 for row in rows)
    ranked, real = inspection.tables(path)
    assert ranked.count(" ± ") == len(rows) and len(real.splitlines()) == 2


def test_a_subject_has_no_part_in_the_choice_of_its_network(tmp_path):
    good, bad = windows.CANDIDATES[:2]

    def row(model, left_out, subject, accuracy):
        return dict(zip(windows.COLUMNS, (model, left_out, subject, 0, accuracy, 1.0), strict=True))

    # On subject 2 alone the second candidate is better, by far; on 1 and 3 it is worse.
    rows = [row(good, "1 2", 1, 90), row(good, "1 2", 2, 10), row(good, "2 3", 2, 10), row(good, "2 3", 3, 90)]
    rows += [row(bad, "1 2", 1, 80), row(bad, "1 2", 2, 99), row(bad, "2 3", 2, 99), row(bad, "2 3", 3, 80)]
    rows += [row(good, "2", 2, 12), row(bad, "2", 2, 98)]
    assert windows.best_elsewhere(rows, 2) == good
    assert windows.best_elsewhere(rows, 1) == windows.best_elsewhere(rows, 3) == bad
    windows.write(tmp_path / "found.csv", rows)
    windows.write(tmp_path / "found.csv", [row(good, "2", 2, 14)])  # a new result replaces the old one
    found = windows.read(tmp_path / "found.csv")
    assert len(found) == len(rows) and windows.accuracies(found, good, 2) == [14]
    assert windows.pairs((1, 2, 3, 4)) == [(1, 2), (2, 3), (3, 4), (4, 1), (1, 3), (2, 4)]


def test_the_bar_is_that_of_the_default(tmp_path, capsys):
    """A candidate that is above the bar on every subject does not pass where the default does not."""

    def status(*accuracies):
        rows = []
        for subject in windows.SUBJECTS:
            rows.append((windows.NETWORK, str(subject), subject, 0, 99.0))
            rows += [(windows.DEFAULT, str(subject), subject, seed, score) for seed, score in enumerate(accuracies)]
        for a, b in windows.pairs(windows.SUBJECTS):
            rows += [(name, f"{a} {b}", s, 0, 60.0) for s in (a, b) for name in windows.CANDIDATES]
        path = tmp_path / f"{accuracies}.csv"
        windows.write(path, [dict(zip(windows.COLUMNS, (*row, 1.0), strict=True)) for row in rows])
        return windows.main(argparse.Namespace(table=True, out=path))

    assert status(94.0) == 1 and status(96.0) == 0
    assert status(94.0, 95.8) == 1 and status(94.5, 95.8) == 0
    assert "chosen on other subjects" in capsys.readouterr().out


def test_windows_are_measured_on_those_left_out(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 30)
    X = rng.standard_normal((60, 3, 16)) * (1 + 5 * y[:, None, None])
    data = Bunch(X=X, y=y, groups=np.repeat([1, 2, 3], 20))
    windows.run(data, tmp_path / "found.csv", (1, 2, 3), range(1), only="LDA", choose=False)
    assert [row["subject"] for row in windows.read(tmp_path / "found.csv")] == ["1", "2", "3"]
    line = windows.table(tmp_path / "found.csv").splitlines()[2]
    assert line.startswith("| features as table + shrinkage LDA | 100.0 |")
    for name in windows.CANDIDATES:  # they can be built and fitted
        model = windows.MODELS[name].build(0).set_params(blendclassifier__parts__max_epochs=1)
        assert set(model.fit(X, y).predict(X)) <= {0, 1}


def test_batches_are_compared_with_the_loop():
    result = stored(batches.measure(RATES, quick=True))
    assert set(result["of the bare product"]) == set(result["ms"]) and result["of the bare product"][batches.BARE] == 1
    assert "filter, operator" in batches.report(result)
    sizes = batches.sizes_around(64, 68)
    assert sum(sizes) == 64 * 68 and min(sizes) == 51 and max(sizes) == 85
    outputs, _ = batches.candidates(3, 8)
    right = outputs["filter, operator"]
    with pytest.raises(AssertionError, match="filter, operator: differs from the loop"):
        batches.check(outputs | {"filter, operator": lambda: 1.1 * right()})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_gpu_part_says_so(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    assert gpu.main() == 2
    assert "needs a GPU" in capsys.readouterr().out


def test_compiled_networks_are_compared_with_themselves(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)  # which tests/operators/test_compiled_ops.py does
    rows = stored(compiled.measure(RATES, quick=True))
    assert [row["workload"] for row in rows] == [w.name for w in compiled.QUICK]
    assert all(row[name]["compiled"] > 0 and row[name]["plain"] > 0 for row in rows for name in compiled.PASSES)
    assert "4×12, 2→3, K=2, csr" in compiled.report(rows)


def test_the_correlations_are_measured(monkeypatch):
    monkeypatch.setattr(correlations, "fresh_process", in_this_process)
    rows = correlations.measure(RATES, quick=True)
    names = ["pearson", "spearman", "biweight"]
    assert [row["correlation"] for row in rows] == [*names, "kendall", *names]
    table = correlations.report(stored(rows))
    assert "| 300 | 50  | spearman" in table and "times Pearson's" in table


def test_the_graph_of_an_anndata_file_is_measured_and_checked(tmp_path, monkeypatch):
    pytest.importorskip("anndata")
    monkeypatch.setattr(anndata_graph, "fresh_process", in_this_process)
    (row,) = stored(anndata_graph.measure(RATES, quick=True))
    assert row["missing"] == 0 and row["edges"] >= 1000 * anndata_graph.TOP // 2 and 0.03 < row["density"] < 0.15
    assert "| 1,000 | 100 " in anndata_graph.report([row])
    path, out = str(tmp_path / "cells.h5ad"), str(tmp_path / "graph.npz")
    anndata_graph.write(path, 60, 200)
    anndata_graph.graph(path, out)
    matrix = sparse.load_npz(out)
    matrix.data[:] *= 1.1
    sparse.save_npz(out, matrix)
    assert anndata_graph.check(path, out, [3])["largest error"] > 1e-3  # a wrong graph is seen


@pytest.mark.parametrize(
    ("data", "name"), [(data, name) for data, case in shifts.CASES.items() for name in case.estimators]
)
def test_every_covariance_beats_a_threshold_on_data_made_for_it(data, name):
    """By a fifth at least, on the average of ten draws."""
    draw, estimators, score = shifts.CASES[data]
    found = []
    for seed in range(10):
        X, truth = draw(np.random.default_rng(seed))
        fits = (clone(each).fit(X).covariance_ for each in (estimators[name], shifts.HARD["hard"]))
        found.append([shifts.miss(C, truth, score) for C in fits])
    ours, hard = np.mean(found, axis=0)
    assert ours <= 0.8 * hard


def test_misses_are_right_where_they_are_known():
    truth = np.array([[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert shifts.miss(9 * truth, truth, "distance") == pytest.approx(0)  # units do not matter
    assert shifts.miss(np.diag([4.0, 1.0, 1.0]), truth, "distance") == pytest.approx((0.5 / 3.5) ** 0.5)
    assert shifts.miss(truth, truth, "edges") == 0 and shifts.miss(np.eye(3), truth, "edges") == 1
    assert shifts.miss(np.ones((3, 3)), truth, "edges") == pytest.approx(0.5)
    assert (
        shifts.false_share(np.ones((3, 3)), truth) == pytest.approx(2 / 3) and shifts.false_share(np.eye(3), truth) == 0
    )


def test_shifts_are_measured_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shifts, "CASES", {name: shifts.CASES[name] for name in ("columns in order", "planted edges")})
    monkeypatch.setattr(shifts, "COST", (20, 8))
    path = tmp_path / "found.csv"
    shifts.run(path, draws=2, edge_draws=3, repeats=2)
    assert len(shifts.stored(path)) == 2 * (4 + 3) + 3 * 3 + 2 * 6
    assert shifts.table(path).count("\n") == 4 and "`tapering`" in shifts.table(path)
    assert "`tapering`" in shifts.costs(path) and "over 3 draws" in shifts.false_sentence(path)


def test_the_page_shows_what_was_measured_on_a_cluster():
    pytest.importorskip("distributed")
    import cluster

    docs = Path(__file__).parents[1] / "docs"
    row = json.loads((docs / "results" / "cluster.json").read_text(encoding="utf-8"))
    page = (docs / "cluster.md").read_text(encoding="utf-8")
    assert cluster.table(row) in page


def test_graphs_on_a_gpu_are_quoted_as_they_were_measured(monkeypatch, capsys):
    docs = Path(__file__).parents[1] / "docs"
    rows = json.loads((docs / "results" / "gpu_graph.json").read_text(encoding="utf-8"))["gpu_graph"]
    assert gpu_graph.report(rows) in (docs / "speed.md").read_text(encoding="utf-8")
    assert not any(row["wrong"] for row in rows)
    if not torch.cuda.is_available():
        monkeypatch.setattr("sys.argv", ["gpu_graph.py"])
        assert gpu_graph.main() == 2 and "needs a GPU" in capsys.readouterr().out
