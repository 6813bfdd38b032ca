from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from svnn.functional._centring import centre, check_variances, deviation, is_constant, power_of_two

DTYPES = (np.float32, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@given(value=st.floats(-1e30, 1e30).filter(lambda v: v == 0 or abs(v) > 1e-30), steps=st.integers(1, 60))
def test_the_rule_lies_between_rounding_and_little_variation(dtype, value, steps):
    low = dtype(value)
    a, b = low, low
    for _ in range(2):  # two roundings up, two down
        a, b = np.nextafter(a, dtype(-np.inf)), np.nextafter(b, dtype(np.inf))
    ends = np.array([a]), np.array([b])
    if value != 0:
        assert is_constant(*ends) and is_constant(*map(torch.tensor, ends))
    eps = np.finfo(dtype).eps
    wide = np.array([dtype(low + np.sign(value or 1) * abs(low) * 8 * steps * eps)])
    assert value == 0 or not is_constant(*np.sort([[low], wide], axis=0))


def test_what_is_not_finite_is_not_constant():
    low = np.array([1.0, -np.inf, np.nan, -1.7e308, 0.0, 5e-324])
    high = np.array([np.inf, np.inf, np.nan, 1.7e308, 0.0, 1e-323])
    np.testing.assert_array_equal(is_constant(low, high), [False, False, False, False, True, False])
    np.testing.assert_array_equal(is_constant(torch.tensor(low), torch.tensor(high)).numpy(), is_constant(low, high))


@given(st.floats(5e-324, 1.7e308))
def test_powers_of_two_are_exact_and_next_to_the_number(size):
    power = float(power_of_two(np.array(size)))
    assert np.frexp(power)[0] == 0.5 and 0 < power < np.inf
    assert power == 1 if 2.0**-20 <= size <= 2.0**20 else power <= size < 2 * power


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
@given(seed=seeds, exponent=st.integers(-30, 30), offset=st.sampled_from([0.0, 1.0, 1e3]))
def test_centring_is_exact_to_rounding_in_any_unit(kind, dtype, seed, exponent, offset):
    rng = np.random.default_rng(seed)
    rows = ((rng.standard_normal((50, 3)) + offset) * 10.0**exponent).astype(dtype)
    rows[:, 1] = rows[0, 1]
    share = np.full(50, 0.02, dtype)
    centred = centre(kind(rows), kind(share))
    exact = rows.astype(np.float64)
    spread = np.asarray(deviation(centred, kind(share)), dtype=np.float64)
    np.testing.assert_allclose(spread[[0, 2]], exact.std(0)[[0, 2]], rtol=1e3 * np.finfo(dtype).eps)
    assert (np.asarray(centred.rest)[:, 1] == 0).all() and float(centred.location[1]) == rows[0, 1]
    assert spread[1] == 0 and np.asarray(centred.constant).tolist() == [False, True, False]


def test_a_variance_that_is_no_number_is_an_error():
    varies = np.zeros(3, dtype=bool)
    check_variances(np.array([1e-300, 1.0, 1e300]), varies)
    for wrong, message in ((0.0, "too small"), (1e-310, "too small"), (np.inf, "too large"), (1e306, "too large")):
        variance = np.array([1.0, wrong, 1.0])
        with pytest.raises(ValueError, match=f"feature 1 of X has values {message} for their variance.*rescale"):
            check_variances(variance, varies)
        with pytest.raises(ValueError, match=f"feature 1 of X has values {message}.*float32.*or pass float64"):
            check_variances(torch.tensor(variance).float(), torch.tensor(varies))
    check_variances(np.zeros(3), ~varies)
