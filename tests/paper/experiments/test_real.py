"""Splits, models and scores of the experiments on real data; the data here are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from svnn.paper.experiments import _real_data, performance, stochastic_real, table
from svnn.paper.experiments._models import (
    GRID,
    MODELS,
    TimedSettings,
    build,
    configurations,
    fit,
    fit_and_score,
    take_times,
)

SMALL = TimedSettings(models=MODELS, epochs=3, patience=3, features=4, timings=1)


@pytest.fixture
def made_up(monkeypatch):
    """Eight people of four activities as "dsads", eighty ages as "ixi"."""
    rng = np.random.default_rng(0)
    groups, y = np.repeat(np.arange(1, 9), 12), np.tile(np.arange(4), 24)
    windows = rng.standard_normal((96, 6, 16)).astype(np.float32) + y[:, None, None] * np.linspace(0, 1, 6)[:, None]
    thickness = rng.standard_normal((80, 12))
    sets = {
        "dsads": Bunch(X=windows, y=y, groups=groups, split=None),
        "ixi": Bunch(X=thickness, y=50 + 10 * thickness.sum(1), groups=np.arange(80), split=None),
    }
    monkeypatch.setattr(_real_data, "_load", sets.__getitem__)
    return sets


def test_people_are_on_one_side_and_each_is_tested_once_in_a_turn(made_up):
    X, groups = made_up["dsads"].X, made_up["dsads"].groups
    tested = []
    for repeat in range(4):
        split = _real_data.load_split("dsads", repeat, seed=0)
        people = []
        for part in (split.train, split.validation, split.test):
            rows = [np.flatnonzero((x == X).all((1, 2)))[0] for x in part[0]]
            people.append(set(groups[rows].tolist()))
        assert [len(p) for p in people] == [4, 2, 2]
        assert len(set.union(*people)) == 8
        tested += people[2]
    assert sorted(tested) == list(range(1, 9))
    again = _real_data.load_split("dsads", 4, seed=0)
    assert not np.array_equal(again.test[0], _real_data.load_split("dsads", 0, seed=0).test[0])


def test_thickness_is_split_60_20_20_anew_in_every_repeat(made_up):
    a, b = (_real_data.load_split("ixi", repeat, seed=0) for repeat in (0, 1))
    assert [len(part[0]) for part in (a.train, a.validation, a.test)] == [48, 16, 16]
    whole = np.concatenate([a.train[0], a.validation[0], a.test[0]])
    assert len(np.unique(whole, axis=0)) == 80
    assert not np.array_equal(a.test[0], b.test[0])
    assert np.array_equal(a.test[0], _real_data.load_split("ixi", 0, seed=0).test[0])
    assert [len(part[0]) for part in vars(_real_data.load_split("ixi", 0, 0, limit=10)).values() if len(part) == 2] == [
        10
    ] * 3


def test_an_official_split_is_kept(made_up):
    part = np.repeat(["train", "validation", "test"], 32)
    made_up["dsads"].split = part
    split = _real_data.load_split("dsads", 3, seed=9)
    assert np.array_equal(split.test[0], made_up["dsads"].X[part == "test"])


@pytest.mark.parametrize("dataset", ["dsads", "ixi"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_fits_scores_and_never_sees_test_rows(made_up, model, dataset):
    config = configurations(model, {**GRID, "components": [3], "mlp": [[8]]})[-1]
    (row,) = fit_and_score(dataset, model, config, 0, SMALL)
    assert np.isfinite(row["score"]) and np.isfinite(row["validation"]) and row["fit_seconds"] > 0
    # The same training, whatever the test rows are.
    split = _real_data.load_split(dataset, 0, 0)
    first = fit(build(model, split.classes, config, SMALL, 0), split).predict(split.validation[0])
    split.test[0][...] = 1e6
    split.test[1][...] = 0
    second = fit(build(model, split.classes, config, SMALL, 0), split).predict(split.validation[0])
    assert np.array_equal(first, second)


def test_validation_rows_do_not_reach_standardisation_or_covariance(made_up):
    split = _real_data.load_split("ixi", 0, 0)
    model = fit(build("VNN", False, {"layers": 1, "order": 1, "dropout": 0.0}, SMALL, 0), split)
    Z = (split.train[0] - split.train[0].mean(0)) / split.train[0].std(0)
    assert np.allclose(model.covariance_, Z.T @ Z / len(Z))


def test_times_are_taken_of_networks_and_baselines(made_up):
    config = {"layers": 1, "order": 1, "dropout": 0.0}
    (row,) = take_times("dsads", "VNN", config, SMALL)
    assert row["rows"] == 24 and row["forward_seconds"] > 0 and row["predict_seconds"] > 0
    (row,) = take_times("dsads", "PCA-SVM", {"components": 3}, SMALL)
    assert "forward_seconds" not in row and row["predict_seconds"] > 0


def test_sparsification_at_test_time_moves_the_score(made_up):
    settings = replace(
        stochastic_real.FULL,
        epochs=3,
        patience=3,
        features=4,
        config={"layers": 1, "order": 2, "dropout": 0.0},
        levels=(0.2,),
        draws=2,
    )
    rows = stochastic_real.measure("ixi", 0, settings)
    assert [row["method"] for row in rows[:2]] == ["sample covariance", "no edges"] and rows[0]["change"] == 0
    assert len(rows) == 2 + 12 and all(abs(row["change"]) > 1e-6 for row in rows[1:])


def test_the_table_chooses_by_validation_on_the_first_split_and_then_repeats():
    settings = replace(table.FULL, models=("VNN", "MLP"), datasets=("dsads", "ixi"), repeats=3)
    search = table.jobs(settings, [])
    assert len(search) == 2 * (18 + 3)
    rows = [{**job.key, "validation": float(i), "score": -1.0, "density": 1.0} for i, job in enumerate(search)]
    # Accuracy: the last of each model is the best; error: the first.
    best = table.chosen(pd.DataFrame(rows))
    assert best["dsads", "MLP"] == {"mlp": [256, 128, 128]} and best["ixi", "MLP"] == {"mlp": [32, 32]}
    planned = table.jobs(settings, rows)
    assert [job.name for job in planned[: len(search)]] == [job.name for job in search]
    rest = planned[len(search) :]
    assert len(rest) == 4 * (2 + 1) and sum(job.alone for job in rest) == 4
    assert len({job.name for job in planned}) == len(planned)


def test_performance_compares_one_architecture():
    settings = replace(performance.FULL, datasets=("ixi",), repeats=2)
    planned = performance.jobs(settings, [])
    assert len(planned) == 14 * (2 + 1)
    assert {str(job.arguments["config"]) for job in planned} == {"{'layers': 2, 'order': 2, 'dropout': 0.0}"}


def test_windows_as_features_have_the_same_split(made_up):
    raw, features = _real_data.load_split("dsads", 1, seed=0), _real_data.load_split("dsads-features", 1, seed=0)
    assert features.classes and features.train[0].shape[:2] == raw.train[0].shape[:2]
    assert all(
        np.array_equal(a[1], b[1]) for a, b in zip((raw.train, raw.test), (features.train, features.test), strict=True)
    )


def test_missing_data_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SVNN_DATA", str(tmp_path))
    for name in _real_data.REAL:
        assert str(tmp_path) in _real_data.missing(name)
    assert _real_data.missing("LargeCov") is None
