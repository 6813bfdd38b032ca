"""How all plots look: one set of colours, sizes and lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

#: Colours that colour-blind readers can tell apart (Okabe & Ito), and the marker that goes with each.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5A5A5A", "#8B6914", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES = ("-", "--", "-.", ":")
GREY = "#5A5A5A"
#: Of positive and of negative numbers, and of pairs that a sparsifier dropped.
POSITIVE, NEGATIVE, DROPPED = "#D55E00", "#0072B2", "#e9e9e9"
#: Letters of a name that fit beside an axis.
LONGEST_NAME = 24

#: matplotlib's settings.
RC: Mapping[str, object] = {
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "text.usetex": False,  # names of features are no LaTeX
}


class Look(TypedDict, total=False):
    """How a line is drawn, in matplotlib's words."""

    color: str
    marker: str
    linestyle: str
    markersize: float
    markeredgecolor: str
    fillstyle: str


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; install it with: pip install 'svnn[plot]'") from error
    return plt


def context() -> AbstractContextManager[None]:
    """Return the context in which figures are made and saved."""
    pyplot()
    import matplotlib as mpl

    return mpl.rc_context(dict(RC))  # type: ignore[arg-type]  # matplotlib lists the names of all settings


def dress(axis: Axes, *, grid: bool = True) -> None:
    """Give an axis, which may be the caller's own, the light grid and the two spines of all plots."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.set_axisbelow(True)
    axis.grid(False, which="both")
    if grid:
        axis.grid(True, color=str(RC["grid.color"]))


def note(axis: Axes, text: str) -> None:
    """Write a line in small letters above an axis, to the left: what a reader needs beside the labels."""
    axis.set_title(text, loc="left", fontsize=9, color=GREY)


def plain(*texts: str) -> dict[str, Any]:
    """Return the setting with which matplotlib draws these texts as they are, also where they have dollar signs."""
    return {"parse_math": not any("$" in text for text in texts)}


def legend(axis: Axes, handles: Sequence[Any], names: Sequence[str], **options: Any) -> None:
    """Put a legend on an axis with every name as it is; matplotlib leaves out those that begin with an underscore."""
    found = axis.legend(handles, ["name"] * len(names), **options)
    for text, name in zip(found.get_texts(), names, strict=True):
        text.set(text=name, **plain(name))


def diverging() -> Colormap:
    """Return the colours from negative over white to positive; what is masked has the colour of dropped pairs."""
    return _colours("#003a5c", NEGATIVE, "white", POSITIVE, "#6e2f00")


def increasing() -> Colormap:
    """Return the colours from white to positive."""
    return _colours("white", POSITIVE, "#6e2f00")


def _colours(*steps: str) -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("svnn", list(steps)).with_extremes(bad=DROPPED)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Return a colour, a marker and dashes for every name."""
    return {
        name: {
            "color": PALETTE[i % len(PALETTE)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // len(PALETTE) % len(DASHES)],
        }
        for i, name in enumerate(names)
    }


def short_names(names: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Return names that fit beside an axis: in one line, without the words that all share, and cut in the middle.

    Examples
    --------
    >>> short_names(["lh_insula_thickness", "rh_insula_thickness", "lh_cuneus_thickness"])
    ['lh_insula', 'rh_insula', 'lh_cuneus']
    >>> short_names(["the total concentration of protein", "fat"], longest=16)
    ['the tot…protein', 'fat']
    """
    names = ["".join(c if c.isprintable() else " " for c in str(name)) for name in names]
    names = [" ".join(name.split()) for name in names]
    if len(names) > 1:
        start, end = _shared_words(names), _shared_words([name[::-1] for name in names])
        if all(len(name) > start + end for name in names):
            names = [name[start : len(name) - end] for name in names]
    half = (longest - 1) // 2
    return [name if len(name) <= longest else f"{name[:half].rstrip()}…{name[-half:].lstrip()}" for name in names]


def _shared_words(names: Sequence[str]) -> int:
    """Return how many letters the names share at their start: whole words only, with the sign that ends them."""
    alike = 0
    for letters in zip(*names, strict=False):
        if len(set(letters)) > 1:
            break
        alike += 1
    ends = [match.end() for match in re.finditer(r"[_\-. :/]", names[0][:alike])]
    return ends[-1] if ends else 0
