"""The site, built by Sphinx from the pages in docs/ and the scripts in examples/gallery/: ``make docs``."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst
from sphinx_gallery.sorting import ExplicitOrder

import svnn

matplotlib.use("Agg")
HERE = Path(__file__).parent

project = "svnn"
author = "The svnn developers"
copyright = author
version = release = svnn.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb", "auto_examples/*.py", "sg_execution_times.rst"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "svnn"
html_theme_options = {"navigation_with_keys": True}
html_css_files = ["svnn.css"]
html_copy_source = html_show_sourcelink = False

# MathJax as one file that lies beside the pages: formulas need no network.
MATHJAX = "sphinx-mathjax-offline"
_mathjax = Path(importlib.util.find_spec(MATHJAX).origin).parent / "static" / "mathjax" / "tex-svg.js"
html_static_path = ["_static", str(_mathjax)]
mathjax_path = "tex-svg.js"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

# The gallery is configured by a function, which Sphinx cannot keep on disk: it then reads all pages anew.
suppress_warnings = ["config.cache"]

autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Shapes"]

#: The pages of the gallery in the order of the site: jobs first, then one question each.
ORDER = [
    "plot_spectra.py",
    "plot_brain_age.py",
    "plot_region_map.py",
    "plot_wearables.py",
    "plot_genes.py",
    "plot_returns.py",
    "plot_online_returns.py",
    "plot_graph_learning.py",
    "plot_pyg.py",
    "plot_connectivity.py",
    "plot_learned_shift.py",
    "plot_lightning.py",
    "plot_compare.py",
    "plot_choose_covariance.py",
    "plot_which_covariance.py",
    "plot_spectrum.py",
    "plot_responses.py",
    "plot_stability.py",
    "plot_uncertainty.py",
    "plot_report.py",
    "plot_large.py",
    "plot_save.py",
]


def lone_figures(block: tuple, variables: dict, config: dict) -> str:
    """Show the figures of a block that pyplot does not know, such as that of ``svnn.comparison.plot``."""
    found = []
    for figure in variables["example_globals"].values():
        if isinstance(figure, Figure) and not hasattr(figure, "number"):
            figure.number = None  # shown: the next blocks pass it over
            found.append(next(variables["image_path_iterator"]))
            figure.savefig(found[-1], dpi=160)
    return figure_rst(found, config["src_dir"])


sphinx_gallery_conf = {
    "image_scrapers": ("matplotlib", lone_figures),
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": ExplicitOrder(ORDER),
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": ("_repr_html_",),
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "write_computation_times": False,
    "abort_on_example_error": True,
}


def picture_first(source: str) -> str:
    """Move the first picture of a gallery page from below its code to below its title."""
    picture = re.search(r"^\.\. image-sg:: .*\n(?:   :.*\n)+", source, re.M)
    title = re.search(r"^.+\n=+\n", source, re.M)
    if not (picture and title):
        return source
    rest = source[: picture.start()] + source[picture.end() :]
    return rest[: title.end()] + "\n" + picture[0] + "\n" + rest[title.end() :]


def read_page(app: object, page: str, source: list[str]) -> None:
    """Prepare a page: links to scripts and files of the repository become links that hold on the site."""
    if page.startswith("auto_examples/plot_"):
        source[0] = picture_first(source[0])
    else:
        source[0] = re.sub(r"\]\(\.\./examples/gallery/(plot_\w+)\.py\)", r"](auto_examples/\1.rst)", source[0])


def inherited(app: object, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out the methods that scikit-learn gives every estimator for its own use."""
    return True if re.match(r"set_\w+_request$|get_metadata_routing$|set_output$", name.split(".")[-1]) else None


def plain_references(app: object, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Turn references to pages of scikit-learn, in docstrings that come from there, into plain words."""
    lines[:] = [re.sub(r":(?:ref|term):`([^`<]*?)(?: <[^`]*>)?`", r"``\1``", line) for line in lines]


def bunches_as_lists(app: object, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Turn what is in a Bunch, indented lines ``X : float64 array``, into a list."""
    if "Bunch with" not in [line.strip() for line in lines]:
        return
    start = [line.strip() for line in lines].index("Bunch with")
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith("    ")), len(lines))
    found = ["Bunch with", ""]
    for line in lines[start + 1 : end]:
        if line.startswith("     "):
            found.append(line)
        else:
            names, _, rest = line.strip().partition(" : ")
            found.append(f"    - ``{names}``: {rest}" if rest else f"    - {names}")
    lines[start:end] = found


def setup(app: object) -> None:
    """Register what is above."""
    app.connect("source-read", read_page)
    app.connect("autodoc-skip-member", inherited)
    app.connect("autodoc-process-docstring", plain_references)
    app.connect("autodoc-process-docstring", bunches_as_lists, priority=400)  # before napoleon
