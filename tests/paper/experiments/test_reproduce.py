from __future__ import annotations

import importlib
import json
from dataclasses import asdict, replace

import pytest

from svnn.paper.experiments import EXPERIMENTS
from svnn.paper.experiments._reproduce import Prepared, Request, prepare, report, run_prepared
from svnn.paper.experiments._runner import Outcome, Settings

QUICK = {"quick": True, "jobs": 1}


def reproduce(name, out, **options):
    request = Request(name, out, **options)
    return run_prepared(prepare(request), request)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_what_the_command_line_needs(name):
    module = importlib.import_module(f"svnn.paper.experiments.{name.replace('-', '_')}")
    assert type(module.QUICK) is type(module.FULL) and json.dumps(asdict(module.FULL))
    assert module.CLAIM.endswith(".") and module.__doc__
    for part in ("jobs", "tables", "headline", "plots"):
        assert callable(getattr(module, part))
    settings = replace(module.FULL, **({"datasets": module.DATASETS} if hasattr(module, "DATASETS") else {}))
    names = [job.name for job in module.jobs(settings, [])]
    assert len(names) == len(set(names)) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "fly"}, "--list"),
        ({"name": "table", "repeats": 0}, "--repeats"),
        ({"name": "table", "jobs": 0}, "--jobs"),
        ({"name": "q-insights", "datasets": ["ixi"]}, "no choice of data sets"),
        ({"name": "table", "datasets": ["fly"]}, "dsads, ixi"),
    ],
)
def test_bad_requests_are_told_the_way_out(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        reproduce(out=tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_data_that_were_asked_for_must_be_there_others_are_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("SVNN_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="SVNN_DATA"):
        reproduce("table", tmp_path, datasets=["ixi"])
    assert reproduce("stochastic-real", tmp_path, quick=True) == 0
    assert "skipping dsads, ixi" in (said := capsys.readouterr().out) and "SVNN_DATA" in said


def test_a_finished_experiment_is_not_run_again_and_other_settings_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("svnn.paper.experiments.q_insights.plots", lambda found, settings: {})
    assert reproduce("q-insights", tmp_path, **QUICK) == 0
    folder = tmp_path / "q-insights"
    before = {name: (folder / name).read_bytes() for name in ("results.jsonl", "results.csv", "summary.csv")}
    assert reproduce("q-insights", tmp_path, **QUICK) == 0
    assert before == {name: (folder / name).read_bytes() for name in before}
    with pytest.raises(ValueError, match=r"seed was 0, is now 1.*--fresh"):
        reproduce("q-insights", tmp_path, seed=1, **QUICK)
    assert reproduce("q-insights", tmp_path, repeats=1, seed=1, fresh=True, **QUICK) == 0
    assert len((folder / "results.jsonl").read_text().splitlines()) == 1


def test_failures_are_told_without_a_stack_trace(tmp_path, capsys):
    from rich.console import Console

    failures = [{"dataset": "ixi", "error": "ValueError: [no] luck"}]
    report(Prepared("table", None, Settings(), tmp_path), Outcome(failures=failures), Console())
    assert "no results; ValueError: [no] luck" in capsys.readouterr().out


def test_unknown_data_sets_are_named_also_for_all(tmp_path):
    with pytest.raises(ValueError, match=r"--datasets: dsad not known; the known ones are .*dsads"):
        reproduce("all", tmp_path, datasets=["LargeCov", "dsad"], quick=True)
    assert not list(tmp_path.iterdir())


def test_all_looks_at_every_folder_before_it_starts(tmp_path):
    (tmp_path / "support-recovery").mkdir()
    (tmp_path / "support-recovery" / "results.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"support-recovery.*no manifest"):
        reproduce("all", tmp_path, quick=True)
    assert [each.name for each in tmp_path.iterdir()] == ["support-recovery"]


def test_a_plot_that_fails_costs_neither_the_tables_nor_what_follows(tmp_path, monkeypatch, capsys):
    def broken(found, settings):
        raise RuntimeError("no ink")

    monkeypatch.setattr("svnn.paper.experiments.q_insights.plots", broken)
    assert reproduce("q-insights", tmp_path, repeats=1, **QUICK) == 0
    assert "no plot (RuntimeError: no ink)" in capsys.readouterr().out
    assert (tmp_path / "q-insights" / "summary.csv").exists()
