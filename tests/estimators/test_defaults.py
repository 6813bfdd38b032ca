"""The default blends predict well, without tuning per data set.

A part of ``make defaults``, which measures all data sets and both covariances.
"""

from __future__ import annotations

import defaults
import pytest


@pytest.mark.parametrize("name", [pytest.param("breast cancer", marks=pytest.mark.slow), "wine"])
def test_classifier(name):
    result = defaults.measure(name, *defaults.classifications(real=False)[name], "classifier, hard")
    assert result.met, result


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in ("SparseCov", "IXI thickness → age")), "meats → fat"],
)
@pytest.mark.usefixtures("data_folder")
def test_regressor(name):
    result = defaults.measure(name, *defaults.regressions()[name], "regressor, hard")
    assert result.met, result
