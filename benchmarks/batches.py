"""A covariance for each sample: what a batch costs beside a bare batched product, a loop, and a packed batch.

64 samples of 68 nodes, one value per node, 32 values out, order 2, float32, on one thread; forward and backward, with
the gradients of the parameters. The bare product is ``[x, Cx, C²x]`` by ``torch.bmm`` and one product with the weights.
"operator" is made once, "tensor" is given as it is in every step and checked anew; a network then also finds the norms
of all matrices anew. Times are medians of interleaved calls in one process. All ways are compared with the loop before
anything is timed. A filter bank, on an operator or on a tensor, may take twice the time of the bare product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from _measure import markdown, number, round_robin, run_part
from torch import Tensor

from svnn import as_operator
from svnn.nn import SVNN, CovarianceFilter
from svnn.operators import pack, pack_signals

BATCH, NODES, OUT_FEATURES, ORDER = 64, 68, 32, 2
#: A filter bank may take so many times the bare product.
BAR = 2.0
BARE = "bare batched product"


def covariances(batch: int, nodes: int, seed: int = 0) -> Tensor:
    """Return sample covariances of data with unequal variances."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(batch, 3 * nodes, nodes, generator=generator) * torch.linspace(0.5, 2, nodes)
    C = X.mT @ X / (3 * nodes)
    return (C + C.mT) / 2


def sizes_around(batch: int, nodes: int) -> list[int]:
    """Return sizes from three quarters of ``nodes`` to five quarters, whose mean is ``nodes``."""
    reach = nodes // 4
    return [nodes + round(reach * (2 * i / max(batch - 1, 1) - 1)) for i in range(batch)]


def candidates(batch: int, nodes: int) -> tuple[dict[str, Callable[[], Tensor]], dict[str, list[Tensor]]]:
    """Return every way to compute an output, and the parameters that it has gradients for."""
    torch.manual_seed(0)
    C, x = covariances(batch, nodes), torch.randn(batch, nodes, 1)
    layer = CovarianceFilter(1, OUT_FEATURES, ORDER)
    # Batch norm would couple the samples of a batch, but not those of a loop.
    network = SVNN(1, 1, hidden=(OUT_FEATURES,), order=ORDER, batch_norm=False)
    operator, unit = as_operator(C), as_operator(C).normalized()
    each = [as_operator(c) for c in C]
    units = [one.normalized() for one in each]
    packed, units_packed, flat = pack(C), pack(C).normalized(), x.flatten(0, 1)
    sizes = sizes_around(batch, nodes)
    largest = covariances(batch, max(sizes), seed=1)
    ragged = pack([c[:n, :n] for c, n in zip(largest, sizes, strict=True)]).normalized()
    signals = pack_signals([torch.randn(n, 1) for n in sizes])

    def bare() -> Tensor:
        powers = [x]
        for _ in range(ORDER):
            powers.append(torch.bmm(C, powers[-1]))
        return torch.cat(powers, -1) @ layer.weight.flatten(0, 1) + layer.bias

    outputs: dict[str, Callable[[], Tensor]] = {
        BARE: bare,
        "filter, operator": lambda: layer(x, operator),
        "filter, tensor": lambda: layer(x, C),
        "filter, packed": lambda: layer(flat, packed).view(batch, nodes, -1),
        "filter, loop": lambda: torch.stack([layer(x[i], one) for i, one in enumerate(each)]),
        "network, operator": lambda: network(x, unit),
        "network, tensor": lambda: network(x, C),
        "network, packed": lambda: network(flat, units_packed),
        "network, packed, several sizes": lambda: network(signals, ragged),
        "network, loop": lambda: torch.stack([network(x[i], one) for i, one in enumerate(units)]),
    }
    parameters = {"filter": list(layer.parameters()), "network": list(network.parameters())}
    return outputs, {name: parameters["network" if name.startswith("network") else "filter"] for name in outputs}


def check(outputs: dict[str, Callable[[], Tensor]]) -> None:
    """Compare every way with the loop over samples."""
    for name, output in outputs.items():
        if "several sizes" in name:
            continue
        expected = outputs["network, loop" if name.startswith("network") else "filter, loop"]()
        error = float((output() - expected).detach().abs().max() / expected.detach().abs().max())
        if not error <= 1e-4:
            raise AssertionError(f"{name}: differs from the loop by {error:.2g} of its largest value.")


def measure(rates: dict[str, float], quick: bool = False, seconds: float = 1.0) -> dict[str, Any]:
    """Return the times in ms and what they are of the bare product's; the norms by themselves, too."""
    batch, nodes = (3, 8) if quick else (BATCH, NODES)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        outputs, parameters = candidates(batch, nodes)
        check(outputs)

        def step(name: str) -> None:
            output = outputs[name]()
            torch.autograd.grad(output, parameters[name], torch.ones_like(output))

        calls: dict[str, Callable[[], Any]] = {name: lambda name=name: step(name) for name in outputs}
        C = covariances(batch, nodes)
        calls["norms of all matrices"] = lambda: as_operator(C).norms()
        for call in calls.values():  # warm
            call()
        times = {name: 1e3 * t for name, t in round_robin(calls, 0.01 if quick else seconds).items()}
    finally:
        torch.set_num_threads(threads)
    ratios = {name: time / times[BARE] for name, time in times.items()}
    met = {name: ratios[name] <= BAR for name in ("filter, operator", "filter, tensor")}
    return {"shape": [batch, nodes], "ms": times, "of the bare product": ratios, "bar": BAR, "met": met}


def report(result: dict[str, Any]) -> str:
    """Return the table."""
    ratios, met = result["of the bare product"], result["met"]
    rows = [
        [name, number(time), number(ratios[name]), "" if name not in met else "yes" if met[name] else "no"]
        for name, time in result["ms"].items()
    ]
    batch, nodes = result["shape"]
    return (
        f"## A covariance for each of {batch} samples of {nodes} nodes: forward + backward\n\n"
        + markdown(["way", "ms", "× bare", f"at most {result['bar']:g}"], rows)
        + f"\n\nOf the network's step on a tensor, the norms are "
        f"{result['ms']['norms of all matrices'] / result['ms']['network, tensor']:.0%}."
    )


if __name__ == "__main__":
    run_part(__doc__, "batches", measure, report)
