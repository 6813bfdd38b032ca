"""What the official files of each data set are called, where they lie in its archive, and where to get them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A data set of the UCI repository that is published as a zip of many files.

    ``key`` is our own name for it; ``title``, ``number`` and ``slug`` are UCI's. ``expected`` describes the files in
    messages, and ``member`` matches the path of one of them: its groups are the numbers that identify the file.
    ``pattern`` matches the same files in one of ``folders``, the places under the data folder where the zip may have
    been unpacked.
    """

    key: str
    title: str
    number: int
    slug: str
    expected: str
    member: re.Pattern[str]
    pattern: str
    folders: tuple[str, ...]

    @property
    def archive(self) -> str:
        """Name of the official zip."""
        return f"{self.slug}.zip"

    @property
    def url(self) -> str:
        """Address of the official zip."""
        return f"https://archive.ics.uci.edu/static/public/{self.number}/{self.archive}"

    @property
    def page(self) -> str:
        """Address of the page that describes the data set."""
        return f"https://archive.ics.uci.edu/dataset/{self.number}/{self.slug}"


def _source(
    key: str, title: str, number: int, slug: str, expected: str, member: str, pattern: str, inner: str
) -> Source:
    # Unpacked by hand or by fetch(extract=True), the zip's own folder lies in the data folder or in a folder around it.
    folders = dict.fromkeys(("", inner, key, f"{key}/{inner}", slug, f"{slug}/{inner}"))
    return Source(key, title, number, slug, expected, re.compile(rf"(?:^|/){member}$"), pattern, tuple(folders))


MHEALTH = _source(
    "mhealth",
    "MHEALTH",
    319,
    "mhealth+dataset",
    "mHealth_subject<N>.log",
    r"mHealth_subject(\d+)\.log",
    "mHealth_subject*.log",
    "MHEALTHDATASET",
)
REALDISP = _source(
    "realdisp",
    "REALDISP Activity Recognition",
    305,
    "realdisp+activity+recognition+dataset",
    "subject<N>_ideal.log",
    r"subject(\d+)_ideal\.log",
    "subject*_ideal.log",
    "realistic_sensor_displacement",
)
DSADS = _source(
    "dsads",
    "Daily and Sports Activities",
    256,
    "daily+and+sports+activities",
    "data/aNN/pN/sNN.txt",
    r"a(\d+)/p(\d+)/s(\d+)\.txt",
    "a*/p*/s*.txt",
    "data",
)
SOURCES = {source.key: source for source in (MHEALTH, REALDISP, DSADS)}
