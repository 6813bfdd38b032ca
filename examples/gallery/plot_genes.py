"""
Genes: two kinds of leukaemia
=============================

Thousands of genes, a few dozen patients: the sample covariance of so few samples is mostly noise, and a threshold
leaves the pairs that stand out. Which genes move the answer?
"""

import numpy as np
from sklearn.model_selection import train_test_split

from svnn import BlendClassifier, SVNNClassifier
from svnn.datasets import load_genes
from svnn.inspection import feature_contributions
from svnn.plotting import ContributionsDisplay

try:
    data = load_genes("golub")
    X, y, names = np.asarray(data.X), np.array(data.target_names)[data.y], np.array(data.feature_names)
    source = "golub"
except FileNotFoundError:  # SVNN_DATA does not name a folder with the table
    rng = np.random.default_rng(0)
    y = np.array(["ALL"] * 45 + ["AML"] * 27)
    X = rng.standard_normal((72, 2000)) + 1.5 * np.outer(y == "AML", np.arange(2000) < 10)
    names, source = np.array([f"gene{i}" for i in range(2000)]), "made-up expression"
print(f"{source}: {len(X)} samples, {X.shape[1]} genes")

# %%
# The thousand genes that vary most, chosen on the training rows only:

train, test = train_test_split(np.arange(len(X)), test_size=0.3, stratify=y, random_state=0)
kept = np.argsort(-X[train].var(0))[:1000]
model = BlendClassifier(SVNNClassifier(members=4), random_state=0).fit(X[train][:, kept], y[train])
print(model)
print(f"right on {np.sum(model.predict(X[test][:, kept]) == y[test])} of {len(test)} samples that were held out")
print({part: round(float(weight), 2) for part, weight in model.blend_.items()})

# %%
# How many pairs are left, and is that a useful graph? A threshold from so few samples is high.

network = model.parts_["with edges"]
print(f"{network.covariance_estimator_.density_:.2%} of the pairs are kept")

# %%
# Contributions to the evidence for AML, with the names of the genes in this copy of the table. ``logit=True`` explains
# the evidence and not the probability, which is near 0 or 1 for most samples.

found = feature_contributions(model, X[test][:, kept], class_="AML", logit=True)
ContributionsDisplay.from_contributions(found, names[kept], X=X[test][:, kept], unit="log odds of AML", max_features=12)
