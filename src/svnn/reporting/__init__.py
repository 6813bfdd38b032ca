"""One HTML file that says what a fitted model does, and how far to trust it."""

from svnn.reporting._report import write_report

__all__ = ["write_report"]
