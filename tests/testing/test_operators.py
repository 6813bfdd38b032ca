"""``check_operator`` lets right operators pass and names what is wrong with others."""

from __future__ import annotations

import pytest
import torch

from svnn import as_operator
from svnn.operators import CovarianceOperator
from svnn.testing import check_operator
from svnn.testing._operators import CHECKS


class Diagonal(CovarianceOperator):
    """The smallest operator there is: a covariance without edges."""

    backend = "diagonal"

    def __init__(self, variances):
        self.variances, self.shape = variances, (len(variances), len(variances))

    def _matmul(self, x):
        return self.variances[:, None] * x

    def _tensors(self):
        return (self.variances,)

    def _map(self, function, factor=1.0):
        self.variances = function(self.variances) * factor

    def to_dense(self):
        return torch.diag(self.variances)


VARIANCES = torch.tensor([1.0, 2.0, 0.5, 0.0])


class Asymmetric(Diagonal):
    def to_dense(self):
        return torch.diag(self.variances) + torch.triu(torch.ones(4, 4, dtype=self.dtype), 1)


class WrongShape(Diagonal):
    @property
    def density(self):
        return 1.0


class WrongProduct(Diagonal):
    def _matmul(self, x):
        return self.variances.flip(0)[:, None] * x


class Widening(Diagonal):
    def __matmul__(self, x):
        return super().__matmul__(x).double()


class InPlace(Diagonal):
    def _map(self, function, factor=1.0):
        self.variances = function(self.variances).mul_(factor)


class NoFactor(Diagonal):
    def _map(self, function, factor=1.0):
        self.variances = function(self.variances)


class WrongNorm(Diagonal):
    def norm(self):
        return 3.0


class WrongFilter(Diagonal):
    def _filter(self, x, weight, bias):
        return self._reference_filter(x, weight.flip(0), bias)


class NoGradient(Diagonal):
    def _matmul(self, x):
        return super()._matmul(x.detach()) + 0 * x


class Forgetful(Diagonal):
    def __getstate__(self):
        return super().__getstate__() | {"variances": torch.zeros_like(self.variances)}

    def __copy__(self):
        return Forgetful(self.variances)


class Lenient(Diagonal):
    def __matmul__(self, x):
        return super().__matmul__(torch.as_tensor(x))


class Incomplete(Diagonal):
    def edge_index(self):
        raise NotImplementedError("no edges here")


@pytest.mark.parametrize(
    ("operator", "sentence"),
    [
        (Asymmetric, r"to_dense\(\) must be symmetric"),
        (WrongShape, r"density is 1\.0, expected nnz / N² = 0\.1875"),
        (WrongProduct, "is not the product of the matrix and x, x of shape"),
        (Widening, "op @ x has dtype torch.float64 for x of torch.float32"),
        (InPlace, r"normalized\(\) changed the operator itself"),
        (NoFactor, r"normalized\(s\) is not C / s"),
        (WrongNorm, r"norm\(\) is not the spectral norm. It is 3, expected 2"),
        (WrongFilter, r"op.filter is not the sum of C\^k x W_k"),
        (NoGradient, "the gradient of op @ x is wrong"),
        (Forgetful, "a pickled operator gives other products"),
        (Lenient, "op @ x must be a TypeError for a numpy array. Nothing was raised"),
        (Incomplete, 'The check "conversions" met NotImplementedError: no edges here'),
    ],
)
def test_mistakes_are_named(operator, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_operator(operator(VARIANCES.clone()))


def test_a_right_operator_passes_and_is_left_as_it_was():
    operator = Diagonal(VARIANCES.clone())
    check_operator(operator)
    assert operator.dtype == torch.float32 and operator.scale is None
    torch.testing.assert_close(operator.variances, VARIANCES)


def test_normalised_operators_pass():
    check_operator(as_operator(torch.diag(VARIANCES)).normalized())


def test_a_function_is_compared_with_the_matrix_it_was_given():
    diagonals = [torch.diag(VARIANCES.double()), torch.eye(2, dtype=torch.float64)]
    check_operator(lambda C: Diagonal(C.diagonal().clone()), matrices=diagonals)
    with pytest.raises(AssertionError, match=r"to_dense\(\) is not the matrix"):  # not every matrix is diagonal
        check_operator(lambda C: Diagonal(C.diagonal().clone()))
    with pytest.raises(AssertionError, match="must return a CovarianceOperator, it returned Tensor"):
        check_operator(lambda C: C)


def test_checks_can_be_left_out_by_name():
    check_operator(WrongNorm(VARIANCES), skip=["normalized", "filter", "gradients"])
    with pytest.raises(ValueError, match=r"names that are no checks: \['speed'\]"):
        check_operator(Diagonal(VARIANCES), skip=["speed"])
    with pytest.raises(ValueError, match=r"such as \['filter'\]"):
        check_operator(Diagonal(VARIANCES), skip="filter")
    with pytest.raises(ValueError, match="an operator has its own matrix"):
        check_operator(Diagonal(VARIANCES), matrices=[torch.eye(2)])


def test_every_check_is_documented():
    for name in CHECKS:
        assert f'``"{name}"``' in check_operator.__doc__
