"""``make rivals``: fair splits, one row per fit that is never lost, and a report that says what the rows say."""

from __future__ import annotations

import csv
from pathlib import Path

import _rival_fits
import numpy as np
import pytest
import rivals
import torch
from _rival_fits import TABLES, WINDOWS, measure, split
from _rival_models import CLASSES, CONTROL, MODELS, OURS, REGRESSION, build, fit
from _rival_report import COLUMNS, summarise, where_the_covariance_helps
from few_rows import BAR
from sklearn.base import is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils import Bunch
from threadpoolctl import threadpool_info

from svnn import SVNNClassifier, SVNNRegressor


@pytest.fixture(autouse=True)
def _fresh():
    """Forget tables that another test has put in place of the real ones."""
    yield
    _rival_fits.loaded.cache_clear()
    _rival_fits.split.cache_clear()


def made_up(monkeypatch, **tables):
    """Let the command know these tables alone; their values are (kind, Bunch)."""
    for module in (_rival_fits, rivals):
        monkeypatch.setattr(
            module, "TABLES", {name: (kind, lambda data=data: data) for name, (kind, data) in tables.items()}
        )
    _rival_fits.loaded.cache_clear()
    _rival_fits.split.cache_clear()


def stored(path, scores, seconds="1", reasons=()):
    """Write a file of results: {(table, kind, model): scores of the splits}."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rivals.FIELDS, lineterminator="\n")
        writer.writeheader()
        for (table, kind, model), values in scores.items():
            same = {"data": table, "samples": 40, "features": 3, "kind": kind, "model": model}
            for seed, score in enumerate(values):
                writer.writerow(same | {"seed": 12000 + seed, "score": score, "fit_seconds": seconds})
        for table, kind, model, reason in reasons:
            same = {"data": table, "samples": 40, "features": 3, "kind": kind, "model": model}
            writer.writerow(same | {"seed": 12000, "reason": reason})
    return path


# -- the command ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_measures_two_models_in_two_processes_and_then_has_nothing_to_do(tmp_path, capsys):
    arguments = ["--only", "wine", "--models", "logistic", "LDA", "--splits", "2", "--out", str(tmp_path / "r.csv")]
    rivals.main([*arguments, "--jobs", "2"])
    rows = rivals.read(tmp_path / "r.csv")
    assert sorted((row["model"], row["seed"]) for row in rows) == [
        (model, seed) for model in ("LDA", "logistic") for seed in ("12000", "12001")
    ]
    for row in rows:
        assert (row["data"], row["samples"], row["features"], row["kind"]) == ("wine", "178", "13", "classes")
        assert 0 <= float(row["score"]) < 10 and float(row["fit_seconds"]) > 0 and row["rmse"] == row["reason"] == ""
        assert row["score"] == measure("wine", row["model"], int(row["seed"]))["score"]  # in this process, too
    printed = capsys.readouterr().out
    assert "| wine (178 × 13) | error (%) | " in printed

    rivals.main([*arguments, "--jobs", "1"])
    assert "4 of 4 rows are in" in capsys.readouterr().out
    assert rivals.read(tmp_path / "r.csv") == rows
    rivals.main(["--table", "--out", str(tmp_path / "r.csv")])
    assert printed.endswith(capsys.readouterr().out)


def test_a_table_that_is_not_there_is_left_out_and_a_wrong_name_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SVNN_DATA", str(tmp_path))
    assert rivals.present(["golub", "wine"]) == ["wine"]
    assert "golub is left out: " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        rivals.main(["--only", "no such table", "--out", str(tmp_path / "r.csv")])
    assert "no table has 'no such table' in its name" in capsys.readouterr().err


# -- the file -------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Two tables and a measurement that only notes what it is asked for."""
    asked = []
    data = Bunch(X=np.zeros((8, 2)), y=np.arange(8.0), groups=None)
    made_up(monkeypatch, one=(REGRESSION, data), two=(REGRESSION, data))

    def fake(table, model, seed):
        asked.append((table, model, seed))
        row = {"data": table, "samples": 8, "features": 2, "kind": REGRESSION, "model": model, "seed": seed}
        return row | {"score": f"{len(asked)}", "fit_seconds": "1"}

    monkeypatch.setattr(rivals, "measure", fake)
    return asked


def run(path, again=(), models=("ridge", "GP"), seeds=range(2)):
    rivals.run(path, ["one", "two"], models, seeds, jobs=1, again=again)


