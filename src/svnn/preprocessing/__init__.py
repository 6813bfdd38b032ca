"""From raw measurements to values per node."""

from svnn.preprocessing._window_features import WindowFeatures

__all__ = ["WindowFeatures"]
