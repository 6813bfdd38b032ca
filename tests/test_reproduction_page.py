"""docs/reproduction.md: every experiment has a section and a picture, every claim a verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import windows

from svnn.paper.experiments import EXPERIMENTS

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
VERDICTS = ("holds partly", "holds", "does not hold here")


@pytest.fixture(scope="module")
def text():
    return PAGE.read_text(encoding="utf-8")


def test_every_experiment_has_a_section_that_starts_with_its_command(text):
    commands = re.findall(r"^## .*\n\n`svnn reproduce ([\w-]+)`", text, re.M)
    assert sorted(commands) == sorted(EXPERIMENTS)


def test_every_picture_is_there_and_every_plot_is_shown(text):
    shown = set(re.findall(r"!\[[^\]]+\]\((figures/[\w.]+)\)", text))
    assert shown == {f"figures/{path.name}" for path in (PAGE.parent / "figures").iterdir()}
    assert len(shown) >= len(EXPERIMENTS)


@pytest.fixture(scope="module")
def claims(text):
    """The rows of the table of claims."""
    table = text.split("## The claims")[1].split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_claim_has_a_verdict(text, claims):
    assert len(claims) > 20
    for row in claims:
        assert len(row) == 3 and row[1] and row[2].startswith(VERDICTS), row
    # Those in words stand in the sections too.
    assert text.count("**holds") + text.count("**Holds") + text.count("**does not hold here**") > 25


def test_the_page_opens_with_the_tally_of_its_verdicts(text, claims):
    """The first of the verdicts that fits counts: what holds partly is not among what holds."""
    first = [next(verdict for verdict in VERDICTS if row[2].startswith(verdict)) for row in claims]
    partly, whole, none = (first.count(verdict) for verdict in VERDICTS)
    opening = " ".join(text.split("\n\n")[1].split())
    assert opening.startswith(f"Of the {len(claims)} claims ")
    assert opening.endswith(f"**{whole} hold**, **{partly} hold partly** and **{none} do not hold here**.")


def test_long_tables_stand_in_the_appendix(text):
    before, appendix = text.split("## Appendix: the numbers")
    tables = re.findall(r"(?:^\|.*\n)+", before.split("## The claims")[1].split("\n## ", 1)[1], re.M)
    assert max(len(table.splitlines()) for table in tables) <= 12
    assert len(re.findall(r"(?:^\|.*\n)+", appendix, re.M)) > 12


def test_nothing_is_left_to_fill_in(text):
    assert not re.search(r"\{\{|MISSING|TODO|VERDICT_|TEXT_|\bnan\b", text)


def test_every_link_leads_somewhere(text):
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    for page in set(re.findall(r"\]\(([\w/]+\.md)\)", text)):
        assert (PAGE.parent / page).exists(), page


def test_the_table_of_wearable_sensors_is_the_one_that_was_measured(text):
    assert windows.table() in text
