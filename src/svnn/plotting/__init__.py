"""Pictures of data and models, in the manner of scikit-learn's displays.

A display holds what it draws. ``from_estimator`` computes the data and draws them at once; ``plot`` draws them again,
on the axis that is given if any, and sets ``ax_`` and ``figure_``. All displays share one style, with colours that
colour-blind readers can tell apart. They need matplotlib: ``pip install 'svnn[plot]'``.
"""

from svnn.plotting._contributions_display import ContributionsDisplay
from svnn.plotting._covariance_display import CovarianceDisplay
from svnn.plotting._curve_displays import StabilityDisplay, TrainingDisplay
from svnn.plotting._graph_display import GraphDisplay
from svnn.plotting._prediction_display import PredictionDisplay
from svnn.plotting._spectral_displays import ResponseDisplay, SpectrumDisplay

__all__ = [
    "ContributionsDisplay",
    "CovarianceDisplay",
    "GraphDisplay",
    "PredictionDisplay",
    "ResponseDisplay",
    "SpectrumDisplay",
    "StabilityDisplay",
    "TrainingDisplay",
]
