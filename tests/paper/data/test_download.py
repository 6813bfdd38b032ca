from __future__ import annotations

import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from svnn.paper import fetch, load_dsads
from svnn.paper.data import _download
from svnn.paper.data._download import checksum, download


class Server:
    """A server of one file that can be told to misbehave; ``requests`` are the ranges it was asked for."""

    def __init__(self, content: bytes) -> None:
        self.content, self.etag = content, '"one"'
        self.cuts: list[int] = []  # bytes after which to cut the next answers
        self.ranges = self.lengths = True
        self.errors: list[int] = []
        self.requests: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *arguments) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/file.zip"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.requests.append(asked)
        if self.errors:
            handler.send_error(self.errors.pop(0))
            return
        start = 0
        if asked and self.ranges and handler.headers.get("If-Range") == self.etag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.content):
                handler.send_error(416)
                return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.etag:
            handler.send_header("ETag", self.etag)
        if self.lengths:
            handler.send_header("Content-Length", str(len(self.content) - start))
        handler.end_headers()
        body = self.content[start:]
        handler.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)
        handler.close_connection = True


@pytest.fixture
def content(dsads) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((dsads / "data" / "a01").rglob("*.txt")):
            archive.write(file, file.relative_to(dsads).as_posix())
    return packed.getvalue()


