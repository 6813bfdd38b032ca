"""Covariance filters and networks as plain ``torch.nn.Module``."""

from svnn.nn._filter import CovarianceFilter
from svnn.nn._learned import LearnedSparsifier
from svnn.nn._members import Members
from svnn.nn._readout import Readout
from svnn.nn._shifted import ShiftedSignals
from svnn.nn._svnn import SVNN

__all__ = ["SVNN", "CovarianceFilter", "LearnedSparsifier", "Members", "Readout", "ShiftedSignals"]
