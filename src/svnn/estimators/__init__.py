"""scikit-learn estimators over the networks."""

from svnn.estimators._classifier import SVNNClassifier
from svnn.estimators._regressor import SVNNRegressor

__all__ = ["SVNNClassifier", "SVNNRegressor"]
