from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cli.helpers import inside, people
from comparison.made_up import brief
from comparison.test_table import BAD
from svnn.comparison import _compare, _models, _plan


@pytest.fixture
def quick_models(monkeypatch):
    """Let the models of this process learn for a moment only."""
    monkeypatch.setattr(_models, "build", brief)


def test_a_table_with_groups_from_the_file_to_the_files(tmp_path, monkeypatch, capsys, quick_models):
    monkeypatch.chdir(tmp_path)
    people().to_parquet("people.parquet")
    arguments = ("compare", "people.parquet", "--target", "age", "--group", "person", "--quick", "--jobs", "1")
    code, out, err = inside(capsys, *arguments)
    assert code == 0 and err == ""
    folder = tmp_path / "runs/compare/people"
    assert {"scores.csv", "comparison.json", "comparison.png"} <= {path.name for path in folder.iterdir()}
    found = json.loads((folder / "comparison.json").read_text())
    assert found["n_groups"] == 15 and len(found["models"]) == 8 and found["settings"]["folds"] == 5
    printed = " ".join(out.split())
    assert all(" ".join(sentence.split()) in printed for sentence in found["sentences"])
    assert all(model in printed for model in found["models"]) and "→ S-VNN" in printed
    assert "1 column of text became columns of zeros and ones: sex." in printed
    assert (
        "1 missing value in 1 row: medians" in printed
        and "people: 60 rows in 15 groups, 4 features, 5 splits" in printed
    )
    assert found["models"]["ridge"]["mean"] < found["models"]["always the mean"]["mean"] / 2
    assert (folder / "comparison.png").stat().st_size > 10_000


def test_a_named_covariance_is_used_recorded_and_reported(tmp_path, monkeypatch, capsys, quick_models):
    monkeypatch.chdir(tmp_path)
    people(40).to_csv("people.csv", index=False)
    arguments = ("compare", "people.csv", "--target", "age", "--drop", "person", "--quick", "--jobs", "1", "--json")
    usual = json.loads(inside(capsys, *arguments)[1])
    code, out, err = inside(capsys, *arguments, "--covariance", "ledoit_wolf", "--out", "here")
    assert code == 0 and err == ""
    found = json.loads(out)
    assert (usual["settings"]["covariance"], found["settings"]["covariance"]) == ("hard", "ledoit_wolf")
    same = [model for model in found["models"] if found["models"][model]["scores"] == usual["models"][model]["scores"]]
    assert same == [model for model in found["models"] if model != "S-VNN"]
    assert 'The S-VNN uses covariance="ledoit_wolf".' in found["notes"]
    assert "the covariance ledoit_wolf" in found["sentences"][1]
    page = (tmp_path / "here" / "report.html").read_text()
    assert "BlendRegressor(parts=SVNNRegressor(covariance=" in page and "LedoitWolf" in page


def test_a_covariance_that_the_table_is_too_large_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(_compare.LIMITS, "VNN", ("features", 3, "its covariance matrix would be full"))
    people(40).to_csv("people.csv", index=False)
    for command, out in (("fit", "m.safetensors"), ("compare", "folder")):
        arguments = (command, "people.csv", "--target", "age", "--out", out, "--covariance", "oas")
        code, said, err = inside(capsys, *arguments)
        assert code == 2 and said == "" and err.count("\n") == 1, err
        assert 'covariance="oas" takes at most 3 features' in err
    assert os.listdir() == ["people.csv"]


def test_json_is_all_there_is_on_standard_output_and_a_seed_repeats_it(tmp_path, monkeypatch, capsys, quick_models):
    monkeypatch.chdir(tmp_path)
    people(40).to_csv("people.csv", index=False)
    arguments = ("compare", "people.csv", "--target", "age", "--drop", "person", "--quick", "--jobs", "1", "--json")
    code, out, err = inside(capsys, *arguments)
    assert code == 0 and err == ""
    found = json.loads(out)
    assert found["task"] == "regression" and len(found["sentences"]) == 3 and found["notes"]
    assert os.listdir() == ["people.csv"]  # without --out nothing is written
    assert inside(capsys, *arguments, "--out", "here")[1] == out
    assert "scores.csv" in os.listdir("here")
    other = json.loads(inside(capsys, *arguments, "--seed", "1")[1])
    assert other["models"]["ridge"]["scores"] != found["models"]["ridge"]["scores"]


