"""Download the official archives, continuing where a connection was cut, and unpack them after a check."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import urlsplit

from svnn.datasets._files import UNREADABLE, PathLike, data_root
from svnn.paper.data._uci import SOURCES, Source, find_members

_BLOCK = 2**18
#: An archive that unpacks to more bytes than this is refused; the largest official one is much smaller.
LARGEST_ARCHIVE = 32 * 2**30


def fetch(
    name: str,
    root: PathLike | None = None,
    *,
    extract: bool = False,
    sha256: str | None = None,
    url: str | None = None,
    progress: bool = True,
    timeout: float = 60.0,
    retries: int = 5,
) -> Path:
    """Download the official archive of a data set into the data folder.

    Parameters
    ----------
    name : {"mhealth", "realdisp", "dsads"}
    root : path, optional
        The data folder, which is made if it does not exist. By default the environment variable ``SVNN_DATA`` names it.
    extract : bool, default=False
        Also unpack the archive, into ``root/name``. The loaders do not need that.
    sha256 : str, optional
        The checksum that the archive must have, in hexadecimal.
    url : str, optional
        Another address to fetch the same archive from, such as a mirror.
    progress : bool, default=True
        Show a progress bar where standard error is a terminal.
    timeout : float, default=60
        Seconds to wait for the server before trying again.
    retries : int, default=5
        How often to try again when nothing more arrives. An attempt that brought something does not count.

    Returns
    -------
    Path of the archive, or of the folder with ``extract=True``

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
        download(url or source.url, archive, progress=progress, timeout=timeout, retries=retries, check=_check_zip)
    verify(archive, sha256)
    if not extract:
        return archive
    target = folder / source.key
    return target if target.exists() else extract_zip(archive, target)


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
    url: str,
    path: Path,
    *,
    progress: bool = True,
    timeout: float = 60.0,
    retries: int = 5,
    wait: float = 1.0,
    check: Callable[[Path], None] = lambda path: None,
) -> None:
    """Download ``url`` to ``path``, which appears only when it is complete and ``check`` has not raised an error."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"url must begin with http:// or https://, got {url!r}.")
    part = path.with_name(path.name + ".part")
    failures = 0
    most = part.stat().st_size if part.exists() else 0
    with _progress_bar(path.name, progress) as report:
        while True:
            try:
                _attempt(url, part, timeout, report)
                break
            except (OSError, HTTPException) as error:
                code = error.code if isinstance(error, urllib.error.HTTPError) else None
                lasting = code is not None and code < 500 and code not in (408, 416, 425, 429)
                arrived = part.stat().st_size if part.exists() else 0
                failures = 0 if arrived > most else failures + 1
                most = max(most, arrived)
                if lasting or failures > retries or not _is_network(error):
                    raise OSError(
                        f"{url} could not be downloaded: {error}. What has arrived stays in {part} and is continued "
                        f"next time. You may also download the file by other means and save it as {path}."
                    ) from error
                time.sleep(min(30.0, wait * 2**failures))
    try:
        check(part)
    except ValueError:
        _discard(part)  # a continued download would begin with the same wrong bytes
        raise
    os.replace(part, path)
    _discard(part)


def _attempt(url: str, part: Path, timeout: float, report: Callable[[int, int | None], None]) -> None:
    """Continue the file ``part``, or begin it, and raise an OSError unless it is complete in the end."""
    stamp = part.with_name(part.name + ".stamp")
    have = part.stat().st_size if part.exists() else 0
    version = stamp.read_text() if stamp.exists() else ""
    request = urllib.request.Request(url, headers={"User-Agent": "svnn", "Accept-Encoding": "identity"})
    # Without a stamp, the server's file may have changed, and a continuation would join parts of two versions.
    if have and version:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", version)
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            _discard(part)  # it is longer than the server's file, so it cannot be a part of it
        raise
    with response:
        continued = response.status == 206 and _begins_at(response) == have
        if response.status == 206 and not continued:
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
            report(have, total)
            while block := response.read(_BLOCK):
                file.write(block)
                have += len(block)
                report(have, total)
    if total is not None and have != total:
        raise ConnectionError(f"the connection was cut after {have} of {total} bytes")


def _begins_at(response: HTTPResponse) -> int | None:
    """Return the position of the first byte that the server sends, or None where it does not state it."""
    words = response.headers.get("Content-Range", "").replace("-", " ").split()
    return int(words[1]) if len(words) > 1 and words[0] == "bytes" and words[1].isdigit() else None


def _is_network(error: Exception) -> bool:
    """Return whether an error is of the connection, and may pass; a full disk is not."""
    return isinstance(error, urllib.error.URLError | ConnectionError | TimeoutError | HTTPException)


def _discard(part: Path) -> None:
    """Delete an incomplete file and its stamp."""
    part.unlink(missing_ok=True)
    part.with_name(part.name + ".stamp").unlink(missing_ok=True)


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


@contextmanager
def _progress_bar(name: str, wanted: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that shows the progress; call it with the bytes that have arrived and their total number."""
    if not wanted or not sys.stderr.isatty():
        yield lambda have, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda have, total: bar.update(task, completed=have, total=total)


def extract_zip(archive: Path, target: Path, *, max_bytes: int = LARGEST_ARCHIVE) -> Path:
    """Unpack ``archive`` into the new folder ``target``, all of it or nothing.

    An archive is refused with a ``ValueError``, before the first byte is written, if it has names that would lead out
    of the folder, links or devices, passwords, the same name twice, or more than ``max_bytes`` in all. The files appear
    under ``target`` in one step, when all of them are unpacked.
    """
    if target.exists():
        raise FileExistsError(f"{target} is there already; remove it to unpack {archive} again.")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        opened = zipfile.ZipFile(archive)
    except UNREADABLE as error:
        raise ValueError(f"{archive} is not a readable zip ({error}); download it again.") from error
    with opened as zipped, tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        entries = zipped.infolist()
        check_entries(entries, archive, max_bytes)
        size, free = sum(info.file_size for info in entries), shutil.disk_usage(scratch).free
        if size > free:
            raise OSError(f"{archive} was not unpacked: it needs {size} bytes and {free} are free.")
        folder = Path(scratch, target.name)
        folder.mkdir()
        for info in entries:
            path = folder.joinpath(*PurePosixPath(info.filename).parts)
            if info.is_dir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.writelines(_blocks(zipped, info))
        os.replace(folder, target)
    return target


def _blocks(zipped: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the contents of one entry, block by block; an entry with more bytes than it states is damaged."""
    try:
        with zipped.open(info) as source:
            while block := source.read(2**20):
                yield block
    except (*UNREADABLE, OSError) as error:
        raise ValueError(
            f"{info.filename} in {zipped.filename} is damaged ({error}); nothing was kept, download the zip again."
        ) from error


def check_entries(entries: list[zipfile.ZipInfo], archive: Path, max_bytes: int) -> None:
    """Raise an error unless every entry is a plain file or folder inside the archive, and they are not too large."""
    seen: set[str] = set()
    for info in entries:
        problem = _problem(info)
        # On some systems two names that differ only in case are the same file.
        key = info.filename.rstrip("/").casefold()
        if key in seen and not info.is_dir():
            problem = "appears twice"
        seen.add(key)
        if problem:
            raise ValueError(f"{archive} was not unpacked: its entry {info.filename!r} {problem}.")
    size = sum(info.file_size for info in entries)
    if size > max_bytes:
        raise ValueError(f"{archive} was not unpacked: it holds {size} bytes, more than the {max_bytes} allowed.")


def _problem(info: zipfile.ZipInfo) -> str | None:
    """Return what is wrong with an entry, in words that follow its name, or None."""
    name = info.filename
    if not name or name.startswith("/") or PureWindowsPath(name).drive or "\\" in name:
        return "has an absolute path or a backslash"
    if ".." in PurePosixPath(name).parts:
        return "leads out of the folder"
    if any(ord(character) < 32 for character in name):
        return "has a name with control characters"
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return "is a link or a special file"
    if info.flag_bits & 1:
        return "needs a password"
    return None
