from __future__ import annotations

import numpy as np
import pytest

from svnn.datasets import load_genes, load_stocks
from svnn.datasets._loaders import without_splits


@pytest.fixture
def prices(rng):
    return 50 * np.exp(rng.normal(0, 0.01, (120, 4)).cumsum(0))


def save(folder, prices):
    info = ["A", "B", "C", "D", "Energy", "Energy", "Utilities", "Health", "A Inc", "B Inc", "C Inc", "D Inc"]
    np.savez(folder / "stockdata.npz", close=prices, info=info)


@pytest.mark.parametrize(("window", "horizon"), [(5, 5), (1, 1), (3, 7)])
def test_rows_are_the_days_before_and_targets_the_days_after(tmp_path, prices, window, horizon):
    save(tmp_path, prices)
    data = load_stocks(tmp_path, window=window, horizon=horizon)
    change = load_stocks(tmp_path, window=window, horizon=horizon, target="return")
    returns = np.diff(np.log(prices), axis=0)
    np.testing.assert_allclose(data.returns, returns, rtol=1e-5, atol=1e-7)
    values = data.X.reshape(len(data.X), 4, window)
    days = []
    for i, row in enumerate(values):
        day = int(np.flatnonzero(np.isclose(returns[:, 0], row[0, 0], rtol=1e-5, atol=1e-9))[0])
        np.testing.assert_allclose(row, returns[day : day + window].T, rtol=1e-5, atol=1e-8)
        future = returns[day + window : day + window + horizon]
        assert len(future) == horizon
        assert data.y[i] == pytest.approx(np.log(abs(future).mean()))
        assert change.y[i] == pytest.approx(future.sum(0).mean())
        days.append(set(range(day, day + window + horizon)))
    seen = {
        name: set().union(*(d for d, s in zip(days, data.split, strict=True) if s == name)) for name in set(data.split)
    }
    # No day serves two splits, as input or as target, and time runs from training to testing.
    assert max(seen["train"]) < min(seen["validation"]) and max(seen["validation"]) < min(seen["test"])
    assert data.X.shape == ((len(data.y), 4, window) if window > 1 else (len(data.y), 4))
    assert data.feature_names == list("ABCD") and data.sectors == ["Energy", "Energy", "Utilities", "Health"]


def test_share_splits_leave_no_jump(tmp_path, prices):
    halved = prices.copy()
    halved[60:, 1] /= 2
    halved[30:, 2] *= 10
    halved[80:, 3] *= 0.4  # a fall, not a split
    save(tmp_path, halved)
    expected = np.diff(np.log(prices), axis=0)
    expected[79, 3] += np.log(0.4)
    np.testing.assert_allclose(load_stocks(tmp_path).returns, expected, atol=1e-6)
    assert abs(load_stocks(tmp_path, adjust=False).returns).max() > 2


def test_small_moves_are_left_alone(rng):
    returns = rng.uniform(-0.29, 0.29, (50, 3))
    np.testing.assert_array_equal(without_splits(returns), returns)


def test_genes(tmp_path, rng):
    x = rng.standard_normal((5, 7))
    np.savez(tmp_path / "genes_gordon.npz", x=x, y=np.array(["b", "a", "b", "a", "a"]))
    data = load_genes("gordon", tmp_path)
    np.testing.assert_array_equal(data.X, x.astype(np.float32))
    assert data.y.tolist() == [1, 0, 1, 0, 0] and data.target_names == ["a", "b"]
    assert data.groups is None and data.split is None and len(data.feature_names) == 7


def test_mistakes_are_named(tmp_path, prices):
    with pytest.raises(ValueError, match="name must be one of golub, gordon"):
        load_genes("alon")
    with pytest.raises(FileNotFoundError, match=r"genes_golub.npz in .*datamicroarray.*SVNN_DATA"):
        load_genes("golub", tmp_path)
    (tmp_path / "genes_golub.npz").write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="must be a numpy archive with x and y"):
        load_genes("golub", tmp_path)
    np.savez(tmp_path / "genes_golub.npz", x=np.array([object()], dtype=object), y=[1])
    with pytest.raises(ValueError, match="must be a numpy archive"):  # code in a pickle is never run
        load_genes("golub", tmp_path)
    save(tmp_path, prices)
    for arguments, message in (
        ({"target": "price"}, "target must be"),
        ({"window": 0}, "at least one day"),
        ({"window": 40}, "too few days"),
        ({"window": 400}, "too few days"),
    ):
        with pytest.raises(ValueError, match=message):
            load_stocks(tmp_path, **arguments)
    save(tmp_path, -prices)
    with pytest.raises(ValueError, match="positive prices"):
        load_stocks(tmp_path)


@pytest.mark.parametrize(("name", "shape"), [("golub", (72, 7129)), ("gordon", (181, 12533))])
def test_the_real_genes(load_real, name, shape):
    data = load_real(load_genes, name)
    assert data.X.shape == shape and set(data.y) == {0, 1}


def test_the_real_stocks(load_real):
    data = load_real(load_stocks)
    assert data.returns.shape == (1257, 452) and data.X.shape[1:] == (452, 5)
    assert (abs(data.returns) > 0.3).sum() < 15  # without the adjustment 225
    assert data.feature_names[0] == "MMM" and data.sectors[0] == "Industrials"


def test_rows_of_stocks_do_not_change_with_the_future(tmp_path, rng):
    prices = np.exp(rng.normal(0, 0.01, (100, 3)).cumsum(0))
    info = list("ABC") * 3
    np.savez(tmp_path / "stockdata.npz", close=prices, info=info)
    before = load_stocks(tmp_path, window=4, horizon=3)
    prices[80:] *= np.exp(rng.normal(0, 0.01, prices[80:].shape))
    np.savez(tmp_path / "stockdata.npz", close=prices, info=info)
    after = load_stocks(tmp_path, window=4, horizon=3)
    changed = (before.X != after.X).any((1, 2))
    assert changed.any() and not changed[before.split == "train"].any()
    # A target moves before the inputs do: it is about days that the inputs have not reached.
    moved = before.y != after.y
    assert np.flatnonzero(moved)[0] < np.flatnonzero(changed)[0]
