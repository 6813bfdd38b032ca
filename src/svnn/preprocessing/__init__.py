"""Transformers that turn raw measurements into the values of each node."""

from svnn.preprocessing._window_features import WindowFeatures

__all__ = ["WindowFeatures"]
