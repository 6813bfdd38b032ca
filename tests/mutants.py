"""Plant bugs in a copy of the tree, one at a time, and see which of them the tests notice: ``make mutants``.

``mutants.toml`` lists them. First all tests that it names run on the copy as it is. Then each bug is planted, its tests
run, and the bug is taken out again. The tree itself is never touched.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
#: What the copy holds: the code, the tests, and what these read.
_COPIED = ("src", "tests", "benchmarks", "pyproject.toml")
#: Seconds after which tests are stopped: a bug may make a loop endless.
_LIMIT = 600.0
_PYTEST = (*("-m", "pytest", "-q", "-n", "0", "--tb=no", "-rfE"), "-p", "no:cacheprovider")


@dataclass(frozen=True)
class Mutant:
    """A planted bug: ``new`` in place of ``old`` in a file of the package, and the tests that should notice."""

    room: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """How tests ended: the exit code of pytest, None where they were stopped, and what they printed."""

    code: int | None
    seconds: float
    text: str

    @property
    def failed(self) -> list[str]:
        """The tests that failed."""
        return re.findall(r"^(?:FAILED|ERROR) (\S+)", self.text, re.M)

    @property
    def verdict(self) -> str:
        """What the tests say of a bug: "caught", "SURVIVED", or "ERROR" where they could not run."""
        if self.code is None or self.code == 1 or self.code < 0:  # stopped, failed, or killed by a signal
            return "caught"
        return "SURVIVED" if self.code == 0 else "ERROR"

    @property
    def reason(self) -> str:
        """What led to the verdict."""
        if self.code is None:
            return "stopped after the time limit"
        if self.code < 0:
            return f"the process died of signal {-self.code}"
        if self.verdict == "ERROR":
            return next(iter(self.text.strip().splitlines()[-1:]), f"exit code {self.code}")
        return next(iter(self.failed), "")


def read(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of a list."""
    rooms = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Mutant(room, **{**entry, "tests": tuple(entry["tests"])})
        for room, entries in rooms.items()
        for entry in entries
    ]


def problems(mutants: Sequence[Mutant], root: Path = ROOT) -> list[str]:
    """Return what is wrong with the entries of a list, a line each: files, texts and tests have to be there."""
    found = [f"{name}: two entries have this name" for name, n in Counter(m.name for m in mutants).items() if n > 1]
    for mutant in mutants:
        path = root / "src/svnn" / mutant.file
        count = path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else 0
        if count != 1:
            found.append(f"{mutant.name}: the old text occurs {count} times in {mutant.file}")
        if mutant.old == mutant.new:
            found.append(f"{mutant.name}: it changes nothing")
        if not mutant.tests:
            found.append(f"{mutant.name}: it names no tests")
        for test in mutant.tests:
            file, _, function = test.partition("::")
            path = root / "tests" / file
            if not path.is_file() or (function and f"def {function}(" not in path.read_text(encoding="utf-8")):
                found.append(f"{mutant.name}: there is no test {test}")
    return found


def chosen(mutants: Sequence[Mutant], words: Sequence[str]) -> list[Mutant]:
    """Return the mutants of some rooms, or with some words in their names; all of them without words."""
    for word in words:
        if not any(word == m.room or word in m.name for m in mutants):
            rooms = ", ".join(dict.fromkeys(m.room for m in mutants))
            raise ValueError(f"{word!r} is neither a room nor part of a name; the rooms are {rooms}.")
    return [m for m in mutants if not words or any(word == m.room or word in m.name for word in words)]


class Copy:
    """A copy of the tree in which bugs are planted, with a folder of its own for compiled kernels."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.folder = folder / "tree"
        self.folder.mkdir(parents=True)
        for name in _COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(root / name, self.folder / name)
        left_out = ("SVNN_DATA", "SVNN_NUMBA", "PYTEST_ADDOPTS")  # the machine decides nothing
        self._environment = {k: v for k, v in os.environ.items() if k not in left_out} | {
            "PYTHONPATH": str(self.folder / "src"),
            "NUMBA_CACHE_DIR": str(folder / "kernels"),
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        }

    def run(self, tests: Sequence[str], *options: str, planted: bool = True, limit: float | None = _LIMIT) -> Run:
        """Run tests; compiled modules are kept on disk unless a bug is planted."""
        command = [sys.executable, *_PYTEST, *options, *(f"tests/{test}" for test in tests)]
        environment = self._environment | ({"PYTHONDONTWRITEBYTECODE": "1"} if planted else {})
        start = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8") as out:  # a pipe would wait for processes left behind
            try:
                code: int | None = subprocess.run(
                    command, cwd=self.folder, env=environment, stdout=out, stderr=subprocess.STDOUT, timeout=limit
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
            out.seek(0)
            return Run(code, time.monotonic() - start, out.read())

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Plant a bug for a while. The file gets its old time back too, by which Python knows what it compiled."""
        path = self.folder / "src/svnn" / mutant.file
        before, text = path.stat(), path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def baseline(copies: Sequence[Copy], mutants: Sequence[Mutant]) -> list[str]:
    """Run all named tests without a bug, dealt out to the copies; return what is wrong, a line each."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    dealt = [(copy, tests[i :: len(copies)]) for i, copy in enumerate(copies) if tests[i :: len(copies)]]
    with ThreadPoolExecutor(len(copies)) as threads:
        runs = threads.map(lambda each: each[0].run(each[1], planted=False, limit=None), dealt)
        return [
            line
            for run in runs
            if run.code != 0
            for line in [f"{test}: fails without a bug" for test in run.failed] or [run.text.strip()[-2000:]]
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the bugs that were asked for and print what became of them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", help="rooms, or parts of names; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at the same time (default: 2)")
    options = parser.parse_args(arguments)
    try:
        mutants = chosen(read(), options.only)
    except ValueError as error:
        parser.error(str(error))
    if wrong := problems(mutants):
        print("\n".join(wrong))
        return 2
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="svnn-mutants-") as folder:
        copies = [Copy(Path(folder, str(i))) for i in range(max(min(options.jobs, len(mutants)), 1))]
        if wrong := baseline(copies, mutants):
            print("\n".join(wrong))
            return 2
        print(f"The named tests pass without a bug ({time.monotonic() - start:.0f} s).\n", flush=True)
        verdicts = Counter(_tried(copies, mutants))
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in ("caught", "SURVIVED", "ERROR"))
    print(f"\n{len(mutants)} planted: {counts}; {minutes} min {seconds} s.")
    return 0 if verdicts["caught"] == len(mutants) else 1


def _tried(copies: Sequence[Copy], mutants: Sequence[Mutant]) -> Iterator[str]:
    """Yield the verdict on each mutant, and print it."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def tried(mutant: Mutant) -> Run:
        copy = free.get()
        try:
            with copy.planted(mutant):
                return copy.run(mutant.tests, "-x")
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as threads:
        for mutant, run in zip(mutants, threads.map(tried, mutants), strict=True):
            print(
                f"{mutant.room:<21} {mutant.name:<64} {run.verdict:<8} {run.seconds:5.1f} s  {run.reason}", flush=True
            )
            yield run.verdict


if __name__ == "__main__":
    sys.exit(main())
