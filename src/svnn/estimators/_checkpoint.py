"""The state of a training on disk, from which a fit that was killed goes on.

A file as those of models: safetensors and JSON, written in one step, no code in it. It belongs to one fit: digests of
the data, the parameters and the first weights say which (``_fingerprint.py``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import numpy as np
import torch

from svnn.estimators._fingerprint import differences
from svnn.estimators._model_file import ModelFileError, PathLike, given_path, read_model, write_model
from svnn.estimators.training import Course, Trainer

_KIND = "checkpoint of a training"
#: The errors that values can lead to which svnn did not write.
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError)


class Checkpoint:
    """Writes where a training is, at most every so many seconds, and goes on from there.

    Parameters
    ----------
    path : path
    seconds : float
        The least time between two writes; 0 writes after every epoch.
    fit : dict of str to str
        What tells the fit from others, from :func:`svnn.estimators._fingerprint.fingerprint`.
    rng : Generator
        What realisations of the covariance are drawn from.
    """

    def __init__(self, path: PathLike, seconds: float, fit: Mapping[str, str], rng: np.random.Generator) -> None:
        self.path, self.seconds, self.fit, self.rng = given_path(path), seconds, dict(fit), rng
        self.written = time.monotonic()

    def resume(self, course: Course, trainer: Trainer, draws: torch.Generator | None) -> Course:
        """Return where the training was left, and set the trainer and the generators to that; or ``course`` itself."""
        if not self.path.exists():
            return course
        remedy = "delete it to train from the start, or name another file"
        try:
            tensors, header = read_model(self.path)
        except ModelFileError as error:
            raise ModelFileError(f"the checkpoint cannot be used: {error} {remedy.capitalize()}.") from error
        if header.get("kind") != _KIND:
            raise ModelFileError(f"{self.path} is not the checkpoint of a training; it is left as it is. Name another.")
        if header.get("fit") != self.fit:
            raise ValueError(
                f"the checkpoint {self.path} is that of a fit with other data, parameters or random_state "
                f"({differences(header.get('fit'), self.fit)}); {remedy}."
            )
        try:
            found = Course.from_json(header["course"], trainer.n_members)
            own = {key.removeprefix("trainer."): v for key, v in tensors.items() if key.startswith("trainer.")}
            trainer.load_state(own)
            if draws is not None:
                draws.set_state(tensors["draws"])
            self.rng.bit_generator.state = header["rng"]
        except _NONSENSE as error:
            raise ModelFileError(f"{self.path} is damaged: {type(error).__name__}: {error}; {remedy}.") from error
        return found

    def after(self, course: Course, trainer: Trainer, draws: torch.Generator | None) -> None:
        """Write the state after an epoch, where it is time."""
        if time.monotonic() - self.written < self.seconds:
            return
        tensors = {f"trainer.{key}": value for key, value in trainer.state().items()}
        if draws is not None:
            tensors["draws"] = draws.get_state()
        state = json.loads(json.dumps(self.rng.bit_generator.state, default=np.ndarray.tolist))
        write_model(self.path, tensors, {"kind": _KIND, "fit": self.fit, "course": course.to_json(), "rng": state})
        self.written = time.monotonic()

    def remove(self) -> None:
        """Remove the file when the fit is done."""
        self.path.unlink(missing_ok=True)
