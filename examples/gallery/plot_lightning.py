"""
Lightning: a network in a trainer of others
===========================================

An operator is a torch module. A model that holds one takes it along to another device or precision, into a checkpoint
and into other processes, so tools that know nothing about covariances can train it. Here `Lightning
<https://lightning.ai>`_ does; ``torch.nn.parallel.DistributedDataParallel`` and Lightning's Fabric work alike.
"""

import logging
import tempfile
import warnings
from pathlib import Path

import lightning
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

from svnn import HardThreshold, as_operator
from svnn.nn import SVNN

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")

lightning.seed_everything(0, verbose=False)
X, y = load_digits(return_X_y=True)
x = torch.tensor(X - X.mean(0), dtype=torch.float32)[..., None] / 6  # (samples, nodes, values per node)
train, valid = random_split(TensorDataset(x, torch.tensor(y)), [1000, len(y) - 1000])
graph = HardThreshold(density=0.2).fit(X[train.indices])


class Digits(lightning.LightningModule):
    """A network and the covariance that it shifts by; the pixels are the nodes."""

    def __init__(self, covariance: object) -> None:
        super().__init__()
        self.shift = as_operator(covariance, dtype=torch.float32).normalized()
        self.network = SVNN(1, 10, hidden=(8,), readout="flatten", n_nodes=64, mlp=())
        self.losses: dict[str, list[float]] = {"training": [], "validation": []}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x, self.shift)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return self.loss_of(batch, "training")

    def validation_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return self.loss_of(batch, "validation")

    def loss_of(self, batch: list[torch.Tensor], part: str) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log(part, loss, on_epoch=True, on_step=False)
        return loss

    def on_train_epoch_end(self) -> None:
        for part, losses in self.losses.items():
            losses.append(float(self.trainer.callback_metrics[part]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.005)


model = Digits(graph.covariance_)
quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
trainer = lightning.Trainer(max_epochs=12, accelerator="cpu", num_sanity_val_steps=0, **quiet)
trainer.fit(model, DataLoader(train, batch_size=64, shuffle=True), DataLoader(valid, batch_size=256))

# %%
# The covariance is part of the checkpoint: a model that starts from another one gets it back.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "digits.ckpt")
    trainer.save_checkpoint(path)
    again = Digits.load_from_checkpoint(path, covariance=torch.eye(64)).eval()
signals, labels = zip(*valid, strict=True)
with torch.no_grad():
    answers = again(torch.stack(signals)).argmax(1)
print(f"{float((answers == torch.stack(labels)).float().mean()):.1%} of the other digits are right after 12 epochs")

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (part, losses), colour in zip(model.losses.items(), ("#5A5A5A", "#D55E00"), strict=True):
    axes.plot(range(1, len(losses) + 1), losses, color=colour, label=part)
axes.set(title="a network in Lightning's trainer", xlabel="epoch", ylabel="cross-entropy", ylim=0)
axes.legend(frameon=False)
