"""``torch.compile``: a network that torch compiles against the same network as it is, on the CPU.

Forward pass (evaluation, no gradients), forward and backward pass, and a whole step of training with Adam; the ratio is
the time of the compiled one over the other. The shift is an operator that the module holds, divided by its norm.
Outputs and gradients are compared before anything is timed. Torch needs a C++ compiler for this.

    python benchmarks/compiled.py            # about two minutes
    python benchmarks/compiled.py --quick    # does it run?
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from _measure import markdown, number, round_robin, run_part
from filters import Sizes, random_covariance
from torch import Tensor, nn

from svnn import as_operator
from svnn.nn import SVNN


@dataclass(frozen=True)
class Workload(Sizes):
    """A network on samples of some sizes, and the backend of its covariance."""

    backend: str
    hidden: tuple[int, ...] = (32,)
    order: int = 2

    @property
    def name(self) -> str:
        widths = "→".join(map(str, (self.features, *self.hidden)))
        return f"{self.batch}×{self.nodes}, {widths}, K={self.order}, {self.backend}"


WORKLOADS = (
    Workload(481, 68, 1, 1.0, "dense"),
    Workload(64, 300, 1, 0.05, "csr"),
    Workload(64, 300, 32, 0.05, "csr"),
    Workload(320, 23, 128, 1.0, "dense"),
    Workload(481, 68, 1, 1.0, "dense", hidden=(32, 32)),
)
QUICK = (Workload(4, 12, 2, 0.3, "csr", hidden=(3,)),)
PASSES = ("forward", "forward and backward", "training step")


class Held(nn.Module):
    """A network with the operator that it shifts by."""

    def __init__(self, w: Workload) -> None:
        super().__init__()
        self.shift = as_operator(random_covariance(w.nodes, w.density), backend=w.backend).normalized()
        self.network = SVNN(w.features, 1, hidden=w.hidden, order=w.order)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.network(x, self.shift)
        return output


class Contender:
    """A module, compiled or not, with its own parameters and optimiser."""

    def __init__(self, module: nn.Module, w: Workload, compiled: bool, backend: str) -> None:
        self.module = copy.deepcopy(module)
        self.call: Any = torch.compile(self.module, fullgraph=True, backend=backend) if compiled else self.module
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(w.batch, w.nodes, w.features, generator=generator)
        self.y = torch.randn(w.batch, 1, generator=generator)

    def gradients(self) -> list[Tensor]:
        self.module.zero_grad()
        (self.call(self.x) - self.y).pow(2).mean().backward()
        return [p.grad for p in self.module.parameters() if p.grad is not None]

    def step(self) -> None:
        self.gradients()
        self.optimizer.step()

    @torch.no_grad()
    def predict(self) -> Tensor:
        output: Tensor = self.call(self.x)
        return output


def measure(rates: dict[str, float], quick: bool) -> list[dict[str, Any]]:
    """Return the milliseconds of every pass of every workload, compiled and not."""
    rows = []
    for w in QUICK if quick else WORKLOADS:
        torch.manual_seed(0)
        torch._dynamo.reset()
        held, backend = Held(w), "aot_eager" if quick else "inductor"
        plain, compiled = (Contender(held, w, which, backend) for which in (False, True))
        torch.testing.assert_close(compiled.gradients(), plain.gradients(), rtol=1e-3, atol=1e-5)
        row: dict[str, Any] = {"workload": w.name}
        for name in ("forward and backward", "training step", "forward"):
            for each in (plain, compiled):
                each.module.train(name != "forward")
            if name == "forward":
                compiled.module.load_state_dict(plain.module.state_dict())
                torch.testing.assert_close(compiled.predict(), plain.predict(), rtol=1e-4, atol=1e-5)
            calls = {"forward": "predict", "forward and backward": "gradients", "training step": "step"}
            both = {"plain": getattr(plain, calls[name]), "compiled": getattr(compiled, calls[name])}
            for call in both.values():
                call()
            times = round_robin(both, seconds=0.05 if quick else 2.0)
            row[name] = {which: 1e3 * seconds for which, seconds in times.items()}
        rows.append(row)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """Return the milliseconds without torch.compile, with it, and their ratio."""
    table = []
    for row in rows:
        cells = [row[name] for name in PASSES]
        shown = [f"{number(c['plain'])} → {number(c['compiled'])} ({c['compiled'] / c['plain']:.2f})" for c in cells]
        table.append([row["workload"], *shown])
    return markdown(["workload", *(f"{name} (ms)" for name in PASSES)], table)


if __name__ == "__main__":
    run_part(__doc__, "compiled", measure, report)
