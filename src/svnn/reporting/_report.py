"""The report: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from svnn._types import ColumnLike, DataLike
from svnn.comparison import Comparison
from svnn.estimators._covariance_network import CovarianceNetwork
from svnn.reporting._explore import explore_section
from svnn.reporting._findings import find
from svnn.reporting._repeat import repeat_section
from svnn.reporting._request import check_request
from svnn.reporting._scores import scores_section
from svnn.reporting._sections import (
    covariance_section,
    features_section,
    predictions_section,
    spectrum_section,
    stability_section,
)
from svnn.reporting._words import listed, number, percent

#: The script of the page, in the order in which its parts need each other.
_SCRIPTS = ("correlations.js", "heat_map.js", "graph.js", "report.js")


def write_report(
    path: str | Path,
    *,
    model: CovarianceNetwork | None = None,
    X: DataLike | None = None,
    y: ColumnLike | None = None,
    comparison: Comparison | None = None,
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
    if comparison is not None and not isinstance(comparison, Comparison):
        raise TypeError(f"comparison must be a svnn.comparison.Comparison, got {type(comparison).__name__}.")
    file = _check_path(path)
    request = None if model is None else check_request(model, X, y, names)
    findings = None if request is None else find(request)
    # What the template of each section shows, in the order of the page.
    sections: dict[str, dict[str, Any]] = {"short": {"model": request, "findings": findings}}
    if comparison is not None:
        sections["short"]["sentences"] = comparison.sentences()
        sections["scores"] = scores_section(comparison)
    if request is not None and findings is not None:
        if request.y is not None and findings.predictions is not None:
            sections["predictions"] = predictions_section(request, request.y, findings.predictions)
        sections["covariance"] = covariance_section(request, findings)
        sections["explore"] = explore_section(request, findings)
        if findings.importance is not None:
            sections["features"] = features_section(request, findings.importance)
        sections["spectrum"] = spectrum_section(request, findings)
        sections["stability"] = stability_section(request)
    sections["repeat"] = repeat_section(request, comparison)
    if title is None:
        title = f"Comparison on {comparison.name}" if comparison is not None else f"{type(model).__name__}: report"
    page = _templates().get_template("page.html").render(title=title, sections=sections, **_assets())
    file.write_text(page, encoding="utf-8", errors="replace")
    return file


def _check_path(path: str | Path) -> Path:
    """Return the path of the report, or raise an error where it cannot be written."""
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder; name a file in it, such as report.html.")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r} is in a folder that does not exist; make {file.parent} first.")
    return file


@cache
def _templates() -> jinja2.Environment:
    """Return the templates, in which every value is escaped and a missing one is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("svnn.reporting", "assets"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"listed": listed, "number": number, "percent": percent}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


@cache
def _assets() -> dict[str, str]:
    """Return the style and the script of the page."""
    folder = files("svnn.reporting") / "assets"
    style, *scripts = ((folder / name).read_text(encoding="utf-8") for name in ("report.css", *_SCRIPTS))
    return {"style": style, "script": "\n".join(['(() => {\n"use strict";', *scripts, "})();"])}
