"""
Returns: a graph of stocks, and how much the market will move
=============================================================

Stocks move together because the market does, and beyond that within their sector. Without the market's part, the
pairs that a threshold keeps draw the sectors: nothing but prices is used, and the colours are painted on afterwards.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from svnn import BlendRegressor, HardThreshold, SVNNRegressor
from svnn.datasets import load_stocks
from svnn.plotting import GraphDisplay

try:
    data = load_stocks(window=5, horizon=5)
    X, y, split, returns = data.X, data.y, data.split, data.returns
    names, sectors, source = data.feature_names, np.array(data.sectors), "S&P 500"
except FileNotFoundError:  # SVNN_DATA does not name a folder with the prices
    rng = np.random.default_rng(0)
    sectors = np.repeat([f"sector {i}" for i in range(6)], 15)
    calm = np.exp(0.15 * rng.standard_normal(500).cumsum() * 0.5 - 4.5)[:, None]
    common = rng.standard_normal((500, 1)) + rng.standard_normal((500, 6)).repeat(15, 1)
    returns = calm * (common + rng.standard_normal((500, 90)))
    days = np.arange(5, 495)
    X = np.stack([returns[d - 5 : d].T for d in days])
    y = np.log([np.abs(returns[d : d + 5]).mean() for d in days])
    split = np.array(["train"] * 300 + ["validation"] * 90 + ["test"] * 100)
    names, source = [f"stock{i}" for i in range(90)], "made-up returns"
print(f"{source}: {returns.shape[0]} days, {returns.shape[1]} stocks")

# %%
# The covariance of the returns without those of the market, thresholded:

own = returns - returns.mean(1, keepdims=True)
graph = HardThreshold(density=0.02).fit(own / own.std(0))
kept = np.argwhere(np.triu(graph.covariance_, 1))
inside = np.mean(sectors[kept[:, 0]] == sectors[kept[:, 1]])
chance = np.mean(sectors[:, None] == sectors)
print(f"{inside:.0%} of the {len(kept)} edges join two stocks of one sector; by chance it would be {chance:.0%}")
display = GraphDisplay.from_estimator(graph, names=names, n_names=0)
points = []
for sector, colour in zip(sorted(set(sectors)), plt.cm.tab10.colors, strict=False):
    across, up = display.positions_[sectors[display.nodes_] == sector].T
    points.append(display.ax_.scatter(across, up, s=26, color=colour, edgecolor="white", zorder=3, label=sector))
display.ax_.legend(handles=points, loc="center left", bbox_to_anchor=(0.98, 0.5), fontsize=8)

# %%
# How much will the market move in the next five days? Days are split by time. The rival is a line through the
# volatility of the last five days, which is hard to beat.

train, test = split != "test", split == "test"
recent = np.log(np.abs(X).mean((1, 2)))[:, None]
line = RidgeCV().fit(recent[train], y[train])
sizes = np.log(np.abs(X).mean(2) + 1e-3)  # of every stock on its own
model = BlendRegressor(SVNNRegressor(members=4, max_epochs=30), random_state=0).fit(sizes[train], y[train])
print(f"R² of the line: {line.score(recent[test], y[test]):.2f}")
print(f"R² of the network: {model.score(sizes[test], y[test]):.2f}")
print(f"R² of last week's value: {1 - np.mean((recent[test, 0] - y[test]) ** 2) / y[test].var():.2f}")

# %%
# Where a line through one number does as well as the network, or better, take the line: hundreds of columns whose
# common part is all that counts are no job for this library. The graph above is of use all the same, for portfolios
# say.
