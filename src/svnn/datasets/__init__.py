"""Synthetic data with a known covariance, and loaders for public data sets.

Loaders read the official files from the folder that the environment variable ``SVNN_DATA`` names, or from ``root=``,
and return a scikit-learn ``Bunch`` with ``X``, ``y``, ``groups``, ``feature_names``, ``split`` and ``DESCR``. They do
not scale the data, and the label, or anything made from it, is never among the inputs. :func:`load_tecator` reads a
file that comes with the package.
"""

from svnn.datasets._arrays import load_genes, load_stocks
from svnn.datasets._csv import load_meats, load_released
from svnn.datasets._download import fetch
from svnn.datasets._dsads import load_dsads
from svnn.datasets._splits import split_by_groups
from svnn.datasets._synthetic import (
    make_large_cov,
    make_small_cov,
    make_sparse_cov,
    make_sparse_covariance,
    make_spiked,
)
from svnn.datasets._tecator import load_tecator
from svnn.datasets._thickness import load_thickness
from svnn.datasets._wearables import load_mhealth, load_realdisp
from svnn.datasets._windows import sliding_windows

__all__ = [
    "fetch",
    "load_dsads",
    "load_genes",
    "load_meats",
    "load_mhealth",
    "load_realdisp",
    "load_released",
    "load_stocks",
    "load_tecator",
    "load_thickness",
    "make_large_cov",
    "make_small_cov",
    "make_sparse_cov",
    "make_sparse_covariance",
    "make_spiked",
    "sliding_windows",
    "split_by_groups",
]
