"""Tables whose file, columns, values and classes have names that mean something to matplotlib, rich, HTML or svnn."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

from cli.helpers import inside
from svnn.comparison import _models as models
from svnn.comparison._models import FLOOR, OURS

FILE = "a$^{$ [bold]_:x:_%.csv"
TARGET = "$\\frac{y}$"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the table, where networks train for a moment only."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"$x^$": rng.standard_normal(40), "_a\nb": rng.standard_normal(40)})
    frame["</script>=😀"] = rng.integers(0, 9, 40)
    frame["kind"] = rng.choice(["$a=b$", "<i>", "_u"], 40)
    frame["kind=_u"] = rng.standard_normal(40)
    frame[TARGET] = np.where(frame["$x^$"] + 0.3 * rng.standard_normal(40) > 0, "$\\one$", "_Two")
    frame.to_csv(tmp_path / FILE, index=False)
    monkeypatch.chdir(tmp_path)
    build = models.build

    def short(name, *args, **kwargs):
        model = build(name, *args, **kwargs)
        return model.set_params(max_epochs=3, members=2) if hasattr(model, "max_epochs") else model

    monkeypatch.setattr(models, "build", short)
    monkeypatch.setattr(models, "MODELS", {task: (OURS, FLOOR[task]) for task in FLOOR})
    return tmp_path


def test_compare_draws_them_as_text(here, capsys):
    code, out, err = inside(capsys, "compare", FILE, "--target", TARGET, "--quick", "--jobs", "1")
    assert code == 0 and "Traceback" not in err
    (folder,) = (here / "runs/compare").iterdir()
    assert folder.name == FILE[:-4] and f"{folder.name}: 40 rows" in out
    assert {path.name for path in folder.iterdir()} == {
        "scores.csv", "comparison.json", "comparison.png", "report.html",
    }  # fmt: skip
    found = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    assert found["name"] == folder.name and found["settings"]["classes"] == ["$\\one$", "_Two"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(each in page for each in ("kind=$a=b$", "kind=&#34;_u&#34;", "Mean, towards _Two"))


def test_a_model_reads_its_own_table_again(here, capsys):
    code, out, err = inside(capsys, "fit", FILE, "--target", TARGET, "--out", "m.safetensors", "--json")
    assert (code, err) == (0, "")
    names = json.loads(out)["features"]
    assert len(set(names)) == 7 and {"kind=$a=b$", 'kind="_u"', "kind=_u", "_a\nb"} <= set(names)
    code, out, err = inside(capsys, "predict", "m.safetensors", FILE)
    assert (code, err) == (0, "")
    assert {row["prediction"] for row in csv.DictReader(io.StringIO(out))} <= {"$\\one$", "_Two"}
    for command in (("explain", "--json"), ("stability", "--repeats", "1", "--json")):
        code, out, err = inside(capsys, command[0], "m.safetensors", FILE, *command[1:])
        assert (code, err) == (0, ""), command
    code, out, err = inside(capsys, "advise", FILE, "--target", TARGET, "--jobs", "1", "--json")
    assert (code, err) == (0, "")
    code, out, err = inside(capsys, "graph", FILE, "--out", "e.csv", "--drop", TARGET, "--top-k", "3", "--json")
    assert code == 0 and json.loads(out)["features"] == 7
