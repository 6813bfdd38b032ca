"""Which features the predictions depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from svnn.inspection import feature_contributions
from svnn.reporting._html import Markup, element, figure, section, table
from svnn.reporting._request import Request
from svnn.reporting._svg import bars
from svnn.reporting._words import number

#: Numbers in the rows that are explained, features in the picture, and in the table.
_VALUES, _DRAWN, _LISTED = 300_000, 15, 50


@dataclass(frozen=True)
class Importance:
    """Mean absolute contribution of every feature (N,), and their unit.

    ``direction`` holds the means with their signs, and ``towards`` says of what; None for several classes or targets.
    """

    size: np.ndarray
    direction: np.ndarray | None
    towards: str
    unit: str
    n_rows: int

    @property
    def order(self) -> np.ndarray:
        """The features, the most important first."""
        return np.argsort(-self.size, kind="stable")


def importance_of(request: Request) -> Importance:
    """Return how much every feature contributes to the predictions of the rows, or of some of them."""
    rows, X = request.some_rows(min(max(_VALUES // len(request.names), 20), 200))
    found = np.asarray(feature_contributions(request.model, X).contributions)
    size = np.abs(found).mean(0)
    direction: np.ndarray | None = found.mean(0)
    towards, unit = "Mean with sign", "units of the target"
    if found.ndim == 3:
        binary = request.classifies and found.shape[2] == 2
        size, direction = size.mean(1), found[..., 1].mean(0) if binary else None
    if request.classifies:
        towards, unit = f"Mean, towards {cast(Any, request.model).classes_[-1]}", "probability"
    return Importance(size, direction, towards, unit, len(rows))


def contributions_section(request: Request, importance: Importance) -> Markup:
    """Return the section about the features that matter."""
    order = importance.order
    first = order[:_DRAWN]
    names = [request.names[i] for i in first]
    picture = figure(
        bars(
            f"The {len(first)} features that contribute most to the predictions",
            names,
            importance.size[first],
            f"mean size of the contribution ({importance.unit})",
        ),
        f"How far each feature moves the prediction of a row away from that of an average row, on average over "
        f"{number(importance.n_rows)} rows. A feature that is correlated with others shares their credit, so read "
        "neighbours in the graph together.",
        title="Features that matter most",
    )
    header, columns = ["Feature", "Mean size"], [importance.size]
    if importance.direction is not None:
        header, columns = [*header, importance.towards], [*columns, importance.direction]
    rows = [(request.names[i], *(number(float(column[i])) for column in columns)) for i in order[:_LISTED]]
    caption = f"The first {len(rows)} of {number(len(order))} features, in {importance.unit}"
    details = element("details", element("summary", "The numbers as a table"), table(caption, header, rows))
    return section("features", "Which features matter", picture, details)
