"""What the processes of the tests of distributed training run: a module of its own, which they can import."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

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


@cache
def alone():
    """Return the losses of one process with all rows."""
    module = Held()
    return losses(module, module, torch.optim.SGD(module.parameters(), lr=0.2), *rows())


def in_two_processes(rank, folder):
    """Train on every other row in one of two processes, in torch's way and in Fabric's; the first writes the losses.

    The process ends without Python's clean-up. A thread of gloo lets go of Python's objects only after a collective has
    returned. If the interpreter is shutting down by then, the thread ends inside a destructor, which aborts the process
    ("terminate called without an active exception"); and where the process group is freed by then, each waits for the
    other.
    """
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = {"ddp": by_ddp(rank)}
    if find_spec("lightning") is not None:
        found["fabric"] = by_fabric(rank)
    if rank == 0:
        torch.save(found, f"{folder}/losses")
    os._exit(0)


def by_ddp(rank):
    """Return the losses of this process's rows and the other's, by ``DistributedDataParallel``."""
    module = Held()
    call = nn.parallel.DistributedDataParallel(module)

    def average(loss):
        torch.distributed.all_reduce(loss)
        return loss / 2

    x, y = rows()
    return losses(module, call, torch.optim.SGD(module.parameters(), lr=0.2), x[rank::2], y[rank::2], average)


def by_fabric(rank):
    """Return the losses of this process's rows and the other's, by Lightning's Fabric."""
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments import LightningEnvironment

    os.environ["LOCAL_RANK"] = str(rank)  # Fabric is in a process of its own already and starts none
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp", plugins=LightningEnvironment())
    fabric.launch()
    module = Held()
    call, optimizer = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.2))
    x, y = rows()
    average = lambda loss: fabric.all_reduce(loss, reduce_op="mean")  # noqa: E731
    return losses(module, call, optimizer, x[rank::2], y[rank::2], average, fabric.backward)


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
