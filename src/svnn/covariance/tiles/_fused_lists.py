"""The largest products of each feature on a GPU, in one pass: lists of partners, and levels that rise with them.

An area of products is entered into the lists of its features. A level lets few of them in, since it is the smallest of
those that a feature keeps of all that it has met. Areas grow with what their features have met.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from svnn.covariance.tiles._fused import ROUNDING, STEP, Area, FusedTiles, each_area, kernels
from svnn.covariance.tiles._order_statistics import largest_of_rows
from svnn.covariance.tiles._products import Pairs, Tiles

#: The largest rectangle whose pairs are entered into lists at once.
_TALLEST, _WIDEST = 2**13, 2**18
#: Length beyond which a list is shortened, and the room of lists, both per value to keep.
_LEAST, _ROOM = 4, 8
#: Times that a rectangle is entered again because lists were too short.
_TRIES = 12


@largest_of_rows.register
def _(tiles: FusedTiles, k: int) -> tuple[Tensor, Pairs | None]:
    room = 1 << (_ROOM * k - 1).bit_length()
    n = tiles.data.n_features
    if room > 2048 or 8 * room * n > tiles.limit or n < 2 * room:
        return largest_of_rows.dispatch(Tiles)(tiles, k)
    lists = _Lists(tiles, k, room)
    for area in each_area(tiles, _growing(len(tiles.half)), "largest of each feature"):
        if not lists.enter(area):
            return largest_of_rows.dispatch(Tiles)(tiles, k)
    best = lists.finish()
    rows = torch.arange(n, dtype=torch.int32, device=tiles.device)[:, None].expand(n, k)
    partner = lists.partners[:n, :k]
    there = best != 0
    first, second, values = torch.minimum(rows, partner)[there], torch.maximum(rows, partner)[there], best[there]
    keys, order = torch.sort(first.long() * n + second)
    once = torch.ones_like(keys, dtype=torch.bool)
    torch.ne(keys[1:], keys[:-1], out=once[1:])
    keys, values = keys[once], values[order[once]]
    pairs = Pairs(torch.bincount(keys // n, minlength=n), (keys % n).int(), values)
    return best.abs().flip(1).contiguous(), pairs


def _growing(n: int) -> Iterator[Area]:
    """Yield areas that cover the upper triangle, from the first rows on.

    None is larger than what its features have met before, so that their levels let few pairs pass.
    """
    row = 0
    while row < n:
        height = min(max(row, STEP), _TALLEST, n - row)
        column = row
        while column < n:
            width = min(max(column, STEP), _WIDEST, n - column)
            yield row, row + height, column, column + width
            column += width
        row += height


class _Lists:
    """For each feature a list of those it has large products with, and the level that a product must exceed."""

    def __init__(self, tiles: FusedTiles, k: int, room: int) -> None:
        self.tiles, self.k, self.room = tiles, k, room
        n = len(tiles.half)
        self.partners = torch.zeros((n, room), dtype=torch.int32, device=tiles.device)
        self.counts = torch.zeros(n, dtype=torch.int32, device=tiles.device)
        self.limits = tiles.limits(0.0)

    def enter(self, area: Area) -> bool:
        """Enter the pairs of an area; False where they cannot be told apart: too many are equal, or nearly so."""
        row, end_row, column, end_column = area
        sides = [(row, end_row), (max(column, end_row), end_column)]
        sides = [(a, b) for a, b in sides if a < b]
        before = [self.counts[a:b].clone() for a, b in sides]
        for _ in range(_TRIES):
            self.tiles.launch(kernels().list_partners, self.limits, area, self.counts, self.partners, self.room)
            if int(torch.stack([self.counts[a:b].max() for a, b in sides]).max()) <= self.room:
                # The rows go on to meet many more at once, so their levels must be up to date.
                for (a, b), least in zip(sides, (1, _LEAST), strict=False):
                    self._shorten(a, b, least=least * self.k, rewrite=True)
                return True
            # What found room says where the levels may be. With these all starts again.
            for (a, b), counts in zip(sides, before, strict=True):
                self._shorten(a, b, least=self.room - 1, rewrite=False)
                self.counts[a:b] = counts
        return False

    def finish(self) -> Tensor:
        """Return the products of the largest pairs of each feature, the largest first; zeros where there are fewer."""
        n = self.tiles.data.n_features
        best = torch.zeros((n, self.k), dtype=torch.float32, device=self.tiles.device)
        self._shorten(0, n, least=0, rewrite=True, best=best)
        return best

    def _shorten(self, a: int, b: int, *, least: int, rewrite: bool, best: Tensor | None = None) -> None:
        Z = self.tiles.data.Z
        kernels().shorten[(b - a,)](
            *(Z, Z.shape[1], a, self.k, least, 1 - ROUNDING),
            *(self.counts, self.partners, self.limits, self.limits if best is None else best),
            ROOM=self.room,
            DEPTH=16,
            num_warps=1,  # across warps, Triton 3.6 mixes up what it sorts
            REWRITE=rewrite,
            WRITE_VALUES=best is not None,
        )
