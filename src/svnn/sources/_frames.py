"""Files of tables as pandas frames: CSV, Parquet, Feather, NPZ, or CSV from a pipe. Every error is one line."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from svnn.sources._memory import available_memory, check_memory, unpacked_size

if TYPE_CHECKING:
    import pandas as pd

PathLike: TypeAlias = str | os.PathLike[str]

TEXT = (".csv", ".tsv", ".txt", ".dat", ".data")
#: Approximate bytes of memory for each byte of text while a table is read. The numbers of short cells take as much
#: memory as those of long ones, so a cell counts as at least this many bytes.
GROWTH, SHORTEST_CELL = 4, 6
_SEPARATORS = (b",", b";", b"\t", b"|")
_PIECE = 2**18
#: Approximate bytes of memory for each byte of a file while it is read, and for each cell of a file of Arrow.
_GROWTH = {**dict.fromkeys(TEXT, GROWTH), ".parquet": 6, ".pq": 6, ".feather": 3, ".npz": 3}
_CELL = 24
_FORMATS = "CSV (also .tsv, .txt and .gz), Parquet, Feather and NPZ"


@dataclass(frozen=True, eq=False)
class Sheet:
    """The columns of a file, and how they are written there.

    Attributes
    ----------
    frame : DataFrame
        The names of its columns are text, and all differ.
    columns : sequence of str
        The names of all columns of the file, also of those that were dropped from the frame.
    twice : sequence of str
        The names that several columns have in the file.
    decimal_comma, header_is_data : bool
        Whether numbers are written as in ``1,5``, and whether the names are numbers.
    """

    frame: pd.DataFrame
    columns: Sequence[str]
    twice: Sequence[str] = ()
    decimal_comma: bool = False
    header_is_data: bool = False


def titled(path: PathLike) -> str:
    """Return the name of a file for messages."""
    return "standard input" if os.fspath(path) == "-" else str(path)


def read_sheet(path: PathLike) -> Sheet:
    """Return the columns of a file; ``"-"`` is CSV from standard input."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError('Reading tables needs pandas: pip install "svnn[compare]".') from None
    if os.fspath(path) == "-":
        return _named(_read_csv(read_text(path), titled(path)))
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name the file in it.")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    packed = suffixes[-1] == ".gz"
    kind = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1]
    if kind not in _GROWTH or (packed and kind not in TEXT):
        raise ValueError(f"{path} has the ending {path.suffix!r}, which is not known: save it as {_FORMATS}.")
    check_memory(path, _needed(path, kind), available_memory())
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    if kind in TEXT:
        return _named(_read_csv(read_text(path), str(path)))
    return _named(_read_npz(path) if kind == ".npz" else _read_arrow(path))


def _named(sheet: Sheet) -> Sheet:
    """Give every column a name that is text and unique: repeated names get a number."""
    frame, names = sheet.frame, [str(name).strip() for name in sheet.columns]
    # Half of a pair of UTF-16 becomes a question mark: no file and no terminal takes it.
    names = [name.encode(errors="replace").decode() for name in names]
    counts, used, unique = Counter(names), set(names), []
    last = dict.fromkeys(names, 0)
    for name in names:
        new, last[name] = name, last[name] + 1
        while last[name] > 1 and (new := f"{name} ({last[name]})") in used:
            last[name] += 1
        used.add(new)
        unique.append(new)
    frame.columns = unique
    return replace(sheet, columns=unique, twice=sorted(name for name, count in counts.items() if count > 1))


# -- text ---------------------------------------------------------------------------------------------------


def _read_csv(text: bytes, name: str) -> Sheet:
    """Read a table of text with a header; the separator is the one that the header has most of."""
    import pandas as pd

    found = re.search(rb"[^\r\n]+", text)
    header = "" if found is None else found[0].decode()
    if not header.strip():
        raise ValueError(f"{name} is empty.")
    separator = max("\t;,|", key=header.count)
    if separator not in header:
        separator = r"\s+" if len(header.split()) > 1 else ","
    try:
        names = header.split() if separator == r"\s+" else next(csv.reader([header], delimiter=separator))
        frame = pd.read_csv(io.BytesIO(text), sep=separator, skipinitialspace=True, low_memory=False)
    except (ValueError, csv.Error) as error:
        said = " ".join(str(error).split())
        raise ValueError(said if said.startswith(name) else f"{name} is not a table: {said}") from None
    if frame.empty:
        raise ValueError(f"{name} has a header, but no rows below it.")
    # pandas would rename repeated names silently. A name in quotes may continue on the next line.
    whole = len(frame.columns) == len(names) and header.count('"') % 2 == 0
    return Sheet(
        frame.reset_index(drop=True),
        names if whole else list(frame.columns),
        decimal_comma=separator == ";",
        header_is_data=bool(pd.to_numeric(pd.Series(names), errors="coerce").notna().all()),
    )


