"""Contributions of features, edges and directions of the covariance to the predictions of a fitted model."""

from svnn.inspection._edges import edge_contributions
from svnn.inspection._features import eigenvector_contributions, feature_contributions
from svnn.inspection._permutation import GroupedPermutationImportance, grouped_permutation_importance
from svnn.inspection._results import Contributions, EdgeContributions, EigenvectorContributions, FeatureContributions

__all__ = [
    "Contributions",
    "EdgeContributions",
    "EigenvectorContributions",
    "FeatureContributions",
    "GroupedPermutationImportance",
    "edge_contributions",
    "eigenvector_contributions",
    "feature_contributions",
    "grouped_permutation_importance",
]
