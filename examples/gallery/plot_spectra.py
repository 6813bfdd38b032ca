"""
Spectra: how much fat is in the meat?
=====================================

An instrument of Tecator shines near-infrared light through 215 samples of meat and records how much of it is absorbed
at 100 wavelengths. Neighbouring wavelengths say nearly the same, and what tells fat from water is a small difference
between them. Such differences are directions in which the data vary little, and a network on the covariance can give
them weight.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import BlendRegressor, SVNNRegressor
from svnn.datasets import load_tecator
from svnn.inspection import eigenvector_contributions, feature_contributions

data = load_tecator(target="fat")
X, y, X_test, y_test = data.X[data.train], data.y[data.train], data.X[data.test], data.y[data.test]

models = {
    "S-VNN": BlendRegressor(random_state=0),
    "without edges": BlendRegressor(SVNNRegressor(order=0), random_state=0),
    "ridge": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-6, 3, 30))),
    "PLS": PLSRegression(n_components=15),
}
errors = {}
for name, model in models.items():
    errors[name] = np.abs(np.ravel(model.fit(X, y).predict(X_test)) - y_test).mean()
    print(f"{name:14} mean absolute error {errors[name]:.2f} percent of fat")

# %%
# The network without edges is the same model that may not use the covariance: the gap between the first two lines is
# what the covariance is worth. The fitted weights say the same from the inside: most of the blend is on the networks
# with edges.

model = models["S-VNN"]
print({part: round(float(weight), 2) for part, weight in model.blend_.items()})

# %%
# Which wavelengths does a prediction rest on, and which directions of the covariance? The contributions of both add up
# to the prediction. Single wavelengths contribute more than there is fat, with both signs, and nearly cancel: it is
# their differences that count.

wavelengths = feature_contributions(model, X_test)
directions = eigenvector_contributions(model, X_test)
share = directions.importance / directions.importance.sum()

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
axes[0].plot(data.wavelengths, data.X[::5].T, color="#0072B2", alpha=0.3, linewidth=0.8)
axes[0].set(xlabel="wavelength (nm)", ylabel="absorbance", title="43 of the 215 spectra")
axes[1].barh(list(errors)[::-1], list(errors.values())[::-1], color=["#5A5A5A"] * 3 + ["#D55E00"])
axes[1].set(xlabel="mean absolute error (percent of fat)", title="test error")
axes[2].plot(data.wavelengths, np.abs(wavelengths.contributions).mean(0), color="#009E73")
axes[2].set(xlabel="wavelength (nm)", ylabel="percent of fat", title="mean size of the contributions")

# %%
# The first direction has nearly all of the variance, and a small part of the contributions:

for j in range(4):
    print(
        f"direction {j + 1}: {directions.explained_variance_ratio[j]:.2%} of the variance, {share[j]:.0%} of the work"
    )
