"""The README's code and the examples run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import rivals

ROOT = Path(__file__).parents[1]


def blocks():
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)


def test_the_quickstart_runs_and_is_short(tmp_path, monkeypatch, capsys):
    code = blocks()[0]
    assert len(code.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "test R²: 0." in capsys.readouterr().out
    assert (tmp_path / "model.safetensors").is_file()


def test_the_stability_example_holds(capsys):
    exec(compile(blocks()[1], "README.md", "exec"), {})
    exact, bound = capsys.readouterr().out.splitlines()
    assert exact.startswith("ErrorSplit(")
    certified, seen = map(float, re.findall(r"[\d.]+", bound))
    assert 0 < seen < certified


def test_the_comparison_is_the_one_that_was_measured():
    """``python benchmarks/rivals.py --table`` prints what stands between the two marks."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"<!-- rivals -->\n(.*?)\n<!-- /rivals -->", readme, re.S)
    assert shown.strip() == rivals.report(rivals.read(rivals.RESULTS))


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_the_examples_run(example, capsys):
    if "mapie" in example.read_text(encoding="utf-8"):
        pytest.importorskip("mapie")
    runpy.run_path(str(example))
    assert len(capsys.readouterr().out.splitlines()) >= 3


def test_the_intervals_of_the_example_hold_what_was_asked_for(capsys):
    pytest.importorskip("mapie")
    runpy.run_path(str(ROOT / "examples" / "intervals.py"))
    rows, covered = re.search(r"coverage of (\d+) new rows: ([\d.]+)%, 90% was", capsys.readouterr().out).groups()
    assert int(rows) >= 3000 and abs(float(covered) - 90) < 2
