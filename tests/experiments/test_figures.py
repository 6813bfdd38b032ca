"""Every experiment from jobs to pictures, with the smallest settings that make sense."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from sklearn.utils import Bunch

from svnn.experiments import EXPERIMENTS, _data
from svnn.experiments import _style as style
from svnn.experiments._runner import _collect
from svnn.experiments._tables import shown, write_csv

TRAINING = {"epochs": 1, "samples": 60, "N": 15, "repeats": 2, "components": [3]}
REAL = {"datasets": ["dsads", "ixi"], "epochs": 1, "patience": 1, "features": 4, "repeats": 2, "timings": 1, "draws": 2}
SMALL = {
    "frequency-responses": {**TRAINING, "components": 3, "filters": 2, "grid": 11},
    "q-insights": {"N": 10, "repeats": 2},
    "covariance-distributions": {"datasets": ["SmallCov", "dsads", "ixi"]},
    "support-recovery": {"N": 12, "sizes": [20, 40], "repeats": 2, "draws": 2},
    "stability-samples": {**TRAINING, "sizes": [20, 40]},
    "stability-dimension": {**TRAINING, "T": 30, "features": [10, 15]},
    "stochastic-synthetic": {**TRAINING, "datasets": ["LargeCov", "SmallCov"], "levels": [0.2, 0.6], "draws": 2},
    "stochastic-real": {**REAL, "levels": [0.2, 0.6]},
    "performance": {**REAL, "models": ["VNN", "Hard p=0.5", "Hard p=0.25"]},
    "table": {
        **REAL,
        "models": ["MLP", "PCA-SVM", "VNN", "svnn Hard"],
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
    monkeypatch.setattr(_data, "_load", sets.__getitem__)


def run_here(module, settings):
    """Run all jobs in this process, without a store."""
    records, jobs = {}, []
    while True:
        planned = module.jobs(settings, _collect(jobs, records).rows)
        if len(planned) == len(jobs):
            return _collect(jobs, records)
        jobs = planned
        for job in jobs:
            if job.name not in records:
                rows = job.run(**job.key, **job.arguments)
                records[job.name] = {"status": "done", "rows": rows, "seconds": 0.1}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_ends_in_tables_and_pictures(name, tmp_path):
    module = importlib.import_module(f"svnn.experiments.{name.replace('-', '_')}")
    settings = {**module.FULL, **SMALL[name], "seed": 0}
    outcome = run_here(module, settings)
    found = module.tables(outcome.rows, settings)
    for table, rows in found.items():
        assert rows and write_csv(tmp_path / f"{table}.csv", rows).stat().st_size > 50
    assert not any(column.endswith("_seconds") for rows in found.values() for row in rows for column in row)
    found["timings"] = outcome.timings
    if hasattr(module, "times"):
        found["times"] = module.times(outcome.timings)
        assert all(row["fit_seconds_mean"] > 0 and row["predict_seconds"] > 0 for row in found["times"])
    for title, rows in module.headline(found).items():
        assert title and shown(title, rows).row_count == len(rows) > 0
    with style.context():
        for stem, figure in module.plots(found, settings).items():
            assert [path.stat().st_size > 5000 for path in style.save(figure, tmp_path / stem)] == [True, True]
