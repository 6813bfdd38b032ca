"""Which features the predictions depend on."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch

from svnn.reporting._html import Markup, element, figure, section, table
from svnn.reporting._request import Request
from svnn.reporting._svg import bars
from svnn.reporting._words import number

#: Rows that are explained, features in the picture, and in the table.
_ROWS, _DRAWN, _LISTED = 200, 15, 50


@dataclass(frozen=True)
class Importance:
    """Mean absolute contribution of every feature (N,), its mean with sign, and the unit of both."""

    size: np.ndarray
    direction: np.ndarray
    unit: str
    n_rows: int

    @property
    def order(self) -> np.ndarray:
        """The features, the most important first."""
        return np.argsort(-self.size, kind="stable")


def importance_of(request: Request) -> Importance:
    """Return how much every feature contributes to the predictions of the rows, or of some of them."""
    rows, X = request.some_rows(_ROWS)
    found = contributions(request.model, X)
    size = np.abs(found)
    if found.ndim == 3:
        size, found = size.mean(2), found.mean(2)
    unit = "the classes' scores" if request.classifies else "the target's units"
    return Importance(size.mean(0), found.mean(0), unit, len(rows))


def contributions(model: Any, X: Any) -> np.ndarray:
    """Return the contributions of features to predictions, (t, N) or (t, N, outputs), in units of the target."""
    try:
        inspection = import_module("svnn.inspection")
    except ImportError:
        return _gradient_times_input(model, X)
    return np.asarray(inspection.feature_contributions(model, X).contributions)


def _gradient_times_input(model: Any, X: Any) -> np.ndarray:
    """Return the derivative of each output by each standardised feature, times the feature."""
    module = copy.deepcopy(model.module_).double().eval()
    inputs = model._inputs(model._standardizer(model._signals(X)))
    x = torch.as_tensor(inputs, dtype=torch.float64, device=model.operator_.device).requires_grad_()
    run = getattr(module, "outputs", lambda x, shift: module(x, shift)[None])
    output = run(x, model._shift).mean(0)
    scale = np.broadcast_to(getattr(model, "_target_standardizer", _Plain()).scale, (output.shape[1],))
    parts = []
    for column, factor in zip(output.unbind(1), scale, strict=True):
        (slope,) = torch.autograd.grad(column.sum(), x, retain_graph=True)
        parts.append(((slope * x).sum(2) * float(factor)).detach().cpu().numpy())
    found = np.stack(parts, -1)
    return found[..., 0] if found.shape[2] == 1 else found


class _Plain:
    scale = np.ones(())


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
            f"mean size of the contribution, in {importance.unit}",
        ),
        f"How far each feature moves the prediction of a row away from that of an average row, on average over "
        f"{number(importance.n_rows)} rows. A feature that is correlated with others shares their credit, so read "
        "neighbours in the graph together.",
        title="Features that matter most",
    )
    rows = [
        (request.names[i], number(float(importance.size[i])), number(float(importance.direction[i])))
        for i in order[:_LISTED]
    ]
    listed = table(
        f"Contributions of the first {len(rows)} of {number(len(order))} features",
        ["Feature", "Mean size", "Mean with sign"],
        rows,
    )
    details = element("details", element("summary", "The numbers as a table"), listed)
    return section("features", "Which features matter", picture, details)
