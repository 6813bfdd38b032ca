from __future__ import annotations

import gzip

import numpy as np
import pytest

from svnn import paper

MAKERS = [paper.make_sparse_cov, paper.make_large_cov, paper.make_small_cov]


@pytest.mark.parametrize("maker", MAKERS)
def test_draws_are_seeded_and_follow_their_covariance(maker):
    a, b, c = maker(random_state=0), maker(random_state=0), maker(random_state=1)
    np.testing.assert_array_equal(a.X, b.X)
    assert not np.array_equal(a.X, c.X)
    assert a.X.shape == (1000, 100) and a.covariance.shape == (100, 100)
    if maker is paper.make_small_cov:
        np.testing.assert_allclose(a.covariance, np.cov(a.X.T, ddof=0))
        return
    # Entrywise: the variance of a sample covariance of Gaussian data is (c_ii c_jj + c_ij²)/t.
    C = a.covariance
    sd = np.sqrt((np.outer(C.diagonal(), C.diagonal()) + C**2) / 1000)
    assert (abs(np.cov(a.X.T, ddof=0) - C) <= 5.5 * sd).all()


@pytest.mark.parametrize("maker", MAKERS)
def test_targets_are_linear_with_noise_of_standard_deviation_three(maker):
    data = maker(n_samples=20_000, n_features=30, random_state=0)
    residual = data.y - data.X @ data.coef
    assert residual.std() == pytest.approx(3, rel=0.03)
    assert data.coef.min() >= 0


def test_sizes_of_the_covariances():
    large, small = paper.make_large_cov(random_state=0), paper.make_small_cov(random_state=0)
    off = ~np.eye(100, dtype=bool)
    assert large.covariance[off].min() > 0.3
    assert abs(small.covariance).max() < 1e-3


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
    data = paper.load_released("SmallCov", tmp_path)
    np.testing.assert_array_equal(data.X, values[:, :4])
    np.testing.assert_array_equal(data.y, values[:, 4])
    assert data.groups is None and data.split is None and data.feature_names == ["x0", "x1", "x2", "x3"]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="name must be one of SparseCov, LargeCov, SmallCov"):
        paper.load_released("HugeCov")
    with pytest.raises(FileNotFoundError, match=r"SparseCov.csv.gz or SparseCov.csv in .*SVNN_DATA"):
        paper.load_released("SparseCov", tmp_path)
    (tmp_path / "SparseCov.csv").write_text("0,1\n1,b\n")
    with pytest.raises(ValueError, match="numbers only"):
        paper.load_released("SparseCov", tmp_path)


@pytest.mark.parametrize("name", ["SparseCov", "LargeCov", "SmallCov"])
def test_the_real_draws_have_noise_of_standard_deviation_three(load_real, name):
    data = load_real(paper.load_released, name)
    assert data.X.shape == (1000, 100) and data.y.shape == (1000,)
    design = np.column_stack([data.X, np.ones(1000)])
    residual = data.y - design @ np.linalg.lstsq(design, data.y, rcond=None)[0]
    assert np.sqrt((residual**2).sum() / (1000 - 101)) == pytest.approx(3, rel=0.08)
