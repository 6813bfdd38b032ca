"""Arrays in files: HDF5 and Zarr, and whatever else has a shape and gives rows and columns when it is indexed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from svnn.sources._table import Block, Table, naming


class ArrayTable(Table):
    """An array of two dimensions that is read when it is indexed, by whole chunks where it is stored in chunks.

    A chunk is what a file compresses as one piece. Blocks consist of whole chunks, so each is read and unpacked once.
    Where a band of chunks is too large for a block, as where every column is a chunk, blocks have some columns only.

    Examples
    --------
    >>> import numpy as np
    >>> ArrayTable(np.zeros((5, 3))).stored(limit=10**6).shape
    (5, 3)
    """

    def __init__(self, array: Any, names: Sequence[object] | None = None) -> None:
        super().__init__(array.shape, array.dtype, names)
        self._array = array
        chunks = getattr(array, "chunks", None)
        known = isinstance(chunks, tuple) and len(chunks) == 2 and all(isinstance(each, int) for each in chunks)
        self._chunk: tuple[int, int] = chunks if known and chunks is not None else (1, max(self.shape[1], 1))

    def blocks(self, size: int) -> Iterator[Block]:
        (t, n), (height, width) = self.shape, self._chunk
        band = max(height * n * self.dtype.itemsize, 1)
        if band <= size or width >= n:
            height, width = height * max(size // band, 1), max(n, 1)
        else:
            width *= max(size // (height * width * self.dtype.itemsize), 1)
        for a in range(0, t, height):
            rows = slice(a, min(a + height, t))
            for b in range(0, n, width):
                columns = slice(b, min(b + width, n))
                with naming("X"):
                    values = np.asarray(self._array[rows, columns], dtype=self.dtype)
                yield Block(rows, columns, values)

    def stored(self, limit: int) -> np.ndarray:
        """Return the table: the array itself where it is one of numpy, such as a memory map."""
        return self._array if isinstance(self._array, np.ndarray) else super().stored(limit)
