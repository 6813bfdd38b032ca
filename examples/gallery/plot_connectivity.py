"""
Connectivity of subjects: nilearn's matrices as shifts
======================================================

A functional scan gives each subject a matrix of their own: how strongly the regions of the brain go together. nilearn
(``pip install nilearn``) estimates these matrices, and the estimators take them as ``shift=``, one for every row.
"""

import matplotlib.pyplot as plt
import numpy as np
from nilearn.connectome import ConnectivityMeasure
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import SVNNClassifier

# %%
# The scans are made up: 160 subjects, 30 regions in five networks, 120 time points. In patients two of the networks are
# less coupled than in controls; how strongly the regions of a subject go together in general differs much more.

rng = np.random.default_rng(0)
n_subjects, n_regions, n_times = 160, 30, 120
member = np.arange(n_regions) // 6
patient = np.arange(n_subjects) % 2


def scan(is_patient: int) -> np.ndarray:
    """Return the time series (times, regions) of a subject."""
    between = rng.uniform(0.0, 0.3) * np.ones((5, 5))
    between[0, 1] = between[1, 0] = 0.15 if is_patient else 0.4
    np.fill_diagonal(between, rng.uniform(0.5, 0.7))
    C = between[member][:, member]
    np.fill_diagonal(C, 1)
    values, vectors = np.linalg.eigh(C)
    root = vectors * np.sqrt(np.clip(values, 0, None))
    return rng.standard_normal((n_times, n_regions)) @ root.T


scans = [scan(kind) for kind in patient]
measure = ConnectivityMeasure(kind="correlation", standardize="zscore_sample")
matrices = measure.fit_transform(scans)
print("one matrix for each subject:", matrices.shape)

# %%
# A node's values are its own row of the matrix, and the matrix is also the shift: the filters then see paths of several
# steps. With ``covariance_per="sample"`` the estimator would find covariances itself, from X of shape
# (subjects, regions, times). A logistic regression on all pairs, nilearn's usual way, stands beside it: where the
# difference lies in single pairs, as here, it is as good.

network = SVNNClassifier(max_epochs=40, random_state=0)
pairs = np.tril_indices(n_regions, -1)
flat = matrices[:, pairs[0], pairs[1]]
linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
right = {"network": [], "logistic regression": []}
for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(flat, patient):
    network.fit(matrices[train], patient[train], shift=matrices[train])
    right["network"].append(network.score(matrices[test], patient[test], shift=matrices[test]))
    right["logistic regression"].append(linear.fit(flat[train], patient[train]).score(flat[test], patient[test]))
for name, scores in right.items():
    print(f"{name}: {np.mean(scores):.0%} of the subjects that were left out are told right")

# %%
# The mean matrices of both kinds, and what differs between them.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
means = [matrices[patient == kind].mean(0) for kind in (0, 1)]
shown = [*means, means[0] - means[1]]
for axis, matrix, title in zip(axes, shown, ("controls", "patients", "controls - patients"), strict=True):
    limit = 1.0 if "-" not in title else 0.3
    picture = axis.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axis.set(title=title, xlabel="region", ylabel="region" if axis is axes[0] else "")
    figure.colorbar(picture, ax=axis, shrink=0.8, label="correlation" if limit == 1 else "difference")
plt.show()
