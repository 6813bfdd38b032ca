"""
How far off may a prediction be?
================================

With ``return_std=True`` the model also says how far targets are expected to lie from its predictions. Does it keep
its word? Count how many targets of new rows lie within a number of standard deviations, and compare with the normal
distribution.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from svnn import BlendRegressor
from svnn.plotting import PredictionDisplay

X, y = load_diabetes(return_X_y=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
model = BlendRegressor(random_state=0).fit(X_train, y_train)
mean, std = model.predict(X_test, return_std=True)

levels = np.linspace(0.05, 0.99, 40)
times = norm.ppf((1 + levels) / 2)
covered = [(np.abs(y_test - mean) <= each * std).mean() for each in times]

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
PredictionDisplay.from_estimator(model, X_test, y_test, target="progression of the disease", ax=axes[0])
axes[1].plot(levels, covered, color="#0072B2")
axes[1].plot([0, 1], [0, 1], color="#5A5A5A", linestyle="--")
axes[1].set(xlabel="share that is promised", ylabel="share of the targets inside", title="new rows", aspect="equal")

# %%
# For one row, and for all:

inside = (np.abs(y_test - mean) <= 1.645 * std).mean()
print(f"the first row: {mean[0]:.0f} ± {std[0]:.0f}, and the target is {y_test[0]:.0f}")
print(f"{inside:.0%} of the targets are within 1.645 standard deviations; 90% were promised")
