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
    facts = [("svnn", svnn.__version__), ("Python", platform.python_version())]
    facts += [(name, version(name)) for name in packages]
    settings = [] if comparison is None else list(comparison.settings.items())
    if request is None:
        return {"code": None, "settings": settings, "versions": facts}
    model: Any = request.model
    facts.append(("Seed (random_state)", repr(model.random_state)))
    facts += [("Networks trained", number(n_networks(model))), ("Epochs", number(model.n_iter_))]
    if request.Z is not None:
        facts.append(("Shape of X", " × ".join(map(str, np.shape(request.X)))))
        facts.append(("Fingerprint of X", _fingerprint(np.asarray(request.X))))
    if request.y is not None:
        facts.append(("Fingerprint of y", _fingerprint(request.y)))
    covariance = model.get_params(deep=False)["covariance"]
    lines = [_import_of(model), *([] if isinstance(covariance, str) else [_import_of(covariance)]), ""]
    if model.random_state is None:
        lines.append("# random_state is None: another fit gives slightly different numbers; set it to repeat them.")
    y = "None" if request.y is None else "y"
    lines += [f"model = {_as_code(model)}", "model.fit(X_train, y_train)", f'model.report(X, {y}, "report.html")']
    return {"code": "\n".join(lines), "settings": settings, "versions": facts}


def _import_of(estimator: object) -> str:
    kind = type(estimator)
    public = ".".join(part for part in kind.__module__.split(".") if not part.startswith("_"))
    if not public:
        return f"# {kind.__name__} is your own class"
    return f"from {'svnn' if public == 'svnn.estimators' else public} import {kind.__name__}"


def _as_code(value: Any, name: str = "") -> str:
    """Return an estimator as code, with the parameters that differ from their defaults.

    A matrix or a function is written as the name of its parameter.

    Examples
    --------
    >>> from svnn import SVNNRegressor
    >>> _as_code(SVNNRegressor(hidden=(4,), random_state=0))
    'SVNNRegressor(hidden=(4,), random_state=0)'
    """
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
