"""Charts as values: the marks of axes, lines, dots and bars in SVG, which a template writes down and escapes.

Colours are classes, which the style sheet gives for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from svnn.reporting._words import number, tick

_WIDTH, _HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 46


class Mark(NamedTuple):
    """An SVG element: its text, and a title that shows when the pointer is on it."""

    tag: str
    attributes: dict[str, object]
    text: str = ""
    title: str = ""


class Picture:
    """Marks that make a picture; ``label`` describes it to those who cannot see it, ``legend`` explains its marks.

    A legend holds pairs of a CSS class and a label.
    """

    def __init__(self, label: str, height: float) -> None:
        self.label, self.height = label, height
        self.marks: list[Mark] = []
        self.legend: list[tuple[str, str]] = []

    def path(self, d: str, kind: str, **attributes: object) -> None:
        """Draw lines, in the language of SVG's paths."""
        self.marks.append(Mark("path", {"d": d, **attributes, "class": kind}))

    def text(self, text: str, x: float | str, y: float | str, kind: str, title: str = "", **attributes: object) -> None:
        """Write a text."""
        self.marks.append(Mark("text", {"x": x, "y": y, **attributes, "class": kind}, text, title))

    def dot(self, x: float, y: float, radius: float, kind: str, title: str = "") -> None:
        """Draw a dot."""
        place = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": radius}
        self.marks.append(Mark("circle", {**place, "class": f"dot {kind}"}, title=title))


class Scale:
    """Values of an axis, and where they lie between 0 and 1.

    Examples
    --------
    >>> Scale([0.2, 9.0]).ticks()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    >>> Scale([0.002, 9.0], log=True).ticks(), Scale([0.3, 9.0], log=True).ticks()
    ([0.01, 0.1, 1.0, 10.0], [0.5, 1.0, 2.0, 5.0])
    """

    def __init__(self, values: Sequence[float] | np.ndarray, *, log: bool = False, zero: bool = False) -> None:
        shown = np.asarray(values, dtype=np.float64)
        shown = shown[np.isfinite(shown) & ((shown > 0) | (not log))]
        low, high = (float(shown.min()), float(shown.max())) if shown.size else (1.0, 10.0)
        low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        self.log = log
        room = 0.03 * (math.log(high / low) if log else high - low)
        self.low, self.high = (low * math.exp(-room), high * math.exp(room)) if log else (low - room, high + room)
        if zero and not log:
            self.low, self.high = self.low if low < 0 else 0.0, self.high if high > 0 else 0.0

    def __call__(self, values: Sequence[float] | np.ndarray | float) -> np.ndarray:
        given = np.asarray(values, dtype=np.float64)
        if self.log:
            floor = np.maximum(given, self.low)
            return np.log(floor / self.low) / math.log(self.high / self.low)
        return (given - self.low) / (self.high - self.low)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round numbers on the axis, roughly ``about`` of them."""
        if self.log:
            exponents = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            if len(exponents) >= 3:
                return [10.0**e for e in exponents][:: max(1, math.ceil(len(exponents) / 6))]
            span = range(math.floor(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            round_numbers = [m * 10.0**e for e in span for m in (1, 2, 5)]
            return [float(f"{v:.1g}") for v in round_numbers if self.low <= v <= self.high]
        rough = (self.high - self.low) / about
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


class Chart(Picture):
    """A picture with two axes."""

    def __init__(self, label: str, x: Scale, y: Scale, x_label: str, y_label: str) -> None:
        super().__init__(label, _HEIGHT)
        self.x, self.y = x, y
        floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for value, down in zip(y.ticks(), self.down(y.ticks()), strict=True):
            self.path(f"M{_LEFT} {down:.1f}H{right}", "grid")
            self.text(tick(value), _LEFT - 6, f"{down + 4:.1f}", "tick end")
        for value, across in zip(x.ticks(), self.across(x.ticks()), strict=True):
            self.path(f"M{across:.1f} {floor}v4", "axis")
            self.text(tick(value), f"{across:.1f}", floor + 17, "tick middle")
        self.path(f"M{_LEFT} {floor}H{right}", "axis")
        self.text(x_label, (_LEFT + right) / 2, _HEIGHT - 8, "label middle")
        middle = (_TOP + floor) / 2
        self.text(y_label, 14, middle, "label middle", transform=f"rotate(-90 14 {middle})")

    def across(self, xs: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return where values of x lie in the picture."""
        return np.atleast_1d(_LEFT + self.x(xs) * (_WIDTH - _LEFT - _RIGHT))

    def down(self, ys: Sequence[float] | np.ndarray) -> np.ndarray:
        """Return where values of y lie in the picture."""
        return np.atleast_1d(_HEIGHT - _BOTTOM - self.y(ys) * (_HEIGHT - _TOP - _BOTTOM))

    def line(self, xs: Sequence[float] | np.ndarray, ys: Sequence[float] | np.ndarray, kind: str) -> None:
        """Draw a line through points."""
        self.path(f"M{_points(self.across(xs), self.down(ys))}", f"line {kind}")

    def dots(
        self,
        xs: Sequence[float] | np.ndarray,
        ys: Sequence[float] | np.ndarray,
        kind: str,
        titles: Sequence[str],
        radius: float = 3,
    ) -> None:
        """Draw dots, each with a title."""
        for across, down, title in zip(self.across(xs), self.down(ys), titles, strict=True):
            self.dot(across, down, radius, kind, title)

    def bars_up(self, xs: np.ndarray, low: np.ndarray, high: np.ndarray, kind: str) -> None:
        """Draw a vertical line from ``low`` to ``high`` at every x."""
        places = zip(self.across(xs), self.down(low), self.down(high), strict=True)
        self.path("".join(f"M{a:.1f} {start:.1f}V{end:.1f}" for a, start, end in places), f"whisker {kind}")

    def band(self, xs: Sequence[float], low: np.ndarray, high: np.ndarray, kind: str) -> None:
        """Fill the area between two lines."""
        across = self.across(xs)
        outline = np.append(across, across[::-1]), np.append(self.down(high), self.down(low)[::-1])
        self.path(f"M{_points(*outline)}Z", f"band {kind}")

    def marker(self, name: str, value: float) -> None:
        """Draw a vertical line that the script can move: its ``data`` attributes hold the ends of the axis."""
        ends = {"data-left": _LEFT, "data-right": _WIDTH - _RIGHT, "data-low": self.x.low, "data-high": self.x.high}
        moved = f"translate({self.across([value])[0]:.1f} 0)"
        self.path(f"M0 {_TOP}V{_HEIGHT - _BOTTOM}", "marker", transform=moved, id=name, **ends)


