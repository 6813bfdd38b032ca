"""scikit-learn estimators over the networks."""

from svnn.estimators._blend import BlendClassifier, BlendRegressor
from svnn.estimators._classifier import SVNNClassifier
from svnn.estimators._model_file import ModelFileError
from svnn.estimators._regressor import SVNNRegressor
from svnn.estimators._storage import load

__all__ = ["BlendClassifier", "BlendRegressor", "ModelFileError", "SVNNClassifier", "SVNNRegressor", "load"]
