"""
What the filters learned
========================

A layer multiplies each direction of the covariance, an eigenvector, by a number that depends on its eigenvalue: the
frequency response. Principal components would cut off all small eigenvalues. A network decides by itself, and on
spectra it gives the small ones weight.
"""

import matplotlib.pyplot as plt

from svnn import SVNNRegressor
from svnn.datasets import load_tecator
from svnn.paper import make_sparse_cov
from svnn.plotting import ResponseDisplay

spectra, sparse = load_tecator(), make_sparse_cov(n_samples=300, n_features=60, random_state=0)
on_log = SVNNRegressor(use="log", random_state=0).fit(spectra.X[spectra.train], spectra.y[spectra.train])
on_cov = SVNNRegressor(use="covariance", random_state=0).fit(sparse.X, sparse.y)

figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
ResponseDisplay.from_estimator(on_log, ax=axes[0])
ResponseDisplay.from_estimator(on_cov, ax=axes[1])

# %%
# On the left a network on the logarithm of the covariance of Tecator's spectra, the default up to 1000 features: there,
# eigenvalues that are a thousand times smaller are still told apart. On the right the network of the paper, a
# polynomial of the covariance itself, on synthetic data. A steep response means that outputs move much when eigenvalues
# do, so flat ones are stable.
