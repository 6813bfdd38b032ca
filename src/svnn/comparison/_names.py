"""The names of tasks, scores and models, as tables and sentences show them."""

from __future__ import annotations

from collections.abc import Mapping

REGRESSION, CLASSIFICATION = "regression", "classification"
TASKS = (REGRESSION, CLASSIFICATION)
#: The scores; the lower the better.
METRICS: Mapping[str, str] = {REGRESSION: "MAE", CLASSIFICATION: "error (%)"}

#: svnn as it comes; the same network without a covariance; the same on the dense sample covariance.
OURS, CONTROL, DENSE = "S-VNN", "without edges", "VNN"
#: The covariance of our network where none is named.
DEFAULT = "hard"
#: The model that knows nothing but the targets.
FLOOR: Mapping[str, str] = {REGRESSION: "always the mean", CLASSIFICATION: "always the largest class"}
#: The models of a comparison, in the order of its table.
MODELS: Mapping[str, tuple[str, ...]] = {
    REGRESSION: (OURS, CONTROL, DENSE, "ridge", "SVM", "boosting", "GP", FLOOR[REGRESSION]),
    CLASSIFICATION: (OURS, CONTROL, DENSE, "logistic", "SVM", "boosting", "LDA", FLOOR[CLASSIFICATION]),
}
#: From the simplest model to the least simple one: of models that are equally good, the first one is to be used.
SIMPLEST_FIRST = (
    *FLOOR.values(),
    *("ridge", "logistic", "LDA", "SVM", "GP", "boosting"),
    *(CONTROL, DENSE, OURS),
)


def simplicity(model: str) -> int:
    """Return the place of a model among the others, the simplest first; one that is not listed is one before ours."""
    return SIMPLEST_FIRST.index(model if model in SIMPLEST_FIRST else "boosting")