def read_text(path: PathLike) -> bytes:
    """Return text in UTF-8 of a file, also of one that gzip has packed (``.gz``), or of standard input (``"-"``).

    It is read some at a time, and only as long as a table of it fits in memory. Every error is one line.
    """
    name, free = titled(path), available_memory()
    packed = Path(path).suffix.lower() == ".gz"
    with (
        nullcontext(sys.stdin.buffer)
        if os.fspath(path) == "-"
        else gzip.open(path)
        if packed
        else open(path, "rb") as file
    ):
        parts: list[bytes] = []
        size = lines = 0
        cells = dict.fromkeys(_SEPARATORS, 0)
        try:
            while part := file.read(_PIECE):
                parts.append(part)
                size, lines = size + len(part), lines + part.count(b"\n")
                cells = {separator: count + part.count(separator) for separator, count in cells.items()}
                check_memory(name, GROWTH * max(size, SHORTEST_CELL * (lines + max(cells.values()))), free)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _unreadable(name, f"cannot be unpacked ({error}); get it again") from None
    text = b"".join(parts)
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(name, f"is not text in UTF-8 (byte {error.start}); save it as CSV in UTF-8") from None
    if b"\0" in text:
        raise _unreadable(name, "holds null characters; save it as CSV in UTF-8")
    return text.removeprefix(codecs.BOM_UTF8)


def _unreadable(name: str, why: str) -> ValueError:
    return ValueError(f"{name} is not a readable table: it {why}.")


# -- binary formats -----------------------------------------------------------------------------------------


def _read_arrow(path: Path) -> Sheet:
    import pandas as pd

    feather = path.suffix.lower() == ".feather"
    try:
        frame = (pd.read_feather if feather else pd.read_parquet)(path)
    except ImportError:
        raise ImportError(f'Reading {path} needs pyarrow: pip install "svnn[compare]".') from None
    except Exception as error:  # pyarrow raises many classes, and the formats have many ways to be damaged
        what = "Feather" if feather else "Parquet"
        raise ValueError(f"{path} is not a readable {what} file: {_line(error)}") from None
    if any(name is not None for name in frame.index.names):  # a column that pandas stored as an index
        frame = frame.reset_index(allow_duplicates=True)
    return Sheet(frame, list(frame.columns))


def _read_npz(path: Path) -> Sheet:
    """Read arrays of equal length: a matrix becomes columns, an array with one value for each row becomes one."""
    import pandas as pd

    arrays = read_arrays(path)
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    if len(matrices) != 1:
        found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise ValueError(f"{path} must hold one matrix of features and arrays of one value a row; it holds {found}.")
    ((name, matrix),) = matrices.items()
    given = column_names(arrays, matrix)
    names = [f"{name}{i}" for i in range(matrix.shape[1])] if given is None else [str(each) for each in given]
    rest = {each: array for each, array in arrays.items() if array.shape == matrix.shape[:1] and array is not given}
    frame = pd.concat([pd.DataFrame(matrix, columns=names), pd.DataFrame(rest)], axis=1)
    return Sheet(frame, list(frame.columns))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an NPZ file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a readable NPZ file: {_line(error)}") from None


def column_names(arrays: Mapping[str, np.ndarray], matrix: np.ndarray) -> Any:
    """Return the array of an NPZ file that holds the names of the columns of a matrix, or None."""
    named = (arrays[name] for name in ("feature_names", "names", "columns") if name in arrays)
    return next((names for names in named if names.shape == matrix.shape[1:]), None)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _needed(path: Path, kind: str) -> float:
    """Return approximately how many bytes of memory reading a file takes; packed text is measured while it is read."""
    if path.suffix.lower() == ".gz":
        return 0
    size = max(path.stat().st_size, unpacked_size(path) if kind == ".npz" else 0)
    cells = _arrow_cells(path, kind) if kind in (".parquet", ".pq", ".feather") else 0
    return max(_GROWTH[kind] * size, _CELL * cells)


def _arrow_cells(path: Path, kind: str) -> int:
    """Return the number of cells that a file of Arrow says it has; a column of one value takes next to no bytes."""
    try:
        dataset = import_module("pyarrow.dataset").dataset(path, format="feather" if kind == ".feather" else "parquet")
        return dataset.count_rows() * len(dataset.schema)
    except Exception:  # the reader says what is wrong
        return 0


def listed(names: Sequence[object], most: int = 5) -> str:
    """Return names for a message, the first ones of many.

    Examples
    --------
    >>> listed(["a", "b"]), listed(range(9))
    ('a, b', '0, 1, 2, 3, 4, … (9 in all)')
    """
    shown = ", ".join(str(name) for name in list(names)[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
