"""The base of all displays: their axes, and one set of colours, sizes and lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    #: One axis, or two of them side by side.
    AxesLike: TypeAlias = Axes | Sequence[Axes] | np.ndarray

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
    """Options of a line in matplotlib."""

    color: str
    marker: str
    linestyle: str
    markersize: float
    markeredgecolor: str
    fillstyle: str


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``, or raise an error that says how to install it."""
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
    """Give an axis the light grid and the two spines of all plots."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.set_axisbelow(True)
    axis.grid(False, which="both")
    if grid:
        axis.grid(True, color=str(RC["grid.color"]))


def note(axis: Axes, text: str) -> None:
    """Write a line in small letters above an axis, to the left."""
    axis.set_title(text, loc="left", fontsize=9, color=GREY)


def plain(*texts: str) -> dict[str, Any]:
    """Return the setting with which matplotlib draws these texts as they are, also where they have dollar signs."""
    return {"parse_math": not any("$" in text for text in texts)}


def legend(axis: Axes, handles: Sequence[Any], names: Sequence[str], **options: Any) -> None:
    """Put a legend on an axis with every name as it is; matplotlib leaves out those that begin with an underscore."""
    drawn = axis.legend(handles, ["name"] * len(names), **options)
    for text, name in zip(drawn.get_texts(), names, strict=True):
        text.set(text=name, **plain(name))


def colours(*, negative: bool = True) -> Colormap:
    """Return the colours from negative over white to positive, or from white; masked cells look like dropped pairs."""
    from matplotlib.colors import LinearSegmentedColormap

    steps = [*(["#003a5c", NEGATIVE] if negative else []), "white", POSITIVE, "#6e2f00"]
    return LinearSegmentedColormap.from_list("svnn", steps).with_extremes(bad=DROPPED)


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


class Display:
    """Data to draw; ``plot`` draws it and sets ``ax_`` and ``figure_``.

    Attributes
    ----------
    ax_ : matplotlib Axes, or ndarray of them where there are several panels
    figure_ : matplotlib Figure
    """

    ax_: Any
    figure_: Figure

    def _start(self, ax: AxesLike | None, size: tuple[float, float], panels: int = 1) -> list[Axes]:
        """Return the axes to draw on: the given ones, or those of a new figure with a number of panels.

        A display with several panels may be given a single axis.
        """
        if ax is None:
            self.figure_, panes = pyplot().subplots(1, panels, figsize=size, layout="constrained", squeeze=False)
            axes = list(panes.flat)
        else:
            axes = [ax] if not isinstance(ax, (Sequence, np.ndarray)) else list(np.ravel(np.asarray(ax, dtype=object)))
            wrong = next((type(each).__name__ for each in axes if not hasattr(each, "get_figure")), None)
            if wrong is not None or len(axes) not in (1, panels):
                wanted = "a matplotlib Axes" + (f", or {panels} of them" if panels > 1 else "")
                raise ValueError(f"ax must be {wanted}, got {wrong or len(axes)}.")
            self.figure_ = axes[0].get_figure()
        self.ax_ = axes[0] if len(axes) == 1 else np.array(axes, dtype=object)
        for axis in axes:
            dress(axis)
        return axes


def feature_names(n: int, names: Sequence[str] | None = None, *sources: object) -> list[str]:
    """Return n names of features: the given ones, else those of the first source that has some, else x0, x1, ….

    A source is a fitted estimator or a data frame.

    Examples
    --------
    >>> feature_names(3), feature_names(2, ["age", "height"])
    (['x0', 'x1', 'x2'], ['age', 'height'])
    """
    if names is not None:
        if len(names) != n:
            raise ValueError(f"names has {len(names)} entries for {n} features; give one name for each feature.")
        return [str(name) for name in names]
    for source in sources:
        known = getattr(source, "feature_names_in_", getattr(source, "columns", None))
        if known is not None and len(known) == n:
            return [str(name) for name in known]
    return [f"x{i}" for i in range(n)]
