"""How far the predictions would move had the covariance been estimated from fewer rows."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone

from svnn.covariance import GraphicalLasso
from svnn.reporting._html import Markup, figure, paragraph, section
from svnn.reporting._request import Request, rows_of
from svnn.reporting._svg import Chart, Scale
from svnn.reporting._words import number, percent
from svnn.stability import stability_curve

#: Fewest rows that a curve is drawn for, rows that predictions are compared on, and shares of the others.
_FEWEST, _COMPARED, _SHARES = 24, 100, (0.2, 0.35, 0.5, 0.7, 0.9)
#: Features up to which the curve has all its points, and up to which it is drawn at all.
_FAST, _MOST = 1000, 20000


def stability_section(request: Request) -> Markup:
    """Return the section with the stability curve, or with the reason why there is none."""
    reason = _why_not(request)
    if not reason:
        try:
            return section("stability", "Stability", _curve(request))
        except ValueError as error:
            reason = f"The covariance cannot be estimated from a part of the rows: {error}"
    return section("stability", "Stability", paragraph(reason))


def _why_not(request: Request) -> str:
    estimator = request.model.covariance_estimator_
    if request.Z is None:
        return "No rows were given, so the covariance cannot be estimated anew."
    if estimator is None or not hasattr(estimator, "get_params"):
        return "The covariance was given as a matrix, so it cannot be estimated from fewer rows."
    tags = getattr(estimator, "__sklearn_tags__", None)
    if tags is not None and tags().target_tags.required:
        return "The covariance needs the targets too; this curve is for covariances of the features alone."
    if request.n_rows < _FEWEST:
        return f"With {request.n_rows} rows there are too few to estimate the covariance from a part of them."
    if len(request.names) > _MOST:
        return (
            f"With {number(len(request.names))} features this curve would take long. svnn.stability.stability_curve "
            "computes it."
        )
    return ""


def _curve(request: Request) -> Markup:
    order = np.random.default_rng(0).permutation(request.n_rows)
    n_test = min(_COMPARED, request.n_rows // 4)
    test, pool = np.sort(order[:n_test]), np.sort(order[n_test:])
    estimator = request.model.covariance_estimator_
    fast = len(request.names) <= _FAST and not isinstance(estimator, GraphicalLasso)
    shares, repeats = (_SHARES, 5) if fast else (_SHARES[::2], 2)
    sizes = sorted({max(int(share * len(pool)), 4) for share in shares})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows give few edges, which is the point of the curve
        records = stability_curve(
            request.model,
            rows_of(request.X, test),
            clone(estimator),
            np.asarray(rows_of(request.X, pool)),
            sizes,
            repeats=repeats,
            random_state=0,
        )
    changes, n = records["prediction_change"], records["n_samples"]
    if request.classifies:
        changes = 100 * changes
    middle = np.array([np.median(changes[n == size]) for size in sizes])
    low, high = (np.array([extreme(changes[n == size]) for size in sizes]) for extreme in (np.min, np.max))
    what = "labels that change, %" if request.classifies else "change of a prediction"
    chart = Chart(
        "Change of the predictions against the number of rows that the covariance is estimated from",
        Scale(sizes),
        Scale([*low, *high], zero=True),
        "rows for the covariance",
        what,
    )
    chart.band(sizes, low, high, "c1")
    chart.line(sizes, middle, "c1 bold")
    chart.dots(sizes, middle, "c1", [f"{size} rows: {number(float(m))}" for size, m in zip(sizes, middle, strict=True)])
    half = int(np.argmin(np.abs(np.array(sizes) - len(pool) / 2)))
    if request.classifies:
        found = f"{percent(middle[half] / 100)} of the labels change"
    else:
        found = f"a prediction changes by {number(float(middle[half]))} on average, in the units of the target"
    return figure(
        chart.svg(),
        f"The network stays as it is; only its covariance is estimated anew from so many of {number(len(pool))} rows, "
        f"and compared with that of all of them (line: median of {repeats} draws, band: smallest to largest). With "
        f"{number(sizes[half])} rows {found}; a curve that is low and flat means "
        "that the network does not depend on chance in the covariance.",
        legend=[("line c1 bold", "median"), ("band c1", "smallest to largest")],
        title="Stability against sample size",
    )