@pytest.fixture
def server(content):
    server = Server(content)
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(_download.time, "sleep", lambda seconds: None)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_download(server, content, tmp_path):
    download(server.url, tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == content and names(tmp_path) == ["x.zip"]


def test_cut_connections_are_resumed_where_they_were_cut(server, content, tmp_path):
    server.cuts = [1000, 5000, 1]
    download(server.url, tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == content and names(tmp_path) == ["x.zip"]
    assert server.requests == [None, "bytes=1000-", "bytes=6000-", "bytes=6001-"]


def test_another_call_continues_what_the_last_one_left(server, content, tmp_path):
    server.cuts = [1000, 0, 0]
    with pytest.raises(OSError, match=r"could not be downloaded: the connection was cut after 1000 of .*x.zip.part"):
        download(server.url, tmp_path / "x.zip", retries=1)
    assert (tmp_path / "x.zip.part").read_bytes() == content[:1000] and not (tmp_path / "x.zip").exists()
    server.requests.clear()
    download(server.url, tmp_path / "x.zip")
    assert server.requests == ["bytes=1000-"] and (tmp_path / "x.zip").read_bytes() == content


def test_a_file_that_changed_in_between_is_not_joined(server, content, tmp_path):
    server.cuts = [1000, 0]
    with pytest.raises(OSError, match="could not be downloaded"):
        download(server.url, tmp_path / "x.zip", retries=0)
    server.cuts, server.etag, server.content = [], '"two"', content[::-1]
    download(server.url, tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == content[::-1]


@pytest.mark.parametrize("setting", ["no ranges", "no versions", "weak versions"])
def test_servers_that_cannot_resume_start_over(server, content, tmp_path, setting):
    server.ranges = setting != "no ranges"
    server.etag = {"no ranges": '"one"', "no versions": "", "weak versions": 'W/"one"'}[setting]
    server.cuts = [1000, 3000]
    download(server.url, tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == content
    assert len(server.requests) == 3


def test_a_part_that_is_too_long_is_thrown_away(server, content, tmp_path):
    (tmp_path / "x.zip.part").write_bytes(content + b"more")
    (tmp_path / "x.zip.part.stamp").write_text('"one"')
    download(server.url, tmp_path / "x.zip")
    assert (tmp_path / "x.zip").read_bytes() == content


def test_server_errors(server, content, tmp_path):
    server.errors = [503, 500]
    download(server.url, tmp_path / "x.zip")
    assert len(server.requests) == 3
    server.requests.clear()
    server.errors = [404] * 9
    with pytest.raises(OSError, match="404"):
        download(server.url, tmp_path / "y.zip")
    assert len(server.requests) == 1  # a page that is not there will not come by asking again
    server.errors = [503] * 9
    with pytest.raises(OSError, match="503"):
        download(server.url, tmp_path / "y.zip", retries=2)


def test_no_server_and_other_schemes(tmp_path):
    with pytest.raises(OSError, match="could not be downloaded"):
        download("http://127.0.0.1:9/x.zip", tmp_path / "x.zip", retries=1)
    with pytest.raises(ValueError, match="http"):
        download((tmp_path / "a").as_uri(), tmp_path / "x.zip")
    assert names(tmp_path) == []


def test_fetch_records_a_checksum_and_verifies_it_later(server, content, tmp_path):
    path = fetch("dsads", tmp_path, url=server.url)
    record = tmp_path / f"{path.name}.sha256"
    assert path.read_bytes() == content and record.read_text() == f"{checksum(path)}  {path.name}\n"
    assert fetch("dsads", tmp_path, url=server.url) == path and len(server.requests) == 1
    assert len(load_dsads(tmp_path).X) == 16

    path.write_bytes(content + b"x")  # damage on disk
    with pytest.raises(ValueError, match=r"is not the one recorded in .*sha256.*renamed to"):
        fetch("dsads", tmp_path, url=server.url)
    assert not path.exists()
    assert fetch("dsads", tmp_path, url=server.url).read_bytes() == content

    path.unlink()  # another file under the same address
    changed = io.BytesIO(content)
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("extra", "1")
    server.content = changed.getvalue()
    with pytest.raises(ValueError, match="if the publisher has changed it"):
        fetch("dsads", tmp_path, url=server.url)
    assert not path.exists()
    record.unlink()
    assert fetch("dsads", tmp_path, url=server.url).exists()


def test_a_given_checksum_goes_first(server, content, tmp_path):
    with pytest.raises(ValueError, match="is not the one given"):
        fetch("mhealth", tmp_path, url=server.url, sha256="0" * 64)
    assert names(tmp_path) == ["mhealth+dataset.zip.bad"]
    good = checksum(tmp_path / "mhealth+dataset.zip.bad")
    assert fetch("mhealth", tmp_path, url=server.url, sha256=good.upper()).exists()


@pytest.mark.parametrize("body", [b"<html>maintenance</html>", b""])
def test_pages_in_place_of_archives_are_not_kept(server, tmp_path, body):
    server.content = body
    with pytest.raises(ValueError, match="is not a zip"):
        fetch("dsads", tmp_path, url=server.url)
    assert names(tmp_path) == []


def test_a_connection_closed_early_without_a_length_is_noticed(server, tmp_path):
    server.lengths, server.cuts = False, [3000]
    with pytest.raises(ValueError, match="is not a zip"):
        fetch("dsads", tmp_path, url=server.url)
    assert names(tmp_path) == []


def test_loaders_download_only_what_is_missing(server, tmp_path, monkeypatch):
    monkeypatch.setattr(_download.Source, "url", server.url)
    data = load_dsads(tmp_path, download=True)
    assert len(data.X) == 16 and len(server.requests) == 1
    load_dsads(tmp_path, download=True)
    assert len(server.requests) == 1


def test_progress_is_shown_on_a_terminal_only(server, tmp_path, monkeypatch, capsys):
    download(server.url, tmp_path / "a.zip")
    assert capsys.readouterr().err == ""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    download(server.url, tmp_path / "b.zip")
    assert "b.zip" in screen.getvalue()


def test_official_addresses():
    urls = {key: source.url for key, source in _download.SOURCES.items()}
    assert urls == {
        "mhealth": "https://archive.ics.uci.edu/static/public/319/mhealth+dataset.zip",
        "realdisp": "https://archive.ics.uci.edu/static/public/305/realdisp+activity+recognition+dataset.zip",
        "dsads": "https://archive.ics.uci.edu/static/public/256/daily+and+sports+activities.zip",
    }
