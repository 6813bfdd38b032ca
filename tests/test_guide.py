"""The guide and the page about neighbours: their code runs, and the names that they mention exist."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("guide.md", "neighbours.md")


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.S)


def test_the_code_of_the_guide_runs(capsys):
    first, second = blocks("guide.md")
    exec(compile(first, "guide.md", "exec"), {})
    shapes, change = capsys.readouterr().out.splitlines()
    assert shapes == "(3,) (3, 40, 32)"
    assert float(change.split(": ")[1]) > 0
    names = {"__name__": "guide"}
    exec(compile(second, "guide.md", "exec"), names)
    banded = names["Banded"](width=0)
    assert names["np"].count_nonzero(banded.fit(names["np"].eye(4)).covariance_) == 4


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
