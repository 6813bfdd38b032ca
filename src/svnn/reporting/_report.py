"""The report: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from svnn._types import ColumnLike, DataLike
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.reporting._comparison import comparison_section
from svnn.reporting._contributions import contributions_section, importance_of
from svnn.reporting._density import density_of, density_section, graph_matrix
from svnn.reporting._explore import explore_section
from svnn.reporting._html import Markup, element, joined, section
from svnn.reporting._predictions import fit_of, predictions_section
from svnn.reporting._repeat import repeat_section
from svnn.reporting._request import ComparisonLike, Request, check_path, check_request
from svnn.reporting._sentences import sentences
from svnn.reporting._spectrum import spectrum_section
from svnn.reporting._stability import stability_section

#: The page may use what is in it, and nothing else: no request leaves the reader's machine.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

#: The script of the page, in the order in which its parts need each other.
_SCRIPTS = ("correlations.js", "heat_map.js", "graph.js", "report.js")


def write_report(
    path: str | Path,
    *,
    model: CovarianceNetwork | None = None,
    X: DataLike | None = None,
    y: ColumnLike | None = None,
    comparison: ComparisonLike | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Path:
    """Write a report about a fitted model, a comparison of models, or both, as one HTML file.

    The file holds its pictures, styles and scripts, and asks for nothing when it is viewed. It starts with three
    sentences in plain words. Below are scores with intervals, the covariance and how dense it is, a heat map and a
    graph with a slider for the threshold, the spectrum, the learned filters, the features that matter, stability
    against the number of rows, and how to repeat it all.

    Parameters
    ----------
    path : str or Path
        The file to write, such as "report.html"; an old one is replaced.
    model : fitted SVNNRegressor or SVNNClassifier, optional
    X : array or data frame of shape (t, N) or (t, N, F), optional
        Rows to look at: best those that the model was not trained on. Without them the report says nothing of
        predictions, contributions and stability.
    y : array of shape (t,), optional
        Targets or labels of these rows.
    comparison : svnn.comparison.Comparison, optional
        Scores of several models; its sentences then stand on top.
    names : sequence of N str, optional
        Names of the features; by default those of the data frame that the model was fitted on.
    title : str, optional

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=100, n_features=10, random_state=0)
    >>> model = SVNNRegressor(max_epochs=5, random_state=0).fit(data.X[:70], data.y[:70])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = write_report(f"{folder}/report.html", model=model, X=data.X[70:], y=data.y[70:])
    ...     page = file.read_text(encoding="utf-8")
    >>> page.startswith("<!doctype html>"), "On the 30 rows given" in page
    (True, True)
    """
    if model is None and comparison is None:
        raise ValueError("there is nothing to report on: pass model=, comparison=, or both.")
    if model is None and (X is not None or y is not None or names is not None):
        raise ValueError("X, y and names belong to a model; pass it as model=.")
    file = check_path(path)
    request = None if model is None else check_request(model, X, y, names)
    said = [] if comparison is None else [str(sentence) for sentence in comparison.sentences()]
    parts = [] if comparison is None else [comparison_section(comparison)]
    if request is not None:
        about, sections = _about_model(request)
        said, parts = said or about, [*parts, *sections]
    if title is None:
        title = f"Comparison on {comparison.name}" if comparison is not None else f"{type(model).__name__}: report"
    short = section("short", "In short", element("ol", *(element("li", sentence) for sentence in said)))
    page = _page(title, [short, *parts, repeat_section(request, comparison)])
    file.write_text(page, encoding="utf-8", errors="replace")
    return file


def _about_model(request: Request) -> tuple[list[str], list[Markup]]:
    """Return the three sentences about a model, and its sections."""
    density = density_of(graph_matrix(request.model))
    fit = None if request.y is None else fit_of(request)
    importance = None if request.Z is None else importance_of(request)
    parts = [
        *([] if fit is None else [predictions_section(request, fit)]),
        density_section(request.model, density),
        explore_section(request, density),
        *([] if importance is None else [contributions_section(request, importance)]),
        spectrum_section(request),
        stability_section(request),
    ]
    return sentences(request, density, fit, importance), parts


_LINKS = {
    "short": "In short",
    "scores": "Scores",
    "predictions": "Predictions",
    "covariance": "Covariance",
    "explore": "Threshold",
    "features": "Features",
    "spectrum": "Spectrum",
    "stability": "Stability",
    "repeat": "Repeat",
}


def _page(title: str, parts: Sequence[Markup]) -> str:
    body = joined(parts)
    links = [
        element("li", element("a", label, href=f"#{anchor}"))
        for anchor, label in _LINKS.items()
        if f'<section id="{anchor}"' in body
    ]
    assets = files("svnn.reporting") / "assets"
    style, *scripts = ((assets / name).read_text(encoding="utf-8") for name in ("report.css", *_SCRIPTS))
    script = "\n".join(['(() => {\n"use strict";', *scripts, "})();"])
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(style)),
    )
    content = element(
        "body",
        element("a", "Skip to the report", href="#main", class_="skip"),
        element("header", element("h1", title), element("nav", element("ul", *links), aria_label="Sections")),
        element("main", body, id="main", tabindex="-1"),
        element("footer", element("p", "Written by svnn, sparse covariance neural networks.")),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, content, lang='en')}\n"