def test_a_pipe(monkeypatch, capsys, quick_models):
    text = people().drop(columns="person").to_csv(index=False, sep="\t")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = inside(capsys, "compare", "-", "--target", "sex", "--quick", "--jobs", "1", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["task"] == "classification" and found["metric"] == "error (%)" and "logistic" in found["models"]


def test_the_demo_puts_our_network_ahead_and_says_why(tmp_path, monkeypatch, capsys):
    from svnn.datasets import load_tecator

    monkeypatch.chdir(tmp_path)
    asked, prepare, with_models = [], _plan.prepare, _compare.with_models

    def spy(X, y, groups, task, quick, seed):
        asked.append((X.shape, float(y.sum()), quick))
        return prepare(X, y, groups, task, True, seed)

    def some(plan, **how):
        return with_models(plan, ["S-VNN", "without edges", "ridge", "always the mean"], **how)

    monkeypatch.setattr(_plan, "prepare", spy)
    monkeypatch.setattr(_compare, "with_models", some)
    code, out, err = inside(capsys, "demo", "--jobs", "1")
    assert code == 0 and err == ""
    assert asked == [((215, 100), float(load_tecator().y.sum()), False)]
    assert "S-VNN has the lowest MAE" in out and "The covariance helps: the same network without its edges" in out
    assert "Use this network here" in out and "In comparison.png a dot is" in out
    assert {"scores.csv", "comparison.json", "comparison.png"} <= set(os.listdir("runs/demo"))


def test_the_demo_needs_neither_pandas_nor_matplotlib(tmp_path):
    for name in ("pandas", "matplotlib"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}')")
    # A package that cannot be found, as where it is not installed: find_spec is asked before anything is imported.
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('pandas', 'matplotlib') else real(name, *a)\n"
        "import svnn.comparison._compare as c; full = c.with_models\n"
        "c.with_models = lambda plan, **how: full(plan, ['ridge', 'always the mean'], **how)\n"
        "sys.argv = ['svnn', 'demo', '--quick', '--out', 'here', '--jobs', '1']\n"
        "from svnn.cli import main; main()"
    )
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert result.returncode == 0 and "ridge" in result.stdout, result.stderr
    assert result.stderr == 'svnn: no picture, because matplotlib is missing: pip install "svnn[compare]".\n'
    written = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert written == ["comparison.json", "report.html", "scores.csv"]


# -- what cannot be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_code_2(tmp_path, monkeypatch, capsys, name):
    content, target, message = BAD[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    code, out, err = inside(capsys, "compare", name, "--target", target, "--quick")
    assert code == 2 and out == ""
    assert err.startswith("svnn: ") and err.count("\n") == 1 and message in err
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.csv", "--target", "age"], "no such file"),
        ([".", "--target", "age"], "is a folder"),
        (["people.csv", "--target", "aeg"], "near names are age"),
        (["people.csv", "--target", "age", "--group", "persn"], "near names are person"),
        (["people.csv", "--target", "age", "--drop", "x,y"], "no column 'x' for the drop"),
        (["people.csv", "--target", "age", "--task", "magic"], "task must be"),
        (["people.csv", "--target", "age", "--task", "classification"], "too many for classes"),
        (["people.csv", "--target", "sex", "--task", "regression"], "holds text"),
        (["people.csv", "--target", "age", "--group", "sex"], "needs at least 3"),
        (["people.csv", "--target", "age", "--jobs", "0"], "--jobs must be"),
        (["people.csv", "--target", "age", "--seed", "-1"], "--seed must be"),
        (["people.csv", "--target", "age", "--out", "people.csv"], "is not a folder"),
        (["few.csv", "--target", "age"], "at least 20"),
        (["split.csv", "--target", "sex", "--group", "site"], "of one class"),
    ],
    ids=str,
)
def test_a_bad_request_is_one_line_and_code_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    people(12).to_csv("few.csv", index=False)
    people().assign(sex=["m"] * 20 + ["f"] * 40, site=np.repeat(["x", "y", "z"], 20)).to_csv("split.csv", index=False)
    code, out, err = inside(capsys, "compare", *arguments)
    assert code == 2 and out == ""
    assert err.startswith("svnn: ") and err.count("\n") == 1 and message in err
    assert sorted(os.listdir()) == ["few.csv", "people.csv", "split.csv"]


def test_ctrl_c_ends_in_order(tmp_path):
    people(400).to_csv(tmp_path / "people.csv", index=False)
    process = subprocess.Popen(
        [sys.executable, "-m", "svnn.cli", "compare", "people.csv", "--target", "age", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline().startswith("- ")  # the notes are printed just before the work
    time.sleep(3)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    lines = err.splitlines()
    assert process.returncode == 130 and lines == ["svnn: stopped."]
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
