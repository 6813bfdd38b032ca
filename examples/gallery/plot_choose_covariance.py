"""
Choosing a covariance
=====================

The same sixty samples of forty features, and six ways to estimate their covariance. The truth is sparse: a tenth of the pairs are
related. Grey pairs were dropped.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.covariance import LedoitWolf

from svnn import ACV, RCV, HardThreshold, SampleCovariance, SoftThreshold
from svnn.datasets import make_sparse_cov
from svnn.plotting import CovarianceDisplay
from svnn.stability import advise

data = make_sparse_cov(n_samples=60, n_features=40, random_state=0)
scale = np.sqrt(np.diag(data.covariance))
Z, truth = (data.X - data.X.mean(0)) / data.X.std(0), data.covariance / np.outer(scale, scale)
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
    C = estimator.fit(Z).covariance_
    # One axis gets both: the truth below the diagonal and the estimate above it.
    CovarianceDisplay.from_matrix(truth, C, ax=axis, names=False)
    axis.set(title=f"{name}\nbelow: truth, above: estimate", xlabel="")
    off = ~np.eye(len(C), dtype=bool)
    error = np.linalg.norm(C - truth) / np.linalg.norm(truth)
    print(f"{name:15} keeps {np.mean(C[off] != 0):4.0%} of the pairs, error {error:.2f}")

# %%
# Thresholds suit a sparse truth. ACV and RCV drop entries at random and keep the large ones more often; they are made for dense
# covariances and cheaper networks, and are no better estimates. Ledoit and Wolf's shrinkage keeps all pairs.
#
# What would the library choose? ``advise`` compares them by cross-validation on your data:

print(advise(data.X))
