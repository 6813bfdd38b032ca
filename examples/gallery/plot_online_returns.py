"""
Online: a model that is updated as returns come in
==================================================

Which mix of other stocks moves as one stock does? What holds the portfolio together changes with time, so a model of
last year goes stale. Here a covariance forgets with a half-life, and a network is updated with the new days, month by
month, without being fitted again.
"""

import copy

import matplotlib.pyplot as plt
import numpy as np

from svnn import HardThreshold, SampleCovariance, SVNNRegressor
from svnn.datasets import load_stocks
from svnn.stability import certificate

try:
    found = load_stocks(window=1, horizon=1).returns
    returns, source = 100 * found[:, np.argsort(-found.std(0))[:40]], "S&P 500"
except FileNotFoundError:  # SVNN_DATA does not name a folder with the prices
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((1200, 4))
    speed = np.where(np.arange(40) == 0, 2.5, 1.2)[:, None]  # the stock that is followed changes most
    turn = np.linspace(0, 1, 1200)[:, None, None] * speed
    first, second = rng.standard_normal((2, 40, 4))
    loadings = np.cos(turn) * first + np.sin(turn) * second  # which drift
    returns = np.einsum("dnf,df->dn", loadings, factors) + 0.8 * rng.standard_normal((1200, 40))
    source = "made-up returns"
y, X = returns[:, 0].astype(float), returns[:, 1:].astype(float)
start, month = 500, 20
print(f"{source}: {len(X)} days, {X.shape[1]} stocks, and one that is followed; the first {start} days are for the fit")

# %%
# First the covariance alone. Every month it sees the new days, and is compared with that of the month to come.
# With a half-life of 60 days ``partial_fit`` costs no more than the new rows do; a rolling window is fitted again.

running = {"all days": HardThreshold(), "half-life of 60 days": HardThreshold(halflife=60)}
gaps = {name: [] for name in (*running, "rolling window of 120 days")}
for day in range(start, len(X) - month, month):
    coming = SampleCovariance().fit(X[day : day + month])
    for name, estimator in running.items():
        estimator.partial_fit(X[:day] if day == start else X[day - month : day])
        gaps[name].append(estimator.error_norm(coming))
    gaps["rolling window of 120 days"].append(HardThreshold().fit(X[day - 120 : day]).error_norm(coming))
for name, values in gaps.items():
    print(f"distance from the covariance of the month to come, {name}: {np.mean(values):.1f}")

# %%
# Then the network: one stays as it was after the first days, and one is updated. Each month is predicted before
# it is learned from. The bound says how far a prediction may move when only the covariance is replaced by the new one.

model = SVNNRegressor(covariance=HardThreshold(halflife=60), members=4, max_epochs=40, random_state=0).fit(
    X[:start], y[:start]
)
stale, errors, shifts = copy.deepcopy(model), {"stays": [], "is updated": []}, [model.covariance_]
for day in range(start, len(X) - month, month):
    rows, truth = X[day : day + month], y[day : day + month]
    errors["stays"].append(np.mean((stale.predict(rows) - truth) ** 2))
    errors["is updated"].append(np.mean((model.predict(rows) - truth) ** 2))
    model.partial_fit(rows, truth)
    shifts.append(model.covariance_)
for name, values in errors.items():
    print(
        f"mean squared error of the model that {name}: {np.mean(values):.2f}; that of the mean: {y[start:].var():.2f}"
    )

# %%
# How far can an update of the covariance move the outputs? For a filter of the covariance itself the certificate
# answers before anything is computed on the new one:

plain = SVNNRegressor(use="covariance", order=1, members=2, max_epochs=40, random_state=0)
plain.fit(X[:start], y[:start])
Z = (X - X[:start].mean(0)) / X[:start].std(0)
newer = HardThreshold(halflife=60).fit(Z[: start + month]).covariance_
rows = X[start : start + month]
bound = certificate(plain, plain.covariance_, newer, rows)
moved = np.abs(plain.on(newer).predict(rows) - plain.predict(rows))
print(f"certified: {float(bound):.1f}; the largest move that was seen: {moved.max():.2f}")

# %%
# The picture: the error of every month, and how far the shift has moved from the first one.

fig, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
days = start + month * np.arange(len(errors["stays"]))
for name, values in errors.items():
    top.plot(days, np.convolve(values, np.ones(5) / 5, "same"), label=f"the model that {name}")
top.set_ylabel("squared error, five months' mean")
top.legend(frameon=False)
distance = [np.linalg.norm(C - shifts[0]) / np.linalg.norm(shifts[0]) for C in shifts[1:]]
bottom.plot(days, distance, color="tab:gray")
bottom.set_ylabel("change of the shift")
bottom.set_xlabel("day")
