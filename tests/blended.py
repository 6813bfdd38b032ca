"""Fits in which every part of a blend counts, also where networks of a few epochs are worse than a constant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from svnn.estimators import _blend_parts, _members


@contextmanager
def every_part_counts() -> Iterator[None]:
    """Give all parts the same weight, and a network four fifths of its outputs, whatever held-out rows say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_members, "_share", lambda model, data, held: 0.8)
        patch.setattr(_blend_parts, "with_doubt", lambda weights, *rest: np.full(len(weights), 1 / len(weights)))
        yield
