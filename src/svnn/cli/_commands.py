"""The commands of ``svnn``, in the order of its help. Slow imports wait until a command runs."""

# isort: skip_file
from svnn.cli import _compare as _compare
from svnn.cli import _model as _model
from svnn.cli import _graph as _graph
from svnn.cli import _about as _about
from svnn.cli import _reproduce as _reproduce
from svnn.cli._app import app as app
