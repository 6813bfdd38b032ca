"""The files around the code: they agree with each other and with the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import svnn

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_has_the_version_and_the_licence():
    citation = text("CITATION.cff")
    assert re.findall(r"^version: (.*)$", citation, re.M) == [svnn.__version__]
    assert re.findall(r"^license: (.*)$", citation, re.M) == [PROJECT["license"]]


def test_the_version_stands_in_one_place():
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    assert text("src/svnn/__init__.py").count(f'__version__ = "{svnn.__version__}"') == 1


def test_workflows_run_every_python_that_is_claimed_and_the_oldest_torch():
    claimed = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert PROJECT["requires-python"] == f">={claimed[0]}"
    rows = re.findall(r'target: ([\w-]+), python: "([\d.]+)", torch: "([\d.]+)"', text(".github/workflows/tests.yml"))
    assert [python for target, python, _ in rows if target == "test"] == claimed
    (oldest,) = (d.split(">=")[1] for d in PROJECT["dependencies"] if d.startswith("torch>="))
    (pinned,) = re.findall(r"^torch==(.*)$", text("constraints.txt"), re.M)
    assert {torch for _, _, torch in rows} == {f"{oldest}.0", pinned}
    assert ("test-oldest", claimed[0], f"{oldest}.0") in rows
    assert {target for target, _, _ in rows} == {"test", "test-plain", "test-oldest"}


def test_every_make_target_is_explained_and_every_command_of_the_pages_exists():
    makefile = text("Makefile")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split())
    assert targets == set(re.findall(r"^([\w-]+):", makefile, re.M))
    explained = set(re.findall(r"make ([\w-]+)", makefile.split("$(STAMP):")[0])) | {"help", "lint"}
    assert targets == explained
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.yml")]
    for page in pages:
        commands = re.findall(r"(?:`|run: |^)make ([a-z][\w-]*)", page.read_text(encoding="utf-8"), re.M)
        assert set(commands) <= targets, page


def test_every_link_of_the_pages_leads_to_a_file():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize(
    "path",
    [*sorted(ROOT.glob(".github/**/*.yml")), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"],
    ids=lambda path: path.name,
)
def test_the_files_of_other_tools_can_be_read(path):
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(path.read_text(encoding="utf-8"))
