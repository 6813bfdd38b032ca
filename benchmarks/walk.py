"""How much of the package one job runs through: files, functions, switches between files, depth; and how large it is.

A profiler follows small jobs through the package and counts the functions that are called. Kernels compiled by numba
are machine code and count as nothing; the Python functions that start them count. ``tests/test_walks.py`` holds the
counts below the budgets of this file.

    python benchmarks/walk.py            # the tables
    python benchmarks/walk.py --list fit # every function of one job, in the order of the first call
    python benchmarks/walk.py --write    # write the tables into ARCHITECTURE.md
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

import svnn
import svnn.stability
from svnn import HardThreshold, SVNNRegressor

PACKAGE = Path(svnn.__file__).parent
PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"


class Budget(NamedTuple):
    """The most files and functions that a job may call."""

    files: int
    functions: int


#: Lowered whenever a job gets shorter, and never raised for convenience.
BUDGETS = {
    "fit": Budget(44, 226),
    "predict": Budget(15, 43),
    "tiled HardThreshold.fit": Budget(10, 43),
    "certificate": Budget(14, 42),
    "report": Budget(45, 225),
    "svnn compare --quick": Budget(80, 472),
}
#: The most files and lines of code of the whole package.
MOST_FILES, MOST_LINES = 218, 25324
#: The most classes in the method resolution order of SVNNRegressor: those of svnn, and all.
MOST_CLASSES = 3, 9


@dataclass
class Walk:
    """What the profiler saw: functions in the order of their first call, switches between files, largest depth."""

    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    switches: int = 0
    depth: int = 0

    @property
    def files(self) -> list[str]:
        """The files whose functions were called, in the order of the first call."""
        return list(dict.fromkeys(file for file, _ in self.functions))


def walk(job: Callable[[], Any]) -> Walk:
    """Follow ``job`` through the package."""
    seen, root = Walk(), str(PACKAGE)
    stack: list[str] = []

    def follow(frame: FrameType, event: str, _: Any) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        # Comprehensions are part of the function that they stand in; module bodies run on import; templates are text.
        if (
            not file.startswith(root)
            or not file.endswith(".py")
            or name.rpartition(".")[2] in ("<listcomp>", "<genexpr>", "<dictcomp>")
        ):
            return
        if event == "call":
            seen.functions.setdefault((file[len(root) + 1 :], name))
            seen.switches += bool(stack) and stack[-1] != file
            stack.append(file)
            seen.depth = max(seen.depth, len(stack))
        elif event == "return" and stack:
            stack.pop()

    threading.setprofile(follow)
    sys.setprofile(follow)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def jobs(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return the jobs, each run once before so that nothing is imported or compiled in them; files go to ``folder``."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    wide = rng.standard_normal((40, 300))
    model = SVNNRegressor(max_epochs=3, random_state=0).fit(X, y)
    other = HardThreshold().fit(X[:30])
    table = folder / "table.csv"
    names = [*(f"x{i}" for i in range(4)), "y"]
    np.savetxt(table, np.column_stack([X[:, :4], y]), delimiter=",", header=",".join(names), comments="")

    def compare() -> None:
        from svnn.cli._commands import app

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            options = ["--target", "y", "--quick", "--jobs", "1", "--out", str(folder / "compared")]
            app(["compare", str(table), *options], standalone_mode=False)

    found: dict[str, Callable[[], Any]] = {
        "fit": lambda: SVNNRegressor(max_epochs=3, random_state=0).fit(X, y),
        "predict": lambda: model.predict(X),
        "tiled HardThreshold.fit": lambda: HardThreshold(dense_limit=100).fit(wide),
        "certificate": lambda: svnn.stability.certificate(model, model.covariance_, other, X),
        "report": lambda: model.report(X, y, folder / "report.html"),
        "svnn compare --quick": compare,
    }
    for job in found.values():
        job()
    return found


def walks() -> dict[str, Walk]:
    """Follow every job once."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: walk(job) for name, job in jobs(Path(folder)).items()}


def code_lines(path: Path) -> int:
    """Return the lines of a file without docstrings, comments and blank lines."""
    source = path.read_text(encoding="utf-8")
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                documentation |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    layout = {*(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documentation)


def rooms() -> dict[str, tuple[int, int]]:
    """Return the files and the lines of code of every room, the largest first."""
    found: dict[str, list[int]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        found.setdefault(f"{parts[0]}/" if len(parts) > 1 else "modules of the root", []).append(code_lines(path))
    ordered = sorted(found.items(), key=lambda item: -sum(item[1]))
    return {room: (len(lines), sum(lines)) for room, lines in ordered}


def walk_table(seen: dict[str, Walk]) -> str:
    """Return the counts of all jobs beside their budgets."""
    lines = ["| job | files | functions | budget | switches between files | depth |", "|---|---|---|---|---|---|"]
    for name, own in seen.items():
        budget = BUDGETS[name]
        counts = f"{len(own.files)} | {len(own.functions)} | {budget.files} / {budget.functions}"
        lines.append(f"| {name} | {counts} | {own.switches} | {own.depth} |")
    return "\n".join(lines)


def room_table() -> str:
    """Return the size of every room."""
    sizes = rooms()
    lines = ["| room | files | lines of code |", "|---|---|---|"]
    lines += [f"| `{room}` | {files} | {code:,} |" for room, (files, code) in sizes.items()]
    files, code = (sum(column) for column in zip(*sizes.values(), strict=True))
    return "\n".join([*lines, f"| all | {files} | {code:,} |"])


def write(tables: dict[str, str], page: Path = PAGE) -> None:
    """Put tables between their marks in a page."""
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        text, count = re.subn(f"{start}.*?{end}", lambda _, new=f"{start}\n{table}\n{end}": new, text, flags=re.S)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"{page} must have the marks {start} and {end} once.")
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Print the tables, write them, or print the functions of one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="JOB", choices=list(BUDGETS), help="print every function of one job")
    parser.add_argument("--write", action="store_true", help="write the tables into ARCHITECTURE.md")
    chosen = parser.parse_args()
    if chosen.list:
        with tempfile.TemporaryDirectory() as folder:
            for file, name in walk(jobs(Path(folder))[chosen.list]).functions:
                print(f"{file:45s} {name}")
        return
    tables = {"walks": walk_table(walks()), "rooms": room_table()}
    print("\n\n".join(tables.values()))
    if chosen.write:
        write(tables)


if __name__ == "__main__":
    main()
