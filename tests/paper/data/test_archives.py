from __future__ import annotations

import shutil
import stat
import struct
import zipfile
from contextlib import nullcontext

import pytest

from svnn.paper.data._archives import extract_zip


def make(path, *entries) -> None:
    """Write a zip of (name, bytes, unix mode) without the tidying that ``zipfile`` does to names."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in entries:
            info = zipfile.ZipInfo("x")
            info.filename = name
            info.external_attr = mode << 16
            archive.writestr(info, data)


FILE, LINK, PIPE = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644


def test_plain_archives_are_unpacked(tmp_path):
    make(
        tmp_path / "a.zip",
        ("data/a01/s01.txt", b"1,2", FILE),
        ("data/empty/", b"", stat.S_IFDIR | 0o755),
        ("readme", b"hi", 0),
    )
    assert extract_zip(tmp_path / "a.zip", tmp_path / "new" / "dsads") == tmp_path / "new" / "dsads"
    assert (tmp_path / "new/dsads/data/a01/s01.txt").read_bytes() == b"1,2"
    assert (tmp_path / "new/dsads/data/empty").is_dir() and (tmp_path / "new/dsads/readme").exists()
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["dsads"]  # no scratch is left
    with pytest.raises(FileExistsError, match="there already"):
        extract_zip(tmp_path / "a.zip", tmp_path / "new" / "dsads")


#: What is wrong with an entry, and entries with that problem.
HOSTILE = {
    "leads out": [("../evil", FILE), ("data/../../evil", FILE), ("data/..", FILE)],
    "absolute": [("/evil", FILE), ("C:/evil", FILE), ("C:evil", FILE)],
    "backslash": [("..\\evil", FILE), ("\\\\host\\share\\evil", FILE)],
    "control characters": [("data/new\nline", FILE)],
    "link or a special file": [("link", LINK), ("pipe", PIPE)],
    "appears twice": [("readme", FILE), ("README", FILE)],
}


@pytest.mark.parametrize(
    ("name", "mode", "problem"), [(*entry, problem) for problem, entries in HOSTILE.items() for entry in entries]
)
def test_nothing_of_a_hostile_archive_is_written(tmp_path, name, mode, problem):
    home = tmp_path / "home"
    home.mkdir()
    with pytest.warns(UserWarning, match="Duplicate") if name == "readme" else nullcontext():
        make(home / "a.zip", ("readme", b"hi", FILE), (name, b"/etc/passwd", mode))
    with pytest.raises(ValueError, match=rf"was not unpacked: its entry .*{problem}"):
        extract_zip(home / "a.zip", home / "out")
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")) == ["home", "home/a.zip"]


def test_a_password_is_not_asked_for(tmp_path):
    make(tmp_path / "a.zip", ("secret", b"data", FILE))
    raw = (tmp_path / "a.zip").read_bytes()
    at = raw.index(b"PK\x01\x02") + 8  # flags in the central directory
    (tmp_path / "a.zip").write_bytes(raw[:at] + b"\x01\x00" + raw[at + 2 :])
    with pytest.raises(ValueError, match="needs a password"):
        extract_zip(tmp_path / "a.zip", tmp_path / "out")


def test_too_much_is_refused_before_and_while_unpacking(tmp_path):
    make(tmp_path / "a.zip", ("big", bytes(10_000), FILE))
    with pytest.raises(ValueError, match="10000 bytes, more than the 9999 allowed"):
        extract_zip(tmp_path / "a.zip", tmp_path / "out", max_bytes=9_999)
    # A directory that lies about the size: 100 bytes are claimed.
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    for magic, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = raw.index(magic) + offset
        raw[at : at + 4] = struct.pack("<I", 100)
    (tmp_path / "a.zip").write_bytes(raw)
    with pytest.raises(ValueError, match="is damaged"):
        extract_zip(tmp_path / "a.zip", tmp_path / "out", max_bytes=9_999)
    assert not (tmp_path / "out").exists()


def test_damage_leaves_nothing_behind(tmp_path):
    make(tmp_path / "a.zip", ("first", b"fine" * 50, FILE), ("data/second", bytes(range(256)), FILE))
    whole = (tmp_path / "a.zip").read_bytes()
    refused = 0
    places = range(0, len(whole), 3)
    for at in places:
        (tmp_path / "a.zip").write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            shutil.rmtree(extract_zip(tmp_path / "a.zip", tmp_path / "out"))
        except ValueError:
            refused += 1
        assert [p.name for p in tmp_path.iterdir()] == ["a.zip"]
    assert refused > len(places) / 2


def test_a_page_is_not_a_zip(tmp_path):
    (tmp_path / "b.zip").write_bytes(b"<html>not found</html>")
    with pytest.raises(ValueError, match="not a readable zip"):
        extract_zip(tmp_path / "b.zip", tmp_path / "out")
