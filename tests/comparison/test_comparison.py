from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

from comparison.made_up import comparison


def test_the_corrected_interval_and_test_by_hand():
    a, b = np.array([1.0, 2.0, 4.0, 1.0, 2.0]), np.array([2.0, 2.0, 5.0, 3.0, 2.0])
    found = comparison({"S-VNN": a, "ridge": b})
    d = a - b  # −1, 0, −1, −2, 0: mean −0.8, variance 0.7
    error = np.sqrt((1 / 5 + 1 / 4) * 0.7)
    half = stats.t.ppf(0.975, 4) * error
    test = found.paired_test("S-VNN", "ridge")
    np.testing.assert_allclose(test[:3], [-0.8, -0.8 - half, -0.8 + half])
    np.testing.assert_allclose(test.p, 2 * stats.t.cdf(-0.8 / error, 4))
    assert (test.p < 0.05) == (not test.low < 0 < test.high)
    other = found.paired_test("ridge", "S-VNN")
    np.testing.assert_allclose([other.difference, other.p], [-d.mean(), test.p])
    mean, low, high = found.interval("S-VNN")
    half = stats.t.ppf(0.975, 4) * np.sqrt((1 / 5 + 1 / 4) * a.var(ddof=1))
    np.testing.assert_allclose([mean, low, high], [2, 2 - half, 2 + half])
    assert found.best() == "S-VNN" and found.means() == {"S-VNN": 2.0, "ridge": 2.8}


def test_the_correction_does_not_vanish_with_repeats():
    """Ten times the splits of the same training sets hold little more information."""
    rng = np.random.default_rng(0)
    few, many = rng.normal(size=5), rng.normal(size=500)
    few, many = ((x - x.mean()) / x.std(ddof=1) + 9 for x in (few, many))
    narrow = comparison({"S-VNN": many}, repeats=100).interval("S-VNN")
    wide = comparison({"S-VNN": few}).interval("S-VNN")
    assert narrow.high - narrow.low > 1.9 * np.sqrt(1 / 4) * 2 and wide.high - wide.low > narrow.high - narrow.low


def test_scores_that_do_not_vary():
    found = comparison({"S-VNN": [1, 1, 1], "VNN": [1, 1, 1], "ridge": [2, 2, 2]}, folds=3)
    assert found.paired_test("S-VNN", "VNN") == (0, 0, 0, 1)
    assert found.paired_test("S-VNN", "ridge") == (-1, -1, -1, 0)
    assert found.interval("ridge") == (2, 2, 2) and found.best() == "S-VNN"


def test_false_alarms_are_as_rare_as_promised():
    """Equal models under real overlap: scores that share their training sets differ clearly in about 5 % of cases."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        x, y, z = rng.normal(size=(3, 60))
        order = [rng.permutation(60).reshape(5, 12) for _ in range(5)]
        tests = [part for parts in order for part in parts]
        scores = {}
        for name, w in (("S-VNN", x + z), ("ridge", y + z)):  # the mean of the others predicts each
            scores[name] = [np.abs(w[t] - np.delete(w, t).mean()).mean() for t in tests]
        alarms += comparison(scores, repeats=5).paired_test("S-VNN", "ridge").p < 0.05
    assert alarms / 300 < 0.1


def test_unknown_models_are_named():
    with pytest.raises(ValueError, match="model must be one of S-VNN, ridge, got 'tea leaves'"):
        comparison({"S-VNN": [1, 2], "ridge": [1, 2]}).interval("tea leaves")


def test_files(tmp_path):
    found = comparison({"S-VNN": [1, 2, 1.5], "ridge": [2, 2.5, 2.5]}, folds=3, notes=("a note",))
    text = found.to_csv(tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [float(r["score"]) for r in rows if r["model"] == "ridge"] == [2, 2.5, 2.5]
    found.to_json(tmp_path / "comparison.json")
    stored = json.loads((tmp_path / "comparison.json").read_text())
    assert stored["best"] == "S-VNN" and stored["models"]["ridge"]["scores"] == [2, 2.5, 2.5]
    assert stored["models"]["ridge"]["against_best"]["p"] == found.paired_test("ridge", "S-VNN").p
    assert stored["models"]["S-VNN"]["against_best"] is None and stored["notes"] == ["a note"]
    assert stored["sentences"] == list(found.sentences()) and "seconds" in stored["models"]["ridge"]
    assert "seconds" not in found.to_dict(seconds=False)["models"]["ridge"]


def test_a_single_split_has_no_interval_and_still_is_valid_json():
    found = comparison({"S-VNN": [1.0], "ridge": [2.0]})
    assert json.loads(found.to_json())["models"]["S-VNN"]["low"] is None
