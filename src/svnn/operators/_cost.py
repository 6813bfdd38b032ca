"""A model of what a filter bank costs with each backend, fitted to measurements.

``benchmarks/auto.py`` times every backend over a grid of sizes and shows how far the model's choice
is from the best one. What matters is the ratio of the rates, which differs little between processors.
"""

from __future__ import annotations

#: Operations a second of two AVX-512 cores: large products, and the CSR pass on signals that fit the
#: cache of a core, or do not.
_GEMM, _PASS, _FAR_PASS = 250e9, 110e9, 40e9
_CACHE_BYTES = 2**20
#: A product of N rows reaches N / (N + _SMALL) of the full rate.
_SMALL = 40
#: Seconds a row of a CSR pass takes beside its entries, and a call of each way takes at least.
_ROW, _CALL = 8e-9, {"dense": 4e-5, "csr": 6e-5}


def bank_seconds(backend: str, n: int, nnz: int, batch: int, n_in: int, n_out: int, order: int) -> float:
    """Return the modelled seconds of ``sum_k C^k x W_k`` for x (batch, N, in).

    Examples
    --------
    >>> work = dict(n=2000, batch=64, n_in=32, n_out=32, order=3)
    >>> bank_seconds("csr", nnz=40_000, **work) < bank_seconds("dense", nnz=40_000, **work)
    True
    """
    narrow = min(n_in, n_out)
    mixing = 2 * batch * n * n_in * n_out / _GEMM
    if backend == "csr":
        # The lanes of a vector are values of a sample, or samples.
        lanes = (
            -(-narrow // 16) * 16 if narrow >= 16 else max(narrow, min(64 // narrow, batch) * narrow) / (64 // narrow)
        )
        rate = _PASS if n * max(narrow, 16) * 4 <= _CACHE_BYTES else _FAR_PASS
        rows = batch * n * max(narrow, 1) / max(narrow, 64)
        return _CALL["csr"] + (order + 1) * mixing + order * (2 * batch * nnz * lanes / rate + rows * _ROW)
    rate = _GEMM * n / (n + _SMALL)
    shifts = _CALL["dense"] + (order + 1) * mixing + order * 2 * batch * n * n * narrow / rate
    rotations = _CALL["dense"] + mixing + 2 * batch * n * n * (n_in + n_out) / rate
    return min(shifts, rotations)