def _points(across: np.ndarray, down: np.ndarray) -> str:
    return "L".join(f"{a:.1f} {d:.1f}" for a, d in zip(across, down, strict=True))


def bars(
    label: str,
    names: Sequence[str],
    values: Sequence[float] | np.ndarray,
    x_label: str,
    *,
    intervals: Sequence[tuple[float, float]] = (),
    zero: bool = True,
) -> Picture:
    """Return a picture with a row for every name: a bar, or a dot with an interval where intervals are given."""
    left, row, top = 178, 24, 8
    floor = top + row * len(names)
    limits = [value for interval in intervals for value in interval]
    scale = Scale([*map(float, values), *limits], zero=zero)
    right = _WIDTH - _RIGHT

    def at(value: float) -> float:
        return left + float(scale(value)) * (right - left)

    picture = Picture(label, floor + 44)
    for value in scale.ticks(4):
        picture.path(f"M{at(value):.1f} {top}V{floor}", "grid")
        picture.text(tick(value), f"{at(value):.1f}", floor + 16, "tick middle")
    for i, (name, shown, value) in enumerate(zip(names, shortened(names), map(float, values), strict=True)):
        y = top + row * (i + 0.5)
        picture.text(shown, left - 8, y + 4, "tick end name", title=name)
        title = f"{name}: {number(value)}"
        if intervals:
            low, high = intervals[i]
            if np.isfinite([low, high]).all():
                ends = f"M{at(low):.1f} {y - 5}v10M{at(low):.1f} {y}H{at(high):.1f}M{at(high):.1f} {y - 5}v10"
                picture.path(ends, "whisker c1")
            picture.dot(at(value), y, 4, "c1", title)
        else:
            start, end = sorted((at(0.0), at(value)))
            place = {"x": f"{start:.1f}", "y": y - 8, "width": f"{end - start:.1f}", "height": 16}
            picture.marks.append(Mark("rect", {**place, "class": "bar c1"}, title=title))
    picture.text(x_label, right, floor + 36, "label end")
    return picture


def shortened(names: Sequence[str], most: int = 22) -> list[str]:
    """Return names that fit beside bars: of long ones the start, or start and end where starts are alike.

    Examples
    --------
    >>> shortened(["lh_caudalanteriorcingulate_thickness", "insula"])
    ['lh_caudalanteriorcing…', 'insula']
    """
    starts = [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]
    if len(set(starts)) == len(set(names)):
        return starts
    return [name if len(name) <= most else f"{name[: most - 11]}…{name[-10:]}" for name in names]
