"""What the processes of the tests of distributed training run: a module of its own, which they can import."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from svnn import as_operator
from svnn.nn import SVNN

N, ROWS, STEPS = 10, 16, 6


class Held(nn.Module):
    """A network with the operator that it shifts by."""

    def __init__(self, backend="csr"):
        super().__init__()
        data = np.random.default_rng(0).standard_normal((30, N))
        C = np.cov(data.T)
        self.shift = as_operator(np.where(abs(C) > 0.1, C, 0), backend=backend)
        torch.manual_seed(0)
        self.network = SVNN(1, 1, hidden=(6,), batch_norm=False)

    def forward(self, x):
        return self.network(x, self.shift)


def rows():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, N, 1, generator=generator)
    return x, x.mean(1) + 0.1 * torch.randn(ROWS, 1, generator=generator)


def losses(module, call, optimizer, x, y, average=lambda loss: loss, backward=lambda loss: loss.backward()):
    """Return the losses of some steps of training."""
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (call(x) - y).pow(2).mean()
        backward(loss)
        optimizer.step()
        found.append(float(average(loss.detach())))
    return found


def alone(backend="csr"):
    """Return the losses of one process with all rows."""
    module = Held(backend)
    return losses(module, module, torch.optim.SGD(module.parameters(), lr=0.2), *rows())


def by_ddp(rank, folder, backend):
    """Train on every other row in one of two processes; the first one writes the losses to a file."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    try:
        module = Held(backend)
        call = nn.parallel.DistributedDataParallel(module)

        def average(loss):
            dist.all_reduce(loss)
            return loss / 2

        x, y = rows()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
        found = losses(module, call, optimizer, x[rank::2], y[rank::2], average)
        if rank == 0:
            torch.save(found, f"{folder}/losses")
    finally:
        dist.destroy_process_group()


def by_fabric(fabric, folder):
    """Train on every other row in a process of Fabric; the first one writes the losses to a file."""
    torch.set_num_threads(1)
    module = Held()
    call, optimizer = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.2))
    x, y = rows()
    own = slice(fabric.global_rank, None, 2)
    average = lambda loss: fabric.all_reduce(loss, reduce_op="mean")  # noqa: E731
    found = losses(module, call, optimizer, x[own], y[own], average, fabric.backward)
    if fabric.global_rank == 0:
        torch.save(found, f"{folder}/losses")


class Windows(torch.utils.data.Dataset):
    """Signals, each with the covariance of its own recording as an operator."""

    def __init__(self, n=6):
        self.data = np.random.default_rng(2).standard_normal((n, 40, N))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        window = self.data[i]
        signal = torch.tensor(window[-1:, :, None], dtype=torch.float32)
        return signal, as_operator(np.cov(window.T), backend=("dense", "csr", "lowrank")[i % 3]).normalized()


def first(samples):
    """Take samples of one as they are."""
    return samples[0]
