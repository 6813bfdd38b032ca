"""The guide, the pages beside it and CONTRIBUTING.md: their code runs, and what they mention exists."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest
import shifts
import uncertainty

import inspection
from svnn.covariance._resolve import OURS
from svnn.testing import check_covariance

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = ("guide.md", "inspection.md", "neighbours.md", "uncertainty.md", "../CONTRIBUTING.md")
PAGES += ("covariance.md", "index.md", "jobs.md", "large.md", "rivals.md", "stability.md", "start.md", "torch.md")
PAGES += ("cluster.md", "files.md")


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.S)


def test_the_code_of_the_guide_runs(capsys, tmp_path, monkeypatch):
    first, pictures, second = blocks("guide.md")
    names = {}
    exec(compile(first, "guide.md", "exec"), names)
    shapes, change = capsys.readouterr().out.splitlines()
    assert shapes == "(3,) (3, 40, 64)"
    assert float(change.split(": ")[1]) > 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    exec(compile(pictures, "guide.md", "exec"), names)
    assert "fitted: N = 40" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"covariance.png", "errors.png"}
    names = {"__name__": "guide"}
    exec(compile(second, "guide.md", "exec"), names)
    banded = names["Banded"](width=0)
    assert names["np"].count_nonzero(banded.fit(names["np"].eye(4)).covariance_) == 4


@pytest.mark.parametrize(
    ("block", "package", "printed"),
    [
        (0, "nilearn", r"\(5, 30, 30\) 10% of the entries are kept"),
        (1, "skfolio", r"weights that sum to 1\.0"),
        (2, "skfolio", r"R² on the training data: 0\.\d+"),
    ],
    ids=["nilearn", "portfolio", "their covariance"],
)
def test_the_code_of_the_page_about_neighbours_runs(block, package, printed, capsys):
    pytest.importorskip(package)
    exec(compile(blocks("neighbours.md")[block], "neighbours.md", "exec"), {})
    assert re.fullmatch(printed, capsys.readouterr().out.strip())


@pytest.mark.parametrize("block", range(3), ids=["standard deviations", "MAPIE", "by hand"])
def test_the_code_of_the_page_about_uncertainty_covers_what_it_says(block, capsys):
    code = blocks("uncertainty.md")
    assert len(code) == 3
    if "mapie" in code[block]:
        pytest.importorskip("mapie")
    exec(compile(code[block], "uncertainty.md", "exec"), {})
    (covered,) = re.findall(r"([\d.]+)%", capsys.readouterr().out)
    assert 85 <= float(covered) <= 95


def test_the_table_of_uncertainty_is_the_one_that_was_measured():
    assert uncertainty.table() in (DOCS / "uncertainty.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("block", "printed"),
    [
        (0, r"\[\('x\d+', .*\)\]\n\[\('x\d+', .*\)\]\nlargest gap between sums and predictions: 0\.0"),
        (1, r"(direction \d: \d+% of the variance, \d+% of the contributions\n?){3}"),
        (2, r"\d+ edges; those that matter most: \[\('x\d+ - x\d+', .*\)\]\nthe same by hand: True"),
        (3, r"\[\('x0, x1', [\d.]+\), \('x2, x3', [\d.]+\), \('x4, x5', -?0\.0\)\]"),
    ],
    ids=["features", "directions", "edges", "groups"],
)
def test_the_code_of_the_page_about_inspection_runs(block, printed, capsys):
    code = blocks("inspection.md")
    assert len(code) == 4
    exec(compile(code[block], "inspection.md", "exec"), {})
    assert re.fullmatch(printed, capsys.readouterr().out.strip())


def test_the_tables_of_inspection_are_those_that_were_measured():
    page = (DOCS / "inspection.md").read_text(encoding="utf-8")
    assert all(table in page for table in inspection.tables())


def test_the_tables_of_covariances_are_those_that_were_measured():
    page = (DOCS / "covariance.md").read_text(encoding="utf-8")
    assert shifts.table() in page and shifts.costs() in page and shifts.false_sentence() in page
    assert f"one fit of {shifts.COST[0]} rows of {shifts.COST[1]} columns" in page
    assert f"{shifts.DRAWS} draws of each" in page


def test_every_covariance_is_on_its_page():
    page = (DOCS / "covariance.md").read_text(encoding="utf-8")
    for name, kind in OURS.items():
        assert f'"{name}"' in page or kind.__name__ in page


def test_the_sparsifier_of_the_contributing_page_is_complete():
    names = {"__name__": __name__}
    (code,) = blocks("../CONTRIBUTING.md")
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    check_covariance(names["Blocks"](), tensors=True, skip=["permutation"])
    with pytest.raises(ValueError, match="size must be a positive integer, got 0"):
        names["Blocks"](size=0).fit([[1.0, 2.0], [2.0, 1.0]])


def test_every_file_of_the_walk_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:src|tests)/[\w/.]+)`", text))
    assert len(paths) > 8
    for path in sorted(paths):
        assert (ROOT / path).exists(), path


def test_every_file_of_the_architecture_page_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    known = {str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py")}
    names = set(re.findall(r"`([\w/]+\.py)`", text))
    assert len(names) > 40
    missing = [name for name in sorted(names) if not any(f"/{path}".endswith(f"/{name}") for path in known)]
    assert not missing
    rooms = set(re.findall(r"`(\w+(?:/\w+)*)/`", text)) - {"runs"}
    assert len(rooms) > 15 and all(
        (ROOT / "src/svnn" / room).is_dir() or list(ROOT.glob(f"src/svnn/*/{room}")) for room in rooms
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_name_exists(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"\bsvnn(?:\.[A-Za-z_]\w*)+", text))):
        assert pkgutil.resolve_name(name) is not None


@pytest.mark.parametrize("page", PAGES)
def test_every_link_has_a_section(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
