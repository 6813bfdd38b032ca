"""The section that says how to get the same numbers again."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version
from inspect import signature
from typing import Any

import numpy as np

import svnn
from svnn.comparison import Comparison
from svnn.inspection._fitted import n_networks
from svnn.reporting._request import ReportedModel
from svnn.reporting._words import number


def repeat_section(request: ReportedModel | None, comparison: Comparison | None) -> dict[str, Any]:
    """Return the code that makes the model again, the settings of the comparison, versions and fingerprints."""
    packages = ("numpy", "scipy", "scikit-learn", "torch")
    versions = [("svnn", svnn.__version__), ("Python", platform.python_version())]
    versions += [(name, version(name)) for name in packages]
    if request is not None:
        versions += _training(request)
    settings = [] if comparison is None else list(comparison.settings.items())
    return {"code": None if request is None else _code(request), "settings": settings, "versions": versions}


def _code(request: ReportedModel) -> str:
    model: Any = request.model
    seed = (
        "# random_state is None: another fit gives slightly different numbers; set it to repeat them.\n"
        if model.random_state is None
        else ""
    )
    given = model.get_params(deep=False)["covariance"]
    imports = [_import_of(model), *([] if isinstance(given, str) else [_import_of(given)])]
    report = f'model.report(X, {"None" if request.y is None else "y"}, "report.html")'
    return "\n".join([*imports, "", f"{seed}model = {_call(model)}", "model.fit(X_train, y_train)", report])


def _import_of(estimator: object) -> str:
    kind = type(estimator)
    public = ".".join(part for part in kind.__module__.split(".") if not part.startswith("_"))
    if not public:
        return f"# {kind.__name__} is your own class"
    return f"from {'svnn' if public == 'svnn.estimators' else public} import {kind.__name__}"


def _call(estimator: Any) -> str:
    """Return the code that makes an estimator, with the parameters that differ from their defaults.

    Examples
    --------
    >>> from svnn import SVNNRegressor
    >>> _call(SVNNRegressor(hidden=(4,), random_state=0))
    'SVNNRegressor(hidden=(4,), random_state=0)'
    """
    defaults = {name: repr(of.default) for name, of in signature(type(estimator)).parameters.items()}
    given = estimator.get_params(deep=False)
    changed = [f"{name}={_value(name, value)}" for name, value in given.items() if repr(value) != defaults.get(name)]
    return f"{type(estimator).__name__}({', '.join(changed)})"


def _value(name: str, value: Any) -> str:
    """Return a parameter as code; a matrix or a function is written as the name of its parameter."""
    if hasattr(value, "get_params"):
        return _call(value)
    return repr(value) if isinstance(value, (int, float, str, tuple, list, type(None))) else name


def _training(request: ReportedModel) -> list[tuple[str, str]]:
    model = request.model
    rows = [
        ("Seed (random_state)", repr(model.random_state)),
        ("Networks trained", number(n_networks(model))),
        ("Epochs", number(model.n_iter_)),
    ]
    if request.Z is not None:
        rows.append(("Shape of X", " × ".join(map(str, np.shape(request.X)))))
        rows.append(("Fingerprint of X", _fingerprint(np.asarray(request.X))))
    if request.y is not None:
        rows.append(("Fingerprint of y", _fingerprint(request.y)))
    return rows


def _fingerprint(values: np.ndarray) -> str:
    """Return the first digits of the SHA-256 of the values, the same for the same numbers or labels."""
    plain = values.astype("<f8") if values.dtype.kind in "fiub" else values.astype(str)
    return hashlib.sha256(np.ascontiguousarray(plain).tobytes()).hexdigest()[:16]
