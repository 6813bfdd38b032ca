"""
Brain age, and the bias that has to go
======================================

The cortex gets thinner with age. A model that tells the age from the thickness of 68 regions says how old a brain
looks, and the difference to the true age, the *gap*, is used as a marker of health. There is a trap: every such model
draws its predictions towards the mean age, so the young look too old and the old too young, whatever their health.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict

from svnn import BlendRegressor, SVNNRegressor
from svnn.paper import load_thickness

try:
    data = load_thickness("ixi")
    X, age, source = data.X, data.y, "IXI"
except FileNotFoundError:  # SVNN_DATA does not name a folder with the table
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 85, 400)
    fall = rng.uniform(0.002, 0.008, 68)
    X = 2.6 - fall * age[:, None] + 0.1 * rng.standard_normal((400, 1)) + 0.15 * rng.standard_normal((400, 68))
    source = "made-up thickness"
print(f"{source}: {len(X)} people, {X.shape[1]} regions")

# %%
# Predictions for people that the model has not seen, by cross-validation:

predicted = cross_val_predict(BlendRegressor(SVNNRegressor(max_epochs=40), random_state=0), X, age, cv=3)
gap = predicted - age
print(f"mean absolute error: {np.abs(gap).mean():.1f} years")
print(f"correlation of the gap with age: {np.corrcoef(gap, age)[0, 1]:.2f}")

# %%
# The usual correction learns the line of the gap against the age and subtracts it. It must be learned from other people
# than those it is applied to: here from one half for the other half.

first = np.random.default_rng(0).permutation(len(X)) < len(X) // 2
corrected = np.empty_like(gap)
for learn, use in ((first, ~first), (~first, first)):
    slope, start = np.polyfit(age[learn], gap[learn], 1)
    corrected[use] = gap[use] - (start + slope * age[use])
print(f"correlation of the corrected gap with age: {np.corrcoef(corrected, age)[0, 1]:.2f}")
print(f"spread of the corrected gap: {corrected.std():.1f} years")

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
axes[0].scatter(age, predicted, s=12, color="#0072B2", alpha=0.6)
axes[0].plot([20, 85], [20, 85], color="#5A5A5A", linestyle="--")
axes[0].set(xlabel="age (years)", ylabel="predicted age (years)", title=f"{source}, cross-validated")
axes[1].scatter(age, gap, s=12, color="#D55E00", alpha=0.5, label="gap")
axes[1].scatter(age, corrected, s=12, color="#009E73", alpha=0.5, marker="^", label="after correction")
axes[1].axhline(0, color="#5A5A5A", linestyle="--")
axes[1].set(xlabel="age (years)", ylabel="predicted - true age (years)", title="the gap before and after correction")
axes[1].legend(frameon=False)

# %%
# The corrected gap uses the true age, so it is no prediction of it: report the error of the uncorrected predictions,
# and compare groups by the corrected gap.
