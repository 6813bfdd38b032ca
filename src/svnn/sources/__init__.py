"""Tables that are not arrays in memory: HDF5, Zarr, AnnData, Parquet, sparse matrices, and files of all of these.

:func:`as_table` takes objects, :func:`open_table` takes the names of files. Both return a :class:`Table`, which the
covariance estimators and :func:`svnn.graphs.correlation_graph` read in pieces: a chunk of a file is read and unpacked
once, and no more of the table is held than a limit of memory allows.
"""

from svnn.sources._objects import as_table
from svnn.sources._paths import open_table
from svnn.sources._table import Table

__all__ = ["Table", "as_table", "open_table"]
