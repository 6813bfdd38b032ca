"""Charts as SVG: axes, lines, dots and bars. Colours are classes, which the style sheet gives for light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from svnn.reporting._html import Markup, element, joined
from svnn.reporting._words import number, tick

_WIDTH, _HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 46


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
        found = np.asarray(values, dtype=np.float64)
        found = found[np.isfinite(found) & ((found > 0) | (not log))]
        low, high = (float(found.min()), float(found.max())) if found.size else (1.0, 10.0)
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
        """Return about so many round numbers on the axis."""
        if self.log:
            exponents = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            if len(exponents) >= 3:
                return [10.0**e for e in exponents][:: max(1, math.ceil(len(exponents) / 6))]
            span = range(math.floor(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            found = [m * 10.0**e for e in span for m in (1, 2, 5)]
            return [float(f"{v:.1g}") for v in found if self.low <= v <= self.high]
        rough = (self.high - self.low) / about
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


class Chart:
    """A picture with two axes; ``label`` says in words what it shows, for those who cannot see it."""

    def __init__(self, label: str, x: Scale, y: Scale, x_label: str, y_label: str) -> None:
        self.label, self.x, self.y = label, x, y
        self.parts: list[Markup] = [*self._axes(x_label, y_label)]

    def at(self, xs: object, ys: object) -> tuple[np.ndarray, np.ndarray]:
        """Return where values lie in the picture."""
        across = _LEFT + self.x(xs) * (_WIDTH - _LEFT - _RIGHT)  # type: ignore[arg-type]
        down = _HEIGHT - _BOTTOM - self.y(ys) * (_HEIGHT - _TOP - _BOTTOM)  # type: ignore[arg-type]
        return np.atleast_1d(across), np.atleast_1d(down)

    def _axes(self, x_label: str, y_label: str) -> list[Markup]:
        floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        parts = []
        for value in self.y.ticks():
            (down,) = _HEIGHT - _BOTTOM - np.atleast_1d(self.y(value)) * (floor - _TOP)
            parts.append(element("path", d=f"M{_LEFT} {down:.1f}H{right}", class_="grid"))
            parts.append(element("text", tick(value), x=_LEFT - 6, y=f"{down + 4:.1f}", class_="tick end"))
        for value in self.x.ticks():
            (across,) = _LEFT + np.atleast_1d(self.x(value)) * (right - _LEFT)
            parts.append(element("path", d=f"M{across:.1f} {floor}v4", class_="axis"))
            parts.append(element("text", tick(value), x=f"{across:.1f}", y=floor + 17, class_="tick middle"))
        parts.append(element("path", d=f"M{_LEFT} {floor}H{right}", class_="axis"))
        parts.append(element("text", x_label, x=(_LEFT + right) / 2, y=_HEIGHT - 8, class_="label middle"))
        middle = (_TOP + floor) / 2
        turned = f"rotate(-90 14 {middle})"
        parts.append(element("text", y_label, x=14, y=middle, transform=turned, class_="label middle"))
        return parts

    def line(self, xs: object, ys: object, kind: str) -> None:
        """Draw a line through points."""
        across, down = self.at(xs, ys)
        points = "L".join(f"{a:.1f} {d:.1f}" for a, d in zip(across, down, strict=True))
        self.parts.append(element("path", d=f"M{points}", class_=f"line {kind}"))

    def dots(self, xs: object, ys: object, kind: str, titles: Sequence[str] = (), radius: float = 3) -> None:
        """Draw dots; those with a title show it when the pointer is on them."""
        across, down = self.at(xs, ys)
        for i, (a, d) in enumerate(zip(across, down, strict=True)):
            title = element("title", titles[i]) if titles else ""
            self.parts.append(element("circle", title, cx=f"{a:.1f}", cy=f"{d:.1f}", r=radius, class_=f"dot {kind}"))

    def bars_up(self, xs: object, low: object, high: object, kind: str) -> None:
        """Draw a vertical line from ``low`` to ``high`` at every x."""
        across, start = self.at(xs, low)
        _, end = self.at(xs, high)
        path = "".join(f"M{a:.1f} {s:.1f}V{e:.1f}" for a, s, e in zip(across, start, end, strict=True))
        self.parts.append(element("path", d=path, class_=f"whisker {kind}"))

    def band(self, xs: object, low: object, high: object, kind: str) -> None:
        """Fill the area between two lines."""
        across, start = self.at(xs, low)
        _, end = self.at(xs, high)
        there = [f"{a:.1f} {d:.1f}" for a, d in zip(across, end, strict=True)]
        back = [f"{a:.1f} {d:.1f}" for a, d in zip(across[::-1], start[::-1], strict=True)]
        self.parts.append(element("path", d=f"M{'L'.join(there + back)}Z", class_=f"band {kind}"))

    def across(self, value: float, kind: str) -> None:
        """Draw a horizontal line to compare with."""
        ends = [self.x.low, self.x.high]
        self.line(ends, [value, value], kind)

    def marker(self, name: str, value: float) -> None:
        """Draw a vertical line that the script can move: its ``data`` attributes hold the ends of the axis."""
        (a,), _ = self.at(value, self.y.low)
        self.parts.append(
            element(
                "path", d=f"M0 {_TOP}V{_HEIGHT - _BOTTOM}", transform=f"translate({a:.1f} 0)", id=name,
                class_="marker", data_left=_LEFT, data_right=_WIDTH - _RIGHT,
                data_low=self.x.low, data_high=self.x.high,
            )
        )  # fmt: skip

    def svg(self) -> Markup:
        """Return the picture."""
        return _svg(self.label, _HEIGHT, self.parts)


def bars(
    label: str,
    names: Sequence[str],
    values: Sequence[float] | np.ndarray,
    x_label: str,
    *,
    intervals: Sequence[tuple[float, float]] = (),
    zero: bool = True,
) -> Markup:
    """Return a picture with a row for every name: a bar, or a dot with an interval where intervals are given."""
    left, row, top = 178, 24, 8
    floor = top + row * len(names)
    limits = [value for interval in intervals for value in interval]
    scale = Scale([*map(float, values), *limits], zero=zero)
    right = _WIDTH - _RIGHT

    def at(value: float) -> float:
        return left + float(scale(value)) * (right - left)

    parts = []
    for value in scale.ticks(4):
        parts.append(element("path", d=f"M{at(value):.1f} {top}V{floor}", class_="grid"))
        parts.append(element("text", tick(value), x=f"{at(value):.1f}", y=floor + 16, class_="tick middle"))
    for i, (name, shown, value) in enumerate(zip(names, shortened(names), values, strict=True)):
        y = top + row * (i + 0.5)
        parts.append(element("text", shown, element("title", name), x=left - 8, y=y + 4, class_="tick end name"))
        title = element("title", f"{name}: {number(float(value))}")
        if intervals:
            low, high = intervals[i]
            if np.isfinite([low, high]).all():
                ends = f"M{at(low):.1f} {y - 5}v10M{at(low):.1f} {y}H{at(high):.1f}M{at(high):.1f} {y - 5}v10"
                parts.append(element("path", d=ends, class_="whisker c1"))
            parts.append(element("circle", title, cx=f"{at(float(value)):.1f}", cy=y, r=4, class_="dot c1"))
        else:
            start, end = sorted((at(0.0), at(float(value))))
            parts.append(
                element(
                    "rect", title, x=f"{start:.1f}", y=y - 8, width=f"{end - start:.1f}", height=16, class_="bar c1"
                )
            )
    parts.append(element("text", x_label, x=right, y=floor + 36, class_="label end"))
    return _svg(label, floor + 44, parts)


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


def _svg(label: str, height: float, parts: Sequence[Markup]) -> Markup:
    box = f"0 0 {_WIDTH} {height:g}"
    return element("svg", element("title", label), joined(parts), viewBox=box, role="img", class_="chart")
