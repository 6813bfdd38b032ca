"""The site: the code of its pages runs, every page and package is on it, and its configuration does what it says."""

from __future__ import annotations

import re
import runpy
import tomllib
from inspect import ismodule
from pathlib import Path

import pytest

import svnn

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = """

.. _sphx_glr_plot_x.py:


A title
=======

The first sentence.

.. code-block:: Python

    draw()

.. image-sg:: /auto_examples/images/sphx_glr_plot_x_001.png
   :alt: plot x
   :class: sphx-glr-single-img

The end.
"""


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.fixture
def conf():
    """The names of the configuration file, where Sphinx is installed."""
    for needed in ("sphinx", "sphinx_gallery", "myst_parser", "furo", "sphinx-mathjax-offline"):
        pytest.importorskip(needed)
    return runpy.run_path(str(DOCS / "conf.py"))


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("index.md", r"R² on new spectra: 0\.9\d+\n\{'with edges': .*\}"),
        ("start.md", r"9\d\.\d% right on rows .*\n(.*\n)+\{'with edges': .*\}\n(.+ [\d.]+\n){3}written: report\.html"),
        (
            "covariance.md",
            r"Recommended: covariance=.hard.\n(.*\n)+\d+ of 30 eigenvalues .*\nmany rows: \d+% .*\nfew rows: \d+% .*\n"
            r"pearson: [0-3] of 10 .*\nspearman: 10 of 10 .*\nkendall: 10 of 10 .*\nbiweight: 10 of 10 .*\n"
            r"hard: \d\d\.\d .*\nhuber: 0\.\d .*\ntyler: 0\.\d .*\nsparse tyler: 0\.\d .*\n"
            r"1 factor, and edges beside it: \[\[0, 1\]\]\n"
            r"halflife=None: correlations of 0\.[67] and 0\.[67]\nhalflife=40: correlations of 0\.[0-3] and 0\.[89]\n"
            r"Banding: width 4 of 49\nTapering: width [567] of 49\nspectra: width 198\n"
            r"partial=False: \[\(0, 1\), \(0, 2\), \(1, 2\)\]\npartial=True: \[\(0, 1\), \(1, 2\)\]\n"
            r"shrink: .*\nclip: .*\ndensity: .*",
        ),
        (
            "files.md",
            r"\d+% of the counts are stored, .*\nArrayTable\(300 samples, 600 features, float32\) \(600, 600\)\n"
            r"Graph\(600 features, [\d,]+ edges\) \(600, 600\) \d+ features never vary\n(\d+) \1 \1\nTrue",
        ),
        ("large.md", r"csr_array \(4500, 4500\) 2\.0 entries a row\nCSROperator 0\.0\d% .*\n\(2,\)"),
        (
            "torch.md",
            r"\['network.readout.weight', 'shift._extra_state', 'shift.matrix'\]\ntorch.Size\(\[5, 1\]\)\n"
            r"torch.Size\(\[64, 2\]\)\ntorch.Size\(\[200, 2\]\)\ntorch.Size\(\[3, 2\]\)\n"
            r"tensor\(\[\[0.5000\],\n +\[2.5000\],\n +\[2.0000\]\]\)\n"
            r"share of the pairs that is left: [01]\.\d+\nTrue\n\(10, 2\)",
        ),
        (
            "stability.md",
            r"(covariance from \d+ rows: .*\n){3}certified: [\d.]+ seen: [\d.]+\n(\d+% of the entries: .*\n?){3}",
        ),
    ],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(name, printed, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "files.md":
        for package in ("pyarrow", "networkx", "igraph", "torch_geometric"):
            pytest.importorskip(package)
    names = {"__name__": "page"}
    code = re.findall(r"```python\n(.*?)```", page(name), re.S)
    assert code
    for block in code:
        exec(compile(block, name, "exec"), names)
    assert re.fullmatch(printed, capsys.readouterr().out.strip())
    if name == "stability.md":
        assert names["moved"].max() <= float(names["bound"])


def test_every_page_with_code_is_run_by_some_test():
    here = {"index.md", "start.md", "covariance.md", "files.md", "large.md", "stability.md", "torch.md"}
    elsewhere = {"guide.md", "inspection.md", "neighbours.md", "uncertainty.md", "theory.md"}
    elsewhere |= {"cluster.md"}
    assert {path.name for path in DOCS.glob("*.md") if "```python" in page(path.name)} == here | elsewhere


def test_every_page_is_in_the_tree():
    listed = set(
        re.findall(r"^(\w+)$", " \n".join(re.findall(r"```\{toctree\}\n(.*?)```", page("index.md"), re.S)), re.M)
    )
    assert {path.stem for path in DOCS.glob("*.md")} - {"index"} == listed


def test_every_package_is_in_the_api():
    packages = {f"svnn.{name}" for name in svnn.__all__ if ismodule(getattr(svnn, name))}
    assert set(re.findall(r"^   (svnn\.\w+)$", page("api.md"), re.M)) == packages


def test_the_extra_has_what_the_configuration_imports():
    extra = " ".join(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]["docs"]
    )
    for needed in ("sphinx>=", "sphinx-gallery>=", "myst-parser>=", "furo>=", "sphinx-mathjax-offline>="):
        assert needed in extra


def test_nothing_is_fetched_and_warnings_are_errors(conf):
    assert not any("intersphinx" in name for name in conf["extensions"])
    assert "://" not in conf["mathjax_path"] and Path(conf["html_static_path"][1]).name == conf["mathjax_path"]
    assert Path(conf["html_static_path"][1]).is_file()
    assert "sphinx -W --keep-going" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "docs/_build/" in (ROOT / ".gitignore").read_text(encoding="utf-8")


def test_the_picture_comes_first(conf):
    found = conf["picture_first"](PAGE)
    assert found.index("A title") < found.index("image-sg") < found.index("The first sentence") < found.index("draw()")
    assert found.count("image-sg") == 1 and found.endswith("The end.\n")
    assert conf["picture_first"]("no picture") == "no picture"


def test_links_to_scripts_lead_to_their_pages(conf):
    source = ["[a](../examples/gallery/plot_save.py) [b](speed.md)"]
    conf["read_page"](None, "jobs", source)
    assert source == ["[a](auto_examples/plot_save.rst) [b](speed.md)"]


def test_bunches_become_lists(conf):
    lines = [
        "Returns",
        "-------",
        "Bunch with",
        "    X : array,",
        "        in mm",
        "    y, z : numbers",
        "    DESCR",
        "",
        "Notes",
    ]
    conf["bunches_as_lists"](None, "function", "f", None, None, lines)
    assert lines[2:] == [
        "Bunch with",
        "",
        "    - ``X``: array,",
        "        in mm",
        "    - ``y, z``: numbers",
        "    - DESCR",
        "",
        "Notes",
    ]
