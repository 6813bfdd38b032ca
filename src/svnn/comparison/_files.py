"""Files of tables as pandas frames: CSV, Parquet, Feather, NPZ, or CSV from a pipe. What cannot be read is one line."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

PathLike: TypeAlias = str | os.PathLike[str]

TEXT = (".csv", ".tsv", ".txt", ".dat", ".data")
#: About how many bytes of memory a byte of a file becomes while it is read.
_GROWTH = {**dict.fromkeys(TEXT, 4.0), ".gz": 15.0, ".parquet": 6.0, ".feather": 3.0, ".npz": 3.0}
#: The arrays of an NPZ that may hold the names of columns.
_NAMES = ("feature_names", "names", "columns")
_FORMATS = "CSV (also .tsv, .txt and .gz), Parquet, Feather and NPZ"


def read_frame(path: PathLike) -> pd.DataFrame:
    """Return a file as a frame whose columns are named by text; ``"-"`` is CSV from standard input."""
    _import_pandas()
    if os.fspath(path) == "-":
        return _named(_read_csv("standard input", sys.stdin.buffer.read()))
    path = Path(path).expanduser()
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name the file in it.")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    packed = suffixes[-1] == ".gz"
    kind = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1]
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {
        **dict.fromkeys(TEXT, _read_text),
        ".parquet": _read_arrow,
        ".pq": _read_arrow,
        ".feather": _read_arrow,
        ".npz": _read_npz,
    }
    if kind not in readers or (packed and kind not in TEXT):
        raise ValueError(f"{path} has the ending {path.suffix!r}, which is not known: save it as {_FORMATS}.")
    _check_memory(path, ".gz" if packed else kind)
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    return _named(readers[kind](path))


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError('Reading tables needs pandas: pip install "svnn[compare]".') from None
    return pandas


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Give every column a name that is text and that no other has; the original names stay in ``attrs``."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()  # Parquet and Feather may hold a column as an index
    names = [str(name).strip() for name in frame.attrs.get("names", frame.columns)]
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    frame.columns = unique
    frame.attrs = {**frame.attrs, "twice": sorted(name for name, count in seen.items() if count > 1)}
    return frame


# -- text ---------------------------------------------------------------------------------------------------


def _read_text(path: Path) -> pd.DataFrame:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked ({error}); get it again.") from None
    return _read_csv(str(path), content)


def _read_csv(name: str, content: bytes) -> pd.DataFrame:
    """Read a table of text with a header; the separator is the one that the header has most of."""
    import pandas as pd

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not text in UTF-8 (byte {error.start}); save it as CSV in UTF-8.") from None
    if "\0" in text[:100_000]:
        raise ValueError(f"{name} holds null characters, so it is no table of text; save it as CSV in UTF-8.")
    lines = text.lstrip("\r\n").split("\n", 1)
    header = lines[0].strip("\r")
    if not text.strip():
        raise ValueError(f"{name} is empty.")
    separator = max("\t;,|", key=header.count)
    if separator not in header:
        separator = r"\s+" if len(header.split()) > 1 else ","
    names = header.split() if separator == r"\s+" else next(csv.reader([header], delimiter=separator))
    if len(lines) == 1 or not lines[1].strip():
        raise ValueError(f"{name} has a header, but no rows below it.")
    try:
        frame = pd.read_csv(io.StringIO(text), sep=separator, skipinitialspace=True, low_memory=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise ValueError(f"{name} is not a table: {' '.join(str(error).split())}") from None
    if len(frame.columns) == len(names):
        frame.attrs["names"] = names  # pandas would rename those that come twice without a word
    frame.attrs["decimal_comma"] = separator == ";"
    frame.attrs["header_is_data"] = all(_is_number(each) for each in names)
    return frame.reset_index(drop=True)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- binary formats -----------------------------------------------------------------------------------------


def _read_arrow(path: Path) -> pd.DataFrame:
    import pandas as pd

    feather = path.suffix.lower() == ".feather"
    try:
        return (pd.read_feather if feather else pd.read_parquet)(path)
    except ImportError:
        raise ImportError(f'Reading {path} needs pyarrow: pip install "svnn[compare]".') from None
    except Exception as error:  # pyarrow has many kinds, and the formats have many ways to be damaged
        what = "Feather" if feather else "Parquet"
        raise ValueError(f"{path} is not a readable {what} file: {_line(error)}") from None


def _read_npz(path: Path) -> pd.DataFrame:
    """Read arrays of equal length: a matrix becomes columns, an array with one value for each row becomes one."""
    import pandas as pd

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a readable NPZ file: {_line(error)}") from None
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    if len(matrices) != 1:
        found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise ValueError(f"{path} must hold one matrix of features and arrays of one value a row; it holds {found}.")
    ((name, matrix),) = matrices.items()
    given = next((arrays[each] for each in _NAMES if each in arrays and arrays[each].shape == matrix.shape[1:]), None)
    names = [f"{name}{i}" for i in range(matrix.shape[1])] if given is None else [str(each) for each in given]
    rest = {
        each: array
        for each, array in arrays.items()
        if array.shape == matrix.shape[:1] and (given is None or array is not given)
    }
    frame = pd.DataFrame(matrix, columns=names)
    return pd.concat([frame, pd.DataFrame(rest)], axis=1)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


# -- memory -------------------------------------------------------------------------------------------------


def _check_memory(path: Path, kind: str) -> None:
    """Raise an error where the table would not fit in memory, before any of it is read."""
    needed, free = _needed(path, kind), available_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"{path} would take about {needed / 2**30:.1f} GB of memory, and {free / 2**30:.1f} GB are free: make a "
            "smaller file of some of its rows or columns first, or save it as Parquet with float32 columns."
        )


def _needed(path: Path, kind: str) -> float:
    """Return about how many bytes reading a file takes."""
    size = path.stat().st_size
    if kind == ".npz" and zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            return _GROWTH[kind] * _unpacked_size(file)
    return _GROWTH.get(kind, 6.0) * size


def _unpacked_size(file: IO[bytes]) -> int:
    try:
        return sum(member.file_size for member in zipfile.ZipFile(file).infolist())
    except (zipfile.BadZipFile, OSError):
        return 0


def available_memory() -> int | None:
    """Return the bytes of memory that are free, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def listed(names: Sequence[object], most: int = 5) -> str:
    """Return names for a message, the first ones of many.

    Examples
    --------
    >>> listed(["a", "b"]), listed(range(9))
    ('a, b', '0, 1, 2, 3, 4, … (9 in all)')
    """
    shown = ", ".join(str(name) for name in list(names)[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
