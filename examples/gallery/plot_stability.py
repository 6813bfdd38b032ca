"""
Stability: a curve and a certificate
====================================

A covariance is estimated, so a new sample gives another one. How far does a trained network move? A curve measures it
for a growing number of samples; a certificate bounds it for one change of the covariance.
"""

import numpy as np

from svnn import HardThreshold, SVNNRegressor
from svnn.paper import make_sparse_cov
from svnn.plotting import StabilityDisplay
from svnn.stability import certificate

data = make_sparse_cov(n_samples=2500, n_features=40, random_state=0)
model = SVNNRegressor(covariance=data.covariance, use="covariance", max_epochs=40, random_state=0).fit(
    data.X[:800], data.y[:800]
)
StabilityDisplay.from_estimator(
    model,
    data.X[800:900],
    ["sample", "hard", "soft"],
    data.X[900:],
    sizes=(50, 100, 200, 500, 1000),
    reference=data.covariance,
    repeats=5,
    random_state=0,
)

# %%
# The network was trained on the true covariance, and then run on estimates. No prediction for the given rows can move
# further than the certificate says:

rows = data.X[800:900]
estimate = HardThreshold().fit((data.X[900:1400] - data.X[900:1400].mean(0)) / data.X[900:1400].std(0)).covariance_
bound = certificate(model, model.covariance_, estimate, rows)
moved = np.abs(model.on(estimate).predict(rows) - model.predict(rows))
print(f"certified: {float(bound):.2f}; the largest move that was seen: {moved.max():.2f}")
print("no prediction moved further:", bool(moved.max() <= float(bound)))

# %%
# A bound that holds in the worst case is far above what is typical. It falls with the difference of the covariances and
# with the gains of the filters; use it to compare models and covariances, and the curve to see what happens on average.
