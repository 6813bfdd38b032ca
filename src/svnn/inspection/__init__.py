"""What a fitted model reads: contributions of features, edges and directions to its predictions."""

from svnn.inspection._edges import edge_contributions
from svnn.inspection._features import eigenvector_contributions, feature_contributions
from svnn.inspection._permutation import PermutationImportance, permutation_importance
from svnn.inspection._results import (
    Contributions,
    EdgeContributions,
    EigenvectorContributions,
    FeatureContributions,
)

__all__ = [
    "Contributions",
    "EdgeContributions",
    "EigenvectorContributions",
    "FeatureContributions",
    "PermutationImportance",
    "edge_contributions",
    "eigenvector_contributions",
    "feature_contributions",
    "permutation_importance",
]
