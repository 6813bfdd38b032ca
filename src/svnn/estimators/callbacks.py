"""Functions for the parameter ``callbacks`` of networks, which are called after every epoch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["TensorBoardCallback"]


class TensorBoardCallback:
    """Write the losses of every epoch for TensorBoard.

    Parameters
    ----------
    log_dir : str or path
        The folder of this run; ``tensorboard --logdir`` of it, or of the folder that it is in, shows the curves. A
        second ``fit`` with the same callback writes to ``run_2`` in it, a third one to ``run_3``.

    Raises
    ------
    ImportError
        Where tensorboard is not installed: ``pip install "svnn[tensorboard]"``.

    Examples
    --------
    ::

        from svnn import SVNNRegressor
        from svnn.estimators.callbacks import TensorBoardCallback

        SVNNRegressor(callbacks=[TensorBoardCallback("runs/first")]).fit(X, y)

    TensorBoard then shows ``loss/train``, ``loss/valid`` and ``loss/best``.
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        self.log_dir = log_dir
        self._writer: SummaryWriter | None = None
        self._runs = self._last = 0

    def __call__(self, record: Mapping[str, float]) -> None:
        """Write the losses of an epoch."""
        epoch = int(record["epoch"])
        if self._writer is None or epoch <= self._last:
            self._open()
        self._last, writer = epoch, self._writer
        assert writer is not None
        for name in ("train", "valid", "best"):
            writer.add_scalar(f"loss/{name}", record[f"{name}_loss"], epoch)
        writer.flush()  # nobody says when the training ends

    def _open(self) -> None:
        """Start a new run."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ImportError('TensorBoardCallback needs tensorboard: pip install "svnn[tensorboard]".') from None
        self.close()
        self._runs += 1
        folder = os.fspath(self.log_dir)
        self._writer = SummaryWriter(folder if self._runs == 1 else os.path.join(folder, f"run_{self._runs}"))

    def close(self) -> None:
        """Close the file that is being written."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the callback without its open file: clones and pickles start a run of their own."""
        return {**vars(self), "_writer": None}
