"""Scores of several models on the same splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from svnn.reporting._html import Markup, element, figure, paragraph, section, table
from svnn.reporting._request import ComparisonLike
from svnn.reporting._svg import bars
from svnn.reporting._words import decimals_for, fixed, number


def comparison_section(comparison: ComparisonLike) -> Markup:
    """Return the section with the scores of all models, best first, and their tests against the best."""
    best = comparison.best()
    intervals = {name: comparison.interval(name) for name in comparison.scores}
    order = sorted(intervals, key=lambda name: intervals[name][0])
    decimals = decimals_for(mean for mean, _, _ in intervals.values())
    rows = [_row(comparison, name, best, intervals[name], decimals) for name in order]
    n_splits = len(next(iter(comparison.scores.values())))
    picture = figure(
        bars(
            f"{comparison.metric} of each model",
            order,
            [intervals[name][0] for name in order],
            f"{comparison.metric} (lower is better)",
            intervals=[intervals[name][1:] for name in order],
            zero=False,
        ),
        f"Each dot is the mean {comparison.metric} of a model over {n_splits} splits of the data, and its line the "
        "95 % interval. Lower is better; where intervals overlap widely, look at the paired test in the table, which "
        "compares two models on the same splits.",
        title=f"Mean {comparison.metric}",
    )
    groups = "" if comparison.n_groups is None else f" in {number(comparison.n_groups)} groups"
    data = f"{number(comparison.n_samples)} rows{groups} with {number(comparison.n_features)} features."
    listed = table(
        f"{comparison.metric}, lower is better, with 95 % intervals, and the difference to {best}",
        ["Model", "Mean", "95 % interval", f"Difference to {best}", "p", "Seconds a fit"],
        rows,
    )
    notes = [element("li", note) for note in comparison.notes]
    return section(
        "scores",
        "Scores of all models",
        paragraph(data),
        picture,
        listed,
        _every_pair(comparison, order, decimals),
        element("ul", *notes, class_="notes") if notes else "",
    )


def _row(
    comparison: ComparisonLike, name: str, best: str, interval: tuple[float, float, float], decimals: int
) -> tuple[object, ...]:
    mean, low, high = (fixed(float(value), decimals) for value in interval)
    seconds = number(float(np.mean(comparison.seconds[name])), 2) if np.size(comparison.seconds.get(name, ())) else "–"
    if name == best:
        return element("strong", name), element("strong", mean), f"{low} to {high}", "–", "–", seconds
    test = comparison.paired_test(name, best)
    difference = "{} ({} to {})".format(*(fixed(float(v), decimals) for v in (test.difference, test.low, test.high)))
    return name, mean, f"{low} to {high}", difference, _p(test.p), seconds


def _every_pair(comparison: ComparisonLike, order: Sequence[str], decimals: int) -> Markup:
    """Return the tests of every model against every other one."""

    def cell(row: str, column: str) -> str:
        if row == column:
            return "–"
        test = comparison.paired_test(row, column)
        return f"{fixed(float(test.difference), decimals)} (p {_p(test.p)})"

    rows = [(row, *(cell(row, column) for column in order)) for row in order]
    caption = "Score of the row's model minus that of the column's, with p; below zero the row's model is better"
    return element(
        "details",
        element("summary", "Every model against every other one"),
        table(caption, ["Model", *order], rows),
    )


def _p(p: float) -> str:
    if not np.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