def test_only_missing_rows_are_measured(tmp_path, counted):
    path = tmp_path / "r.csv"
    run(path, models=["ridge"])
    assert counted == [(table, "ridge", seed) for table in ("one", "two") for seed in range(2)]
    before = rivals.read(path)
    run(path, seeds=range(3))
    assert len(counted) == 4 + 8 == len(set(counted)) and rivals.read(path)[:4] == before


def test_a_run_that_was_killed_loses_only_the_row_it_was_writing(tmp_path, counted):
    path = tmp_path / "r.csv"
    run(path)
    whole, text = rivals.read(path), path.read_text(encoding="utf-8")
    path.write_text(text[:-4], encoding="utf-8")
    assert rivals.read(path) == whole[:-1]
    del counted[:]
    run(path)
    assert counted == [("two", "GP", 1)]
    assert [row["seed"] for row in rivals.read(path)] == [row["seed"] for row in whole]


def test_rows_are_in_the_file_as_soon_as_they_are_measured(tmp_path, counted, monkeypatch):
    fake, path = rivals.measure, tmp_path / "r.csv"

    def stops(*key):
        if len(counted) == 3:
            raise KeyboardInterrupt
        return fake(*key)

    monkeypatch.setattr(rivals, "measure", stops)
    with pytest.raises(KeyboardInterrupt):
        run(path)
    assert len(rivals.read(path)) == 3


def test_again_replaces_the_rows_of_that_model_alone(tmp_path, counted):
    path = tmp_path / "r.csv"
    run(path)
    before = {(r["data"], r["model"], r["seed"]): r["score"] for r in rivals.read(path)}
    run(path, again=["GP"])
    after = {(r["data"], r["model"], r["seed"]): r["score"] for r in rivals.read(path)}
    assert len(rivals.read(path)) == 8 and set(before) == set(after)
    assert all((before[key] != after[key]) == (key[1] == "GP") for key in before)


