"""The losses of a training, as a dict and as a frame."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class History(dict[str, list[float]]):
    """The losses of every epoch by name, and ``best_epoch``, that of every member; a dict that can be a frame.

    Examples
    --------
    >>> history = History(train_loss=[0.9, 0.5, 0.4], valid_loss=[1.0, 0.6, 0.7], best_epoch=[2, 3])
    >>> history["valid_loss"]
    [1.0, 0.6, 0.7]
    >>> frame = history.to_frame()
    >>> list(frame), frame["best_members"].tolist()
    (['train_loss', 'valid_loss', 'best_members'], [0, 1, 1])
    """

    def to_frame(self) -> pd.DataFrame:
        """Return a frame of pandas with a row for every epoch, from 1 on.

        Its columns are the losses, as far as there are any, and ``best_members``: of how many members it is the best
        epoch.
        """
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise ImportError('History.to_frame needs pandas: pip install "svnn[compare]".') from None
        losses = {name: values for name, values in self.items() if name != "best_epoch" and values}
        n, best = max(map(len, losses.values()), default=0), Counter(self.get("best_epoch", []))
        columns = {**losses, "best_members": [best[epoch] for epoch in range(1, n + 1)]}
        found: pd.DataFrame = pandas.DataFrame(columns, index=pandas.RangeIndex(1, n + 1, name="epoch"))
        return found
