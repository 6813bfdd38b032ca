"""Every experiment from jobs to pictures, with the smallest settings that make sense."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from svnn.experiments import EXPERIMENTS, _real_data
from svnn.experiments import _figure_style as style
from svnn.experiments._runner import collect
from svnn.experiments._summaries import write_csv
from svnn.experiments._terminal import screen_table

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
    module = importlib.import_module(f"svnn.experiments.{name.replace('-', '_')}")
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
