"""The picture of ``docs/inspection.md``: what an age that is predicted from a cortex rests on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from svnn import BlendRegressor
from svnn.inspection import eigenvector_contributions, feature_contributions
from svnn.paper import load_thickness
from svnn.plotting._style import GREY, PALETTE, context

#: Bars of each panel.
BARS = 12


def draw(path: Path) -> Path:
    """Draw regions over all persons, regions of one person, and directions, into a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    data = load_thickness("ixi")
    names = [name.removesuffix("_thickness").replace("_", " ") for name in data.feature_names]
    model = BlendRegressor(random_state=0).fit(data.X, data.y)
    found, directions = feature_contributions(model, data.X), eigenvector_contributions(model, data.X)
    person = int(np.argmax(found.prediction))
    own = found.contributions[person]
    with context():
        figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained", width_ratios=[1, 1, 1.1])
        for axis, values, title in (
            (axes[0], found.importance, "All persons: mean size"),
            (axes[1], own, f"One person: {found.baseline:.0f} + … = {found.prediction[person]:.0f} years"),
        ):
            order = np.argsort(-abs(values))[:BARS][::-1]
            colours = [PALETTE[1] if value < 0 else PALETTE[0] for value in values[order]]
            axis.barh([names[i] for i in order], values[order], color=colours)
            axis.set(xlabel="contribution of a region (years)", title=title)
            axis.grid(axis="y", visible=False)
        places = np.arange(1, BARS + 1)
        share = directions.importance / directions.importance.sum()
        variance = directions.explained_variance_ratio
        axes[2].bar(places - 0.2, 100 * variance[:BARS], 0.4, color=GREY, label="of the variance")
        axes[2].bar(places + 0.2, 100 * share[:BARS], 0.4, color=PALETTE[0], label="of the contributions")
        axes[2].set(xlabel="direction of the covariance", ylabel="share (%)", xticks=places, title="Directions")
        axes[2].grid(axis="x", visible=False)
        axes[2].legend()
        figure.savefig(path)
        plt.close(figure)
    return path
