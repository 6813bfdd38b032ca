"""Parquet, and other tables of Arrow: row groups are read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from svnn.sources._table import Block, Table

_INDEX = "__index_level_"


class ArrowTable(Table):
    """A Parquet file, a dataset of several files, or a table of Arrow; all columns are features.

    Parameters
    ----------
    source : pyarrow.parquet.ParquetFile, pyarrow.dataset.Dataset or pyarrow.Table
        The index of a frame that pandas stored beside its columns is no feature.
    drop : sequence of str
        Columns that are no features either; they are not read.
    """

    def __init__(self, source: Any, drop: Sequence[str] = ()) -> None:
        self._source = source
        schema = source.schema_arrow if hasattr(source, "schema_arrow") else source.schema
        absent = [name for name in drop if name not in schema.names]
        if absent:
            raise ValueError(f"there is no column {absent[0]!r} to drop.")
        is_feature = [not field.name.startswith(_INDEX) and field.name not in drop for field in schema]
        self._places = np.flatnonzero(is_feature).tolist()
        fields = [schema.field(i) for i in self._places]
        names = [field.name for field in fields]
        text = [repr(field.name) for field in fields if not _is_number(field.type)]
        if text:
            shown = ", ".join(text[:5]) + (" …" if len(text) > 5 else "")
            raise ValueError(f"X has columns that are not numbers: {shown}. Drop them or encode them first.")
        single = bool(fields) and all(str(field.type) in ("float", "halffloat") for field in fields)
        super().__init__((_count(source), len(names)), np.float32 if single else np.float64, names)

    def blocks(self, size: int) -> Iterator[Block]:
        n, start = self.shape[1], 0
        height = max(size // max(n * self.dtype.itemsize, 1), 1)
        for batch in self._batches(height):
            for a in range(0, batch.num_rows, height):  # the size asked for is a wish in some versions
                part = batch.slice(a, height)
                values = np.empty((part.num_rows, n), dtype=self.dtype, order="F")
                for i, column in enumerate(part.columns):
                    values[:, i] = _numbers(column)
                yield Block(slice(start, start + len(values)), slice(0, n), values)
                start += len(values)

    def _batches(self, height: int) -> Iterator[Any]:
        if hasattr(self._source, "iter_batches"):
            if len(set(self.names or ())) == len(self._places):
                return self._source.iter_batches(batch_size=height, columns=self.names)
            batches = self._source.iter_batches(
                batch_size=height
            )  # asked for by name, they would come in another order
            return (batch.select(self._places) for batch in batches)
        if hasattr(self._source, "to_reader"):
            return iter(self._source.select(self._places).to_batches(max_chunksize=height))
        options = {"batch_size": height, "batch_readahead": 0, "fragment_readahead": 0}
        return self._source.to_batches(columns=self.names, **options)


def _count(source: Any) -> int:
    if hasattr(source, "metadata") and hasattr(source, "iter_batches"):
        return int(source.metadata.num_rows)
    return int(source.num_rows if hasattr(source, "to_reader") else source.count_rows())


def _is_number(kind: Any) -> bool:
    types = import_module("pyarrow.types")
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _numbers(column: Any) -> np.ndarray:
    """Return a column as an array; what is missing is NaN."""
    pa = import_module("pyarrow")
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(column.type):
        column = (column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column).cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)
