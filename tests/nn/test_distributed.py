"""Networks in other people's training: several processes, Lightning's Fabric, workers that load data."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader

from distributed_networks import Held, Windows, alone, first, in_two_processes, rows
from svnn import as_operator
from svnn.nn import SVNN


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """The losses of two processes that train together, by the way they do it."""
    if not torch.distributed.is_available():
        pytest.skip("torch was built without processes")
    folder = tmp_path_factory.mktemp("two")
    mp.spawn(in_two_processes, (str(folder),), nprocs=2)
    return torch.load(folder / "losses")


def test_two_processes_train_as_one_with_all_rows(of_two):
    assert of_two["ddp"] == pytest.approx(alone(), rel=1e-4)


def test_fabric_trains_as_one_process_with_all_rows(of_two):
    pytest.importorskip("lightning.fabric")
    assert of_two["fabric"] == pytest.approx(alone(), rel=1e-4)


def test_losses_go_down():
    curve = alone()
    assert curve[-1] < 0.9 * curve[0]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_hand_over_operators(context):
    if context not in mp.get_all_start_methods():
        pytest.skip(f"no {context} here")
    network = SVNN(1, 1, hidden=(4,)).eval()
    data = Windows()
    loader = DataLoader(data, num_workers=2, collate_fn=first, multiprocessing_context=context)
    found = [network(x, shift) for x, shift in loader]
    assert len(found) == len(data)
    for y, (x, shift) in zip(found, data, strict=True):
        torch.testing.assert_close(y, network(x, shift))


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_norm_for_several_processes_is_that_of_one_in_one(training):
    """Torch replaces every batch norm; what it puts there normalises the second axis."""
    x, _ = rows()
    module = SVNN(1, 1, hidden=(4, 5)).double().train(training)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(module))
    assert [type(norm).__name__ for norm in converted.norms] == ["SyncBatchNorm"] * 2
    shift = as_operator(Held().shift).normalized()
    for signal in (x.double(), x.double()[None], x.double()[0]):
        torch.testing.assert_close(converted(signal, shift), module(signal, shift))
    torch.testing.assert_close(converted.state_dict(), module.state_dict())


def test_lightning_moves_and_saves_the_operator(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.held = Held()

        def training_step(self, batch, _):
            x, y = batch
            return (self.held(x) - y).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.manual_seed(0)
    model, quiet = Model(), {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=tmp_path, **quiet)
    trainer.fit(model, DataLoader(torch.utils.data.TensorDataset(*rows()), batch_size=8))
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    again = Model.load_from_checkpoint(tmp_path / "model.ckpt")
    x, _ = rows()
    assert torch.equal(again.held(x), model.held(x))
    assert again.held.shift.scale == model.held.shift.scale
