"""What every ``__init__`` of the baselines does, and nothing else."""

from __future__ import annotations

from typing import Any


def store(estimator: Any, arguments: dict[str, Any]) -> None:
    """Set every parameter of ``__init__``, whose locals ``arguments`` are, as scikit-learn asks: as it is."""
    for name in estimator._get_param_names():
        setattr(estimator, name, arguments[name])
