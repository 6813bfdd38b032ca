"""Networks whose rows have covariances of their own, and share the weights."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from svnn._types import ColumnLike, DataLike
from svnn._validation import at_once
from svnn.estimators._going_on import GoingOn
from svnn.estimators._row_covariances import RowMatrices
from svnn.estimators._training_data import Given, Rows, Standardizer, Targets
from svnn.estimators.training import plain_torch
from svnn.operators import CovarianceOperator, as_operator


class OwnCovariances(GoingOn):
    """What changes where each row, or each group of rows, has a covariance of its own."""

    @at_once
    @plain_torch()
    def fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        validation_data: tuple[Any, ...] | None = None,
        groups: ColumnLike | None = None,
        shift: ArrayLike | None = None,
    ) -> Self:
        """Learn the covariance of the training rows, and train the network on it.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,), or (t, n_outputs) for regression
        sample_weight : array of shape (t,), optional
            Weights of the samples in the loss, and in the covariance where that is one of svnn's own
            estimators (scikit-learn's take no weights). Only their ratios count.
        validation_data : tuple (X, y), optional
            Data for early stopping. By default ``validation_fraction`` of the rows are held out. Where rows come with
            matrices or groups, theirs are its third part.
        groups : array of shape (t,), optional
            Rows of one group (a subject, say) never fall on both sides of that split. With ``covariance_per="group"``
            they share a covariance.
        shift : array of shape (t, N, N), optional
            A symmetric matrix for every row, in place of the covariance of the data. The same is then given to
            ``predict``. All are divided by one number, the mean of their spectral norms. A signal that is the same in
            every row is centred away by the standardisation: where the matrices say it all, give them as ``X`` too.

        Returns
        -------
        self
        """
        return self._fit_anew(Given(X, y, sample_weight, validation_data, groups, shift=shift))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.covariance_per == "table":
            return
        if self.shift is not None:
            raise ValueError(
                f'covariance_per="{self.covariance_per}" estimates covariances from the rows, but shift= gives one; '
                "leave one of them out."
            )
        self._check_plain(f'covariance_per="{self.covariance_per}"')

    def _check_plain(self, what: str) -> None:
        if self.use not in ("auto", "covariance"):
            raise ValueError(
                f'{what} uses the covariances themselves, not use="{self.use}"; give other matrices of the rows to '
                "fit and predict as shift=."
            )
        if self.resample != "fixed":
            raise ValueError(f'{what} has one covariance for each row, resample="{self.resample}" draws others.')
        if self.halflife is not None:
            raise ValueError(f"{what} has one covariance for each row, in which none fades; leave halflife out.")

    @property
    def _per(self) -> str:
        """Whose covariances the fitted network runs on: "table", "sample", "group", or those "given" for every row."""
        found: str = getattr(self, "_trained_with", {}).get("per", "table")
        return found

    def _of_one_covariance(self, what: str) -> None:
        """Raise an error where rows have covariances of their own, which ``what`` does not know about."""
        if self._per != "table":
            raise ValueError(f"{what} is for models with one covariance; here every row, or group, has its own.")

    def _row_matrices(
        self, Z: np.ndarray, shift: object, groups: ColumnLike | None, seed: int | None = None
    ) -> RowMatrices | None:
        if seed is not None:  # in fit
            per = self.covariance_per if shift is None else "given"
            self._trained_with = {"per": per}
            if per == "given":
                self._check_plain("shift=")
        per = self._per
        if per == "given":
            if shift is None:
                raise ValueError("the model was fitted with a matrix for each row; give those of X as shift=.")
            return RowMatrices.given(shift, *Z.shape[:2])
        if shift is not None:
            raise ValueError("shift= is for models that were fitted with a matrix for each row; leave it out.")
        if per == "table":
            return None
        if seed is not None:
            self._trained_with["seed"] = seed
            self._own_covariance = copy.deepcopy(self.covariance)  # what set_params changes later is not fitted
        seed, covariance = self._trained_with["seed"], getattr(self, "_own_covariance", self.covariance)
        if per == "sample":
            return RowMatrices.of_samples(covariance, Z, seed)
        return RowMatrices.of_groups(covariance, Z, groups, seed)

    def _take_matrices(self, matrices: RowMatrices, device: torch.device) -> None:
        scale = matrices.norm()
        self._trained_with |= {"use": "covariance", "standardize": bool(self.standardize), "scale": scale}
        self.covariance_estimator_, self.covariance_ = None, matrices.mean()
        shift = as_operator(self.covariance_).normalized(scale)
        self.operator_ = shift.to(device=device, dtype=torch.float32)

    def _operator_of(
        self, matrices: RowMatrices | None, dtype: torch.dtype, device: torch.device
    ) -> CovarianceOperator | None:
        return None if matrices is None else matrices.operator(self._trained_with["scale"], dtype, device)

    def _validation_rows(
        self, given: tuple[Any, ...], n_values: int, standardizer: Standardizer, targets: Targets
    ) -> Rows:
        needs = {"given": "shift", "group": "groups"}.get(self._per)
        if needs is None:
            rows = super()._validation_rows(given, n_values, standardizer, targets)
            return rows._replace(matrices=self._row_matrices(rows.signals, None, None))
        if not isinstance(given, (tuple, list)) or len(given) != 3:
            raise ValueError(f"validation_data must be (X, y, {needs}), as its rows need them too.")
        rows = super()._validation_rows(tuple(given[:2]), n_values, standardizer, targets)
        own = {needs: given[2]}
        return rows._replace(matrices=self._row_matrices(rows.signals, own.get("shift"), own.get("groups")))

    def row_covariances(self, X: DataLike, *, groups: ColumnLike | None = None) -> np.ndarray:
        """Return the covariances of the rows, of shape (t, N, N), with ``covariance_per`` "sample" or "group".

        They are on the scale of the standardised features. What :meth:`to_torch` and :meth:`export` make of such a
        model takes them as its second input, ``shift``.
        """
        check_is_fitted(self)
        found = self._row_matrices(self._standardizer(self._signals(X)), None, groups)
        if found is None:
            raise ValueError('row_covariances is for models with covariance_per="sample" or "group".')
        return found.matrices[found.index]

    def embed(self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None) -> np.ndarray:
        """Return the node embeddings before the readout, of shape (t, N, members * hidden[-1]).

        ``shift`` and ``groups`` are those of the rows, as in ``predict``.
        """
        return self._output(X, embed=True, shift=shift, groups=groups)

    def score(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        shift: ArrayLike | None = None,
        groups: ColumnLike | None = None,
    ) -> float:
        """Return the R² of the predictions, or the share of labels that are right.

        ``shift`` and ``groups`` are those of the rows, as in ``predict``.
        """
        from sklearn.metrics import accuracy_score, r2_score  # slow to import

        found = self.predict(X, shift=shift, groups=groups)
        measure = accuracy_score if self._target_kind.are_labels else r2_score
        return float(measure(y, found, sample_weight=sample_weight))
