"""What a model must not see: the label, the future, or the people it is tested on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from svnn import datasets, paper


def noise_recordings(folder, name: str, n_columns: int, subjects: range, activities) -> None:
    rng = np.random.default_rng(0)
    for subject in subjects:
        labels = np.repeat(rng.permutation(np.repeat(activities, 2)), 160)
        values = rng.standard_normal((len(labels), n_columns))
        values[:, -1] = labels
        rows = (" ".join(f"{v:.4g}" for v in row) for row in values)
        (folder / name.format(subject)).write_text("\n".join(rows) + "\n")


def test_mhealth_of_noise_cannot_be_classified(tmp_path):
    noise_recordings(tmp_path, "mHealth_subject{}.log", 24, range(1, 11), range(1, 13))
    data = paper.load_mhealth(tmp_path)
    assert_chance(data)
    assert_chance(paper.load_mhealth(tmp_path, ecg=True))


def test_realdisp_of_noise_cannot_be_classified(tmp_path):
    noise_recordings(tmp_path, "subject{}_ideal.log", 120, range(1, 18), [1, 2, 3, 33])
    assert_chance(paper.load_realdisp(tmp_path))


def assert_chance(data) -> None:
    """A linear model of the means of all channels is at chance on other people, and no channel knows the label."""
    means = data.X.mean(2)
    train, test = data.split == "train", data.split == "test"
    assert not set(data.groups[train]) & set(data.groups[test])
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5).fit(means[train], data.y[train])
    chance = np.bincount(data.y[test]).max() / test.sum()
    accuracy = np.mean(model.predict(means[test]) == data.y[test])
    assert accuracy < chance + 4 * np.sqrt(chance * (1 - chance) / test.sum())
    assert_inputs_do_not_know(data)


def assert_inputs_do_not_know(data) -> None:
    """No input is a function of a class alone, or the target in other units."""
    columns = data.X.reshape(len(data.X), -1)
    if "target_names" in data:
        for label in np.unique(data.y):
            assert (columns[data.y == label].std(0) > 0).any()
        within = sum(columns[data.y == label].var(0) * np.mean(data.y == label) for label in np.unique(data.y))
        assert (within > 1e-6 * columns.var(0))[columns.var(0) > 0].all()
    scale = columns.std(0) > 0
    z = (columns[:, scale] - columns[:, scale].mean(0)) / columns[:, scale].std(0)
    correlation = z.T @ (data.y - data.y.mean()) / (len(z) * data.y.std())
    assert abs(correlation).max() < 0.97


def test_the_check_notices_a_label_among_the_inputs(tmp_path):
    noise_recordings(tmp_path, "mHealth_subject{}.log", 24, range(1, 11), range(1, 13))
    data = paper.load_mhealth(tmp_path)
    leaked = np.broadcast_to(data.y[:, None, None], (len(data.y), 1, 128))
    data.X = np.concatenate([data.X, leaked], axis=1)
    with pytest.raises(AssertionError):
        assert_chance(data)


@pytest.mark.parametrize(
    ("loader", "arguments"),
    [
        ("load_dsads", {"validation": [5, 6], "test": [7, 8]}),
        ("load_thickness", {"table": "ixi"}),
        ("load_thickness", {"table": "braindev"}),
        ("load_thickness", {"table": "braindev", "target": "dx"}),
        ("load_released", {"name": "SparseCov"}),
        ("load_released", {"name": "LargeCov"}),
        ("load_released", {"name": "SmallCov"}),
        ("load_genes", {"name": "golub"}),
        ("load_genes", {"name": "gordon"}),
        ("load_stocks", {}),
        ("load_stocks", {"target": "return"}),
        ("load_meats", {"target": "fat"}),
        ("load_meats", {"target": "water"}),
        ("load_meats", {"target": "protein"}),
        ("load_mhealth", {"ecg": True}),
        ("load_realdisp", {}),
    ],
)
def test_no_real_input_is_the_target(load_real, loader, arguments):
    data = load_real(getattr(datasets if loader in datasets.__all__ else paper, loader), **arguments)
    assert len(data.X) == len(data.y) and data.X.shape[1] == len(data.feature_names)
    assert_inputs_do_not_know(data)
    if data.split is not None:
        assert set(data.split) == {"train", "validation", "test"}
        if data.groups is not None:
            for group in np.unique(data.groups):
                assert len(set(data.split[data.groups == group])) == 1
