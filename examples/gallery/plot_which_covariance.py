"""
Which covariance for which data
===============================

Three tables on which a plain threshold fails, each in its own way: wrong values, a common factor, columns in order.
Above the diagonals are estimates, below them is the truth. The upper row is the plain threshold, the lower one what is
made for such data.
"""

import matplotlib.pyplot as plt
import numpy as np

from svnn.covariance import FactorThreshold, HardThreshold, Tapering
from svnn.plotting import CovarianceDisplay

rng = np.random.default_rng(0)
N = 40
groups = np.kron(np.eye(N // 4), np.full((4, 4), 0.7)) + 0.3 * np.eye(N)


def draw(truth, rows):
    return rng.multivariate_normal(np.zeros(len(truth)), truth, rows)


# One value in thirty is wrong.
wrong = draw(groups, 150)
wrong[rng.random(wrong.shape) < 1 / 30] = 30

# One factor moves all columns, half of them up and half of them down, and groups are related beside it.
loadings = np.where(np.arange(N) % 2, 1.0, -1.0)[:, None] * rng.uniform(0.4, 1.0, (N, 1))
common = loadings @ loadings.T + groups
together = draw(common, 60)

# Relations fade with the distance of two columns, and rows are few.
place = np.arange(N)
fading = 0.8 ** abs(place - place[:, None])
in_order = draw(fading, 40)

tables = {
    "wrong values": (wrong, groups, {"biweight": HardThreshold(correlation="biweight")}),
    "a common factor": (together, common, {"factors": FactorThreshold()}),
    "columns in order": (in_order, fading, {"tapering": Tapering(random_state=0)}),
}


def correlations(C):
    return C / np.sqrt(np.outer(C.diagonal(), C.diagonal()))


figure, axes = plt.subplots(2, 3, figsize=(11, 7.2), layout="constrained")
figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
for column, (data, (X, truth, special)) in zip(axes.T, tables.items(), strict=True):
    R = correlations(truth)
    for axis, (name, estimator) in zip(column, {"hard": HardThreshold(), **special}.items(), strict=True):
        found = correlations(estimator.fit(X).covariance_)
        CovarianceDisplay.from_matrix(R, found, ax=axis)
        error = np.linalg.norm(found - R) / np.linalg.norm(R)
        axis.set_title(f"{data}: {name}, error {error:.2f}", loc="left", fontsize=9.5)
        axis.set(xlabel="", yticks=[])
        axis.images[0].colorbar.remove()  # one for all is enough
        print(f"{data:17} {name:9} error {error:.2f}")
figure.colorbar(axes[0, 0].images[0], ax=axes, label="correlation; grey: dropped", shrink=0.5)

# %%
# The errors are distances to the true correlations, in units of the length of these. Wrong values hide every relation
# from the threshold, as their variance is all that is seen. A common factor relates all pairs, strongly enough to pass
# a threshold here and not there, and noise decides which; two numbers for each column and a few edges say it better.
# Where columns have an order, a pair far from the diagonal is noise however large it is.
#
# Networks take these estimators by ``covariance=``. The page about covariances has a section on each of them, more
# kinds of data, and what was measured over many draws.
