"""Choose the covariance estimator by cross-validation, like any other parameter of a scikit-learn estimator."""

from sklearn.model_selection import GridSearchCV

from svnn import ACV, HardThreshold, SVNNRegressor
from svnn.paper import make_sparse_cov

data = make_sparse_cov(n_samples=300, n_features=30, random_state=0)
grid = {"covariance": ["sample", HardThreshold(), HardThreshold(density=0.25), ACV(density=0.25, random_state=0)]}
search = GridSearchCV(SVNNRegressor(max_epochs=60, random_state=0), grid, cv=3, scoring="neg_mean_absolute_error")
search.fit(data.X, data.y)

print("mean absolute error on held-out rows, by covariance:")
for covariance, score in zip(grid["covariance"], search.cv_results_["mean_test_score"], strict=True):
    print(f"  {covariance!s:40} {-score:.2f}")
