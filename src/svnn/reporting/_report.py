"""The report: one HTML file that needs nothing else."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np

import svnn
from svnn._types import ColumnLike, DataLike
from svnn.inspection._fitted import Model, n_networks
from svnn.reporting import _sections as sections_of
from svnn.reporting._explore import explore_section
from svnn.reporting._model import ReportedModel, look_at
from svnn.reporting._svg import fixed, listed, number, percent

if TYPE_CHECKING:
    from svnn.comparison import Comparison


def write_report(
    path: str | Path,
    *,
    model: Model | None = None,
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
    model : fitted S-VNN or blend, optional
    X : array or data frame of shape (t, N) or (t, N, F), optional
        Rows to look at, best those that the model was not trained on. Without them the report has no predictions,
        contributions and stability.
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
    if comparison is not None:
        from svnn.comparison import Comparison  # a caller who has one has imported it: reports on models need not

        if not isinstance(comparison, Comparison):
            raise TypeError(f"comparison must be a svnn.comparison.Comparison, got {type(comparison).__name__}.")
    file = _check_path(path)
    of = None if model is None else look_at(model, X, y, names)
    # The values that the page shows in each section, in the order of the page.
    sections: dict[str, dict[str, Any]] = {"short": {"model": of}}
    if comparison is not None:
        sections["short"]["sentences"] = comparison.sentences()
        sections["scores"] = sections_of.scores_section(comparison)
    if of is not None:
        if of.predictions is not None:
            sections["predictions"] = sections_of.predictions_section(of, of.predictions)
        sections["covariance"] = sections_of.covariance_section(of)
        sections["explore"] = explore_section(of)
        if of.importance is not None:
            sections["features"] = sections_of.features_section(of, of.importance)
        sections["spectrum"] = sections_of.spectrum_section(of)
        sections["stability"] = sections_of.stability_section(of)
    sections["repeat"] = repeat_section(of, comparison)
    if title is None:
        title = f"Comparison on {comparison.name}" if comparison is not None else f"{type(model).__name__}: report"
    page = _templates().get_template("page.html").render(title=title, sections=sections)
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
    loader = jinja2.PackageLoader("svnn.reporting", "assets")
    blocks: Any = {"trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, **blocks)
    environment.globals["asset"] = lambda name: loader.get_source(environment, name)[0]
    environment.filters |= {"fixed": fixed, "listed": listed, "number": number, "percent": percent}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


# -- how to repeat it -------------------------------------------------------------------------------


def repeat_section(of: ReportedModel | None, comparison: Comparison | None) -> dict[str, Any]:
    """Return the code that makes the model again, the settings of the comparison, versions and fingerprints."""
    packages = ("numpy", "scipy", "scikit-learn", "torch")
    facts = [("svnn", svnn.__version__), ("Python", platform.python_version())]
    facts += [(name, version(name)) for name in packages]
    settings = [] if comparison is None else list(comparison.settings.items())
    if of is None:
        return {"code": None, "settings": settings, "versions": facts}
    model: Any = of.model
    seed = model.random_state
    seed = getattr(getattr(model, "parts", None), "random_state", None) if seed is None else seed  # that of the S-VNN
    facts.append(("Seed (random_state)", repr(seed)))
    facts += [("Networks trained", number(n_networks(model))), ("Epochs", number(of.network.n_iter_))]
    if of.Z is not None:
        facts.append(("Shape of X", " × ".join(map(str, np.shape(of.X)))))
        facts.append(("Fingerprint of X", _fingerprint(np.asarray(of.X))))
    if of.y is not None:
        facts.append(("Fingerprint of y", _fingerprint(of.y)))
    lines = [*_imports_of(_estimators_in(model)), ""]
    if seed is None:
        lines.append("# random_state is None: another fit gives slightly different numbers; set it to repeat them.")
    y = "None" if of.y is None else "y"
    lines += [f"model = {_as_code(model)}", "model.fit(X_train, y_train)", f'model.report(X, {y}, "report.html")']
    return {"code": "\n".join(lines), "settings": settings, "versions": facts}


def _imports_of(estimators: Sequence[object]) -> list[str]:
    """Return the lines that import the classes of estimators from their public homes."""
    homes: dict[str, dict[str, None]] = {}
    for kind in map(type, estimators):
        public = ".".join(part for part in kind.__module__.split(".") if not part.startswith("_"))
        homes.setdefault("svnn" if public == "svnn.estimators" else public, {})[kind.__name__] = None
    own = [f"# {name} is your own class" for name in homes.pop("", ())]
    return [*(f"from {home} import {', '.join(names)}" for home, names in homes.items()), *own]


def _estimators_in(value: Any) -> list[Any]:
    """Return an estimator, and those among its parameters."""
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in _estimators_in(item)]
    if not hasattr(value, "get_params"):
        return []
    return [value, *_estimators_in(list(value.get_params(deep=False).values()))]


def _as_code(value: Any, name: str = "") -> str:
    """Return an estimator as code, with the parameters that differ from their defaults.

    A matrix or a function is written as the name of its parameter.

    Examples
    --------
    >>> from svnn import BlendRegressor, SVNNRegressor
    >>> _as_code(BlendRegressor(SVNNRegressor(hidden=(4,)), random_state=0))
    'BlendRegressor(parts=SVNNRegressor(hidden=(4,)), random_state=0)'
    """
    if isinstance(value, (list, tuple)) and _estimators_in(value):
        items = ", ".join(_as_code(item, name) for item in value)
        return f"[{items}]" if isinstance(value, list) else f"({items})"
    if not hasattr(value, "get_params"):
        return repr(value) if isinstance(value, (int, float, str, tuple, list, type(None))) else name
    defaults = {key: repr(parameter.default) for key, parameter in signature(type(value)).parameters.items()}
    given = value.get_params(deep=False).items()
    changed = [f"{key}={_as_code(each, key)}" for key, each in given if repr(each) != defaults.get(key)]
    return f"{type(value).__name__}({', '.join(changed)})"


def _fingerprint(values: np.ndarray) -> str:
    """Return the first digits of the SHA-256 of the values, the same for the same numbers or labels."""
    plain = values.astype("<f8") if values.dtype.kind in "fiub" else values.astype(str)
    return hashlib.sha256(np.ascontiguousarray(plain).tobytes()).hexdigest()[:16]
