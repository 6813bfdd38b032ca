"""Comparing models over several tables: ranks, paired differences, Friedman's test and Nemenyi's critical difference.

Scores are errors, so less is better. J. Demšar, *Statistical comparisons of classifiers over multiple data sets* (JMLR
2006), explains the two tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

import numpy as np
from scipy.stats import chi2, rankdata, studentized_range


def mean(values: Sequence[float]) -> float:
    """Return the mean, which does not depend on the order of the values, so that equal scores stay equal."""
    return fsum(values) / len(values)


def ranks(scores: Sequence[Sequence[float]]) -> np.ndarray:
    """Rank the models (columns) on every table (row): 1 is the lowest error; models that tie share their ranks."""
    found: np.ndarray = rankdata(np.asarray(scores, float), axis=1)
    return found


def paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Return the mean of ``ours`` − ``theirs`` over the same splits, and its standard error.

    The standard error takes the splits as independent. Random splits of one table share rows, so it is on the small
    side. One split has none: it is NaN.
    """
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    centre = mean(differences)
    if len(differences) < 2:
        return centre, float("nan")
    variance = fsum((d - centre) ** 2 for d in differences) / (len(differences) - 1)
    return centre, sqrt(variance / len(differences))


def friedman(ranked: np.ndarray) -> tuple[float, float]:
    """Return Friedman's statistic of ranks (tables × models), corrected for ties, and its p value.

    It asks whether the mean ranks differ more than by chance. The p value is that of the χ² distribution.
    """
    tables, models = ranked.shape
    spread = np.sum((ranked.sum(0) - tables * (models + 1) / 2) ** 2)
    most = np.sum(ranked**2) - tables * models * (models + 1) ** 2 / 4
    statistic = float((models - 1) * spread / most) if most > 0 else 0.0
    return statistic, float(chi2.sf(statistic, models - 1))


def critical_difference(models: int, tables: int, level: float = 0.05) -> float:
    """Return Nemenyi's critical difference: mean ranks that are further apart differ at this level."""
    quantile = float(studentized_range.ppf(1 - level, models, np.inf)) / sqrt(2)
    return quantile * sqrt(models * (models + 1) / (6 * tables))


def alike(mean_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Return the groups of models that do not differ, as first and last place in the order of ``sorted(mean_ranks)``.

    A group is as long as it can be, holds two models or more, and is part of no other.
    """
    order = sorted(mean_ranks)
    found: list[tuple[int, int]] = []
    for first, lowest in enumerate(order):
        last = max(i for i, rank in enumerate(order) if rank - lowest <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
