"""Callbacks for the parameter ``callbacks`` of networks: a training on disk, and its losses for TensorBoard."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from svnn.estimators._fingerprint import differences
from svnn.estimators._model_file import ModelFileError, PathLike, given_path, read_model, write_model
from svnn.estimators.training import Course, Run

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["Checkpoint", "TensorBoardCallback"]

_KIND = "checkpoint of a training"
#: The errors that values can lead to which svnn did not write.
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)


class Checkpoint:
    """Store the state of a long ``fit``, so that one that was killed can resume.

    A ``fit`` with the same data and parameters that finds the file resumes from there, with the result of a fit that
    was never interrupted; with others it is an error. The file is removed at the end of a successful ``fit``. It is
    written in one step, in the format of models, and holds no code.

    Parameters
    ----------
    path : str or path
        The file.
    seconds : float, default=60
        The least time between two writes; 0 writes after every epoch.

    Notes
    -----
    The fit needs an integer as ``random_state``. A file belongs to one fit: give each of several models its own.

    Examples
    --------
    ::

        from svnn import SVNNRegressor
        from svnn.estimators.callbacks import Checkpoint

        SVNNRegressor(callbacks=[Checkpoint("fit.checkpoint")], random_state=0).fit(X, y)
    """

    def __init__(self, path: PathLike, seconds: float = 60.0) -> None:
        if not seconds >= 0:
            raise ValueError(f"seconds must be a number of at least 0, got {seconds!r}.")
        self.path, self.seconds = path, seconds
        self._fit: dict[str, str] = {}
        self._written = 0.0

    def __call__(self, record: Mapping[str, float]) -> None:
        """Do nothing: :meth:`after_epoch` writes the file."""

    def resume(self, course: Course, run: Run) -> Course:
        """Return the stored course, and set the trainer and the generators to its state; or ``course`` itself."""
        self._fit, self._written = dict(run.identity()), time.monotonic()
        path = given_path(self.path)
        if not path.exists():
            return course
        remedy = "delete it to train from the start, or name another file"
        try:
            tensors, header = read_model(path)
        except ModelFileError as error:
            raise ModelFileError(f"the checkpoint cannot be used: {error} {remedy.capitalize()}.") from error
        if header.get("kind") != _KIND:
            raise ModelFileError(f"{path} is not the checkpoint of a training; it is left as it is. Name another.")
        if header.get("fit") != self._fit:
            raise ValueError(
                f"the checkpoint {path} is that of a fit with other data, parameters or random_state "
                f"({differences(header.get('fit'), self._fit)}); {remedy}."
            )
        try:
            stored = Course.from_json(header["course"], run.trainer.n_members)
            state = {key.removeprefix("trainer."): v for key, v in tensors.items() if key.startswith("trainer.")}
            run.trainer.load_state(state)
            if run.draws is not None:
                run.draws.set_state(tensors["draws"])
            if run.rng is not None:
                run.rng.bit_generator.state = header["rng"]
        except _NONSENSE as error:
            raise ModelFileError(f"{path} is damaged: {type(error).__name__}: {error}; {remedy}.") from error
        return stored

    def after_epoch(self, course: Course, run: Run) -> None:
        """Write the state after an epoch, where it is time."""
        if time.monotonic() - self._written < self.seconds:
            return
        tensors = {f"trainer.{key}": value for key, value in run.trainer.state().items()}
        if run.draws is not None:
            tensors["draws"] = run.draws.get_state()
        header = {"kind": _KIND, "fit": self._fit, "course": course.to_json()}
        if run.rng is not None:
            header["rng"] = json.loads(json.dumps(run.rng.bit_generator.state, default=np.ndarray.tolist))
        write_model(given_path(self.path), tensors, header)
        self._written = time.monotonic()

    def end(self) -> None:
        """Remove the file after a successful fit."""
        given_path(self.path).unlink(missing_ok=True)


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
