"""
Saving and loading a model
==========================

A model is written as safetensors and JSON, never as pickle: reading a file runs no code. The loaded model predicts
the same numbers, and knows the names of its columns.
"""

import os
import tempfile

import numpy as np

import svnn
from svnn import BlendRegressor
from svnn.datasets import load_tecator
from svnn.plotting import PredictionDisplay

data = load_tecator(target="protein")
model = BlendRegressor(random_state=0).fit(data.X[data.train], data.y[data.train])

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "protein.safetensors")
    model.save(path)
    print(f"{os.path.getsize(path) / 1e3:.0f} kB")
    loaded = svnn.load(path)

# %%
# The file holds the weights, the covariance and the standardisation, so it is all that has to be kept:

X, y = data.X[data.test], data.y[data.test]
print("the same predictions:", np.array_equal(model.predict(X), loaded.predict(X)))
print(loaded)
PredictionDisplay.from_estimator(loaded, X, y, target="protein (%)")
