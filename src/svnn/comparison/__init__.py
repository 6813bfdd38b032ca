"""Which model suits a table? svnn's networks beside the models that one would try, on the same splits.

:func:`read_table` reads a file, :func:`compare` measures the models, and a :class:`Comparison` holds the scores, tests
and three sentences in plain words. On the command line: ``svnn compare FILE --target COLUMN``.
"""

from svnn.comparison._advisor import PredictionAdvice
from svnn.comparison._compare import compare
from svnn.comparison._comparison import Comparison, Interval, PairedTest
from svnn.comparison._plot import plot
from svnn.sources._dataset import Dataset, read_table

__all__ = ["Comparison", "Dataset", "Interval", "PairedTest", "PredictionAdvice", "compare", "plot", "read_table"]
