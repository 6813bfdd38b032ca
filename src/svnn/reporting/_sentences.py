"""Three sentences about a model, in plain words and true to the tables below them."""

from __future__ import annotations

import math

from svnn.reporting._contributions import Importance
from svnn.reporting._density import Density, covariance_name
from svnn.reporting._predictions import Fit
from svnn.reporting._request import Request
from svnn.reporting._words import listed, number, percent

_UNKNOWN = "whether it was trained on these rows is not known here."


def sentences(request: Request, density: Density, fit: Fit | None, importance: Importance | None) -> list[str]:
    """Return how well the model predicts, how dense its covariance is, and which features matter most."""
    return [_prediction(request, fit), _covariance(request, density), _features(request, importance)]


def _prediction(request: Request, fit: Fit | None) -> str:
    if fit is None:
        return "No rows with targets were given, so this report does not say how well the model predicts."
    rows = f"On the {number(request.n_rows)} rows given"
    if request.classifies:
        return (
            f"{rows} the model gives the right label to {percent(fit.score)}, where always giving the most frequent "
            f"label would be right for {percent(fit.other)}; {_UNKNOWN}"
        )
    explained = "" if not math.isfinite(fit.other) else f", and explain {percent(fit.other)} of its variance"
    if fit.other < 0:
        explained = ", which is worse than always predicting the mean of their targets"
    return (
        f"{rows} the predictions are off by {number(fit.score)} on average, in the units of the target{explained}; "
        f"{_UNKNOWN}"
    )


def _covariance(request: Request, density: Density) -> str:
    text = (
        f"Its covariance ({covariance_name(request.model)}) keeps {number(density.kept)} of {number(density.pairs)} "
        f"pairs of features ({percent(density.share)})"
    )
    return f"{text}, which is {density.verdict}: see the warning below." if density.verdict else f"{text}."


def _features(request: Request, importance: Importance | None) -> str:
    if importance is None:
        return "No rows were given, so this report does not say which features matter most."
    names = [request.names[i] for i in importance.order[:3]]
    if len(names) == 1:
        return f"There is one feature, {names[0]}."
    return f"The predictions depend most on {listed(names)}."
