"""How much do the outputs of a trained network change when its covariance is estimated from few samples?

The network is trained with the true covariance. Then the same network runs on estimates from t samples.
"""

import numpy as np

from svnn import HardThreshold, SampleCovariance, SVNNRegressor
from svnn.paper import make_sparse_cov

data = make_sparse_cov(n_samples=2000, n_features=50, random_state=0)
model = SVNNRegressor(covariance=data.covariance, max_epochs=60, random_state=0)
model.fit(data.X[:800], data.y[:800])
test = data.X[-200:]
reference = model.embed(test)

print("mean change of the embeddings:")
print("samples   sample covariance   hard threshold")
for t in (50, 100, 200, 500, 1000):
    pool = data.X[800 : 800 + t]
    changes = [
        np.linalg.norm(model.on(estimator, X=pool).embed(test) - reference, axis=(1, 2)).mean()
        for estimator in (SampleCovariance(), HardThreshold())
    ]
    print(f"{t:7d}   {changes[0]:17.3f}   {changes[1]:14.3f}")
