"""Numbers that are too large or too small to compute with."""

from __future__ import annotations

import numpy as np

#: The smallest and the largest number of single precision, in which networks are trained.
SINGLE = (float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max))
#: Between these, squares in double precision and their sums neither vanish nor overflow.
SQUARES = (1e-140, 1e140)


def check_range(values: np.ndarray, name: str, smallest: float, largest: float) -> None:
    """Raise a ``ValueError`` where numbers leave the range that is computed in, or all of them vanish in it."""
    size = float(np.abs(values).max(initial=0.0))
    if size > largest or 0 < size < smallest:
        raise ValueError(
            f"{name} holds values of up to {size:.3g}, too {'large' if size > 1 else 'small'} to compute with; "
            f"give {name} in another unit, or use standardize=True."
        )
