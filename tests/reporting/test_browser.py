"""The report in a browser: it draws, follows the slider and the keyboard, and says nothing to the console."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from reporting.conftest import HOSTILE, made_up, table
from svnn import SVNNRegressor
from svnn.reporting import write_report

PIXELS = "(id) => {const c = document.getElementById(id); return c.toDataURL()}"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report on features of hostile names, with a comparison."""
    X, y = table(12)
    model = SVNNRegressor(members=2, max_epochs=2, random_state=0).fit(X[:50], y[:50])
    names = [*HOSTILE, *(f"a rather long name of a feature, number {i}" for i in range(12 - len(HOSTILE)))]
    path = tmp_path_factory.mktemp("report") / "a report.html"
    return write_report(path, model=model, X=X[50:], y=y[50:], names=names, comparison=made_up())


@pytest.fixture
def page(browser, report):
    browser.look()
    browser.open(report)
    yield browser
    assert browser.console() == []
    assert [url for url in browser.requests() if not url.startswith(("file:", "data:"))] == []


def edges(page):
    return int(page.run("document.getElementById('graph').dataset.edges"))


def kept(page):
    return int(re.search(r"Keeps (\d+) of 66 pairs", page.run("document.getElementById('kept').textContent"))[1])


def slide(page, step):
    page.run(f"(() => {{const s = document.getElementById('threshold'); s.value = {step}; "
             "s.dispatchEvent(new Event('input', {bubbles: true}))})()")  # fmt: skip
    page.settle()


def picture(page, canvas):
    return page.run(f"({PIXELS})({json.dumps(canvas)})")


def focus(page, name):
    page.run(f"document.getElementById({json.dumps(name)}).focus()")


def test_the_slider_moves_the_graph_the_heat_map_and_the_numbers(page):
    data = json.loads(page.run("document.getElementById('report-data').textContent"))
    seen = {}
    for step in (100, 300, 750, 1000):
        slide(page, step)
        assert edges(page) == kept(page) == data["kept"][step]
        assert page.run("document.getElementById('cut').textContent") == f"{step / 1000:.3f}"
        seen[step] = edges(page), picture(page, "graph"), picture(page, "heat-map")
    assert seen[100][0] > seen[300][0] > seen[750][0] > seen[1000][0] == 0
    assert len({graph for _, graph, _ in seen.values()}) == len({heat for _, _, heat in seen.values()}) == 4
    marker = page.run("document.getElementById('marker').getAttribute('transform')")
    page.run("document.getElementById('back').click()")
    page.settle()
    assert edges(page) == data["kept"][data["start"]]
    assert page.run("document.getElementById('marker').getAttribute('transform')") != marker


def test_the_graph_and_the_heat_map_are_drawn(page):
    colours = """(id) => {
      const c = document.getElementById(id), p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      return new Set(new Uint32Array(p.buffer)).size}"""
    for canvas in ("graph", "heat-map"):
        assert page.run(f"({colours})({json.dumps(canvas)})") > 10


def test_everything_can_be_done_from_the_keyboard(page):
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    order = []
    wanted = ["threshold", "back", "heat-map", "graph", "find", "closer", "farther", "reset"]
    while len(order) < 60 and "reset" not in order:
        page.press("Tab")
        order.append(page.run("document.activeElement.id"))
    assert [name for name in order if name in wanted] == wanted
    focus(page, "threshold")
    slide(page, 500)
    page.press("ArrowRight")
    assert page.run("document.getElementById('cut').textContent") == "0.510"
    focus(page, "graph")
    before = picture(page, "graph")
    for key in ("+", "ArrowRight", "ArrowDown", "-"):
        page.press(key)
        page.settle()
        assert picture(page, "graph") != before
        before = picture(page, "graph")
    page.press("0")
    page.press("n")
    page.settle()
    assert page.run("document.getElementById('graph-said').textContent").startswith(HOSTILE[0])
    page.press("p")
    page.press("Escape")
    assert page.run("document.getElementById('graph-said').textContent") == ""
    focus(page, "heat-map")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert re.search(r" and .*: −?[01]\.\d\d", page.run("document.getElementById('heat-map-said').textContent"))


def test_names_show_under_the_pointer_as_text(page):
    place = page.run("""(() => {
      const c = document.getElementById('graph'); c.scrollIntoView({block: 'center', behavior: 'instant'});
      const b = c.getBoundingClientRect(), d = JSON.parse(document.getElementById('report-data').textContent);
      return [b.left + d.xy[0][0] * b.width, b.top + d.xy[0][1] * b.height]})()""")
    page.move_pointer(*place)
    page.settle()
    tip = page.run("(() => {const t = document.querySelector('#graph ~ .tip'); return [t.hidden, t.textContent]})()")
    assert tip[0] is False and tip[1].startswith(HOSTILE[0])
    assert page.run("document.querySelectorAll('img').length") == 0
    page.run("(() => {const f = document.getElementById('find'); f.value = 'naïve'; "
             "f.dispatchEvent(new Event('input'))})()")  # fmt: skip
    assert page.run("document.getElementById('graph-said').textContent").startswith("naïve'x")


@pytest.mark.parametrize(("width", "dark"), [(360, False), (360, True), (768, False), (1400, True)])
def test_the_page_is_never_wider_than_the_screen(page, report, width, dark, tmp_path):
    page.look(width=width, height=740, dark=dark)
    page.open(report)
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.run("document.documentElement.scrollWidth") <= width
    inside = """[...document.querySelectorAll('svg, canvas, p, figure, pre, button, input')].filter(
      e => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML)"""
    assert page.run(inside) == []
    background = page.run("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 60) == dark


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(page, report, dark):
    """Of WCAG's 4.5 for text, and 3 for lines and dots."""
    page.look(dark=dark)
    page.open(report)
    names = ["--page", "--panel", "--ink", "--soft", "--c1", "--note", "--mark", "--c3"]
    found = page.run(f"{names}.map(n => getComputedStyle(document.documentElement).getPropertyValue(n).trim())")
    light = {name: luminance(colour) for name, colour in zip(names, found, strict=True)}

    def contrast(a, b):
        low, high = sorted((light[a], light[b]))
        return (high + 0.05) / (low + 0.05)

    for text in ("--ink", "--soft", "--c1"):
        assert min(contrast(text, "--page"), contrast(text, "--panel")) >= 4.5
    assert contrast("--ink", "--note") >= 4.5
    assert min(contrast("--mark", "--page"), contrast("--c3", "--page")) >= 3


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_it_prints_in_light_colours_without_its_controls(page, report):
    page.look(dark=True, media="print")
    page.open(report)
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert len(page.call("Page.printToPDF", printBackground=True)["data"]) > 10_000
    page.look()
