from __future__ import annotations

import csv
import io
import json
import os

import numpy as np
import pandas as pd
import pytest

import svnn
from cli.helpers import inside, people
from svnn.comparison import _advisor


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a table, and models of a number and of a class."""
    folder = tmp_path_factory.mktemp("models")
    people(120).to_csv(folder / "people.csv", index=False)
    before = os.getcwd()
    os.chdir(folder)
    try:
        from svnn.cli._commands import app

        for target, name in (("age", "age.safetensors"), ("sex", "sex.safetensors")):
            with pytest.raises(SystemExit) as end:
                app(["fit", "people.csv", "--target", target, "--group", "person", "--out", name])
            assert not end.value.code
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(fitted, monkeypatch):
    monkeypatch.chdir(fitted)
    return fitted


def test_fit_says_what_it_did(here, capsys, tmp_path):
    arguments = ("fit", "people.csv", "--target", "age", "--drop", "person,noise", "--out", tmp_path / "m.safetensors")
    code, out, err = inside(capsys, *arguments, "--json", "--seed", 7)
    assert code == 0 and err == ""
    found = json.loads(out)
    assert (found["task"], found["n_samples"], found["features"]) == ("regression", 120, ["a", "b", "sex=m"])
    model = svnn.load(tmp_path / "m.safetensors")
    assert model.n_features_in_ == 3 and model.random_state == 7
    code, out, _ = inside(capsys, *arguments)
    assert code == 0 and "regression of age from 3 features, fitted to 120 rows" in out


def test_predictions_are_those_of_the_model(here, capsys):
    code, out, err = inside(capsys, "predict", "age.safetensors", "people.csv", "--std")
    assert code == 0 and "predictions are empty where values are missing: 1 of 120 rows." in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == ["row", "prediction", "std"] and len(rows) == 120 and rows[3]["prediction"] == ""
    frame = pd.read_csv("people.csv")
    frame["sex=m"] = (frame["sex"] == "m").astype(float)
    model = svnn.load("age.safetensors")
    expected = model.predict(frame[list(model.feature_names_in_)].drop(index=3))
    got = [float(row["prediction"]) for i, row in enumerate(rows) if i != 3]
    np.testing.assert_allclose(got, expected)
    assert np.abs(np.array(got) - frame["age"].drop(index=3)).mean() < 4  # the mean would be off by 9


def test_predictions_of_classes_into_a_file(here, capsys, tmp_path):
    code, out, _ = inside(capsys, "predict", "sex.safetensors", "people.csv", "--out", tmp_path / "p.csv")
    assert code == 0 and out == f"Wrote {tmp_path / 'p.csv'}\n"
    assert set(pd.read_csv(tmp_path / "p.csv")["prediction"].dropna()) <= {"f", "m"}
    code, out, _ = inside(capsys, "predict", "sex.safetensors", "people.csv", "--json")
    rows = json.loads(out)
    assert len(rows) == 120 and rows[3]["prediction"] is None and rows[0]["prediction"] in ("f", "m")


def test_the_stability_curve(here, capsys):
    arguments = ("stability", "age.safetensors", "people.csv", "--repeats", "2", "--json")
    code, out, _ = inside(capsys, *arguments)
    rows = json.loads(out)
    assert code == 0 and [row["n_samples"] for row in rows] == [7, 15, 30, 45]
    assert rows[0]["covariance_error"] > rows[-1]["covariance_error"] > 0
    assert inside(capsys, *arguments)[1] == out
    assert "embedding_error" in inside(capsys, *arguments[:-1])[1]


def test_explain(here, capsys, tmp_path):
    pytest.importorskip("svnn.inspection")
    code, out, _ = inside(capsys, "explain", "age.safetensors", "people.csv", "--json", "--out", tmp_path / "c.csv")
    rows = json.loads(out)
    assert code == 0 and [row["feature"] for row in rows[:2]] == ["a", "b"]
    assert len(pd.read_csv(tmp_path / "c.csv")) == 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "nothing.safetensors", "people.csv"], "no such model"),
        (["predict", "people.csv", "people.csv"], "people.csv"),
        (["predict", "age.safetensors", "other.csv"], "lacks columns that the model was fitted with: a, b"),
        (["predict", "age.safetensors", "nowhere.csv"], "no such file"),
        (["predict", "sex.safetensors", "people.csv", "--std"], "predicts classes"),
        (["predict", "age.safetensors", "people.csv", "--out", "no/such/file.csv"], "there is no folder"),
        (["fit", "people.csv", "--target", "age", "--out", "."], "is a folder"),
        (["fit", "people.csv", "--target", "years", "--out", "m"], "no column 'years'"),
        (["stability", "age.safetensors", "people.csv", "--repeats", "0"], "--repeats must be"),
        (["advise", "nowhere.csv"], "no such file"),
        (["advise", "people.csv", "--target", "years"], "no column 'years'"),
        (["advise", "people.csv", "--group", "person"], "--group and --task need --target"),
        (["advise", "people.csv", "--target", "age", "--jobs", "0"], "--jobs must be"),
        (["advise", "people.csv", "--target", "age", "--task", "rank"], "task must be"),
        (["fit", "people.csv", "--target", "age", "--out", "m", "--covariance", "bands"], "'bands' is not known"),
        (["compare", "people.csv", "--target", "age", "--covariance", "bands"], "'bands' is not known"),
    ],
    ids=str,
)
def test_what_cannot_be(here, capsys, arguments, message):
    people(30).drop(columns=["a", "b"]).to_csv("other.csv", index=False)
    code, out, err = inside(capsys, *arguments)
    assert code == 2 and out == ""
    assert err.startswith("svnn: ") and err.count("\n") == 1 and message in err


def test_advice_without_a_target(here, capsys):
    arguments = ("advise", "people.csv", "--drop", "age,person")
    code, out, _ = inside(capsys, *arguments, "--json")
    found = json.loads(out)
    assert code == 0 and found["looks"] in ("sparse", "dense") and found["recommended"] in str(found["table"])
    text = inside(capsys, *arguments)[1]
    assert "Recommended: " + found["recommended"] in text and "cannot say whether predictions get better" in text


def test_advice_by_prediction(here, capsys, monkeypatch):
    monkeypatch.setattr(_advisor, "CANDIDATES", ("hard", "soft"))
    monkeypatch.setattr(_advisor, "MEMBERS", 2)
    arguments = ("advise", "people.csv", "--target", "age", "--group", "person", "--jobs", "1")
    code, out, err = inside(capsys, *arguments, "--json")
    found = json.loads(out)
    assert code == 0 and err == "" and found["recommended"] == "hard"
    assert "in the units of age" in found["reasons"][0] and found["settings"]["random_state"] == 0
    assert {row["covariance"] for row in found["table"]} == {"hard", "soft", "without edges"}
    text = inside(capsys, *arguments)[1]
    assert 'Recommended: covariance="hard"' in text and "in 30 groups" in text


def test_a_model_of_a_named_covariance(here, capsys, tmp_path):
    arguments = ("fit", "people.csv", "--target", "age", "--drop", "person", "--out", tmp_path / "m.safetensors")
    code, out, _ = inside(capsys, *arguments, "--covariance", "ledoit_wolf", "--json")
    assert code == 0 and json.loads(out)["covariance"] == "ledoit_wolf"
    assert svnn.load(tmp_path / "m.safetensors").parts.covariance == "ledoit_wolf"


def test_the_list_of_data_sets(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SVNN_DATA", str(tmp_path))
    found = {row["loader"]: row["found"] for row in json.loads(inside(capsys, "datasets", "--json")[1])}
    assert found.pop("load_tecator()") and not any(found.values())
    np.savez(tmp_path / "genes_golub.npz", x=np.zeros((2, 2)))
    code, out, _ = inside(capsys, "datasets")
    assert code == 0 and '✓ load_genes("golub")' in out and "– load_dsads()" in out
    import svnn.datasets
    import svnn.paper

    assert {name.split("(")[0] for name in (*found, "load_tecator()")} == {
        name for name in (*svnn.datasets.__all__, *svnn.paper.__all__) if name.startswith("load_")
    }


def test_info(capsys, monkeypatch):
    found = json.loads(inside(capsys, "info", "--json")[1])
    assert found["versions"]["svnn"] == svnn.__version__ and found["threads"] >= 1 and isinstance(found["gpu"], list)
    monkeypatch.setenv("SVNN_NUMBA", "0")
    code, out, _ = inside(capsys, "info")
    assert code == 0 and "switched off (SVNN_NUMBA=0)" in out


def test_a_model_is_exported(here, capsys, tmp_path):
    import torch

    code, out, err = inside(capsys, "export", "age.safetensors", "--out", tmp_path / "age.pt2", "--double")
    assert (code, out, err) == (0, f"Wrote {tmp_path / 'age.pt2'}\n", "")
    model = svnn.load("age.safetensors")
    rows = np.arange(2.0 * model.n_features_in_).reshape(2, -1)
    expected = model.predict(pd.DataFrame(rows, columns=model.feature_names_in_))
    np.testing.assert_allclose(torch.export.load(tmp_path / "age.pt2").module()(torch.tensor(rows)), expected)
    code, out, err = inside(capsys, "export", "age.safetensors", "--out", tmp_path / "age.txt")
    assert code == 2 and "path must end in .onnx" in err and not (tmp_path / "age.txt").exists()
    code, out, err = inside(capsys, "export", "none.safetensors", "--out", tmp_path / "age.pt2")
    assert code == 2 and "there is no such model" in err
