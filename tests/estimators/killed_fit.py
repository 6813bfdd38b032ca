"""A fit that kills itself after some epochs, for tests of checkpoints; run as a program."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

from svnn import SVNNClassifier, SVNNRegressor
from svnn.estimators.callbacks import Checkpoint

#: Kinds of fits by the trainer that takes their steps.
CASES = {
    "compiled": (SVNNRegressor, {"max_epochs": 30}),
    "classifier": (SVNNClassifier, {"max_epochs": 30}),
    "modules": (SVNNRegressor, {"hidden": (6, 6), "members": 2, "max_epochs": 12, "dropout": 0.1}),
    "batch norm": (SVNNRegressor, {"batch_norm": True, "members": 1, "max_epochs": 12, "schedule": "constant"}),
    "realisations": (SVNNRegressor, {"covariance": "acv", "resample": "epoch", "members": 2, "max_epochs": 12}),
    "patience": (SVNNRegressor, {"patience": 2, "max_epochs": 60, "lr": 0.05}),
}


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 1)) + rng.standard_normal((150, 8))
    return X, X @ np.linspace(-1, 1, 8) + 0.5 * rng.standard_normal(150)


def model(case, path=None, callbacks=(), **more):
    """A model of a case, which writes a checkpoint after every epoch where there is a path."""
    kind, parameters = CASES[case]
    checkpoints = [] if path is None else [Checkpoint(path, seconds=0)]
    return kind(random_state=3, callbacks=[*callbacks, *checkpoints], **parameters, **more)


def targets(case, y):
    return np.digitize(y, [-1, 1]) if CASES[case][0] is SVNNClassifier else y


if __name__ == "__main__":
    case, path, epoch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    X, y = data()

    def die(record):
        if record["epoch"] == epoch:
            os.kill(os.getpid(), signal.SIGKILL)

    model(case, path, [die]).fit(X, targets(case, y))
