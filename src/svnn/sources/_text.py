"""Text of files, packed or not: it is read some at a time, and only as long as a table of it fits in memory."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from svnn.sources._memory import check_memory

#: Approximate bytes of memory for each byte of text while a table is read. The numbers of short cells take as much
#: memory as those of long ones, so a cell counts as at least this many bytes.
GROWTH, SHORTEST_CELL = 4, 6
_SEPARATORS = (b",", b";", b"\t", b"|")
_PIECE = 2**20


class Text(io.TextIOBase):
    """Text in UTF-8 that is read from its start to its end; every error is one line.

    Parameters
    ----------
    source : binary file
    name : str
        What the text is called in errors.
    free : int, optional
        Bytes of memory that a table of the text may take. By default there is no limit.

    Examples
    --------
    >>> text = Text(io.BytesIO(b"a,b\\n1,2\\n"), "table")
    >>> text.first_line(), text.read()
    ('a,b', 'a,b\\n1,2\\n')
    """

    def __init__(self, source: IO[bytes], name: str, free: int | None = None) -> None:
        self._source, self._name, self._free = source, name, free
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._held, self._at = "", 0  # what first_line has read, and how much of it has been read again
        self._size = self._lines = 0
        self._cells = dict.fromkeys(_SEPARATORS, 0)

    def first_line(self) -> str:
        """Return the first line that is not blank; it stays part of what :meth:`read` returns."""
        while (line := re.search(r"([^\r\n]+)[\r\n]", self._held)) is None:
            more = self._next(max(_PIECE, len(self._held)))
            if not more:
                return self._held.strip("\r\n")
            self._held += more
        return line[1]

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1) -> str:
        """Return the next characters, at most ``size``, or all that are left."""
        if size is None or size < 0:
            return "".join(iter(lambda: self.read(_PIECE), ""))
        part = self._held[self._at : self._at + size]
        self._at += len(part)
        if not part:
            self._held, self._at = "", 0
        return part or self._next(size)

    def _next(self, size: int) -> str:
        """Return the next characters of the source, none at its end; a table of all so far has to fit in memory."""
        while True:
            try:
                data = self._source.read(size)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise self._unreadable(f"cannot be unpacked ({error}); get it again") from None
            self._size += len(data)
            self._lines += data.count(b"\n")
            for separator in _SEPARATORS:
                self._cells[separator] += data.count(separator)
            cells = self._lines + max(self._cells.values())
            if self._free is not None:
                check_memory(self._name, GROWTH * max(self._size, SHORTEST_CELL * cells), self._free)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                place = self._size - len(error.object) + error.start
                raise self._unreadable(f"is not text in UTF-8 (byte {place}); save it as CSV in UTF-8") from None
            if "\0" in text:
                raise self._unreadable("holds null characters; save it as CSV in UTF-8")
            if text or not data:
                return text

    def _unreadable(self, why: str) -> ValueError:
        return ValueError(f"{self._name} is not a readable table: it {why}.")


@contextmanager
def open_text(path: Path, free: int | None = None) -> Iterator[Text]:
    """Open a file of text, also one that gzip has packed (``.gz``)."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as source:
        yield Text(cast("IO[bytes]", source), str(path), free)
