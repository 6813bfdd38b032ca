"""How far outputs move when the covariance does.

Three rooms, whose public names all stand here: ``filters`` (single filters and banks), ``networks`` (trained networks)
and ``advice`` (which covariance to use). The bounds of the paper as printed are in :mod:`svnn.paper`.
"""

from svnn.stability._norms import Spectrum
from svnn.stability.advice._advice import Advice
from svnn.stability.advice._advisor import advise
from svnn.stability.advice._noise import marchenko_pastur_edge
from svnn.stability.filters._bounds import filter_bound, stochastic_bound
from svnn.stability.filters._components import pca_distance
from svnn.stability.filters._constants import generalized_lipschitz, integral_lipschitz, lipschitz
from svnn.stability.filters._expected import ErrorSplit, expected_error
from svnn.stability.filters._monte_carlo import MonteCarloError, monte_carlo_error
from svnn.stability.filters._responses import frequency_response, generalized_response, pca_response
from svnn.stability.filters._sparsification import (
    RealisationMoments,
    SparsificationError,
    realisation_moments,
    sparsification_error,
)
from svnn.stability.networks._certificate import Certificate, LayerTerms, certificate, largest_filter_change
from svnn.stability.networks._curves import stability_curve
from svnn.stability.networks._layer_responses import layer_response, network_response
from svnn.stability.networks._network_draws import NetworkMonteCarlo, monte_carlo_network

__all__ = [
    "Advice",
    "Certificate",
    "ErrorSplit",
    "LayerTerms",
    "MonteCarloError",
    "NetworkMonteCarlo",
    "RealisationMoments",
    "SparsificationError",
    "Spectrum",
    "advise",
    "certificate",
    "expected_error",
    "filter_bound",
    "frequency_response",
    "generalized_lipschitz",
    "generalized_response",
    "integral_lipschitz",
    "largest_filter_change",
    "layer_response",
    "lipschitz",
    "marchenko_pastur_edge",
    "monte_carlo_error",
    "monte_carlo_network",
    "network_response",
    "pca_distance",
    "pca_response",
    "realisation_moments",
    "sparsification_error",
    "stability_curve",
    "stochastic_bound",
]
