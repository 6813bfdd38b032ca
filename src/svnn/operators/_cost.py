"""A model of what a filter bank costs on the CPU with each backend, fitted to measurements.

``benchmarks/auto.py`` times every backend over a grid of sizes and shows how far the model's choice
is from the best one. Only ratios of the rates matter, which differ little between processors.
"""

from __future__ import annotations

#: Operations a second of two AVX-512 cores: products with the (small) weights, products with the matrix, the
#: dense pass, and the CSR pass on signals that fit the cache of a core or do not.
_MIXING, _PRODUCT, _DENSE_PASS, _CSR_PASS, _FAR_CSR_PASS = 150e9, 220e9, 190e9, 105e9, 40e9
_CACHE_BYTES = 2**20
#: Seconds for 64 values of a row of a CSR pass beside its entries, over both cores: they are written, and read again.
_ROW = 30e-9
#: Products this small reach half of the full rate.
_HALF_RATE = 24
#: Beyond this size dense shifts are matrix products on the whole batch; see ``_dense.py``.
_FUSED_LIMIT = 1024


def bank_seconds(backend: str, n: int, nnz: int, batch: int, n_in: int, n_out: int, order: int) -> float:
    """Return the modelled seconds of ``sum_k C^k x W_k`` for x (batch, N, in) with "dense" or "csr".

    Examples
    --------
    >>> work = dict(n=2000, batch=64, n_in=32, n_out=32, order=3)
    >>> bank_seconds("csr", nnz=40_000, **work) < bank_seconds("dense", nnz=40_000, **work)
    True
    """
    narrow = min(n_in, n_out)
    # A vector holds values of one sample, or where those are few, of several samples.
    lanes = batch * (-(-narrow // 16) * 16 if narrow >= 16 else narrow)
    product = _PRODUCT * n / (n + _HALF_RATE)
    mixing = 2 * batch * n * n_in * n_out / _MIXING
    if backend == "csr":
        rate = _CSR_PASS if 4 * n * max(narrow, 16) <= _CACHE_BYTES else _FAR_CSR_PASS
        rows = n * max(batch * narrow / 64, 1)
        return (order + 1) * mixing + order * (2 * nnz * lanes / rate + rows * _ROW)
    rate = _DENSE_PASS * n / (n + _HALF_RATE) if n <= _FUSED_LIMIT else product
    shifts = (order + 1) * mixing + order * 2 * n * n * lanes / rate
    if n > _FUSED_LIMIT:
        return shifts
    return min(shifts, mixing + 2 * batch * n * n * (n_in + n_out) / product)
