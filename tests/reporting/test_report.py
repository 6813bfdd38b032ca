"""The contents of a report, read without a browser."""

from __future__ import annotations

import json
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

import svnn
from reporting.conftest import HOSTILE, made_up, table
from svnn import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn.covariance import ACV, HardThreshold
from svnn.reporting import write_report
from svnn.reporting._sections import sample_eigenvalues
from svnn.reporting._svg import number

VOID = {"meta", "link", "input", "br"}


class Page(HTMLParser):
    """The elements of a page, and their text as a browser shows it; fails where an element is left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        tag = self.open[-1] if self.open else ""
        self.texts.append((tag, data if tag in ("script", "style", "code") else re.sub(r"[ \n]+", " ", data)))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(text for tag, text in self.texts if tag not in ("script", "style"))

    @property
    def data(self):
        (found,) = [text for tag, text in self.texts if tag == "script" and text.startswith('{"names"')]
        return json.loads(found)


@pytest.fixture(scope="module")
def report(regression, tmp_path_factory):
    model, X, y = regression
    file = model.report(X, y, tmp_path_factory.mktemp("report") / "report.html")
    return Page(file.read_text(encoding="utf-8"))


def page_of(folder, **given):
    return Page(write_report(folder / "report.html", **given).read_text(encoding="utf-8"))


def test_the_page_has_what_readers_of_every_kind_need(report):
    assert report.all("html") == [{"lang": "en"}]
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(report.all(landmark)) == 1
    ids = [attributes["id"] for _, attributes in report.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [a["href"] for a in report.all("a")]
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    sections = {a["id"] for a in report.all("section")}
    assert sections == {
        "short", "predictions", "covariance", "explore", "features", "spectrum", "stability", "repeat",
    }  # fmt: skip
    assert all(a.get("role") == "img" for a in report.all("svg"))
    assert len(report.all("figcaption")) == len(report.all("figure"))
    assert all("scope" in a for a in report.all("th"))
    for a in report.all("section"):
        assert a["aria-labelledby"] in ids


def test_nothing_is_fetched(report):
    for _, attributes in report.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:,"))
    (policy,) = [a["content"] for a in report.all("meta") if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'") and "http" not in policy
    style = "".join(text for tag, text in report.texts if tag == "style")
    assert "url(" not in style and "@import" not in style


def sentences_of(page):
    return [
        text for tag, text in page.texts if tag == "li" and re.search(r"rows given|covariance|depend|given,", text)
    ][:3]


def test_the_three_sentences_about_a_regressor_are_true(report, regression):
    model, X, y = regression
    first, second, third = sentences_of(report)
    error = np.abs(model.predict(X) - y).mean()
    assert f"On the {len(X)} rows given" in first and "whether it was trained on these rows is not known" in first
    assert float(re.search(r"off by ([\d.]+)", first)[1]) == pytest.approx(error, rel=0.01)
    explained = float(re.search(r"explain ([\d.]+) %", first)[1])
    assert explained == pytest.approx(100 * max(model.score(X, y), 0), rel=0.01, abs=0.06)
    upper = np.triu(model.parts_["with edges"].covariance_ != 0, 1).sum()
    assert f"keeps {upper} of 66 pairs" in second
    importance = np.abs(svnn.inspection.feature_contributions(model, X).contributions).mean(0)
    expected = [f"x{i}" for i in np.argsort(-importance)[:3]]
    assert third == f"The predictions depend most on {expected[0]}, {expected[1]} and {expected[2]}."


def test_the_interval_of_the_error_is_that_of_a_mean(report, regression):
    model, X, y = regression
    error = np.abs(model.predict(X) - y)
    room = 1.96 * error.std(ddof=1) / np.sqrt(len(y))
    low, high = number(error.mean() - room), number(error.mean() + room)
    assert f"{number(error.mean())} ({low} to {high})" in report.text


@pytest.mark.parametrize("shape", [(30, 6, 1), (9, 4, 2), (5, 8, 1)])
def test_eigenvalues_of_the_rows_are_those_of_their_correlations(shape):
    Z = np.random.default_rng(0).standard_normal(shape) * np.linspace(1, 5, shape[1])[:, None] + 3
    rows = Z.swapaxes(1, 2).reshape(-1, shape[1])
    expected = np.linalg.eigvalsh(np.corrcoef(rows.T))[::-1][: len(rows) - 1]
    np.testing.assert_allclose(sample_eigenvalues(Z), expected)


def test_the_three_sentences_about_a_classifier_are_true(classification, tmp_path):
    model, X, y = classification
    page = page_of(tmp_path, model=model, X=X, y=y)
    first, *_ = sentences_of(page)
    right, most = re.findall(r"([\d.]+) %", first)
    assert float(right) == pytest.approx(100 * model.score(X, y), rel=0.01)
    assert float(most) == pytest.approx(100 * np.unique(y, return_counts=True)[1].max() / len(y), rel=0.01)
    assert all("scope" in a for a in page.all("th"))
    assert "Confusion matrix" in page.text and "b" not in {tag for tag, _ in page.elements}
    assert "<b>low</b>" in page.text  # a label, not an element


def test_a_comparison_stands_on_top_in_its_own_words(regression, tmp_path):
    model, X, y = regression
    comparison = made_up()
    page = page_of(tmp_path, model=model, X=X, y=y, comparison=comparison)
    for sentence in comparison.sentences():
        assert sentence in page.text
    assert "On the 30 rows given" not in page.text
    assert "Scores of all models" in page.text and "Move the threshold" in page.text
    for name, mean in comparison.means().items():
        assert name in page.text and f"{mean:.2f}" in page.text
    best, other = comparison.best(), "boosting"
    test = comparison.paired_test(other, best)
    assert f"{test.difference:.2f} ({test.low:.2f} to {test.high:.2f})" in page.text
    near = min((name for name in comparison.scores if name != best), key=comparison.means().get)
    assert test.p < 0.001 < comparison.paired_test(near, best).p
    assert "< 0.001" in page.text and f"{comparison.paired_test(near, best).p:.3f}" in page.text


def test_a_comparison_alone_and_one_of_a_single_split(tmp_path):
    comparison = made_up(n_splits=1)
    page = page_of(tmp_path, comparison=comparison)
    assert {a["id"] for a in page.all("section")} == {"short", "scores", "repeat"}
    text = page.text
    for sentence in comparison.sentences():  # in the words of the comparison, which knows no interval of one split
        assert sentence in text
        text = text.replace(sentence, "")
    assert "nan" not in text and page.all("script") == [{}]


@pytest.mark.parametrize("kind", ["names", "columns"])
def test_names_are_text_wherever_they_stand(kind, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = table(len(HOSTILE))
    model = SVNNRegressor(members=2, max_epochs=2, random_state=0)
    if kind == "columns":
        X = pandas.DataFrame(X, columns=HOSTILE)
        page = page_of(tmp_path, model=model.fit(X[:50], y[:50]), X=X[50:], y=y[50:], title=HOSTILE[0])
    else:
        page = page_of(tmp_path, model=model.fit(X[:50], y[:50]), X=X[50:], names=HOSTILE, title=HOSTILE[0])
    assert page.data["names"] == HOSTILE
    assert len(page.all("script")) == 2 and not page.all("img")
    assert all(not name.startswith("on") for _, attributes in page.elements for name in attributes)
    for name in HOSTILE:
        assert name in page.text


@pytest.mark.parametrize(
    ("covariance", "said"),
    [("sample", "Nearly everything was kept."), (HardThreshold(tau=100.0), "Nearly nothing was kept.")],
)
@pytest.mark.filterwarnings("ignore:tau=100 leaves no edge")
def test_both_ends_of_density_come_with_a_warning(covariance, said, tmp_path):
    X, y = table()
    model = SVNNRegressor(covariance=covariance, members=1, max_epochs=2, random_state=0).fit(X, y)
    page = page_of(tmp_path, model=model)
    assert said in page.text and "see the warning below" in page.text
    # The one source of advice is named, and no setting is recommended that nobody measured on these rows.
    assert "svnn.advise(X, y)" in page.text and "svnn advise FILE --target NAME" in page.text
    assert not any(recipe in page.text for recipe in ("density=", "top_k=", 'tau="cv"', "ledoit_wolf"))


def test_between_the_ends_there_is_no_warning(report):
    assert "Nearly" not in report.text and "see the warning" not in report.text


def test_without_rows_the_report_says_what_it_cannot_know(regression, tmp_path):
    page = page_of(tmp_path, model=regression[0])
    said = sentences_of(page)
    assert said[0].startswith("No rows with targets") and said[2].startswith("No rows were given")
    assert not {"predictions", "features"} & {a["id"] for a in page.all("section")}
    assert "the slider can only drop more" in page.text


def test_the_same_model_and_rows_give_the_same_file(regression, tmp_path):
    model, X, y = regression
    files = [write_report(tmp_path / f"{i}.html", model=model, X=X, y=y) for i in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_signals_of_several_values_several_targets_and_random_masks(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 6, 3)), rng.standard_normal((40, 2))
    model = SVNNRegressor(covariance=ACV(), members=2, hidden=(3, 2), max_epochs=2, random_state=0).fit(X, y)
    page = page_of(tmp_path, model=model, X=X, y=y)
    assert "of the first target" in page.text and "Learned filters, layer 2" in page.text
    assert "from svnn.covariance import ACV" in page.text and "40 × 6 × 3" in page.text


def test_a_matrix_of_ones_own_and_the_precision(tmp_path):
    X, y = table()
    own = SVNNRegressor(covariance=np.eye(12), members=1, validation_fraction=0, max_epochs=2)
    page = page_of(tmp_path, model=own.fit(X, y), X=X, y=y)
    assert "a matrix of your own" in page.text and "SVNNRegressor(covariance=covariance, " in page.text
    assert "The covariance was given as a matrix" in page.text and "random_state is None" in page.text
    model = SVNNRegressor(covariance="graphical_lasso", use="precision", members=1, max_epochs=2, random_state=0)
    page = page_of(tmp_path, model=model.fit(X, y), X=X[:10], y=y[:10])
    upper = np.triu(np.asarray(model.covariance_estimator_.precision_) != 0, 1).sum()
    assert f"keeps {upper} of 66 pairs" in page.text
    assert "With 10 rows there are too few" in page.text


def test_a_blend_says_how_much_its_parts_count_and_how_to_make_it_again(regression, tmp_path):
    model, X, y = regression
    page = page_of(tmp_path, model=model, X=X, y=y)
    weights = ", ".join(f"{weight:.0%} {name}".replace("%", " %") for name, weight in model.blend_.items())
    assert weights in page.text and "Other models, such as networks without edges" in page.text
    (code,) = [text for tag, text in page.texts if tag == "code"]
    lines = code.split("model.fit")[0]
    assert "from svnn import BlendRegressor, SVNNRegressor\nfrom svnn.covariance import HardThreshold" in lines
    made = {}
    exec(lines, made)
    assert repr(made["model"]) == repr(model).partition("\n  fitted")[0]
    alone = page_of(tmp_path, model=model.parts_["with edges"], X=X, y=y)
    assert "Other models" not in alone.text and "by weight" not in alone.text
    assert alone.data == page.data


def test_a_blend_of_models_that_cannot_be_split_has_no_contributions(tmp_path):
    X, y = table()
    parts = [("network", SVNNClassifier(members=1, max_epochs=2)), ("trees", DecisionTreeClassifier(max_depth=2))]
    model = BlendClassifier(parts, folds=2, random_state=0).fit(X, y > 0)
    page = page_of(tmp_path, model=model, X=X, y=y > 0)
    assert "One of the parts of this blend cannot be split into contributions" in page.text
    assert "features" not in {a["id"] for a in page.all("section")}
    assert "('trees', DecisionTreeClassifier(max_depth=2))" in page.text
    with pytest.raises(ValueError, match="none of the parts of the BlendRegressor is an S-VNN"):
        write_report(tmp_path / "report.html", model=BlendRegressor([("line", LinearRegression())]).fit(X, y))


def test_many_features_stay_small_and_are_counted_in_full(tmp_path):
    rng = np.random.default_rng(0)
    n = 1200
    X = rng.standard_normal((40, 4)) @ rng.standard_normal((4, n)) + rng.standard_normal((40, n))
    y = np.where(X[:, 0] > 0, "yes", "no")
    model = SVNNClassifier(members=1, max_epochs=1, random_state=0).fit(X, y)
    file = write_report(tmp_path / "report.html", model=model, X=X, y=y)
    page = Page(file.read_text(encoding="utf-8"))
    assert file.stat().st_size < 1e6
    assert len(page.data["names"]) == 300 and page.data["features"] == page.data["counted"] == n
    assert "the 300 features with the most edges in the model, out of 1\u202f200" in page.text
    size = np.abs(np.corrcoef(X.T)[np.triu_indices(n, 1)])
    for step in (0, 200, 500):
        assert page.data["kept"][step] == pytest.approx((size >= step / 1000).sum(), abs=2)


def test_what_is_wrong_is_said_before_anything_is_written(regression, tmp_path):
    model, X, y = regression
    path = tmp_path / "report.html"
    with pytest.raises(ValueError, match="nothing to report on: pass model=, comparison="):
        write_report(path)
    with pytest.raises(ValueError, match="X, y and names belong to a model"):
        write_report(path, comparison=made_up(), X=X)
    with pytest.raises(TypeError, match="model must be a fitted S-VNN or a blend, got int"):
        write_report(path, model=3)
    with pytest.raises(TypeError, match=r"comparison must be a svnn\.comparison\.Comparison, got dict"):
        write_report(path, comparison={"scores": {}})
    with pytest.raises(ValueError, match="names must hold one name for each of the 12 features of the model, got 2"):
        write_report(path, model=model, names=["a", "b"])
    with pytest.raises(ValueError, match=r"names must hold .* got the text 'abc'"):
        write_report(path, model=model, names="abc")
    with pytest.raises(ValueError, match="y was given without X"):
        write_report(path, model=model, y=y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        write_report(path, model=model, X=X, y=y[:-1])
    with pytest.raises(ValueError, match=r"y has shape \(30, 2\), but the model predicts one value"):
        write_report(path, model=model, X=X, y=np.ones((30, 2)))
    with pytest.raises(NotFittedError):
        write_report(path, model=SVNNRegressor())
    with pytest.raises(FileNotFoundError, match=r"is in a folder that does not exist; make .*nowhere first"):
        write_report(tmp_path / "nowhere" / "report.html", model=model)
    with pytest.raises(IsADirectoryError, match=r"is a folder; name a file in it, such as report\.html"):
        write_report(tmp_path, model=model)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_few_features_and_constant_ones(n_features, tmp_path):
    X, y = table(n_features)
    X[:, -1] = 3.0 if n_features > 1 else X[:, -1]
    model = SVNNRegressor(covariance="sample", members=1, max_epochs=2, random_state=0).fit(X[:40], y[:40])
    page = page_of(tmp_path, model=model, X=X[40:], y=y[40:])
    assert len(page.data["names"]) == n_features and "nan" not in page.text.lower()
    assert page.data["alone"][-1] == n_features


@pytest.mark.parametrize("kind", ["polars", "list", "torch"])
def test_rows_may_come_in_any_form(kind, regression, tmp_path):
    model, X, y = regression
    module = pytest.importorskip(kind) if kind != "list" else None
    forms = {
        "polars": lambda: (module.DataFrame(X, schema=[f"c{i}" for i in range(12)]), module.Series(y)),
        "list": lambda: (X.tolist(), y.tolist()),
        "torch": lambda: (module.tensor(X), module.tensor(y)),
    }
    plain = page_of(tmp_path, model=model, X=X, y=y)
    rows, targets = forms[kind]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, of a frame for a model that was fitted without one
        page = page_of(tmp_path, model=model, X=rows, y=targets)
    assert sentences_of(page) == sentences_of(plain) and page.data == plain.data
    prints = re.findall(r"\b[0-9a-f]{16}\b", page.text)
    assert prints == re.findall(r"\b[0-9a-f]{16}\b", plain.text) and len(prints) == 2


def test_predictions_worse_than_the_mean_are_called_so(regression, tmp_path):
    model, X, y = regression
    page = page_of(tmp_path, model=model, X=X, y=1000 - y)
    assert "worse than always predicting the mean" in sentences_of(page)[0]
    page = page_of(tmp_path, model=model, X=X[:1], y=y[:1])
    assert "nan" not in page.text and "variance" not in sentences_of(page)[0]
