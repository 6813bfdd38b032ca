from __future__ import annotations

import gzip

import numpy as np
import pytest

from svnn.paper import load_thickness
from svnn.paper.data._thickness import ADNI_COLUMNS, NAMES, REGIONS


def write(path, names, rows, delimiter=","):
    text = "\n".join(delimiter.join(map(str, row)) for row in [names, *rows]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture
def thickness(rng):
    return np.round(rng.uniform(1.5, 4.0, (6, 68)), 3)


def test_a_table_with_ages(tmp_path, thickness):
    order = np.random.default_rng(1).permutation(68)  # regions come back in FreeSurfer's order all the same
    names = ["participant_id", "age", *(NAMES[i] for i in order), "lh_MeanThickness_thickness", "eTIV", "site"]
    rows = [[f"s{i}", 20.5 + i, *thickness[i, order], 2.5, 1e6, i % 2] for i in range(6)]
    write(tmp_path / "ixi_dk_thickness_age.csv.gz", names, rows)
    data = load_thickness("ixi", tmp_path, groups="site")
    np.testing.assert_array_equal(data.X, thickness)
    np.testing.assert_array_equal(data.y, 20.5 + np.arange(6))
    assert data.feature_names == NAMES and data.split is None and data.n_dropped == 0
    assert data.groups.tolist() == ["0", "1"] * 3 and data.subjects[0] == "s0"


def test_both_hemispheres_as_freesurfer_writes_them(tmp_path, thickness):
    left = write(
        tmp_path / "lh.txt",
        ["lh.aparc.thickness", *NAMES[:34], "lh_MeanThickness_thickness", "eTIV"],
        [[f"s{i}", *thickness[i, :34], 2.5, 1e6] for i in range(6)],
        "\t",
    )
    right = write(
        tmp_path / "rh.txt",
        ["rh.aparc.thickness", *NAMES[34:], "rh_MeanThickness_thickness"],
        [[f"s{i}", *thickness[i, 34:], 2.5] for i in (5, 3, 4, 0, 1)],  # another order, and s2 is missing
        "\t",
    )
    ages = write(tmp_path / "people.csv", ["Subject", "Age"], [[f"s{i}", 30 + i] for i in range(1, 9)], ";")
    data = load_thickness([left, right], ages=ages)
    assert data.subjects.tolist() == ["s1", "s3", "s4", "s5"] and data.y.tolist() == [31, 33, 34, 35]
    np.testing.assert_array_equal(data.X, thickness[[1, 3, 4, 5]])
    assert data.n_dropped == 2


def test_adni_tables(tmp_path, thickness):
    columns = sorted(ADNI_COLUMNS)  # ADNI sorts them as text
    at = [NAMES.index(ADNI_COLUMNS[column]) for column in columns]
    names = ["RID", "VISCODE", "EXAMDATE", *columns, "ST22TA", "ST13TS"]
    rows = [[i + 1, "v03", f"2011-03-0{i + 1}", *thickness[i, at], 9, 9] for i in range(6)]
    rows.insert(0, [1, "v11", "2013-03-01", *thickness[3, at], 9, 9])  # a later scan of the first person
    write(tmp_path / "UCSFFSX51_11_08_19.csv", names, rows)
    write(tmp_path / "UCSFFSX51_ADNI1_3T_02_01_16.csv", ["RID"], [[1]])  # another table with a like name
    merge = [[f"{i + 1:04d}", f"00{i}_S", "bl", f"3/{i + 1}/2006", 70.0] for i in range(5)]
    merge.insert(0, ["0001", "000_S", "m12", "3/1/2007", 70.0])
    write(tmp_path / "ADNIMERGE.csv", ["RID", "PTID", "VISCODE", "EXAMDATE", "AGE"], merge)
    data = load_thickness("adni2", tmp_path)
    np.testing.assert_array_equal(data.X, thickness[:5])
    assert data.feature_names == NAMES and data.subjects.tolist() == ["1", "2", "3", "4", "5"]
    # AGE is that of the first examination; the scans here are five years later.
    np.testing.assert_allclose(data.y, 75, atol=0.01)


def test_adni_numbers_of_regions():
    assert len(REGIONS) == 34 and len(ADNI_COLUMNS) == 68
    for column, name in {
        "ST13TA": "lh_bankssts",
        "ST72TA": "rh_bankssts",
        "ST24TA": "lh_entorhinal",
        "ST83TA": "rh_entorhinal",
        "ST121TA": "rh_transversetemporal",
        "ST129TA": "lh_insula",
        "ST130TA": "rh_insula",
    }.items():
        assert ADNI_COLUMNS[column] == f"{name}_thickness"


def test_failed_segmentations_and_unknown_ages_are_left_out(tmp_path, thickness):
    thickness[1, 5] = 0
    cells = thickness.astype(object)
    cells[2, 7] = "NA"
    rows = [[f"s{i}", "" if i == 4 else 40 + i, *cells[i]] for i in range(6)]
    path = write(tmp_path / "t.csv", ["subject_id", "age", *NAMES], rows)
    data = load_thickness(path)
    assert data.subjects.tolist() == ["s0", "s3", "s5"] and data.n_dropped == 3
    kept = load_thickness(path, keep_invalid=True)
    assert len(kept.X) == 5 and np.isnan(kept.X).sum() == 1


def test_classes(tmp_path, thickness):
    rows = [[f"s{i}", "FM"[i % 2], i % 2, 1.5 * i, *thickness[i]] for i in range(6)]
    path = write(tmp_path / "t.csv", ["subject_id", "sex", "dx", "score", *NAMES], rows)
    data = load_thickness(path, target="sex")
    assert data.y.tolist() == [0, 1] * 3 and data.target_names == ["F", "M"]
    assert load_thickness(path, target="DX").target_names == ["0", "1"]
    assert load_thickness(path, target="score").y.tolist() == [0, 1.5, 3, 4.5, 6, 7.5]


def test_mistakes_are_named(tmp_path, thickness):
    path = write(tmp_path / "t.csv", ["subject_id", *NAMES], [["s0", *thickness[0]]])
    with pytest.raises(ValueError, match="No column 'age'"):
        load_thickness(path)
    with pytest.raises(FileNotFoundError, match="Known names are ixi, braindev, adni1, adni2"):
        load_thickness("oasis")
    with pytest.raises(
        FileNotFoundError, match=r"adni1: no UCSFFSX_.*ADNI gives its tables to those who apply.*SVNN_DATA"
    ):
        load_thickness("adni1", tmp_path)
    with pytest.raises(ValueError, match="no columns lh_<region>_thickness"):
        load_thickness(write(tmp_path / "u.csv", ["subject_id", "age"], [["s0", 3]]))
    with pytest.raises(ValueError, match="a column before it are of the same region"):
        load_thickness([path, path])
    strangers = write(tmp_path / "ages.csv", ["subject_id", "age"], [["nobody", 3]])
    with pytest.raises(ValueError, match="do the tables name subjects alike"):
        load_thickness(path, ages=strangers)
    with pytest.raises(ValueError, match="not a number"):
        load_thickness(path, ages=write(tmp_path / "words.csv", ["subject_id", "age"], [["s0", "old"]]))


@pytest.mark.parametrize(("name", "rows", "dropped"), [("ixi", 556, 0), ("braindev", 1668, 3)])
def test_the_real_tables(load_real, name, rows, dropped):
    data = load_real(load_thickness, name)
    assert data.X.shape == (rows, 68) and data.n_dropped == dropped
    assert data.feature_names == NAMES and data.X.min() > 0.5 and data.X.max() < 5
    assert data.y.min() > 5 and data.y.max() < 100
    assert len(set(data.subjects)) == rows


def test_sites_and_diagnoses_of_braindev(load_real):
    data = load_real(load_thickness, "braindev", target="dx", groups="site")
    assert data.target_names == ["0", "1"] and len(set(data.groups)) == 43
