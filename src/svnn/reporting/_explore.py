"""The part of the page that moves: a slider for the threshold, the heat map and the graph that follow it."""

from __future__ import annotations

import numpy as np

from svnn.reporting._correlations import (
    STEPS,
    Correlations,
    correlations_of_matrix,
    correlations_of_rows,
)
from svnn.reporting._density import Density, graph_matrix, threshold_of
from svnn.reporting._html import Markup, element, embedded_json, figure, joined, paragraph, section, warning
from svnn.reporting._layout import clustered_order, positions
from svnn.reporting._request import Request
from svnn.reporting._svg import Chart, Scale
from svnn.reporting._words import number, percent


def explore_section(request: Request, density: Density) -> Markup:
    """Return the section with heat map, graph and slider, and the data that its script reads."""
    if request.Z is not None:
        found = correlations_of_rows(request.Z, density)
    else:
        found = correlations_of_matrix(graph_matrix(request.model), density)
    start = found.step_of(threshold_of(request.model), density.share)
    return section(
        "explore",
        "Move the threshold",
        paragraph(_source(request, found, density), " ", _shown(found, density.n_features)),
        _slider(found, start),
        element("noscript", warning("No scripts.", "The heat map and the graph need JavaScript to be drawn.")),
        element("div", _heat_map(found.floor), _graph(), class_="pair"),
        _density_chart(found, start),
        embedded_json("report-data", _data(found, density, start, request)),
    )


def _data(found: Correlations, density: Density, start: int, request: Request) -> dict[str, object]:
    size = np.abs(found.values) / STEPS
    np.fill_diagonal(size, 1)
    return {
        "names": [request.names[i] for i in found.features],
        "r": found.packed(),
        "steps": STEPS,
        "order": clustered_order(size).tolist(),
        "xy": positions(size).round(3).tolist(),
        "kept": found.kept.tolist(),
        "alone": found.alone.tolist(),
        "counted": found.counted,
        "features": density.n_features,
        "start": start,
        "floor": found.floor,
    }


def _source(request: Request, found: Correlations, density: Density) -> str:
    if not found.from_rows:
        return (
            "These are the correlations that the model kept. No rows were given, so those that it dropped are not "
            "known here, and the slider can only drop more."
        )
    rows = f"These are the correlations of the {number(request.n_rows)} rows given to this report."
    threshold = threshold_of(request.model)
    if threshold is None:
        return f"{rows} The slider starts where it keeps as many pairs as the model does."
    start = f"{rows} The slider starts at the threshold of the model, {number(threshold)}"
    if round(threshold * STEPS) < found.first:
        return f"{start}, or rather at the smallest correlation, since all are above that threshold."
    return (
        f"{start}, which kept {percent(density.share)} of the pairs in the rows that it was trained on; in other rows "
        "it may keep more or fewer."
    )


def _shown(found: Correlations, n_features: int) -> str:
    shown = len(found.features)
    if shown == n_features:
        return f"All {number(n_features)} features are shown."
    text = (
        f"Heat map and graph show the {shown} features with the most edges in the model, out of {number(n_features)}, "
        "and the edges among them; the numbers beside the slider count all features."
    )
    if found.counted < n_features:
        text += f" They are estimated from {number(found.counted)} features drawn at random."
    return text


def _slider(found: Correlations, start: int) -> Markup:
    value = f"{start / STEPS:.3f}"
    return element(
        "div",
        element("label", "Keep correlations of at least ", element("output", value, id="cut"), for_="threshold"),
        element(
            "input",
            type="range",
            id="threshold",
            min=found.first,
            max=STEPS,
            step=1,
            value=start,
            aria_describedby="kept",
        ),
        element("p", "", id="kept", aria_live="polite"),
        element("button", "Back to the model", type="button", id="back"),
        class_="controls",
    )


def _heat_map(floor: int) -> Markup:
    canvas = element(
        "canvas", id="heat-map", tabindex="0", role="img",
        aria_label="Heat map of the correlations. Arrow keys move from cell to cell.", aria_describedby="heat-map-said",
    )  # fmt: skip
    key = element(
        "div", element("span", f"{floor / STEPS:.2f}" if floor else "−1"),
        element("span", class_="ramp half" if floor else "ramp", aria_hidden="true"), element("span", "+1"),
        class_="ramp-key",
    )  # fmt: skip
    return figure(
        joined([_frame(canvas, "heat-map"), key]),
        "Each cell is the correlation of two features; features that vary together are side by side, so blocks are "
        "groups. Cells below the threshold are blank.",
        title="Heat map",
    )


def _graph() -> Markup:
    canvas = element(
        "canvas", id="graph", tabindex="0", role="img", aria_describedby="graph-said",
        aria_label="Graph of the features. Arrow keys move it, plus and minus zoom, 0 resets, "
        "N and P go from feature to feature.",
    )  # fmt: skip
    buttons = [
        element("button", sign, type="button", id=name, aria_label=label, class_="square")
        for name, sign, label in (
            ("closer", "+", "Zoom in"),
            ("farther", "−", "Zoom out"),
            ("reset", "⟲", "Show the whole graph"),
        )
    ]
    find = element(
        "input", type="search", id="find", list="names", placeholder="Find a feature", aria_label="Find a feature",
        autocomplete="off",
    )  # fmt: skip
    tools = element("div", find, element("datalist", id="names"), *buttons, class_="tools")
    return figure(
        joined([_frame(canvas, "graph"), tools]),
        "Each dot is a feature, and each line a correlation that the threshold keeps: solid blue where two features "
        "rise together, dashed orange where one falls as the other rises. Dots do not move with the slider; drag to "
        "move the picture, and click it before zooming with the wheel.",
        title="Graph",
    )


def _frame(canvas: Markup, name: str) -> Markup:
    said = element("p", "", id=f"{name}-said", class_="said", aria_live="polite")
    return element("div", canvas, element("div", "", class_="tip", hidden=True), said, class_="frame")


def _density_chart(found: Correlations, start: int) -> Markup:
    steps = np.unique(np.linspace(found.first, STEPS, 200).astype(int))
    chart = Chart(
        "Share of the pairs that are kept, against the threshold on the correlations",
        Scale([found.first / STEPS, 1]),
        Scale([0, 100 * found.shares.max()], zero=True),
        "threshold on the correlation",
        "pairs kept, %",
    )
    chart.line(steps / STEPS, 100 * found.shares[steps], "c1")
    chart.marker("marker", start / STEPS)
    return figure(
        chart.svg(),
        "How many pairs survive each threshold; the upright line is the slider. A long flat stretch means that "
        "the graph hardly depends on the exact threshold there, a steep one that it does.",
        title="What each threshold keeps",
    )
