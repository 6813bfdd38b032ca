"""Prediction intervals that hold 90 % of new targets, as long as new rows come from where the old ones came from.

MAPIE (``pip install mapie``) makes them from the errors in rows that the model has not seen.
"""

import numpy as np
from mapie.regression import SplitConformalRegressor

from svnn import BlendRegressor, SVNNRegressor
from svnn.paper import make_sparse_cov

data = make_sparse_cov(n_samples=6000, n_features=30, random_state=0)
train, calibration, test = np.split(np.arange(6000), [500, 2500])

model = BlendRegressor(SVNNRegressor(max_epochs=40), random_state=0).fit(data.X[train], data.y[train])
intervals = SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
intervals.conformalize(data.X[calibration], data.y[calibration])
mean, bounds = intervals.predict_interval(data.X[test])  # bounds: (rows, lower and upper, confidence levels)

lower, upper = bounds[:, 0, 0], bounds[:, 1, 0]
inside = (lower <= data.y[test]) & (data.y[test] <= upper)
print(f"the first row: {mean[0]:.1f}, from {lower[0]:.1f} to {upper[0]:.1f}")
print(f"width of the intervals: {np.mean(upper - lower):.1f}")
print(f"coverage of {len(test)} new rows: {inside.mean():.1%}, 90% was asked for")
