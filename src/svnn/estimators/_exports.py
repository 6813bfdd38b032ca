"""What covariance networks say of themselves to torch and to other runtimes: ``to_torch`` and ``export``."""

from __future__ import annotations

from typing import Any, cast

import torch
from sklearn.utils.validation import check_is_fitted

from svnn.estimators._model_file import PathLike
from svnn.estimators.training import plain_torch


class Exports:
    """The methods that make a fitted covariance network run without svnn."""

    @plain_torch()
    def to_torch(self, dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
        """Return the fitted model as a plain torch module that takes X in its own units.

        It holds everything that ``predict`` does: standardisation, shift, members and their weights, linear model and
        decoding. It is made of torch's own operations, needs no svnn to run, and is in evaluation mode in main memory.

        Parameters
        ----------
        dtype : torch.dtype, default=torch.float32
            ``torch.float32`` or ``torch.float64``. In double precision predictions are those of ``predict`` up to
            rounding. Single precision is faster; where features are nearly multiples of each other, as in spectra, it
            keeps four to five digits.

        Returns
        -------
        torch.fx.GraphModule
            From a tensor of shape (t, N), or (t, N, F) as in ``fit``, to predictions of the shape of ``predict``; a
            classifier's gives probabilities of shape (t, n_classes), and ``model.classes_[module(X).argmax(1)]`` are
            the labels. Nothing is checked but the shape: NaN gives NaN. Where rows have covariances of their own, these
            are the second input, of shape (t, N, N): what ``fit`` got as ``shift``, or ``model.row_covariances(X)``.

        Examples
        --------
        >>> import torch
        >>> from sklearn.datasets import load_iris
        >>> from svnn import SVNNClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> module = SVNNClassifier(max_epochs=5, members=2, random_state=0).fit(X, y).to_torch()
        >>> module(torch.tensor(X[:3])).shape
        torch.Size([3, 3])
        """
        from svnn.estimators._plain_network import plain_network

        check_is_fitted(self)
        return plain_network(cast(Any, self), dtype)

    @plain_torch()
    def export(self, path: PathLike, dtype: torch.dtype = torch.float32) -> None:
        """Write :meth:`to_torch` to a file that runs without svnn; any number of rows can be predicted with it.

        Parameters
        ----------
        path : path
            ``.onnx`` for ONNX (``pip install "svnn[export]"``), ``.pt2`` for ``torch.export.load``. The file is
            replaced in one step, as by :meth:`save`.
        dtype : torch.dtype, default=torch.float32
            Of the computation and of the input ``X``.

        Notes
        -----
        An ONNX file takes ``X`` (and ``shift``, where rows have covariances of their own) and gives ``prediction``, or
        ``probabilities`` and ``label``. Its metadata hold the version of svnn, the name of the estimator, and the names
        of features and classes as JSON. A ``.pt2`` file has them as extra files, and its output is that of
        :meth:`to_torch`. Labels that are neither numbers nor truth values are text. Sparse covariances of up to 2048
        features are stored as dense matrices, larger ones by their entries.

        Examples
        --------
        >>> import os, tempfile, torch
        >>> from sklearn.datasets import load_iris
        >>> from svnn import SVNNRegressor
        >>> X, _ = load_iris(return_X_y=True)
        >>> model = SVNNRegressor(max_epochs=5, members=2, random_state=0).fit(X[:, 1:], X[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.pt2")
        ...     model.export(path)
        ...     program = torch.export.load(path)
        >>> program.module()(torch.tensor(X[:5, 1:], dtype=torch.float32)).shape
        torch.Size([5])
        """
        from svnn.estimators._export import export

        check_is_fitted(self)
        export(cast(Any, self), path, dtype)
