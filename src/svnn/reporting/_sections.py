"""Sections of the report: each function returns the values that the template of its section shows."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import confusion_matrix

from svnn.covariance import GraphicalLasso
from svnn.estimators._blend_weights import blend_in_words
from svnn.plotting._matrices import eigenvalues
from svnn.reporting._model import Z95, Importance, Predictions, ReportedModel
from svnn.reporting._svg import Chart, Scale, bars, decimals_for, number
from svnn.stability import marchenko_pastur_edge, network_response, stability_curve

if TYPE_CHECKING:
    from svnn.comparison import Comparison

#: Rows in the picture of the predictions, and those with an error bar; classes in the confusion matrix.
_DOTS, _WHISKERS, _CLASSES = 600, 150, 20
#: Features that are drawn, and in the table.
_DRAWN, _LISTED = 15, 50
#: Features up to which all eigenvalues of a covariance are computed, and how many of the largest beyond.
_ALL, _LARGEST = 1500, 40
#: Numbers in the rows up to which their spectrum is computed: a few seconds.
_MOST_VALUES = 2 * 10**7
#: Eigenvalues drawn, and curves of filters.
_SHOWN, _CURVES = 300, 64
#: Fewest rows that a stability curve is drawn for, rows that predictions are compared on, and shares of the others.
_FEWEST, _COMPARED, _SHARES = 24, 100, (0.2, 0.35, 0.5, 0.7, 0.9)
#: Features up to which the stability curve has all its points, and up to which it is drawn at all.
_FAST, _MOST = 1000, 20000


def predictions_section(of: ReportedModel, predictions: Predictions) -> dict[str, Any]:
    """Return the scores, and the confusion matrix of labels or the chart of numbers."""
    y: Any = of.y
    values = {"scores": predictions, "n_rows": len(y), "several": y.ndim == 2}
    if of.classifies:
        recalls = [(predictions.predicted[y == label] == label).mean() for label in np.unique(y)]
        return {**values, "recall": float(np.mean(recalls)), "confusion": _confusion(y, predictions.predicted)}
    values["constant"] = float(np.abs(y - y.mean(0)).mean())
    if predictions.std is not None:
        values["within"] = float((np.abs(predictions.predicted - y) <= Z95 * predictions.std).mean())
    rows = of.sample(_DOTS)
    return {**values, "chart": _scatter(rows, y, predictions), "shown": len(rows)}


def _scatter(rows: np.ndarray, y: np.ndarray, predictions: Predictions) -> Chart:
    """Return the chart of predictions against true values, for the first of several targets."""
    first = (rows, 0) if y.ndim == 2 else rows
    true, predicted = y[first], predictions.predicted[first]
    both = np.concatenate([true, predicted])
    chart = Chart("Predictions against true values", Scale(both), Scale(both), "true value", "prediction")
    ends = [float(both.min()), float(both.max())]
    chart.line(ends, ends, "line dashed")
    chart.legend = [("dot c1", "a row"), ("line dashed", "a perfect prediction")]
    if predictions.std is not None:
        few = slice(None, None, max(1, len(rows) // _WHISKERS))
        std = predictions.std[first]
        below, above = (np.clip(predicted + sign * std, chart.y.low, chart.y.high)[few] for sign in (-1, 1))
        chart.whiskers(true[few], below, above, "c1 faint")
        some = ", some rows" if few.step > 1 else ""
        chart.legend.append(("line c1 faint", f"one standard deviation either way{some}"))
    pairs = zip(rows, true, predicted, strict=True)
    titles = [f"row {row}: true {number(float(t))}, predicted {number(float(p))}" for row, t, p in pairs]
    chart.dots(true, predicted, "c1", titles, 2.5)
    return chart


def _confusion(y: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Return the confusion matrix of the most frequent labels, each cell with the ninths of its row that it holds."""
    labels, counts = np.unique(np.concatenate([y, predicted]), return_counts=True)
    shown = labels if len(labels) <= _CLASSES else labels[np.sort(np.argsort(-counts, kind="stable")[:_CLASSES])]
    matrix = confusion_matrix(y, predicted, labels=shown)
    shades = np.ceil(9 * matrix / np.maximum(matrix.sum(1, keepdims=True), 1)).astype(int)
    cells = [list(zip(*row, strict=True)) for row in zip(matrix.tolist(), shades.tolist(), strict=True)]
    return {"labels": shown.tolist(), "rows": list(zip(shown.tolist(), cells, strict=True)), "n_labels": len(labels)}


