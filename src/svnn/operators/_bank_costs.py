"""Which way to compute a filter bank is the fastest: a model of its costs, fitted to measurements.

``benchmarks/auto.py`` times every backend over a grid of sizes and shows how far the choice is from the best one. Only
the ratios of the rates matter, and they differ little between processors.
"""

from __future__ import annotations

import math

import torch

#: Operations per second of two AVX-512 cores: products with the (small) weights, rotations by the eigenvectors, shifts
#: by a dense matrix, and the CSR pass on signals that fit the cache of a core or do not.
_MIXING, _PRODUCT, _SHIFT, _CSR_PASS, _FAR_CSR_PASS = 150e9, 220e9, 190e9, 105e9, 40e9
_CACHE_BYTES = 2**20
#: Seconds for 64 values of a row of a CSR pass beside its entries, over both cores: they are written, and read again.
_ROW = 30e-9
#: A matrix of this size is multiplied at half of the full rate.
_HALF_RATE = 24
#: Up to this size the eigenbasis is found in a fraction of a second, and a sample's signals fit the cache.
EIGENBASIS_LIMIT = 1024
#: Up to this size a dense matrix is at most a quarter slower than the sparsest one, and mostly faster.
SMALL = 32
#: On a GPU, matrices that are sparser and larger than this are stored sparse.
_GPU_DENSITY, _GPU_NODES = 0.05, 512


def choose_backend(
    n_nodes: int,
    density: float,
    *,
    n_in: int = 32,
    n_out: int = 32,
    order: int = 2,
    batch: int = 64,
    device: torch.device | str = "cpu",
) -> str:
    """Return the backend, "dense" or "csr", whose filter bank is faster.

    On a CPU by a model of the costs, whose rates ``benchmarks/auto.py`` checks; up to 32 nodes always "dense".
    On a GPU the dense product overtakes the sparse one above a density of about 0.05.

    Examples
    --------
    >>> choose_backend(1000, 0.01), choose_backend(1000, 0.9), choose_backend(100, 0.2, n_in=128, order=8)
    ('csr', 'dense', 'dense')
    """
    if torch.device(device).type != "cpu":
        return "csr" if density <= _GPU_DENSITY and n_nodes >= _GPU_NODES else "dense"
    if n_nodes <= SMALL:
        return "dense"
    bank = (n_nodes, round(density * n_nodes**2), batch, n_in, n_out, order)
    dense = min(bank_seconds("dense", *bank), bank_seconds("eigenbasis", *bank))
    return "csr" if bank_seconds("csr", *bank) < dense else "dense"


def bank_seconds(way: str, n: int, nnz: int, batch: int, n_in: int, n_out: int, order: int) -> float:
    """Return the modelled seconds of ``sum_k C^k x W_k`` for x (batch, N, in), by "dense", "csr" or "eigenbasis".

    Examples
    --------
    >>> work = dict(n=2000, batch=64, n_in=32, n_out=32, order=3)
    >>> bank_seconds("csr", nnz=40_000, **work) < bank_seconds("dense", nnz=40_000, **work)
    True
    """
    narrow = min(n_in, n_out)
    mixing = 2 * batch * n * n_in * n_out / _MIXING
    if way == "csr":
        # A vector holds values of one sample, or where those are few, of several samples.
        lanes = batch * (-(-narrow // 16) * 16 if narrow >= 16 else narrow)
        rate = _CSR_PASS if 4 * n * max(narrow, 16) <= _CACHE_BYTES else _FAR_CSR_PASS
        rows = n * max(batch * narrow / 64, 1)
        return (order + 1) * mixing + order * (2 * nnz * lanes / rate + rows * _ROW)
    size = n / (n + _HALF_RATE)
    if way == "eigenbasis":
        return mixing + 2 * batch * n * n * (n_in + n_out) / (_PRODUCT * size) if n <= EIGENBASIS_LIMIT else math.inf
    return (order + 1) * mixing + order * 2 * n * n * batch * narrow / (_SHIFT * size)
