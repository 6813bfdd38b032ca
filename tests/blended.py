"""Fits in which every part of a blend counts, also where networks of a few epochs are worse than a constant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from svnn.estimators._member_training import MemberTraining


@contextmanager
def every_part_counts() -> Iterator[None]:
    """Give all parts the same weight, and a network four fifths of its outputs, whatever held-out rows say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemberTraining, "_trusted_shares", lambda self, held, data: np.full(len(self._teams(data)), 0.8))
        patch.setattr(
            MemberTraining, "_part_weights", lambda self, held: np.ones(len(held.outputs)) / len(held.outputs)
        )
        yield
