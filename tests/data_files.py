"""Damaged, foreign and inconsistent data files, and what is said about them."""

from __future__ import annotations


def one_line(raised, *parts):
    text = str(raised.value)
    assert "\n" not in text.strip(), text
    for part in parts:
        assert str(part) in text
    return text


def damaged(good: bytes, middle_too: bool = True) -> list[bytes]:
    """Return a file cut short, and one with a damaged middle."""
    middle = len(good) // 2
    files = [good[:middle], good[:-1], b""]
    if middle_too:
        files.append(good[:middle] + bytes(byte ^ 0x55 for byte in good[middle : middle + 64]) + good[middle + 64 :])
    return files
