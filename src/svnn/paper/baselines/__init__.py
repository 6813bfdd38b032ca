"""Models that sparse covariance networks are compared with, as scikit-learn estimators on the same training loop.

============================================================  =======================================================
name in the paper                                             here
============================================================  =======================================================
MLP                                                           :class:`MLPRegressor`, :class:`MLPClassifier`
PCA + MLP, Kernel PCA + MLP, Sparse PCA + MLP                 :class:`PCAMLPRegressor`, :class:`PCAMLPClassifier` with
                                                              ``reduction="pca"``, ``"kernel"``, ``"sparse"``
PCA-SVM                                                       :class:`PCASVMRegressor`, :class:`PCASVMClassifier`
NeighSampl                                                    :class:`NeighborSamplingRegressor`,
                                                              :class:`NeighborSamplingClassifier`
VNN                                                           ``SVNNRegressor(covariance="sample")``
LW                                                            ``SVNNRegressor(covariance="ledoit_wolf")``
GL                                                            ``SVNNRegressor(covariance="graphical_lasso",
                                                              use="precision")``; without ``use`` the covariance that
                                                              belongs to the sparse precision matrix
============================================================  =======================================================

All take tables (t, N) and signals (t, N, F). All but PCA-SVM, which has no epochs, are trained as the S-VNN estimators
are: the same split for early stopping, the same standardisation with training statistics, Adam with the same defaults,
best weights restored; ``fit`` takes ``sample_weight``, ``validation_data`` and ``groups``. Scores at equal settings are
therefore scores at equal budget. They can be pickled; :func:`svnn.load` reads S-VNN estimators only.
"""

from svnn.paper.baselines._mlp import MLPClassifier, MLPRegressor
from svnn.paper.baselines._neighbor_sampling import NeighborSamplingClassifier, NeighborSamplingRegressor
from svnn.paper.baselines._pca_mlp import PCAMLPClassifier, PCAMLPRegressor
from svnn.paper.baselines._pca_svm import PCASVMClassifier, PCASVMRegressor

__all__ = [
    "MLPClassifier",
    "MLPRegressor",
    "NeighborSamplingClassifier",
    "NeighborSamplingRegressor",
    "PCAMLPClassifier",
    "PCAMLPRegressor",
    "PCASVMClassifier",
    "PCASVMRegressor",
]
