"""Stability: how far outputs move when the covariance does.

- Filters: responses, Lipschitz constants (Defs. 1 and 6 to 8) and principal components in ``_responses``, certified
  bounds in ``_bounds``.
- Stochastic sparsification: Q and the moments of a realisation in ``_sparsification`` (Def. 4, Thm. 5), the expected
  error of a filter exactly in ``_expected_error`` and by drawing in ``_monte_carlo``, which also draws for networks.
- Networks: ``_network`` takes a trained model apart, ``_certificate`` bounds how far it moves, ``_curves`` measures it.
- Which covariance to use: ``_advisor`` measures the ``_candidates`` on held-out rows, ``_advice`` is the answer.
"""

from svnn.stability._advice import Advice
from svnn.stability._advisor import advise
from svnn.stability._bounds import Spectrum, filter_bound, stochastic_bound
from svnn.stability._candidates import marchenko_pastur_edge
from svnn.stability._certificate import Certificate, LayerTerms, certificate, largest_filter_change
from svnn.stability._curves import stability_curve
from svnn.stability._expected_error import ErrorSplit, expected_error
from svnn.stability._monte_carlo import MonteCarloError, NetworkMonteCarlo, monte_carlo_error, monte_carlo_network
from svnn.stability._network import layer_response, network_response
from svnn.stability._responses import (
    frequency_response,
    generalized_lipschitz,
    generalized_response,
    integral_lipschitz,
    lipschitz,
    pca_distance,
    pca_response,
)
from svnn.stability._sparsification import (
    RealisationMoments,
    SparsificationError,
    realisation_moments,
    sparsification_error,
)

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
