"""Covariances with a known pattern, loaders for public data sets, and one data set that comes with the package.

Loaders read files from the folder that the environment variable ``SVNN_DATA`` names, or from ``root=``, and return a
scikit-learn ``Bunch`` with ``X``, ``y``, ``groups``, ``feature_names``, ``split`` and ``DESCR``. They do not scale the
data, and the label, or anything made from it, is never among the inputs. :func:`load_tecator` reads a file that comes
with the package. The data of the paper are in :mod:`svnn.paper`.
"""

from svnn.datasets._loaders import load_genes, load_meats, load_stocks, load_tecator
from svnn.datasets._recordings import sliding_windows, split_by_groups
from svnn.datasets._synthetic import make_sparse_covariance, make_spiked

__all__ = [
    "load_genes",
    "load_meats",
    "load_stocks",
    "load_tecator",
    "make_sparse_covariance",
    "make_spiked",
    "sliding_windows",
    "split_by_groups",
]
