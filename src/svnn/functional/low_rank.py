"""The former place of :class:`LowRankPlusSparse`."""

from svnn.functional._matrix import LowRankPlusSparse as LowRankPlusSparse
