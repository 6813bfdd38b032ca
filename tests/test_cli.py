from __future__ import annotations

import csv
import subprocess
import sys

import pytest


def svnn(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "svnn.cli", *arguments], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_help_and_version_are_quick_because_torch_is_not_imported():
    code = "import sys, svnn.cli; print('torch' in sys.modules, 'sklearn' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False False"
    assert "demo" in svnn("--help").stdout
    assert svnn("--version").stdout.startswith("svnn 0.")


def test_the_demo_writes_a_table_and_a_plot(tmp_path):
    result = svnn("demo", "--quick", "--out", "here", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "S-VNN hard" in result.stdout and "Breast cancer" in result.stdout
    with (tmp_path / "here/results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert {r["model"] for r in rows} >= {"VNN (dense)", "S-VNN hard", "S-VNN soft", "S-VNN ACV", "S-VNN RCV", "MLP"}
    by_model = {r["model"]: r for r in rows if r["task"] == "SparseCov"}
    assert float(by_model["VNN (dense)"]["density"]) == 1
    assert float(by_model["S-VNN hard"]["density"]) < 0.2
    assert (tmp_path / "here/results.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("demo", "--out", "file/below"), "file"), (("demo", "--seed", "x"), "seed"), (("fly",), "fly")],
)
def test_errors_are_short_and_without_a_stack_trace(tmp_path, arguments, message):
    (tmp_path / "file").write_text("")
    result = svnn(*arguments, cwd=tmp_path)
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr
