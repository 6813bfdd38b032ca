"""Download the official archives, continuing where a connection was cut."""

from __future__ import annotations

import hashlib
import os
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from rich.progress import TimeRemainingColumn

from svnn._progress import progress_bar
from svnn.datasets._files import UNREADABLE, data_root
from svnn.paper.data._uci import SOURCES, Source, find_members
from svnn.sources._frames import PathLike

#: Bytes that are read at a time, and the seconds after which a silent connection counts as cut.
_BLOCK, _TIMEOUT = 2**18, 60.0


def fetch(
    name: str, root: PathLike | None = None, *, sha256: str | None = None, url: str | None = None, progress: bool = True
) -> Path:
    """Download the official archive of a data set into the data folder.

    Parameters
    ----------
    name : {"mhealth", "realdisp", "dsads"}
    root : path, optional
        The data folder, which is made if it does not exist. By default the environment variable ``SVNN_DATA`` names it.
    sha256 : str, optional
        The checksum that the archive must have, in hexadecimal.
    url : str, optional
        Another address to fetch the same archive from, such as a mirror.
    progress : bool, default=True
        Show a progress bar where standard error is a terminal.

    Returns
    -------
    Path of the archive; the loaders read it as it is

    Notes
    -----
    The publisher states no checksums. So the first download records that of the archive beside it, in
    ``<archive>.sha256``, and every later call compares the archive, old or downloaded again, with it. A checksum that
    is given as ``sha256`` is used in place of the recorded one.

    An interrupted download stays in ``<archive>.part``. The next attempt or call continues it, provided that the server
    says that its file is still the same. The archive gets its name only when it is complete.

    Examples
    --------
    >>> fetch("mhealth")  # doctest: +SKIP
    PosixPath('data/mhealth+dataset.zip')
    >>> fetch("imagenet")
    Traceback (most recent call last):
        ...
    ValueError: name must be one of mhealth, realdisp, dsads, got 'imagenet'.
    """
    if name not in SOURCES:
        raise ValueError(f"name must be one of {', '.join(SOURCES)}, got {name!r}.")
    source = SOURCES[name]
    folder = data_root(root, source.title, "The archive is downloaded into that folder.")
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / source.archive
    if not archive.exists():
        download(url or source.url, archive, progress=progress, check=_check_zip)
    verify(archive, sha256)
    return archive


def fetch_missing(source: Source, root: PathLike | None) -> None:
    """Fetch the archive of ``source`` unless its files are in the data folder already."""
    try:
        find_members(source, root)
    except FileNotFoundError:
        fetch(source.key, root)


def verify(path: Path, sha256: str | None = None) -> str:
    """Compare a file with the given or the recorded checksum; record the checksum if none was recorded, and return it.

    A file that differs is renamed to ``<name>.bad``, so that no loader reads it.
    """
    record = path.with_name(path.name + ".sha256")
    words = record.read_text().split() if record.exists() else []
    expected = sha256.strip().lower() if sha256 else (words[0] if words else None)
    actual = checksum(path)
    if expected is not None and actual != expected:
        bad = path.with_name(path.name + ".bad")
        os.replace(path, bad)
        origin = "the one given" if sha256 else f"the one recorded in {record}"
        raise ValueError(
            f"{path} has the SHA-256 checksum {actual}, which is not {origin}, {expected}. It was renamed to "
            f"{bad.name}. Download it again; if the publisher has changed it, delete {record.name} first."
        )
    if not words or words[0] != actual:
        record.write_text(f"{actual}  {path.name}\n")
    return actual


def checksum(path: Path) -> str:
    """Return the SHA-256 checksum of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(
    url: str, path: Path, *, progress: bool = True, retries: int = 5, check: Callable[[Path], None] = lambda path: None
) -> None:
    """Download ``url`` to ``path``, which appears only when it is complete and ``check`` has not raised an error.

    ``retries`` limits the attempts in a row that bring nothing new.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"url must begin with http:// or https://, got {url!r}.")
    part = path.with_name(path.name + ".part")
    failures, most = 0, _size(part)
    with progress_bar(TimeRemainingColumn()) as bar:
        task = bar.add_task(f"{path.name}, MiB", total=None, visible=progress)
        while True:
            try:
                _attempt(url, part, lambda have, total: bar.update(task, completed=have >> 20, total=total))
                break
            except (OSError, HTTPException) as error:
                failures = 0 if _size(part) > most else failures + 1
                most = max(most, _size(part))
                if failures > retries or not _may_pass(error):
                    raise OSError(
                        f"{url} could not be downloaded: {error}. What has arrived stays in {part} and is continued "
                        f"next time. You may also download the file by other means and save it as {path}."
                    ) from error
                time.sleep(min(30.0, 2.0**failures))
    try:
        check(part)
    except ValueError:
        _discard(part)  # a continued download would begin with the same wrong bytes
        raise
    os.replace(part, path)
    _discard(part)


def _attempt(url: str, part: Path, report: Callable[[int, int | None], None]) -> None:
    """Continue the file ``part``, or begin it, and raise an OSError unless it is complete in the end."""
    stamp, have = _stamp(part), _size(part)
    version = stamp.read_text() if stamp.exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "svnn", "Accept-Encoding": "identity"})
    # Without a stamp, the server's file may have changed, and a continuation would join parts of two versions.
    if have and version:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", version)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            _discard(part)  # it is longer than the server's file, so it cannot be a part of it
        raise
    with response:
        continued = response.status == 206
        if continued and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            _discard(part)
            raise ConnectionError("the server sent another range than was asked for")
        have = have if continued else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        if not continued:
            # A weak ETag does not promise equal bytes, and If-Range does not accept it.
            etag = response.headers.get("ETag", "")
            stamp.write_text(etag if etag.startswith('"') else response.headers.get("Last-Modified", ""))
        with part.open("ab" if continued else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                have += len(block)
                report(have, None if total is None else total >> 20)
    if total is not None and have != total:
        raise ConnectionError(f"the connection was cut after {have} of {total} bytes")


def _may_pass(error: Exception) -> bool:
    """Return whether an error is of the connection, and another attempt may succeed; a full disk is not."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in (408, 416, 425, 429)
    return isinstance(error, urllib.error.URLError | ConnectionError | TimeoutError | HTTPException)


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _stamp(part: Path) -> Path:
    """Return the file that holds the version of the server's file."""
    return part.with_name(part.name + ".stamp")


def _discard(part: Path) -> None:
    """Delete an incomplete file and its stamp."""
    part.unlink(missing_ok=True)
    _stamp(part).unlink(missing_ok=True)


def _check_zip(path: Path) -> None:
    """Raise a ValueError if a file is not a zip or is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except UNREADABLE as error:
        raise ValueError(
            f"The downloaded file is not a zip, or is damaged ({error}); it may be an error page of the server."
        ) from error
    if damaged:
        raise ValueError(f"The downloaded zip is damaged at {damaged}; download it again.")