def test_a_file_of_another_format_is_not_overwritten(tmp_path, counted):
    path = tmp_path / "r.csv"
    path.write_text("data,mean\nwine,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="other columns"):
        run(path)
    assert path.read_text(encoding="utf-8") == "data,mean\nwine,1\n"


# -- splits and models ----------------------------------------------------------------------------


def test_all_models_see_the_same_quarter_and_classes_keep_their_shares():
    train, test, X, groups = split("wine", 12000)
    assert len(test) == 45 and groups is None and set(train) | set(test) == set(range(178)) and X.shape == (178, 13)
    y = _rival_fits.loaded("wine").y
    np.testing.assert_allclose(np.bincount(y[test]) / 45, np.bincount(y) / 178, atol=0.02)
    split.cache_clear()
    assert split("wine", 12000)[1].tolist() == test.tolist() != split("wine", 12001)[1].tolist()


def test_people_are_on_one_side_and_features_of_windows_are_fitted_there(monkeypatch, rng):
    people = np.repeat(np.arange(8), 6)
    data = Bunch(X=rng.standard_normal((48, 3, 32)), y=np.tile([0, 1], 24), groups=people)
    made_up(monkeypatch, people=(CLASSES, data))
    monkeypatch.setattr(_rival_fits, "BY_GROUP", ("people",))
    monkeypatch.setattr(_rival_fits, "WINDOWS", {"people": WINDOWS["DSADS"]})
    train, test, X, groups = split("people", 12000)
    assert not set(groups[train]) & set(groups[test]) and len(set(groups[test])) == 2
    assert X.ndim == 3 and X.shape[:2] == (48, 3)
    data.X[test] *= 1e6  # a floor learnt from these would move the features of the others
    split.cache_clear()
    np.testing.assert_array_equal(split("people", 12000)[2][train], X[train])

    seen = {}

    class Spy:
        def __init__(self, name):
            self.name = name

        def fit(self, X, y):
            seen[self.name] = X.shape
            return self

        def predict(self, X):
            return np.zeros(len(X))

    monkeypatch.setattr(_rival_fits, "build", lambda name, *_, grouped: Spy(name) if grouped else None)
    rows = [measure("people", name, 12000) for name in (OURS, CONTROL, "forest")]
    assert seen == {OURS: (36, *X.shape[1:]), CONTROL: (36, *X.shape[1:]), "forest": (36, X[0].size)}
    assert all(row["features"] == X[0].size and row["score"] == "50" for row in rows)


def test_every_fit_has_one_thread(monkeypatch):
    class Spy:
        def fit(self, X, y):
            assert torch.get_num_threads() == 1
            assert all(pool["num_threads"] == 1 for pool in threadpool_info())
            return self

        def predict(self, X):
            return np.full(len(X), 2.0)

    data = Bunch(X=np.zeros((8, 2)), y=np.array([0.0, 4.0] * 4), groups=None)
    made_up(monkeypatch, line=(REGRESSION, data))
    monkeypatch.setattr(_rival_fits, "build", lambda *_, **__: Spy())
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    row = measure("line", "ridge", 12000)
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert after == 2 and row["score"] == row["rmse"] == "2"


def test_what_is_too_slow_is_a_row_with_a_reason(monkeypatch):
    monkeypatch.setattr(_rival_fits, "TOO_SLOW", {("wine", "LDA"): "takes for ever"})
    row = measure("wine", "LDA", 12000)
    assert row["reason"] == "takes for ever" and "score" not in row


@pytest.mark.parametrize("kind", [REGRESSION, CLASSES])
def test_every_model_learns(kind, rng):
    X = rng.standard_normal((90, 4))
    y = X[:, :3].sum(1) + rng.standard_normal(90) / 4 if kind == REGRESSION else np.where(X[:, 0] > 0, 1, 0)
    for name in MODELS[kind]:
        model = build(name, kind, 4, seed=0)
        assert (is_regressor if kind == REGRESSION else is_classifier)(model)
        if name in (OURS, CONTROL):
            model.set_params(parts__max_epochs=20)
        predicted = fit(model, X[:60], y[:60], None).predict(X[60:])
        wrong = np.abs(predicted - y[60:]).mean() / np.abs(y[60:]).mean() if kind == REGRESSION else predicted != y[60:]
        assert np.mean(wrong) < 0.6 if kind == REGRESSION else np.mean(wrong) < 0.3, name
    with pytest.raises(ValueError, match="no model for"):
        build("tea leaves", kind, 4, seed=0)


def test_ours_are_the_defaults_and_the_control_has_no_edges():
    for kind, network in ((REGRESSION, SVNNRegressor), (CLASSES, SVNNClassifier)):
        ours, control = build(OURS, kind, 5, seed=7), build(CONTROL, kind, 5, seed=7)
        assert ours.random_state == control.random_state == 7 and type(ours.parts) is network
        assert ours.parts.get_params() == network().get_params()
        assert control.parts.get_params() == network().get_params() | {"order": 0}


def test_models_that_hold_out_rows_hold_out_whole_groups(rng):
    X, y, people = rng.standard_normal((60, 3)), np.tile([0, 1], 30), np.repeat(np.arange(6), 10)
    search = build("logistic", CLASSES, 3, seed=0, grouped=True)
    assert isinstance(search, GridSearchCV) and isinstance(search.cv, GroupKFold)
    assert fit(search, X, y, people).n_splits_ == 3  # without groups, GroupKFold is an error
    with pytest.raises(ValueError, match="single group"):
        fit(build(OURS, CLASSES, 3, seed=0, grouped=True), X, y, np.zeros(60, int))
    fit(build("LDA", CLASSES, 3, seed=0, grouped=True), X, y, people)


def test_models_of_a_column_come_in_pairs():
    assert [len(models) for models in MODELS.values()] == [len(COLUMNS)] * 2
    for column, i in COLUMNS.items():
        models = [MODELS[REGRESSION][i], MODELS[CLASSES][i]]
        assert column in (" / ".join(models), models[0], models[0].removeprefix("svnn "))
    assert len(TABLES) == 15


# -- the report -----------------------------------------------------------------------------------

#: By hand: on "fat" svnn is the best; the SVM's differences 0, 0.2, 0.1 have mean 0.1 and standard error 0.058; the
#: PLS's −0.3, 0.3, 0.3 have mean 0.1 and standard error 0.2, so it is near. Without edges is 1 ± 0 above.
SCORES = {
    ("fat", REGRESSION, OURS): [1.0, 1.2, 1.1],
    ("fat", REGRESSION, CONTROL): [2.0, 2.2, 2.1],
    ("fat", REGRESSION, "SVM"): [1.0, 1.4, 1.2],
    ("fat", REGRESSION, "PLS"): [0.7, 1.5, 1.4],
    ("wine", CLASSES, OURS): [2.0, 0.0, 4.0],
    ("wine", CLASSES, CONTROL): [0.0, 4.0, 2.0],
    ("wine", CLASSES, "SVM"): [10.0, 11.0, 12.0],
    ("wine", CLASSES, "k-NN"): [4.0, 5.0, 6.0],
}


def test_the_report_marks_the_best_and_what_is_near(tmp_path):
    path = stored(tmp_path / "r.csv", SCORES, seconds="0.25", reasons=[("wine", CLASSES, "LDA", "slow")])
    text = rivals.report(rivals.read(path))
    assert "mean over 3 random splits" in text
    assert "| data (samples × features) | score | svnn | without edges | SVM | best other |\n" in text
    assert "| fat (40 × 3) | MAE | **1.10** | 2.10 | 1.20 | 1.20* (PLS) |\n" in text
    assert "| wine (40 × 3) | error (%) | **2.00** | **2.00** | 11.00 | 5.00 (k-NN) |\n" in text
    assert "Not run, since one fit takes more than two minutes: LDA on wine." in text
    # The ranks are 1, 4, 2.5, 2.5 on fat and 1.5, 1.5, 4, 3 on wine.
    lines = text.splitlines()
    start = lines.index("| model | mean rank | best | within one SE | median fit (s) |")
    assert lines[start + 2 : start + 6] == [
        "| svnn | 1.2 | 2 | 2 | 0.25 |",
        "| without edges | 2.8 | 1 | 1 | 0.25 |",
        "| PLS / k-NN | 2.8 | 0 | 1 | 0.25 |",
        "| SVM | 3.2 | 0 | 0 | 0.25 |",
    ]
    assert "over the 2 tables on which every model ran" in text


def test_the_sentence_on_the_covariance(tmp_path):
    tables = summarise(rivals.read(stored(tmp_path / "r.csv", SCORES)))
    said = where_the_covariance_helps(tables)
    assert "lowers the error by more than two standard errors on fat (−48%)" in said
    assert "raises it on none" in said and "on the rest (1 of 2 tables)" in said
    turned = {(t, k, {OURS: CONTROL, CONTROL: OURS}.get(m, m)): values for (t, k, m), values in SCORES.items()}
    said = where_the_covariance_helps(summarise(rivals.read(stored(tmp_path / "t.csv", turned))))
    assert "standard errors on none, raises it on fat (+91%)" in said
    alone = {key: values for key, values in SCORES.items() if key[2] != CONTROL}
    assert where_the_covariance_helps(summarise(rivals.read(stored(tmp_path / "a.csv", alone)))) == ""


def test_models_are_compared_on_the_splits_that_all_have(tmp_path):
    scores = {("fat", REGRESSION, "ridge"): [1.0, 3.0, 500.0], ("fat", REGRESSION, "GP"): [2.0, 2.5]}
    (table,) = summarise(rivals.read(stored(tmp_path / "r.csv", scores)))
    assert table.splits == 2 and table.means == {"ridge / logistic": 2.0, "GP / LDA": 2.25}


def test_a_table_with_a_gap_has_no_part_in_the_ranks(tmp_path):
    scores = {key: values for key, values in SCORES.items() if key != ("wine", CLASSES, "SVM")}
    text = rivals.report(rivals.read(stored(tmp_path / "r.csv", scores)))
    assert "| wine (40 × 3) | error (%) | **2.00** | **2.00** | – | 5.00 (k-NN) |" in text
    assert "| svnn | 1.0 | 2 | 2 |" in text and "Friedman" not in text


def test_the_ranks_are_drawn(tmp_path, capsys):
    path = stored(tmp_path / "r.csv", SCORES)
    rivals.main(["--plot", str(tmp_path / "pictures" / "ranks.png"), "--out", str(path)])
    assert (tmp_path / "pictures" / "ranks.png").stat().st_size > 10_000
    assert capsys.readouterr().out.startswith("written:")
    one = {key: values for key, values in SCORES.items() if key[0] == "fat"}
    with pytest.raises(SystemExit, match="two models"):
        rivals.plot(stored(tmp_path / "one.csv", one), tmp_path / "no.png")


def test_no_results_are_said_to_be_none(tmp_path):
    assert rivals.report(rivals.read(tmp_path / "nothing.csv")) == "There are no results."


def test_the_page_says_what_was_measured_with_few_rows():
    root = Path(__file__).parents[1] / "docs"
    with (root / "results" / "few_rows.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    ratios = {m: np.array([float(r["ratio"]) for r in rows if r["ratio"] and r["members"] == m]) for m in "18"}
    text = " ".join((root / "rivals.md").read_text(encoding="utf-8").split("## With few rows")[1].split())
    assert ratios["8"].max() < BAR
    assert f"Of the {len(ratios['8']):,} fits with eight members none" in text
    assert f"more than {np.ceil(100 * ratios['8'].max()) / 100} times the larger" in text
    assert f"Of the {len(ratios['1']):,} fits of single networks three" in text and (ratios["1"] > BAR).sum() == 3
    assert f"and {ratios['1'].max():.2f} times at most" in text
    assert f"did not converge in {sum(bool(r['refused']) for r in rows)} more fits" in text
