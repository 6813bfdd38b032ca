"""What all displays share: where they draw, and how features are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from svnn.plotting import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure

    #: One axis, or two of them side by side.
    AxesLike: TypeAlias = Axes | Sequence[Axes] | np.ndarray


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
        """Return the axes to draw on: the given ones, or those of a new figure with so many panels.

        A display with several panels may be given a single axis; it then has to make do with one.
        """
        if ax is None:
            self.figure_, found = style.pyplot().subplots(1, panels, figsize=size, layout="constrained", squeeze=False)
            axes = list(found.flat)
        else:
            axes = [ax] if not isinstance(ax, (Sequence, np.ndarray)) else list(np.ravel(np.asarray(ax, dtype=object)))
            wrong = next((type(each).__name__ for each in axes if not hasattr(each, "get_figure")), None)
            if wrong is not None or len(axes) not in (1, panels):
                wanted = "a matplotlib Axes" + (f", or {panels} of them" if panels > 1 else "")
                raise ValueError(f"ax must be {wanted}, got {wrong or len(axes)}.")
            self.figure_ = axes[0].get_figure()
        self.ax_ = axes[0] if len(axes) == 1 else np.array(axes, dtype=object)
        for axis in axes:
            style.dress(axis)
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
        found = getattr(source, "feature_names_in_", getattr(source, "columns", None))
        if found is not None and len(found) == n:
            return [str(name) for name in found]
    return [f"x{i}" for i in range(n)]
