"""Every experiment from jobs to pictures, with the smallest settings that make sense."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from svnn.paper.experiments import EXPERIMENTS, _real_data
from svnn.paper.experiments import _figure_style as style
from svnn.paper.experiments._runner import collect
from svnn.paper.experiments._summaries import write_csv
from svnn.paper.experiments._terminal import screen_table

TRAINING = {"epochs": 1, "samples": 60}
STABILITY = {**TRAINING, "repeats": 2, "components": (3,)}
REAL = {"datasets": ("dsads", "ixi"), "epochs": 1, "patience": 1, "features": 4, "repeats": 2}
TIMED = {**REAL, "timings": 1}
SMALL = {
    "frequency-responses": {**TRAINING, "N": 15, "components": 3, "filters": 2, "grid": 11},
    "q-insights": {"N": 10, "repeats": 2},
    "covariance-distributions": {"datasets": ("SmallCov", "dsads", "ixi")},
    "support-recovery": {"N": 12, "sizes": (20, 40), "repeats": 2, "draws": 2},
    "stability-samples": {**STABILITY, "N": 15, "sizes": (20, 40)},
    "stability-dimension": {**STABILITY, "T": 30, "features": (10, 15)},
    "stochastic-synthetic": {
        **TRAINING,
        "N": 15,
        "repeats": 2,
        "datasets": ("LargeCov", "SmallCov"),
        "levels": (0.2, 0.6),
        "draws": 2,
    },
    "stochastic-real": {**REAL, "levels": (0.2, 0.6), "draws": 2},
    "performance": {**TIMED, "models": ("VNN", "Hard p=0.5", "Hard p=0.25")},
    "table": {
        **TIMED,
        "models": ("MLP", "PCA-SVM", "VNN", "svnn Hard"),
        "grid": {"layers": [1], "order": [1, 2], "dropout": [0.0], "mlp": [[4]], "components": [3]},
    },
}


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    rng = np.random.default_rng(0)
    groups, y = np.repeat(np.arange(1, 9), 8), np.tile(np.arange(4), 16)
    sets = {
        "dsads": Bunch(X=rng.standard_normal((64, 5, 3)), y=y, groups=groups, split=None),
        "ixi": Bunch(X=rng.standard_normal((60, 8)), y=rng.normal(50, 10, 60), groups=np.arange(60), split=None),
    }
    monkeypatch.setattr(_real_data, "_load", sets.__getitem__)


def run_here(module, settings):
    """Run all jobs in this process, without a store."""
    records, jobs = {}, []
    while True:
        planned = module.jobs(settings, collect(jobs, records).rows)
        if len(planned) == len(jobs):
            return collect(jobs, records)
        jobs = planned
        for job in jobs:
            if job.name not in records:
                rows = job.run(**job.key, **job.arguments)
                records[job.name] = {"status": "done", "rows": rows, "seconds": 0.1}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_ends_in_tables_and_pictures(name, tmp_path):
    module = importlib.import_module(f"svnn.paper.experiments.{name.replace('-', '_')}")
    settings = replace(module.FULL, **SMALL[name])
    outcome = run_here(module, settings)
    found = module.tables(pd.DataFrame(outcome.rows), settings)
    for table, frame in found.items():
        assert len(frame) and write_csv(tmp_path / f"{table}.csv", frame).stat().st_size > 50
    assert not any(column.endswith("_seconds") for frame in found.values() for column in frame)
    found["timings"] = pd.DataFrame(outcome.timings)
    if hasattr(module, "times"):
        found["times"] = module.times(found["timings"])
        assert len(found["times"]) and (found["times"][["fit_seconds_mean", "predict_seconds"]] > 0).all(axis=None)
    for title, frame in module.headline(found).items():
        assert title and screen_table(title, frame).row_count == len(frame) > 0
    with style.context():
        for stem, figure in module.plots(found, settings).items():
            assert [path.stat().st_size > 5000 for path in style.save(figure, tmp_path / stem)] == [True, True]


def drawn(name, **changes):
    """Run a small experiment and return its figures by name."""
    module = importlib.import_module(f"svnn.paper.experiments.{name.replace('-', '_')}")
    settings = replace(module.FULL, **{**SMALL[name], **changes})
    outcome = run_here(module, settings)
    found = module.tables(pd.DataFrame(outcome.rows), settings)
    if hasattr(module, "times"):
        found["times"] = module.times(pd.DataFrame(outcome.timings))
    return module.plots(found, settings)


def test_labels_at_the_ends_of_lines_are_in_order_and_do_not_overlap():
    _, axes = style.subplots(1, 1, width=3, height=3)
    ends = [("low", 0.2, "red"), ("first", 1.0, "blue"), ("second", 1.0, "green"), ("near", 0.95, "black")]
    style.label_ends(axes[0, 0], ends, gap=0.1)
    at = {text.get_text(): text.xy[1] for text in axes[0, 0].texts}
    assert list(at) == ["first", "second", "near", "low"]
    assert list(at.values()) == pytest.approx([1.0, 0.9, 0.8, 0.2])


def test_support_recovery_has_a_panel_for_every_true_covariance_and_labels_its_lines():
    figure = drawn("support-recovery")["support_recovery"]
    assert len(figure.axes) == 4
    for axis in figure.axes:
        labels = {text.get_text() for text in axis.texts}
        assert {"hard or soft, universal", "ACV", "all pairs kept"} < labels
        assert axis.get_ylim() == figure.axes[0].get_ylim()


def test_responses_share_their_axes():
    left, right = drawn("frequency-responses")["frequency_responses"].axes
    assert left.get_ylim() == right.get_ylim() and left.get_xlim() == right.get_xlim()


def test_small_and_large_changes_of_the_error_are_both_seen():
    first = drawn("stability-samples")["stability_samples"].axes[0]
    assert first.get_yscale() == "symlog" and "MAE" in first.get_ylabel()


def test_scores_and_times_name_data_sets_properly():
    figure = drawn("performance")["performance"]
    above, below = figure.axes[:2], figure.axes[2:]
    assert [axis.get_title() for axis in above] == ["DSADS", "IXI"]
    assert [label.get_text() for label in above[0].get_yticklabels()] == ["VNN", "Hard p=0.5", "Hard p=0.25"]
    assert all(len(axis.patches) == 3 and axis.get_xlabel().endswith("(ms)") for axis in below)
