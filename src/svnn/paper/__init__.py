"""The paper *Sparse Covariance Neural Networks*: its experiments, models to compare with, bounds and data.

Nothing else in svnn needs this package. ``experiments`` has a file for every figure and table, ``baselines`` the models
that the tables compare with. The generators and loaders of the data return a scikit-learn ``Bunch`` with ``X``, ``y``,
``groups``, ``feature_names``, ``split`` and ``DESCR``; loaders read the official files from the folder that the
environment variable ``SVNN_DATA`` names, or from ``root=``, and neither scale the data nor leave the label, or anything
made from it, among the inputs.

The bounds, whose names end in ``rate`` and ``probability``, are those of the paper as printed, with their constants as
arguments. They say how errors grow with the numbers of samples and features, and are not certificates: every docstring
says what is missing, and :mod:`svnn.stability` has a certified bound in its place.

The names below are imported on first use, so that the list of experiments can be shown at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers and editors; the table below is for Python
    from svnn.paper import baselines as baselines
    from svnn.paper import experiments as experiments
    from svnn.paper._rates import KurtosisTerms as KurtosisTerms
    from svnn.paper._rates import hard_threshold_rate as hard_threshold_rate
    from svnn.paper._rates import kurtosis_terms as kurtosis_terms
    from svnn.paper._rates import pca_rate as pca_rate
    from svnn.paper._rates import perturbation_rate as perturbation_rate
    from svnn.paper._rates import soft_threshold_rate as soft_threshold_rate
    from svnn.paper._rates import sparse_pca_rate as sparse_pca_rate
    from svnn.paper._rates import stochastic_filter_rate as stochastic_filter_rate
    from svnn.paper._rates import vnn_filter_probability as vnn_filter_probability
    from svnn.paper._rates import vnn_filter_rate as vnn_filter_rate
    from svnn.paper._rates import vnn_rate as vnn_rate
    from svnn.paper.data._download import fetch as fetch
    from svnn.paper.data._synthetic import load_released as load_released
    from svnn.paper.data._synthetic import make_large_cov as make_large_cov
    from svnn.paper.data._synthetic import make_small_cov as make_small_cov
    from svnn.paper.data._synthetic import make_sparse_cov as make_sparse_cov
    from svnn.paper.data._thickness import load_thickness as load_thickness
    from svnn.paper.data._wearables import load_dsads as load_dsads
    from svnn.paper.data._wearables import load_mhealth as load_mhealth
    from svnn.paper.data._wearables import load_realdisp as load_realdisp

_PACKAGES = ("baselines", "experiments")
_MODULES = {
    "_rates": (
        *("KurtosisTerms", "hard_threshold_rate", "kurtosis_terms", "pca_rate", "perturbation_rate"),
        *("soft_threshold_rate", "sparse_pca_rate", "stochastic_filter_rate"),
        *("vnn_filter_probability", "vnn_filter_rate", "vnn_rate"),
    ),
    "data._download": ("fetch",),
    "data._synthetic": ("load_released", "make_large_cov", "make_small_cov", "make_sparse_cov"),
    "data._thickness": ("load_thickness",),
    "data._wearables": ("load_dsads", "load_mhealth", "load_realdisp"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [*_PACKAGES, *_HOMES]


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"svnn.paper.{name}")
    if name in _HOMES:
        return getattr(import_module(f"svnn.paper.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'svnn.paper' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
