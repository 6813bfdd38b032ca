"""Tables in files, and tables of other packages.

:func:`open_table` opens files and :func:`as_table` takes objects that are not arrays in memory: HDF5, Zarr, AnnData,
Parquet, sparse matrices. Both return a :class:`Table`, which the covariance estimators and
:func:`svnn.graphs.correlation_graph` read in pieces: a chunk of a file is read and unpacked once, and no more of the
table is in memory than a limit allows. :func:`svnn.comparison.read_table` reads samples and a target as arrays.
"""

from svnn.sources._paths import open_table
from svnn.sources._stored import as_table
from svnn.sources._table import Table

__all__ = ["Table", "as_table", "open_table"]
