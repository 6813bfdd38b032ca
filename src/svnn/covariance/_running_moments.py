"""The former place of :class:`Totals`."""

from svnn.covariance._moments import Totals as Totals
