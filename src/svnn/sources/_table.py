"""A table that is read in pieces: its shape, its names, and blocks of dense numbers."""

from __future__ import annotations

import mmap
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

#: Bytes of a block: an eighth of the memory that may be used, between these two.
_SMALLEST, _LARGEST = 2**20, 2**28


class Block(NamedTuple):
    """Some rows and columns of a table, and the dense array of their values."""

    rows: slice
    columns: slice
    values: np.ndarray


class Table(ABC):
    """Rows of samples and columns of features that are not an array in memory.

    A subclass implements :meth:`blocks`. Where it has a shorter way to its columns, as sparse tables have, it also
    implements :meth:`columns`.

    Attributes
    ----------
    shape : (t, N)
    dtype : numpy.dtype
        That of the values, in the byte order of this machine; only real numbers are allowed.
    names : list of str, or None
        Names of the features, where they have some.
    notes : tuple of str
        What was done to the columns of a file to get there.
    """

    ndim = 2
    notes: tuple[str, ...] = ()

    def __init__(self, shape: Sequence[int], dtype: Any, names: Sequence[object] | None = None) -> None:
        if len(shape) != 2:
            raise ValueError(f"X must have two dimensions, samples and features; it has shape {tuple(shape)}.")
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype).newbyteorder("=")
        if self.dtype.kind == "c":
            raise ValueError(
                "X holds complex numbers. Complex data not supported: pass the real and the imaginary parts as "
                "separate real columns."
            )
        if self.dtype.kind not in "fiub":
            raise ValueError(f"X must hold real numbers only, got dtype {self.dtype}.")
        self.names = None if names is None else [str(name) for name in names]
        if self.names is not None and len(self.names) != self.shape[1]:
            raise ValueError(f"X has {self.shape[1]} features, but {len(self.names)} names.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} samples, {self.shape[1]} features, {self.dtype})"

    @abstractmethod
    def blocks(self, size: int) -> Iterator[Block]:
        """Yield the whole table in blocks of about ``size`` bytes, each value once; blocks of rows come in order."""

    def rows(self, limit: int) -> Iterator[np.ndarray]:
        """Yield all rows, in order, some at a time; see :meth:`stored` about ``limit``."""
        blocks = self.blocks(block_size(limit))
        first = next(blocks, None)
        if first is None:
            return
        if first.columns == slice(0, self.shape[1]):
            yield first.values
            yield from (block.values for block in blocks)
            return
        table = self.stored(limit)
        step = max(block_size(limit) // max(table[:1].nbytes, 1), 1)
        for a in range(0, len(table), step):
            yield table[a : a + step]

    def columns(self, limit: int) -> Any:
        """Return something whose columns can be read by ``[:, a:b]``, in any order; see :meth:`stored`."""
        return self.stored(limit)

    def stored(self, limit: int) -> np.ndarray:
        """Return the dense table: in memory up to a quarter of ``limit`` bytes, else in a file.

        The values of a feature lie side by side, since features are what is read next. The file has no name: it
        disappears together with the array.
        """
        t, n = self.shape
        mapped = t * n * self.dtype.itemsize > limit // 4
        if mapped:
            with tempfile.TemporaryFile(prefix="svnn-") as file:
                out: Any = np.memmap(file, dtype=self.dtype, mode="w+", shape=(n, t))
        else:
            out = np.empty((n, t), dtype=self.dtype)
        for block in self.blocks(block_size(limit)):
            out[block.columns, block.rows] = block.values.T
            if mapped:
                _let_go(out)
        return out.T


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


class Columns:
    """An array of shape (t, N) whose columns are made when they are indexed.

    Parameters
    ----------
    shape : (t, N)
    dtype : numpy.dtype
    dense : callable
        Returns the columns from its first to before its second argument, as an array.
    """

    ndim = 2

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], dense: Callable[[int, int], np.ndarray]) -> None:
        self.shape, self.dtype, self._dense = shape, dtype, dense

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(columns, slice):
            start, stop, step = columns.indices(self.shape[1])
            part = self._dense(start, max(stop, start))[:, ::step]
        elif np.ndim(columns):
            part = np.concatenate([self._dense(int(c), int(c) + 1) for c in columns], axis=1)
        else:
            part = self._dense(int(columns), int(columns) + 1)[:, 0]
        return part if isinstance(rows, slice) and rows == slice(None) else part[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Turn every error about a file, or the table "X", into a ValueError of one line that names it."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # the packages raise many classes, and the formats have many ways to be damaged
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise ValueError(text if text.startswith(str(what)) else f"{what}: {text}") from None


def need(package: str, message: str) -> Any:
    """Return an optional package; without it the message says what needs it, and how to get it."""
    try:
        return import_module(package)
    except ImportError:
        raise ImportError(message) from None


def block_size(limit: int) -> int:
    """Return the bytes of a block where ``limit`` bytes may be used.

    Examples
    --------
    >>> block_size(0), block_size(2**30) == 2**27
    (1048576, True)
    """
    return min(max(limit // 8, _SMALLEST), _LARGEST)


def _let_go(array: np.memmap) -> None:
    """Take the pages of a mapped file out of this process; the system writes them when it likes."""
    held = getattr(array, "_mmap", None)
    if held is not None and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)
