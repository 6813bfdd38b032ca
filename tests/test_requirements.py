"""The versions that pyproject.toml allows are those that the tests run with."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
DEV = EXTRAS.pop("dev")  # what `make test` has beside them, which needs no oldest version
#: Nor do what builds the site, and these.
TODAY = [EXTRAS.pop(name) for name in ("dask", "docs", "export", "files", "tensorboard")]
#: Packages that svnn works together with; the tests of that are left out where they are missing.
NEIGHBOURS = (
    "anndata",
    "dask",
    "distributed",
    "h5py",
    "igraph",
    "lightning",
    "mapie",
    "nilearn",
    "onnxruntime",
    "shap",
)
NEIGHBOURS += ("shap", "skfolio", "zarr")


def lowest(*groups: list[str]) -> dict[str, str]:
    """Return the lowest version of every requirement; "svnn[plot]" and its kind only name an extra."""
    return dict(
        re.sub(r"\[.*\]", "", item).split(">=") for group in groups for item in group if not item.startswith("svnn[")
    )


USED = lowest(PYPROJECT["project"]["dependencies"], *EXTRAS.values())
BUILDS = lowest(PYPROJECT["build-system"]["requires"])


def pinned(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def numbers(text: str) -> tuple[int, ...]:
    """Return (1, 26) for "1.26.0": versions that differ in zeros at the end are the same."""
    found = [int(part) for part in re.findall(r"\d+", text.split("+")[0])]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def test_the_oldest_environment_has_the_lowest_versions():
    expected = {name: numbers(bound) for name, bound in (USED | BUILDS).items() if name != "torch"}
    assert {name: numbers(pin) for name, pin in pinned("constraints-oldest.txt").items()} == expected


def test_torch_is_pinned_to_one_version_that_is_allowed():
    assert numbers(pinned("constraints.txt")["torch"]) >= numbers(USED["torch"])
    assert numbers(pinned("constraints.txt")["torch"]) == numbers(version("torch"))


@pytest.mark.parametrize("name", sorted(USED))
def test_everything_is_installed_so_that_no_test_is_left_out_for_want_of_a_package(name):
    assert numbers(version(name)) >= numbers(USED[name])


@pytest.mark.skipif(
    not (find_spec("mypy") and find_spec("importlinter")), reason="not the environment of make test: no tools to lint"
)
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_neighbours_are_installed_where_the_tools_to_lint_are(name):
    """So that `make test` never leaves out their tests in silence."""
    assert numbers(version(name)) >= numbers(lowest(DEV, *TODAY)[name])
