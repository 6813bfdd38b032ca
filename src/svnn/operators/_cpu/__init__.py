"""The fused CPU passes behind the CSR and dense shifts: numba kernels on torch's own threads.

Import :mod:`svnn.operators._cpu.passes` only; it says whether numba is there.
"""
