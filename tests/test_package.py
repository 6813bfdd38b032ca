"""What importing and installing svnn promises."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import svnn


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_is_light():
    heavy = ["torch_geometric", "matplotlib", "dask", "pandas", "polars", "torch", "sklearn"]
    assert run(f"import svnn, sys; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_using_everything_imports_no_optional_package():
    optional = ["torch_geometric", "matplotlib", "dask", "polars"]  # scikit-learn itself imports pandas
    optional += ["h5py", "zarr", "anndata", "pyarrow.parquet", "igraph"]
    everything = "import svnn, sys; [getattr(svnn, name) for name in svnn.__all__]"
    assert run(f"{everything}; print([m for m in {optional} if m in sys.modules])") == "[]"


def test_every_name_exists_and_unknown_ones_do_not():
    for name in svnn.__all__:
        assert getattr(svnn, name) is not None
    assert set(svnn.__all__) == set(dir(svnn))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = svnn.nothing


def test_type_checkers_see_the_names_that_python_has():
    tree = ast.parse(Path(svnn.__file__).read_text(encoding="utf-8"))
    imported = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        for alias in node.names
        if alias.asname == alias.name  # other imports are not passed on
    }
    packages = {("svnn", package) for package in svnn._PACKAGES}
    assert imported == packages | {(f"svnn.{package}", name) for name, package in svnn._HOMES.items()}


@pytest.mark.parametrize(
    "room",
    [
        "comparison",
        "covariance",
        "datasets",
        "estimators",
        "functional",
        "graphs",
        "inspection",
        "nn",
        "operators",
        "plotting",
        "reporting",
        "sources",
        "testing",
    ],
)
def test_every_public_name_has_a_docstring_with_an_example_or_a_formula(room):
    module = importlib.import_module(f"svnn.{room}")
    for name in module.__all__:
        item = getattr(module, name)
        doc = inspect.getdoc(item) or ""
        assert len(doc) > 30, f"{room}.{name} lacks a docstring"
        plain = inspect.isfunction(item) or (inspect.isclass(item) and hasattr(item, "fit"))
        assert not plain or ">>>" in doc, f"{room}.{name} lacks an example"


def test_version_matches_the_metadata():
    from importlib.metadata import version

    assert version("svnn") == svnn.__version__
