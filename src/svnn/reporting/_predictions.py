"""How well the model predicts the rows that the report is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.metrics import confusion_matrix, r2_score

from svnn.reporting._html import Markup, element, facts, figure, paragraph, section
from svnn.reporting._request import Request
from svnn.reporting._svg import Chart, Scale
from svnn.reporting._words import number, percent

#: Rows in the picture, and those with an error bar; classes in the confusion matrix.
_DOTS, _WHISKERS, _CLASSES = 600, 150, 20
#: Of a normal distribution, 95 % lie within so many standard deviations.
_Z = 1.96

TRAINING_ROWS = (
    "The report cannot know whether the model was trained on these rows: if it was, the scores are better than those "
    "to expect on new rows."
)


@dataclass(frozen=True)
class Fit:
    """Predictions of the rows, with the score that is quoted and its interval; ``std`` is None where it is unknown."""

    predicted: np.ndarray
    std: np.ndarray | None
    score: float
    low: float
    high: float
    other: float


def fit_of(request: Request) -> Fit:
    """Predict the rows: accuracy for labels, mean absolute error for numbers, each with its 95 % interval.

    ``other`` is the share of the most frequent label, or R².
    """
    model, y = cast(Any, request.model), cast(np.ndarray, request.y)
    if request.classifies:
        predicted = model.predict(request.X)
        right = float((predicted == y).mean())
        low, high = wilson(right, len(y))
        counts = np.unique(y, return_counts=True)[1]
        return Fit(predicted, None, right, low, high, float(counts.max() / len(y)))
    std = None
    if getattr(model, "_noise", None) is not None or model._n_members > 1:
        predicted, std = model.predict(request.X, return_std=True)
    else:
        predicted = model.predict(request.X)
    errors = np.abs(predicted - y).reshape(len(y), -1).mean(1)
    mean, room = float(errors.mean()), _Z * float(errors.std(ddof=1)) / math.sqrt(len(y)) if len(y) > 1 else math.nan
    r2 = float(r2_score(y, predicted)) if len(y) > 1 else math.nan
    return Fit(predicted, std, mean, mean - room, mean + room, r2)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of ``n`` rows (Wilson 1927).

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    middle, below = (share + _Z**2 / (2 * n)), 1 + _Z**2 / n
    room = _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max((middle - room) / below, 0.0), min((middle + room) / below, 1.0)


def predictions_section(request: Request, fit: Fit) -> Markup:
    """Return the section with the scores and the picture of the predictions."""
    shown = _confusion(request, fit) if request.classifies else _scatter(request, fit)
    scores = _label_scores(request, fit) if request.classifies else _number_scores(request, fit)
    return section(
        "predictions",
        "How well it predicts the rows given",
        paragraph(TRAINING_ROWS),
        element("div", facts("Scores with 95 % intervals, rows taken as independent", scores), shown, class_="pair"),
    )


def _number_scores(request: Request, fit: Fit) -> list[tuple[str, object]]:
    y = cast(np.ndarray, request.y)
    rows: list[tuple[str, object]] = [
        ("Rows", number(len(y))),
        ("Mean absolute error", f"{number(fit.score)} ({number(fit.low)} to {number(fit.high)})"),
        ("The same for always predicting their mean", number(float(np.abs(y - y.mean(0)).mean()))),
        ("R²", number(fit.other)),
    ]
    if fit.std is not None:
        within = float((np.abs(fit.predicted - y) <= _Z * fit.std).mean())
        rows.append(("Targets within the 95 % interval of their prediction", percent(within)))
    return rows


def _label_scores(request: Request, fit: Fit) -> list[tuple[str, object]]:
    y = cast(np.ndarray, request.y)
    return [
        ("Rows", number(len(y))),
        ("Right labels", f"{percent(fit.score)} ({percent(fit.low)} to {percent(fit.high)})"),
        ("The same for always giving the most frequent label", percent(fit.other)),
        (
            "Mean over the classes of the share of right labels",
            percent(_mean_recall(y, fit.predicted)),
        ),
    ]


def _mean_recall(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean([(predicted[y == label] == label).mean() for label in np.unique(y)]))


def _scatter(request: Request, fit: Fit) -> Markup:
    y = cast(np.ndarray, request.y)
    rows, _ = request.some_rows(_DOTS)
    several = y.ndim == 2
    true, predicted = (a[rows, 0] if several else a[rows] for a in (y, fit.predicted))
    both = np.concatenate([true, predicted])
    chart = Chart("Predictions against true values", Scale(both), Scale(both), "true value", "prediction")
    ends = [float(both.min()), float(both.max())]
    chart.line(ends, ends, "dashed")
    legend = [("dot c1", "a row"), ("line dashed", "a perfect prediction")]
    if fit.std is not None:
        few = slice(None, None, max(1, len(rows) // _WHISKERS))
        std = fit.std[rows, 0] if several else fit.std[rows]
        low, high = chart.y.low, chart.y.high
        below, above = (np.clip(predicted + sign * std, low, high)[few] for sign in (-1, 1))
        chart.bars_up(true[few], below, above, "c1 faint")
        legend.append(("line c1 faint", "one standard deviation either way" + (", some rows" if few.step > 1 else "")))
    titles = [
        f"row {r}: true {number(float(t))}, predicted {number(float(p))}"
        for r, t, p in zip(rows, true, predicted, strict=True)
    ]
    chart.dots(true, predicted, "c1", titles, 2.5)
    of = " of the first target" if several else ""
    some = f"{len(rows)} of {number(len(y))} rows, drawn at random" if len(rows) < len(y) else "all rows"
    return figure(
        chart.svg(),
        f"Each dot is a row{of} ({some}); the nearer it is to the diagonal, the better its prediction. The upright "
        "lines say how far off the model itself expects to be.",
        legend=legend,
        title="Predicted against true",
    )


def _confusion(request: Request, fit: Fit) -> Markup:
    y = cast(np.ndarray, request.y)
    found, counts = np.unique(np.concatenate([y, fit.predicted]), return_counts=True)
    classes = found if len(found) <= _CLASSES else found[np.sort(np.argsort(-counts, kind="stable")[:_CLASSES])]
    table = confusion_matrix(y, fit.predicted, labels=classes)
    of_row = table / np.maximum(table.sum(1, keepdims=True), 1)
    head = element(
        "tr", element("td", "true ↓ predicted →", class_="corner"), *(element("th", c, scope="col") for c in classes)
    )
    body = [
        element(
            "tr",
            element("th", name, scope="row"),
            *(
                element("td", number(int(count)), class_=f"shade s{math.ceil(9 * share)}")
                for count, share in zip(counts_of, shares, strict=True)
            ),
        )
        for name, counts_of, shares in zip(classes, table, of_row, strict=True)
    ]
    caption = "Rows by their true and their predicted label"
    content = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    frame = element("div", content, class_="scroll confusion", role="region", aria_label=caption, tabindex="0")
    some = f" The {_CLASSES} most frequent of {len(found)} classes are shown." if len(classes) < len(found) else ""
    return figure(
        frame,
        "Each row of the table is a true label, each column a predicted one; a darker cell holds a larger share of its "
        f"row. Right labels are on the diagonal, and what is beside it was mistaken for something else.{some}",
        title="Confusion matrix",
    )
