"""Tables: means over groups of rows, CSV files, and what the terminal shows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svnn.paper.experiments._summaries import by_level, summarise, write_csv
from svnn.paper.experiments._terminal import screen_table

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "method": st.sampled_from(["RCV", "ACV"]),
            "p": st.sampled_from([None, 0.25, 0.5]),
            "score": st.none() | st.floats(-100, 100),
        }
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.booleans())
def test_means_and_quartiles_are_those_of_numpy_and_groups_keep_their_order(rows, same_index):
    frame = pd.DataFrame(rows, index=[0] * len(rows) if same_index else None)
    summary = summarise(frame, ["method", "p"], ["score", "absent"], ["score"]).to_dict("records")
    groups = {}
    for row in rows:
        groups.setdefault((row["method"], row["p"]), []).append(row["score"])
    assert len(summary) == len(groups)
    for found, ((method, p), scores) in zip(summary, groups.items(), strict=True):
        assert found["method"] == method and (found["p"] == p or (p is None and pd.isna(found["p"])))
        assert found["n"] == len(scores) and np.isnan(found["absent_mean"])
        numbers = [score for score in scores if score is not None]
        expected = [np.mean(numbers), *np.quantile(numbers, (0.25, 0.5, 0.75))] if numbers else [np.nan] * 4
        got = [found[f"score_{name}"] for name in ("mean", "q25", "q50", "q75")]
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        spread = np.std(numbers, ddof=1) if len(numbers) > 1 else np.nan
        np.testing.assert_allclose(found["score_std"], spread, rtol=1e-6, atol=1e-6)


def test_csv_files_have_six_digits_and_no_word_for_what_is_missing(tmp_path):
    frame = pd.DataFrame(
        [
            {"model": "MLP", "config": {"mlp": [32, 32], "dropout": 0.3}, "score": 1 / 3, "repeat": 0},
            {"model": "svnn Hard", "config": {}, "score": None},
            {"model": "by validation", "score": 12345678.0, "repeat": 1},
        ]
    )
    assert write_csv(tmp_path / "table.csv", frame).read_bytes() == (
        b"model,config,score,repeat\n"
        b"MLP,mlp=32-32 dropout=0.3,0.333333,0\n"
        b"svnn Hard,defaults,,\n"
        b"by validation,,1.23457e+07,1\n"
    )


def test_levels_become_columns_in_the_order_of_the_rows():
    summary = pd.DataFrame({"method": ["RCV", "RCV", "ACV"], "p": [0.5, 0.25, None], "score_q50": [1.0, 2.0, 3.0]})
    wide = by_level(summary, "score")
    assert list(wide) == ["method", "p = 0.5", "p = 0.25", "no budget"] and list(wide["method"]) == ["RCV", "ACV"]
    np.testing.assert_array_equal(wide.iloc[:, 1:], [[1, 2, np.nan], [np.nan, np.nan, 3]])


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"x_mean": 12.3456, "x_std": 0.0321}, "12.346 ± 0.032"),
        ({"x_mean": 81.25, "x_std": 15.9}, "81 ± 16"),
        ({"x_mean": 1.0, "x_std": np.nan}, "1.00"),
        ({"x_mean": np.nan, "x_std": np.nan}, "–"),
        ({"x": 0.123456}, "0.1235"),
        ({"x": 12345}, "12345"),
        ({"x": None}, "–"),
        ({"x": "dense"}, "dense"),
    ],
)
def test_a_mean_and_its_spread_share_a_column(row, shown):
    (column,) = screen_table("", pd.DataFrame([row])).columns
    assert column.header == "x" and list(column.cells) == [shown]
