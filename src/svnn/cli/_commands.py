"""The commands of ``svnn``, in the order of its help. Slow imports wait until a command runs."""

from svnn.cli._app import app

__all__ = ["app"]
