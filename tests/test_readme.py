"""The README's code and the examples run."""

from __future__ import annotations

import csv
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import rivals

from svnn.comparison import Comparison

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


def test_no_code_is_left_unrun():
    assert len(blocks()) == 1


def test_the_output_of_compare_is_the_one_that_was_measured():
    """``docs/results/demo.csv`` holds the scores that ``svnn demo`` wrote when it printed what the README shows."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(.*?)```", readme, re.S)
    scores = {}
    with (ROOT / "docs" / "results" / "demo.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            scores.setdefault(row["model"], []).append(float(row["score"]))
    title, table, said = shown.split("\n\n")
    assert title == "Tecator (fat in meat): 215 rows, 100 features, 25 splits"
    settings = {"folds": 5, "repeats": 5}
    found = Comparison(
        "Tecator", "regression", "MAE", {m: np.array(s) for m, s in scores.items()}, {}, 215, 100, None, settings
    )
    assert " ".join(said.split()) == " ".join(found.sentences())
    rows = [line.removeprefix(" →").strip() for line in table.splitlines()[2:]]
    assert len(rows) == len(scores)
    for row, model in zip(rows, scores, strict=True):
        mean, low, _ = found.interval(model)
        assert re.split(r"\s{2,}", row)[:3] == [model, f"{mean:.3f}", f"{mean - low:.3f}"]


def test_it_is_short_and_its_links_lead_somewhere():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.sub(r"<!-- rivals -->.*?<!-- /rivals -->", "", readme, flags=re.S).splitlines()) <= 150
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", readme)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_bibtex_is_that_of_the_citation_file():
    (entry,) = re.findall(r"```bibtex\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    paper = (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("references:")[1]
    names = zip(re.findall(r"family-names: (.*)", paper), re.findall(r"given-names: (.*)", paper), strict=True)
    assert " and ".join(f"{family}, {given}" for family, given in names) in entry
    for pattern in (r'title: "(.*)"', r"year: (\d+)", r"arxiv\.org/abs/([\d.]+)"):
        assert re.search(pattern, paper)[1] in entry


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
