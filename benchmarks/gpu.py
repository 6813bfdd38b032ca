"""On a GPU: the thresholded covariance of 100,000 features, and a training step on 20,000 nodes.

The covariance is that of 1000 float32 samples, in tf32 and in full float32. The step is forward +
backward of a network of two layers (32 features, K=2, 16 samples of a table) at density 1 %, against the
same network in plain torch on a sparse CSR matrix; ours keeps the first layer's shifts, as ``fit`` does.
Steps follow each other as in training, without waiting in between. No N×N matrix may ever be held.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _measure import machine, markdown, number, once, parser, write_json
from _peers import TextbookSVNN, folded_shift, to_torch_csr
from filters import random_covariance
from scale import GROUP

from svnn import HardThreshold, as_operator
from svnn.nn import SVNN, ShiftedSignals

HIDDEN, ORDER, BATCH, DENSITY = (32, 32), 2, 16, 0.01


def timed(call: Callable[[], Any], repeats: int, in_a_row: int = 1) -> tuple[float, float]:
    """Return the median seconds of a warm call and the peak GB it takes, inputs included."""

    def synchronised() -> None:
        for _ in range(in_a_row):
            call()
        torch.cuda.synchronize()

    synchronised()
    torch.cuda.reset_peak_memory_stats()
    seconds = statistics.median(once(synchronised) for _ in range(repeats)) / in_a_row
    return seconds, torch.cuda.max_memory_allocated() / 1e9


def covariances(n: int, t: int, repeats: int) -> list[dict[str, Any]]:
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(t, n, generator=generator, device="cuda")
    groups = n // 10 // GROUP
    shared = torch.randn(t, groups, 1, generator=generator, device="cuda")
    X[:, : groups * GROUP] += shared.expand(t, groups, GROUP).reshape(t, -1)
    rows = []
    for name, precision in (("tf32", "high"), ("float32", "highest")):
        torch.set_float32_matmul_precision(precision)
        model = HardThreshold(sparse_output=True)
        seconds, peak = timed(lambda model=model: model.fit(X), repeats)
        C = model.covariance_
        nnz = int(C.values().numel() if isinstance(C, torch.Tensor) else C.nnz)
        rows.append({"what": f"HardThreshold().fit, {name}", "N": n, "seconds": seconds, "peak GB": peak, "nnz": nnz})
    torch.set_float32_matmul_precision("highest")
    return rows


def steps(n: int, repeats: int) -> list[dict[str, Any]]:
    C = random_covariance(n, DENSITY)
    operator = as_operator(C, device="cuda").normalized()
    x = torch.randn(BATCH, n, 1, device="cuda")
    network = SVNN(1, 1, hidden=HIDDEN, order=ORDER, mlp=(32,)).cuda()
    signals = ShiftedSignals.of(x, operator, ORDER)
    matrix = to_torch_csr(C * np.float32(1 / operator.scale)).cuda()
    plain = TextbookSVNN(1, 1, HIDDEN, ORDER, (32,), folded_shift(matrix.matmul)).cuda()
    plain.load_state_dict(network.state_dict())
    runs = {
        "ours": lambda: network(signals, operator),
        "ours, shifting anew": lambda: network(x, operator),
        "torch CSR": lambda: plain(x),
    }
    outputs = [run().detach() for run in runs.values()]
    error = max(float((y - outputs[-1]).abs().max() / outputs[-1].abs().max()) for y in outputs)
    if not error < 1e-3:
        raise AssertionError(f"the networks differ by {error:.2g}.")
    rows = []
    for name, run in runs.items():
        parameters = list((plain if name == "torch CSR" else network).parameters())

        def step(run: Callable[[], torch.Tensor] = run, parameters: list[torch.Tensor] = parameters) -> None:
            torch.autograd.grad(run().sum(), parameters)

        seconds, peak = timed(step, repeats, in_a_row=20)
        rows.append({"what": f"training step, {name}", "N": n, "seconds": seconds, "peak GB": peak, "nnz": C.nnz})
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    headers = ["", "N", "ms", "peak memory (GB)", "N×N float32 (GB)", "nnz"]
    table = [
        [
            row["what"],
            f"{row['N']:,}",
            number(1e3 * row["seconds"]),
            number(row["peak GB"]),
            number(4e-9 * row["N"] ** 2),
            f"{row['nnz']:,}",
        ]
        for row in rows
    ]
    kept, anew = (rows[-1]["seconds"] / row["seconds"] for row in rows[-3:-1])
    remark = f"\n\nOurs × torch CSR: {kept:.2f}, shifting anew {anew:.2f}."
    return "## On the GPU\n\n" + markdown(headers, table) + remark


def main() -> int:
    options = parser(__doc__).parse_args()
    if not torch.cuda.is_available():
        print("This part needs a GPU that torch can use; there is none here. `make bench` measures the CPU.")
        return 2
    sizes = (3000, 200, 3000, 2) if options.quick else (100_000, 1000, 20_000, 10)
    n, t, nodes, repeats = sizes
    rows = covariances(n, t, repeats) + steps(nodes, repeats)
    where = {**machine(), "gpu": torch.cuda.get_device_name()}
    print(f"GPU: {where['gpu']}; torch {torch.__version__}\n")
    print(report(rows))
    print("\nwritten:", write_json(options.out, "gpu", {"machine": where, "gpu": rows}))
    if not options.quick:  # for small matrices the inputs weigh more
        ours = [row for row in rows if "torch CSR" not in row["what"]]
        full = [row["what"] for row in ours if row["peak GB"] >= 4e-9 * row["N"] ** 2]
        assert not full, f"took as much memory as an N×N matrix: {full}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
