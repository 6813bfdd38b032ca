"""The main table: which S-VNN a user would take, differences on the same splits, and the network without edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from svnn.paper.experiments import table
from svnn.paper.experiments._models import GRID, NETWORKS, SPARSE, RealSettings, build, configurations

SETTINGS = replace(table.FULL, datasets=("ixi", "dsads"), repeats=2)


def rows_of(scores: dict[str, list[tuple[float, float]]], dataset: str) -> list[dict]:
    """Make up what the jobs return: validation and test score of every model in every repeat."""
    config = {"layers": 1, "order": 1, "dropout": 0.0}
    return [
        {"dataset": dataset, "model": m, "config": config, "repeat": r, "validation": v, "score": s, "epochs": 9}
        for m, pairs in scores.items()
        for r, (v, s) in enumerate(pairs)
    ]


@pytest.fixture
def found():
    scores = {
        "PCA + MLP": [(5.0, 6.0), (5.0, 8.0)],
        "VNN": [(4.0, 7.0), (4.0, 5.0)],
        "Hard p=0.5": [(3.0, 9.0), (4.5, 3.0)],
        "ACV": [(3.5, 4.0), (4.0, 2.0)],
        "No edges": [(1.0, 1.0), (1.0, 1.0)],
    }
    found = table.tables(pd.DataFrame(rows_of(scores, "ixi") + rows_of(scores, "dsads")), SETTINGS)
    return {name: frame.to_dict("records") for name, frame in found.items()}


def test_the_s_vnn_is_picked_by_validation_not_by_its_test_score(found):
    chosen = [row for row in found["repeats"] if row["model"] == "S-VNN, by validation"]
    assert [(r["dataset"], r["picked"], r["score"]) for r in chosen] == [
        ("ixi", "Hard p=0.5", 9.0),  # an error: the smallest validates best
        ("ixi", "ACV", 2.0),
        ("dsads", "ACV", 4.0),
        ("dsads", "Hard p=0.5", 3.0),
    ]
    (mean,) = (r for r in found["summary"] if r["model"] == "S-VNN, by validation" and r["dataset"] == "ixi")
    assert mean["score_mean"] == 5.5 and mean["n"] == 2


def test_differences_are_taken_on_the_same_split_and_positive_is_better(found):
    at = {(r["dataset"], r["model"]): r for r in found["differences"]}
    assert at["ixi", "ACV"]["over_vnn_mean"] == 3.0 and at["dsads", "ACV"]["over_vnn_mean"] == -3.0
    assert at["ixi", "VNN"]["over_vnn_mean"] == 0 and at["ixi", "VNN"]["over_pca_mlp_std"] == pytest.approx(8**0.5)


def test_tables_name_every_repeat_once(found):
    names = [(r["dataset"], r["model"], r["repeat"]) for r in found["repeats"]]
    assert len(names) == len(set(names)) == 2 * 6 * 2


def test_the_network_without_edges_is_searched_without_an_order_and_ignores_the_covariance():
    assert "VNN" not in SPARSE and "No edges" not in SPARSE and len(SPARSE) == len(NETWORKS) - 2
    configs = configurations("No edges", GRID)
    assert len(configs) == 6 and not any("order" in config for config in configs)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.standard_normal(40)
    training = RealSettings(features=4, epochs=3)
    bare, dense = (build(m, False, {"layers": 1, "order": 2, "dropout": 0.0}, training, 0) for m in ("No edges", "VNN"))
    for model, moves in ((bare, False), (dense, True)):
        model.fit(X, y)
        change = abs(model.on(np.eye(5) + 0.5).predict(X) - model.predict(X)).max()
        assert (change > 1e-6) == moves
