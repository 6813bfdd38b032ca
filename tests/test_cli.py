from __future__ import annotations

import os
import subprocess
import sys

import pytest


def svnn(*arguments, cwd=None, **environment):
    command = [sys.executable, "-m", "svnn.cli", *arguments]
    environment = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def test_help_and_version_are_quick_because_torch_is_not_imported():
    slow = "{'numpy', 'torch', 'sklearn', 'pandas', 'matplotlib'}"
    code = f"import sys, svnn.cli._commands; print({slow} & {{*sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
    assert "demo" in svnn("--help").stdout
    assert svnn("--version").stdout.startswith("svnn 0.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--out", "file/below"), "file"),
        (("demo", "--seed", "x"), "seed"),
        (("fly",), "fly"),
        (("reproduce", "fly"), "--list"),
        (("reproduce", "table", "--datasets", "adni1"), "SVNN_DATA"),
    ],
)
def test_errors_are_short_and_without_a_stack_trace(tmp_path, arguments, message):
    (tmp_path / "file").write_text("")
    result = svnn(*arguments, cwd=tmp_path, SVNN_DATA=None)
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_list_of_what_can_be_reproduced_is_shown_at_once():
    code = "import sys, svnn.cli, svnn.paper.experiments; print('torch' in sys.modules, 'numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False False"
    listed = svnn("reproduce", "--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()][-3:] == ["performance", "table", "all"]
    assert svnn("reproduce").returncode == 2


def test_an_experiment_leaves_tables_plots_and_a_manifest(tmp_path):
    result = svnn("reproduce", "q-insights", "--quick", "--jobs", "1", "--out", "here", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    names = {path.name for path in (tmp_path / "here/q-insights").iterdir()}
    plots, tables = {"q_insights.pdf", "q_insights.png"}, {"entries.csv", "results.csv", "summary.csv", "timings.csv"}
    assert names == {"results.jsonl", "manifest.json", *plots, *tables}
    assert all(name in result.stdout for name in names - {"results.jsonl"})
    assert "RCV p=0.25" in result.stdout and "The paper:" in result.stdout
