"""The pages in docs/: their examples print what they say, and the names, tests and sections they mention exist."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
THEORY = ROOT / "docs" / "theory.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
STATEMENTS = (
    *(f"Def. {i}" for i in range(1, 9)),
    *(f"Thm. {i}" for i in range(1, 6)),
    *(f"Lemma {i}" for i in range(1, 8)),
    *(f"Prop. {i}" for i in (1, 2)),
    *(f"Remark {i}" for i in (1, 2, 3)),
)
VERDICTS = ("**yes**", "**to first order**", "**as an order only**", "**no**", "*definition*")


@pytest.fixture(scope="module")
def text():
    return THEORY.read_text(encoding="utf-8")


def examples():
    page = THEORY.read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.S)


def rows(text, appendix):
    """The rows of the tables in one of the appendices."""
    _, part = re.split(rf"^## Appendix {appendix}: .*$", text, flags=re.M)
    lines = [line for line in part.split("\n## ")[0].splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("statement", "checked")]


@pytest.mark.parametrize(("code", "printed"), examples(), ids=["error", "certificate", "advice"])
def test_the_examples_print_what_the_page_says(code, printed, capsys):
    exec(compile(code, str(THEORY), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(printed.splitlines()) > 0
    for got, expected in zip(lines, printed.splitlines(), strict=True):
        assert NUMBER.sub("#", got) == NUMBER.sub("#", expected)
        # A little slack: training differs in the last digits from machine to machine.
        values = [[float(n) for n in NUMBER.findall(line)] for line in (got, expected)]
        assert values[0] == pytest.approx(values[1], rel=0.02, abs=0.011)


def test_all_code_is_run(text):
    assert len(re.findall("^```python$", text, re.M)) == len(examples()) == 3


def test_every_name_exists(text):
    names = set(re.findall(r"\bsvnn(?:\.[A-Za-z_]\w*)+", text))
    assert len(names) > 30
    for name in sorted(names):
        home, *path = name.split(".")
        found = importlib.import_module(home)
        for part in path:
            assert not part.startswith("_"), f"{name} is not public"
            assert hasattr(found, part), f"{name} does not exist"
            found = getattr(found, part)


def test_every_test_exists(text):
    mentioned = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text))
    assert len(mentioned) > 50 and text.count("::") == len(re.findall(r"`tests/[\w/]+\.py::\w+`", text))
    for path, name in sorted(mentioned):
        assert (ROOT / path).is_file(), f"{path} does not exist"
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path} has no {name}"


def test_every_statement_has_a_row_with_a_verdict_and_a_test(text):
    statements, tests = rows(text, "A"), dict(rows(text, "C"))
    assert all(len(row) == 4 for row in statements)
    found = " ".join(row[0] for row in statements)
    missing = [s for s in STATEMENTS if not re.search(re.escape(s) + r"\b", found)]
    assert not missing
    for name, verdict, *_ in statements:
        assert verdict.startswith(VERDICTS), name
        assert "::test_" in tests[name] or name.startswith("Remark 3"), name


def test_the_page_opens_with_the_tally_of_its_verdicts(text):
    verdicts = [row[1] for row in rows(text, "A")]
    count = {verdict: sum(found.startswith(verdict) for found in verdicts) for verdict in VERDICTS}
    opening = " ".join(text.split("\n\n")[1].split())
    assert opening.startswith(f"Of the {len(verdicts)} statements of ")
    assert opening.endswith(
        f"**{count['**yes**']} hold as printed**, **{count['**to first order**']} hold to first order**, "
        f"**{count['**as an order only**']} hold as an order only** and **{count['**no**']} do not hold**; "
        f"the other {count['*definition*']} are definitions."
    )


def test_the_paths_of_tests_stand_in_the_last_appendix_only(text):
    assert "tests/" not in text.split("\n## Appendix C")[0]


def test_every_link_has_a_section(text):
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert links and links <= anchors


def test_formulas_stay_on_their_line(text):
    """GitHub renders ``$…$`` within a line and knows no operatorname; Markdown takes some escapes first."""
    prose = re.sub(r"```.*?```|\$\$.*?\$\$", "", text, flags=re.S)
    assert all(line.count("$") % 2 == 0 for line in prose.splitlines())
    assert not re.search(r"\\operatorname|\\[{},;!|]", text)