def covariance_section(of: ReportedModel) -> dict[str, Any]:
    """Return the estimator of the covariance, how dense it is, and the weights of the parts of a blend."""
    estimator, blend = of.network.covariance_estimator_, getattr(of.model, "blend_", None)
    return {
        "estimator": of.estimator if estimator is None else repr(clone(estimator)),
        "use": of.network.shift_.use,
        "threshold": of.threshold,
        "density": of.density,
        "edges": float(np.median(of.density.degrees)),
        "blend": None if blend is None else blend_in_words(blend),
    }


def features_section(of: ReportedModel, importance: Importance) -> dict[str, Any]:
    """Return the features that matter most, as a chart and as a table."""
    order = importance.order
    first = order[:_DRAWN]
    chart = bars(
        f"The {len(first)} features that contribute most to the predictions",
        [of.names[i] for i in first],
        importance.size[first],
        f"mean size of the contribution ({importance.unit})",
    )
    header, columns = ["Feature", "Mean size"], [importance.size]
    if importance.direction is not None:
        header, columns = [*header, importance.towards], [*columns, importance.direction]
    rows = [(of.names[i], *(number(float(column[i])) for column in columns)) for i in order[:_LISTED]]
    values = {"chart": chart, "header": header, "rows": rows, "unit": importance.unit}
    return {**values, "n_rows": importance.n_rows, "n_features": len(order)}


def spectrum_section(of: ReportedModel) -> dict[str, Any]:
    """Return the chart of the eigenvalues, and those of the frequency responses of every layer."""
    spectrum = eigenvalues(of.matrix, _ALL, _LARGEST, tol=1e-4)
    positive = spectrum[spectrum > 1e-8 * max(spectrum[0], 1e-300)]
    sample, edge = np.zeros(0), 0.0
    if of.Z is not None and of.Z.size <= _MOST_VALUES:
        sample = sample_eigenvalues(of.Z)
        edge = marchenko_pastur_edge(of.n_rows * of.Z.shape[2], len(of.names))
    chart = Chart(
        "Eigenvalues of the covariance, largest first",
        Scale([1, max(len(positive), len(sample), 2)], log=True),
        Scale([*positive, *sample, *([edge] if edge else [])], log=True),
        "number of the eigenvalue",
        "eigenvalue",
    )
    for values, kind, label in ((sample, "c3", "correlations of the rows"), (positive, "c1", "matrix of the model")):
        if len(values):
            few = np.unique(np.geomspace(1, len(values), _SHOWN).astype(int)) - 1
            titles = [f"{label}, number {i + 1}: {number(float(values[i]))}" for i in few]
            chart.dots(few + 1, values[few], kind, titles, 2.5)
            chart.legend.append((f"dot {kind}", label))
    if edge:
        chart.line([chart.x.low, chart.x.high], [edge, edge], "line dashed")
        chart.legend.append(("line dashed", f"largest of noise alone ({number(edge)})"))
    above = int((sample > edge).sum())
    responses = _responses(of, spectrum)
    return {"chart": chart, "edge": edge, "above": above, "n_rows": of.n_rows, "responses": responses}


