"""Numbers in words, and charts as values: marks in SVG, which a template writes down and escapes.

Colours are classes, which the style sheet gives for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

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


# -- numbers in words ---------------------------------------------------------------------------


def number(value: float, digits: int = 3) -> str:
    r"""Return a number with a few significant digits, and a thin space between thousands.

    Examples
    --------
    >>> [number(v) for v in (0.0, 0.12345, 12.0, 1e-7, -0.5, float("nan"))]
    ['0', '0.123', '12', '1e-07', '-0.5', '–']
    >>> number(1234567) == "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567"
    True
    """
    if not math.isfinite(value):
        return "–"
    if value == round(value) and abs(value) < 1e12:
        return f"{int(value):,}".replace(",", "\u202f")
    if abs(value) >= 10**digits:
        return number(round(value))
    return f"{value:.{digits}g}"


def decimals_for(values: Iterable[float]) -> int:
    """Return how many decimals numbers in one table need, so that the smallest has three digits.

    Examples
    --------
    >>> decimals_for([1.05, 12.0]), decimals_for([0.03]), decimals_for([812.0]), decimals_for([0.0])
    (2, 4, 0, 2)
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    return max(0, 2 - math.floor(math.log10(min(sizes)))) if sizes else 2


def fixed(value: float, decimals: int) -> str:
    """Return a number with a fixed number of decimals, and a proper minus.

    Examples
    --------
    >>> fixed(-0.126, 2), fixed(float("nan"), 2)
    ('−0.13', '–')
    """
    return f"{value:.{decimals}f}".replace("-", "−") if math.isfinite(value) else "–"


def tick(value: float) -> str:
    """Return a number beside an axis: very small and very large ones as powers of ten.

    Examples
    --------
    >>> [tick(v) for v in (0.25, 1e-6, 0.0005, 2e6)]
    ['0.25', '10⁻⁶', '5·10⁻⁴', '2·10⁶']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return number(value)
    factor, power = f"{value:.2e}".split("e")
    exponent = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{exponent}" if float(factor) == 1 else f"{float(factor):g}·10{exponent}"


def percent(share: float) -> str:
    """Return a share as a percentage; only exact zeros and ones read as 0 % and 100 %.

    Examples
    --------
    >>> [percent(s) for s in (0, 1, 0.5, 0.0123, 0.99996, 1.2e-5)]
    ['0 %', '100 %', '50 %', '1.2 %', 'over 99.9 %', '0.0012 %']
    """
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    if share > 0.9995:
        return "over 99.9 %"
    return f"{share * 100:.{3 if share > 0.1 else 2}g} %"


def listed(words: Sequence[str]) -> str:
    """Return words as an enumeration.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
