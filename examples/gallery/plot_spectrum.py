"""
Is there anything in the covariance?
====================================

Even columns that have nothing to do with each other give a sample covariance with large and small eigenvalues. The
law of Marchenko and Pastur says how large noise alone can make them. What is above its edge is structure.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from svnn.plotting import SpectrumDisplay
from svnn.stability import marchenko_pastur_edge

X = load_breast_cancer().data[:150]
rng = np.random.default_rng(0)
shuffled = rng.permuted(X, axis=0)  # every column on its own: the same columns, unrelated

figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
for axis, table, title in zip(axes, (X, shuffled), ("breast cancer", "the same columns, shuffled"), strict=True):
    SpectrumDisplay.from_data(table, ax=axis)
    axis.set_title(title, loc="left")
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(table.T))
    edge = marchenko_pastur_edge(*table.shape)
    above = eigenvalues > edge
    print(
        f"{title}: {above.sum()} of {len(eigenvalues)} eigenvalues are above the edge {edge:.2f}; "
        f"they have {eigenvalues[above].sum() / len(eigenvalues):.0%} of the variance"
    )

# %%
# A table whose spectrum looks like the right one has no covariance to learn from: use another model. The edge is one
# for many samples of normal columns; with few samples, or columns with heavy tails, noise can pass it a little.