def sample_eigenvalues(Z: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of the correlations of signals (t, N, F), largest first, without the zeros."""
    rows = Z.swapaxes(1, 2).reshape(-1, Z.shape[1]).astype(np.float64)
    rows = rows - rows.mean(0)
    sd = rows.std(0)
    rows /= np.where(sd > 0, sd, 1.0)
    gram = rows.T @ rows if rows.shape[1] <= len(rows) else rows @ rows.T  # their eigenvalues agree
    values = eigenvalues(gram / len(rows), _ALL, _LARGEST, tol=1e-4)
    return values[values > 1e-10 * max(values[0], 1e-300)]


def _responses(of: ReportedModel, spectrum: np.ndarray) -> list[Chart]:
    high = float(spectrum[0])
    if high <= 0:
        return []
    by_log = of.network.shift_.use == "log"
    low = max(min(float(spectrum[spectrum > 0].min()), high / 10), high * 1e-8)
    lam = np.geomspace(low, high, 80) if by_log else np.linspace(0, high, 80)
    charts = []
    for response in network_response(of.network, lam):
        curves = response.reshape(len(lam), -1)
        gain = np.sqrt((curves**2).mean(1))
        shown = curves[:, :_CURVES]
        chart = Chart(
            "Frequency responses of the learned filters",
            Scale(lam, log=by_log),
            Scale(np.append(shown.ravel(), gain), zero=True),
            "eigenvalue",
            "factor",
        )
        for curve in shown.T:
            chart.line(lam, curve, "line thin")
        chart.line(lam, gain, "line c1 bold")
        some = f"{number(curves.shape[1])} filters" if curves.shape[1] <= _CURVES else f"{_CURVES} of the filters"
        chart.legend = [("line thin", some), ("line c1 bold", "their root mean square")]
        charts.append(chart)
    return charts


def stability_section(of: ReportedModel) -> dict[str, Any]:
    """Return the stability curve, or the reason why there is none."""
    reason = _why_no_curve(of)
    if reason:
        return {"reason": reason}
    try:
        return _stability_curve(of)
    except ValueError as error:
        return {"reason": f"The covariance cannot be estimated from a part of the rows: {error}"}


def _why_no_curve(of: ReportedModel) -> str:
    estimator = of.network.covariance_estimator_
    if of.Z is None:
        return "No rows were given, so the covariance cannot be estimated anew."
    if estimator is None or not hasattr(estimator, "get_params"):
        return "The covariance was given as a matrix, so it cannot be estimated from fewer rows."
    tags = getattr(estimator, "__sklearn_tags__", None)
    if tags is not None and tags().target_tags.required:
        return "The covariance needs the targets too; this curve is for covariances of the features alone."
    if of.n_rows < _FEWEST:
        return f"With {of.n_rows} rows there are too few to estimate the covariance from a part of them."
    if len(of.names) > _MOST:
        n = number(len(of.names))
        return f"With {n} features this curve would take long. svnn.stability.stability_curve computes it."
    return ""


def _stability_curve(of: ReportedModel) -> dict[str, Any]:
    order = np.random.default_rng(0).permutation(of.n_rows)
    n_test = min(_COMPARED, of.n_rows // 4)
    test, pool = np.sort(order[:n_test]), np.sort(order[n_test:])
    estimator = of.network.covariance_estimator_
    fast = len(of.names) <= _FAST and not isinstance(estimator, GraphicalLasso)
    shares, repeats = (_SHARES, 5) if fast else (_SHARES[::2], 2)
    sizes = np.unique([max(int(share * len(pool)), 4) for share in shares]).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows give few edges, which is the point of the curve
        records = stability_curve(
            of.model, of.rows(test), clone(estimator), np.asarray(of.rows(pool)), sizes, repeats=repeats, random_state=0
        )
    changes = records["prediction_change"] * (100 if of.classifies else 1)
    groups = [changes[records["n_samples"] == size] for size in sizes]
    low, middle, high = (np.array([summary(group) for group in groups]) for summary in (np.min, np.median, np.max))
    chart = Chart(
        "Change of the predictions against the number of rows that the covariance is estimated from",
        Scale(sizes),
        Scale([*low, *high], zero=True),
        "rows for the covariance",
        "labels that change, %" if of.classifies else "change of a prediction",
    )
    chart.line([*sizes, *sizes[::-1]], [*high, *low[::-1]], "band c1", end="Z")
    chart.line(sizes, middle, "line c1 bold")
    chart.dots(sizes, middle, "c1", [f"{size} rows: {number(float(m))}" for size, m in zip(sizes, middle, strict=True)])
    chart.legend = [("line c1 bold", "median"), ("band c1", "smallest to largest")]
    half = int(np.argmin(np.abs(np.array(sizes) - len(pool) / 2)))
    change = float(middle[half]) / (100 if of.classifies else 1)
    values = {"chart": chart, "n_pool": len(pool), "repeats": repeats, "half": sizes[half], "change": change}
    return {**values, "classifies": of.classifies}


def scores_section(comparison: Comparison) -> dict[str, Any]:
    """Return the scores of all models, best first, with their tests against the best and against each other."""
    intervals = {name: comparison.interval(name) for name in comparison.scores}
    order = sorted(intervals, key=lambda name: intervals[name].mean)
    return {
        "comparison": comparison,
        "order": order,
        "intervals": intervals,
        "decimals": decimals_for(interval.mean for interval in intervals.values()),
        "seconds": {name: float(np.mean(each)) for name, each in comparison.seconds.items() if np.size(each)},
        "chart": bars(
            f"{comparison.metric} of each model",
            order,
            [intervals[name].mean for name in order],
            f"{comparison.metric} (lower is better)",
            intervals=np.array([intervals[name][1:] for name in order]),
        ),
    }
