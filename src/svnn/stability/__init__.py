"""How far outputs move when the covariance does: exact errors, certified bounds, the paper's rates, advice."""

from svnn.stability._advice import Advice
from svnn.stability._advisor import advise
from svnn.stability._bounds import filter_bound, stochastic_bound
from svnn.stability._certificate import Certificate, LayerTerms, certificate, largest_filter_change
from svnn.stability._constants import generalized_lipschitz, integral_lipschitz, lipschitz
from svnn.stability._curves import stability_curve
from svnn.stability._expected import ErrorSplit, expected_error
from svnn.stability._moments import KurtosisTerms, kurtosis_terms, vnn_filter_probability, vnn_filter_rate
from svnn.stability._monte_carlo import MonteCarloError, monte_carlo_error
from svnn.stability._network_draws import NetworkMonteCarlo, monte_carlo_network
from svnn.stability._norms import Spectrum
from svnn.stability._paper import (
    hard_threshold_rate,
    pca_rate,
    perturbation_rate,
    soft_threshold_rate,
    sparse_pca_rate,
    stochastic_filter_rate,
    vnn_rate,
)
from svnn.stability._pca import pca_distance
from svnn.stability._responses import (
    frequency_response,
    generalized_response,
    layer_response,
    network_response,
    pca_response,
)
from svnn.stability._sparsification import (
    RealisationMoments,
    SparsificationError,
    realisation_moments,
    sparsification_error,
)
from svnn.stability._spectrum import marchenko_pastur_edge

__all__ = [
    "Advice",
    "Certificate",
    "ErrorSplit",
    "KurtosisTerms",
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
    "hard_threshold_rate",
    "integral_lipschitz",
    "kurtosis_terms",
    "largest_filter_change",
    "layer_response",
    "lipschitz",
    "marchenko_pastur_edge",
    "monte_carlo_error",
    "monte_carlo_network",
    "network_response",
    "pca_distance",
    "pca_rate",
    "pca_response",
    "perturbation_rate",
    "realisation_moments",
    "soft_threshold_rate",
    "sparse_pca_rate",
    "sparsification_error",
    "stability_curve",
    "stochastic_bound",
    "stochastic_filter_rate",
    "vnn_filter_probability",
    "vnn_filter_rate",
    "vnn_rate",
]
