"""Whether a target is a number to predict, or a class."""

from __future__ import annotations

import numpy as np

from svnn.comparison._names import CLASSIFICATION, REGRESSION

#: At most so many different integers are taken for classes.
MOST_CLASSES = 10


def guess_task(y: np.ndarray) -> tuple[str, str]:
    """Return the task that a target looks like, and a note where it could have been the other one.

    Examples
    --------
    >>> guess_task(np.array([1.5, 2.0, 3.0]))
    ('regression', '')
    >>> guess_task(np.array(["a", "b"]))
    ('classification', '')
    >>> guess_task(np.array([0, 1, 1, 2, 0, 1] * 4))[1]
    'The target has 3 different integers, which are taken for classes; the task "regression" takes them for numbers.'
    """
    if y.dtype.kind not in "iuf":
        return CLASSIFICATION, ""
    distinct = np.unique(y)
    if len(distinct) > MOST_CLASSES or not np.equal(np.mod(distinct, 1), 0).all() or 2 * len(distinct) > len(y):
        return REGRESSION, ""
    note = f"The target has {len(distinct)} different integers, which are taken for classes"
    return CLASSIFICATION, note + ("." if len(distinct) == 2 else '; the task "regression" takes them for numbers.')
