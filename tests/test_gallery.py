"""The gallery: every script runs, with the data at hand and without, and draws the picture that its page opens with."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
#: Scripts whose data may be absent: they run on made-up data then.
WITH_DATA = [path for path in SCRIPTS if "FileNotFoundError" in path.read_text(encoding="utf-8")]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a script in an empty folder; return its names, what it printed, and how many figures it made."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    def run_script(path, code):
        for package in ("lightning", "nilearn"):  # which only the environment of make test has
            if re.search(rf"^(import|from) {package}", code, re.MULTILINE):
                pytest.importorskip(package)
        plt.close("all")
        monkeypatch.chdir(tmp_path)
        names = {"__name__": "__main__"}
        exec(compile(code, str(path), "exec"), names)
        figures = {*map(plt.figure, plt.get_fignums()), *(each for each in names.values() if isinstance(each, Figure))}
        return names, capsys.readouterr().out, len(figures)

    yield run_script
    plt.close("all")
    assert not list(tmp_path.iterdir()), "a script leaves files behind"


def covariance_is_ahead_on_spectra(names):
    errors = names["errors"]
    assert min(errors, key=errors.get) == "S-VNN" and errors["S-VNN"] < errors["without edges"] / 2


def correction_takes_the_bias_of_brain_age_away(names):
    before, after = (abs(np.corrcoef(names[gap], names["age"])[0, 1]) for gap in ("gap", "corrected"))
    assert before > 0.3 and after < 0.1


def going_on_pays_where_returns_drift(names):
    stays, updated = (np.mean(names["errors"][name]) for name in ("stays", "is updated"))
    assert updated < 0.7 * stays
    assert np.mean(names["gaps"]["half-life of 60 days"]) < np.mean(names["gaps"]["all days"])


def learned_edges_help_and_many_covariances_make_a_network_steady(names):
    learned, kept, edges = (names[name] for name in ("learned", "kept", "edges"))
    assert names["error"](names["on_learned"], learned().detach()) < names["error"](names["on_sample"], names["sample"])
    assert kept[edges].mean() > kept[names["pairs"] & ~edges].mean() + 0.2
    assert names["change"](names["on_resampled"]) < names["change"](names["on_sample"])


#: What the text of a page says about its result.
RESULTS = {
    "plot_brain_age": correction_takes_the_bias_of_brain_age_away,
    "plot_learned_shift": learned_edges_help_and_many_covariances_make_a_network_steady,
    "plot_online_returns": going_on_pays_where_returns_drift,
    "plot_spectra": covariance_is_ahead_on_spectra,
}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem == "plot_compare")) for path in SCRIPTS],
    ids=lambda path: path.stem,
)
def test_every_script_runs_and_draws(path, run, monkeypatch):
    monkeypatch.delenv("SVNN_DATA", raising=False)
    code = path.read_text(encoding="utf-8")
    # Loops that a page writes down run for a moment only; `make docs` runs them in full.
    code = code if path.stem in RESULTS else re.sub(r"\b(epochs: int =|max_epochs=) ?\d+", r"\1 2", code)
    names, printed, n_figures = run(path, code)
    assert n_figures == 1
    assert printed or path.stem == "plot_responses"
    assert printed.startswith("made-up ") == (path in WITH_DATA)
    assert "nan" not in printed.lower()
    if "bound" in names:
        assert names["moved"].max() <= float(names["bound"])
    if "total" in names:  # contributions add up
        assert "largest gap: " in printed and float(re.search(r"largest gap: (\S+)", printed)[1]) < 1e-2
    RESULTS.get(path.stem, lambda names: None)(names)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("SVNN_DATA"), reason="there are no data")
@pytest.mark.parametrize("path", WITH_DATA, ids=lambda path: path.stem)
def test_scripts_run_on_real_data(path, run):
    names, printed, n_figures = run(path, path.read_text(encoding="utf-8"))
    assert n_figures == 1 and "nan" not in printed.lower()
    if path.stem == "plot_brain_age":
        RESULTS[path.stem](names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_opens_with_a_title_and_is_on_the_site(path):
    title, line, *rest = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()
    assert set(line) == {"="} and len(line) == len(title) and len(" ".join(rest)) > 80
    assert f'"{path.name}"' in (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert f"gallery/{path.name})" in (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")


def test_there_are_at_least_twelve_pages():
    assert len(SCRIPTS) >= 12 and len(WITH_DATA) == 6
