"""Whether a target is a number to predict, or a class."""

from __future__ import annotations

import numpy as np

from svnn.comparison._names import CLASSIFICATION, REGRESSION

#: At most so many different integers are taken for classes: any, or such as number classes from 0 or 1 on, each of them
#: often enough.
MOST_CLASSES, MOST_CODES, OFTEN = 10, 30, 10


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

    Numbers of classes, such as 1 to 19, may be more; other integers, such as ages, are numbers.

    >>> guess_task(np.tile(np.arange(1, 20), 10))[0], guess_task(np.tile(np.arange(40, 60), 10))[0]
    ('classification', 'regression')
    """
    if y.dtype.kind not in "iuf":
        return CLASSIFICATION, ""
    distinct, counts = np.unique(y, return_counts=True)
    n = len(distinct)
    if not np.equal(np.mod(distinct, 1), 0).all() or 2 * n > len(y):
        return REGRESSION, ""
    codes = n <= MOST_CODES and distinct[0] in (0, 1) and distinct[-1] - distinct[0] == n - 1 and counts.min() >= OFTEN
    if n <= MOST_CLASSES or codes:
        note = f"The target has {n} different integers, which are taken for classes"
        return CLASSIFICATION, note + ("." if n == 2 else '; the task "regression" takes them for numbers.')
    if n > MOST_CODES:
        return REGRESSION, ""
    note = f"The target has {n} different integers, which are taken for numbers"
    return REGRESSION, note + '; the task "classification" takes them for classes.'
