"""What is recommended is what the table ranks first, whatever the table holds."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import seeds
from svnn import HardThreshold
from svnn.stability import advise
from svnn.stability._advice import Advice, rank
from svnn.stability._records import Records

KINDS = ("threshold", "stochastic", "dense")


@st.composite
def tables(draw):
    """Candidates with few different densities and errors, so that many are equal, and one that is always allowed."""
    numbers = st.tuples(
        st.sampled_from(KINDS), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), st.sampled_from([0.1, 0.101, 0.12, 0.3])
    )
    rows = [("SampleCovariance()", "dense", 1.0, 0.11), ("HardThreshold(density=0.0)", "threshold", 0.0, 0.3)]
    rows += [(f"Candidate{i}()", *row) for i, row in enumerate(draw(st.lists(numbers, max_size=12)))]
    names = ("estimator", "kind", "density", "error")
    return Records({**dict(zip(names, row, strict=True)), "matrix_error": 0.5} for row in draw(st.permutations(rows)))


def advice_on(table, budget, tolerance, dense):
    numbers = dict.fromkeys(("related_share", "edge", "variance_above", "spread", "cv_threshold", "cv_density"), 0.1)
    return Advice(
        looks="dense" if dense else "sparse",
        estimator=HardThreshold(),
        table=rank(table, budget, tolerance, dense),
        density=budget,
        tolerance=tolerance,
        n_above=0,
        n_samples=50,
        n_features=10,
        **numbers,
    )


@settings(max_examples=300, deadline=None)
@given(tables(), st.sampled_from([0.0, 0.3, 0.9, 1.0]), st.sampled_from([0.0, 0.025, 0.5]), st.booleans())
def test_the_recommendation_is_the_first_row(table, budget, tolerance, dense):
    advice = advice_on(table, budget, tolerance, dense)
    assert advice.label == advice.table[0]["estimator"] == advice.row["estimator"]
    assert sorted(row["estimator"] for row in advice.table) == sorted(row["estimator"] for row in table)

    # The rule, written down once more: the best of the preferred kind, where one is as good as the best of all.
    allowed = [row for row in table if row["density"] <= budget]
    smallest = min(row["error"] for row in allowed)
    full = min((row["error"] for row in allowed if row["kind"] == "dense"), default=np.inf)
    kind, by = ("stochastic", ("density", "error")) if dense else ("threshold", ("error",))
    good = [row for row in allowed if row["kind"] == kind and row["error"] <= min((1 + tolerance) * smallest, full)]
    best = min(tuple(row[name] for name in by) for row in good) if good else (smallest,)
    assert tuple(advice.row[name] for name in (by if good else ("error",))) == best
    assert advice.row["density"] <= budget
    assert advice.row["error"] <= full


@settings(max_examples=100, deadline=None)
@given(tables(), st.sampled_from([0.9, 1.0]), st.booleans())
def test_the_printed_table_starts_with_the_recommendation_and_says_why(table, budget, dense):
    advice = advice_on(table, budget, 0.025, dense)
    text, printed = str(advice).split("\n\n")
    assert text.startswith(f"The covariance looks {advice.looks}. Recommended: {advice.label}\n")
    assert len(re.findall("It comes first because", text)) == 1
    first, *others = printed.splitlines()[1:]
    assert first.startswith("→") and first.split()[1] == advice.label
    assert not any("→" in line for line in others)
    assert ("error is the smallest" in text) == (advice.row["standing"] == "possible")


def test_within_a_standing_rows_are_in_order():
    table = Records(
        {"estimator": name, "kind": kind, "density": density, "error": error}
        for name, kind, density, error in (
            ("a", "stochastic", 0.9, 0.100),
            ("b", "stochastic", 0.2, 0.102),
            ("c", "threshold", 0.1, 0.101),
            ("d", "stochastic", 0.1, 0.200),
            ("e", "dense", 1.0, 0.050),
        )
    )
    assert "".join(row["estimator"] for row in rank(table, 0.95, 0.025, dense=True)) == "bacde"
    assert "".join(row["estimator"] for row in rank(table, 0.95, 0.025, dense=False)) == "cabde"
    assert "".join(row["estimator"] for row in rank(table, 0.5, 0.025, dense=True)) == "bcdea"
    assert "".join(row["estimator"] for row in rank(table, 1.0, 0.025, dense=True)) == "eacbd"


@settings(max_examples=8, deadline=None)
@given(seeds, st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([None, 0.3]))
def test_of_real_advice_too(seed, common, density):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 8)) + common * rng.standard_normal((40, 1))
    advice = advise(X, density=density, n_splits=2)
    assert advice.label == advice.table[0]["estimator"]
    name, arguments = advice.label[:-1].split("(")
    assert type(advice.estimator).__name__ == name
    for key, value in (argument.split("=") for argument in arguments.split(", ") if argument):
        assert repr(advice.estimator.get_params()[key]) == value
    assert advice.row["error"] <= 1.025 * min(
        row["error"] for row in advice.table if row["standing"] != "for comparison"
    )


@pytest.mark.parametrize("dense", [True, False])
def test_equal_rows_all_stay(dense):
    row = {"estimator": "a", "kind": "threshold", "density": 0.1, "error": 0.1}
    assert len(rank(Records([row, dict(row), dict(row)]), 0.9, 0.0, dense)) == 3
