"""Charts as values: the marks of axes, lines, dots and bars in SVG, which a template writes down and escapes.

Colours are classes, which the style sheet gives for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from svnn.reporting._words import number, tick

_WIDTH, _HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 46

Numbers: TypeAlias = Sequence[float] | np.ndarray


class Mark(NamedTuple):
    """An SVG element: its text, and a title that shows when the pointer is on it."""

    tag: str
    attributes: dict[str, object]
    text: str
    title: str


@dataclass
class Picture:
    """Marks that make a picture; ``label`` describes it to those who cannot see it, ``legend`` explains its marks.

    A legend holds pairs of a CSS class and a label.
    """

    label: str
    height: float
    marks: list[Mark] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)

    def add(self, tag: str, kind: str, text: str = "", title: str = "", **attributes: object) -> None:
        """Draw an element of a CSS class."""
        self.marks.append(Mark(tag, {**attributes, "class": kind}, text, title))


class Scale:
    """Values of an axis, and where they lie between 0 and 1.

    Examples
    --------
    >>> Scale([0.2, 9.0]).ticks()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    >>> Scale([0.002, 9.0], log=True).ticks(), Scale([0.3, 9.0], log=True).ticks()
    ([0.01, 0.1, 1.0, 10.0], [0.5, 1.0, 2.0, 5.0])
    """

    def __init__(self, values: Numbers, *, log: bool = False, zero: bool = False) -> None:
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

    def __call__(self, values: Numbers | float) -> np.ndarray:
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
        x_ticks, y_ticks = x.ticks(), y.ticks()
        for value, down in zip(y_ticks, self.at([], y_ticks)[1], strict=True):
            self.add("path", "grid", d=f"M{_LEFT} {down:.1f}H{right}")
            self.add("text", "tick end", tick(value), x=_LEFT - 6, y=f"{down + 4:.1f}")
        for value, across in zip(x_ticks, self.at(x_ticks, [])[0], strict=True):
            self.add("path", "axis", d=f"M{across:.1f} {floor}v4")
            self.add("text", "tick middle", tick(value), x=f"{across:.1f}", y=floor + 17)
        self.add("path", "axis", d=f"M{_LEFT} {floor}H{right}")
        self.add("text", "label middle", x_label, x=(_LEFT + right) / 2, y=_HEIGHT - 8)
        middle = (_TOP + floor) / 2
        self.add("text", "label middle", y_label, x=14, y=middle, transform=f"rotate(-90 14 {middle})")

    def at(self, xs: Numbers, ys: Numbers) -> tuple[np.ndarray, np.ndarray]:
        """Return where values lie in the picture."""
        across = _LEFT + self.x(xs) * (_WIDTH - _LEFT - _RIGHT)
        return across, _HEIGHT - _BOTTOM - self.y(ys) * (_HEIGHT - _TOP - _BOTTOM)

    def line(self, xs: Numbers, ys: Numbers, kind: str, end: str = "") -> None:
        """Draw a line through points; with ``end="Z"`` it returns to the first one and encloses an area."""
        points = "L".join(f"{across:.1f} {down:.1f}" for across, down in zip(*self.at(xs, ys), strict=True))
        self.add("path", kind, d=f"M{points}{end}")

    def dots(self, xs: Numbers, ys: Numbers, kind: str, titles: Sequence[str], radius: float = 3) -> None:
        """Draw dots, each with a title."""
        for across, down, title in zip(*self.at(xs, ys), titles, strict=True):
            self.add("circle", f"dot {kind}", title=title, cx=f"{across:.1f}", cy=f"{down:.1f}", r=radius)

    def whiskers(self, xs: np.ndarray, low: np.ndarray, high: np.ndarray, kind: str) -> None:
        """Draw a vertical line from ``low`` to ``high`` at every x."""
        places = zip(*self.at(xs, low), self.at(xs, high)[1], strict=True)
        d = "".join(f"M{across:.1f} {start:.1f}V{end:.1f}" for across, start, end in places)
        self.add("path", f"whisker {kind}", d=d)

    def marker(self, name: str, value: float) -> None:
        """Draw a vertical line that the script can move: its ``data`` attributes hold the ends of the axis."""
        attributes: dict[str, Any] = {"d": f"M0 {_TOP}V{_HEIGHT - _BOTTOM}", "id": name}
        attributes |= {"transform": f"translate({self.at([value], [])[0][0]:.1f} 0)", "data-left": _LEFT}
        attributes |= {"data-right": _WIDTH - _RIGHT, "data-low": self.x.low, "data-high": self.x.high}
        self.add("path", "marker", **attributes)


def bars(
    label: str, names: Sequence[str], values: Numbers, x_label: str, *, intervals: np.ndarray | None = None
) -> Picture:
    """Return a picture with a row for every name: a bar, or a dot with an interval where intervals (n, 2) are given."""
    left, right, row, top = 178, _WIDTH - _RIGHT, 24, 8
    floor = top + row * len(names)
    scale = Scale(np.append(values, [] if intervals is None else intervals), zero=intervals is None)
    picture = Picture(label, floor + 44)
    ticks = scale.ticks(4)
    for value, across in zip(ticks, left + scale(ticks) * (right - left), strict=True):
        picture.add("path", "grid", d=f"M{across:.1f} {top}V{floor}")
        picture.add("text", "tick middle", tick(value), x=f"{across:.1f}", y=floor + 16)
    # Where each bar begins and ends: at 0 and its value, or at the ends of its interval.
    ends = np.column_stack([np.zeros(len(names)), values]) if intervals is None else intervals
    ends = np.sort(left + scale(ends) * (right - left), axis=1)
    middles = left + scale(values) * (right - left)
    rows = zip(names, shortened(names), values, middles, ends, strict=True)
    for i, (name, shown, value, middle, (start, end)) in enumerate(rows):
        y = top + row * (i + 0.5)
        picture.add("text", "tick end name", shown, name, x=left - 8, y=y + 4)
        title = f"{name}: {number(float(value))}"
        if intervals is None:
            width = f"{end - start:.1f}"
            picture.add("rect", "bar c1", title=title, x=f"{start:.1f}", y=y - 8, width=width, height=16)
            continue
        if np.isfinite([start, end]).all():
            d = f"M{start:.1f} {y - 5}v10M{start:.1f} {y}H{end:.1f}M{end:.1f} {y - 5}v10"
            picture.add("path", "whisker c1", d=d)
        picture.add("circle", "dot c1", title=title, cx=f"{middle:.1f}", cy=y, r=4)
    picture.add("text", "label end", x_label, x=right, y=floor + 36)
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
