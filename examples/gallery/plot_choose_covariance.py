"""
Choosing a covariance
=====================

The same hundred samples of forty features, and six ways to estimate their covariance. The truth is sparse: a tenth of
the pairs are related. Estimates are above the diagonals and the truth is below them; grey pairs were dropped.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.covariance import LedoitWolf

from svnn import ACV, RCV, HardThreshold, SampleCovariance, SoftThreshold, advise
from svnn.datasets import make_sparse_covariance
from svnn.plotting import CovarianceDisplay

truth = make_sparse_covariance(40, density=0.1, kind="block", random_state=0)
X = np.random.default_rng(0).multivariate_normal(np.zeros(40), truth, size=100)
estimators = {
    "sample": SampleCovariance(),
    "hard threshold": HardThreshold(),
    "soft threshold": SoftThreshold(),
    "ACV": ACV(density=0.25, random_state=0),
    "RCV": RCV(p=0.25, random_state=0),
    "Ledoit-Wolf": LedoitWolf(),
}
figure, axes = plt.subplots(2, 3, figsize=(11, 7.6), layout="constrained")
for axis, (name, estimator) in zip(axes.flat, estimators.items(), strict=True):
    C = estimator.fit(X).covariance_
    # One axis gets both: the truth below the diagonal and the estimate above it.
    CovarianceDisplay.from_matrix(truth, C, ax=axis)
    axis.set_title(f"{name}; below: truth", loc="left", fontsize=9.5)
    axis.set(xlabel="", yticks=[])
    off = ~np.eye(len(C), dtype=bool)
    error = np.linalg.norm(C - truth) / np.linalg.norm(truth)
    print(f"{name:15} keeps {np.mean(C[off] != 0):4.0%} of the pairs, error {error:.2f}")

# %%
# Hard thresholds suit a truth like this one: few pairs are related, and strongly so. Where many pairs are related a
# little, a threshold cannot tell them from noise, and shrinkage is closer:

weak = make_sparse_covariance(40, density=0.1, kind="random", random_state=0)
rows = np.random.default_rng(0).multivariate_normal(np.zeros(40), weak, size=100)
for name, estimator in estimators.items():
    error = np.linalg.norm(estimator.fit(rows).covariance_ - weak) / np.linalg.norm(weak)
    print(f"{name:15} error {error:.2f}")

# %%
# ACV and RCV drop entries at random and keep the large ones more often; they are made for dense covariances and cheaper
# networks, and are no better estimates. Ledoit and Wolf's shrinkage keeps all pairs.
#
# Which estimate agrees best with rows that were held out? ``advise`` compares them by cross-validation. Whether
# predictions get better it can say only where it is given a target, ``advise(X, y)``:

print(advise(X))
