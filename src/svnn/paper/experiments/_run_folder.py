"""The folder of a run: a line of results for every job that ended, and a manifest of the settings they belong to."""

from __future__ import annotations

import json
import os
import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeGuard

from svnn._jobs import Ended, Row
from svnn.paper.experiments._settings import Settings

#: Settings that only say which jobs there are. Where they change, the results of finished jobs can still be used.
EXTENT = ("repeats", "datasets", "models")
_PACKAGES = (
    *("svnn", "numpy", "scipy", "scikit-learn", "torch", "numba", "torch_geometric", "pandas", "matplotlib", "pyarrow"),
)


class Record(Ended):
    """A line of ``results.jsonl``: a job, and how it ended."""

    name: str
    key: Row


class RunFolder:
    """The folder of one experiment.

    ``results.jsonl`` has a line for every job that ended. Where two lines belong to the same job, the later one counts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results.jsonl"
        self.manifest = folder / "manifest.json"

    def open(self, settings: Settings, fresh: bool = False) -> dict[str, Record]:
        """Check that the results are of these settings, and return them by the names of their jobs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            self.results.unlink(missing_ok=True)
            self.manifest.unlink(missing_ok=True)
        self.check(settings)
        return self._read()

    def check(self, settings: Settings) -> None:
        """Raise an error where the folder has results of other settings."""
        advice = "Choose another --out, or start over with --fresh."
        if not self.manifest.exists():
            if self.results.exists():
                raise ValueError(f"{self.results} has no manifest.json beside it. {advice}")
            return
        try:
            before = dict(json.loads(self.manifest.read_text(encoding="utf-8"))["settings"].items())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{self.manifest} cannot be read. {advice}") from None
        now = settings.as_json()
        for name in {**before, **now}:
            old, new = before.get(name), now.get(name)
            if name not in EXTENT and old != new:
                raise ValueError(
                    f"{self.folder} has results of other settings ({name} was {old!r}, is now {new!r}). {advice}"
                )

    def _read(self) -> dict[str, Record]:
        if not self.results.exists():
            return {}
        text = self.results.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):  # the process was killed while it wrote
            with self.results.open("r+b") as file:
                file.truncate(len(whole))
        records: dict[str, Record] = {}
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(line)
                if not _is_record(record):
                    raise ValueError
                records[record["name"]] = record
            except (ValueError, RecursionError):
                raise ValueError(
                    f"{self.results}: line {number} is damaged. Remove this line, or start over with --fresh."
                ) from None
        return records

    def append(self, record: Record) -> None:
        """Write one line, and wait until it is on the disk."""
        with self.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False, default=lambda number: number.item()) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def describe(self, settings: Settings, **more: object) -> None:
        """Write the manifest: the settings, and the versions, the machine and the command that they ran with."""
        manifest = {
            **more,
            "settings": settings.as_json(),
            "seeds": "sha256 of (settings.seed, what the numbers are for, data set, repeat, …); see derive_seed",
            "command": _command(sys.argv[1:]),
            "versions": {"python": platform.python_version(), **versions()},
            "machine": {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count()},
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        new = self.manifest.with_suffix(".new")
        new.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        new.replace(self.manifest)


def _is_record(record: object) -> TypeGuard[Record]:
    """Say whether a line is complete: it has a name, a time, and rows or an error."""
    match record:
        case {"name": str(), "status": "failed", "error": str()}:
            return True
        case {"name": str(), "status": "done", "rows": [*rows], "seconds": int() | float()}:
            return all(isinstance(row, dict) for row in rows)
    return False


def _command(arguments: list[str]) -> str:
    """Return the command without its --out. A path may tell more about its owner than a manifest should.

    Examples
    --------
    >>> _command(["reproduce", "table", "--out", "/home/ann/runs", "--jobs", "2"])
    'svnn reproduce table --jobs 2'
    """
    pairs = zip(["", *arguments], arguments, strict=False)
    kept = [each for before, each in pairs if "--out" not in (before, each) and not each.startswith("--out=")]
    return " ".join(["svnn", *kept])


def versions() -> dict[str, str]:
    """Return the versions of the packages that results may depend on."""
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
