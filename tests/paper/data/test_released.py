from __future__ import annotations

import gzip

import numpy as np
import pytest

from svnn.paper import load_released


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_released_draws_with_and_without_an_index_column(tmp_path, rng, index, packed):
    values = rng.standard_normal((6, 5))
    # One released header names the target 0, as it names the first feature.
    lines = [[""] * index + ["0", "1", "2", "3", "0"]]
    lines += [[str(i)] * index + [repr(float(v)) for v in row] for i, row in enumerate(values)]
    text = "\n".join(map(",".join, lines)).encode()
    path = tmp_path / ("SmallCov.csv.gz" if packed else "SmallCov.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    data = load_released("SmallCov", tmp_path)
    np.testing.assert_array_equal(data.X, values[:, :4])
    np.testing.assert_array_equal(data.y, values[:, 4])
    assert data.groups is None and data.split is None and data.feature_names == ["x0", "x1", "x2", "x3"]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="name must be one of SparseCov, LargeCov, SmallCov"):
        load_released("HugeCov")
    with pytest.raises(FileNotFoundError, match=r"SparseCov.csv.gz or SparseCov.csv in .*SVNN_DATA"):
        load_released("SparseCov", tmp_path)
    (tmp_path / "SparseCov.csv").write_text("0,1\n1,b\n")
    with pytest.raises(ValueError, match="numbers only"):
        load_released("SparseCov", tmp_path)


@pytest.mark.parametrize("name", ["SparseCov", "LargeCov", "SmallCov"])
def test_the_real_draws_have_noise_of_standard_deviation_three(load_real, name):
    data = load_real(load_released, name)
    assert data.X.shape == (1000, 100) and data.y.shape == (1000,)
    design = np.column_stack([data.X, np.ones(1000)])
    residual = data.y - design @ np.linalg.lstsq(design, data.y, rcond=None)[0]
    assert np.sqrt((residual**2).sum() / (1000 - 101)) == pytest.approx(3, rel=0.08)
