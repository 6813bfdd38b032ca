"""Numbers as words in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


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
