"""Several networks of one layer as one: all weights of a member lie in one vector, and the members side by side.

The members run on the same shifted signals, so their first layers are one product. This is the plain form, by torch's
gradients: it trains on a GPU and is the reference of the compiled one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from svnn.estimators.training._loop import Loss, Trainer, weighted
from svnn.estimators.training._module_trainer import (
    Batch,
    Optimiser,
    decay_at,
    generator_states,
    readout_rate,
    set_generators,
    watched_members,
)
from svnn.nn import SVNN, CovarianceFilter
from svnn.nn._layers import ACTIVATIONS, node_factors
from svnn.nn._shifted import PowerSignals, SpectralSignals

#: Adam's running means of gradients and of their squares, and what keeps its division finite.
BETAS, TINY = (0.9, 0.999), 1e-8
_EVALUATE_VALUES = 2**24
#: What of a trainer changes in training, beside its steps and generators.
_STATE = ("theta", "moments", "average", "best")
#: A number, on a GPU perhaps in its memory.
Number: TypeAlias = float | Tensor
#: Shifted signals: side by side in one tensor (t, N, P), or in the eigenbasis.
Signals: TypeAlias = Tensor | SpectralSignals


@dataclass(frozen=True)
class Plan:
    """The shape of each member, and where its weights lie in the vector of all of them.

    In this order: filters (F, P), their biases (F,), readout (N, H), then weights (out, in) and biases (out,) of each
    layer of the head. P is the number of values per node after shifting. The head takes the pooled values filter by
    filter, H of each; ``widths`` are the numbers of values before, between and after its layers.
    """

    n_nodes: int
    n_inputs: int
    n_filters: int
    heads: int
    widths: tuple[int, ...]
    activation: str
    node_dropout: float
    learns_readout: bool

    @classmethod
    def of(cls, network: SVNN, n_nodes: int) -> Plan | None:
        """Return the plan of a network, or None where it is not one of those that can be stacked."""
        filters, readout = network.filters, network.readout
        if len(filters) > 1 or readout.kind == "flatten" or network.dropout.p:
            return None
        if not isinstance(network.norms[0], nn.Identity):
            return None
        k, n_in, n_out = _first(network).weight.shape
        heads = len(readout.weight) if readout.kind == "weighted" else 1
        layers = _linear(network)
        return cls(
            n_nodes=n_nodes,
            n_inputs=k * n_in,
            n_filters=n_out,
            heads=heads,
            widths=(heads * n_out, *(int(layer.out_features) for layer in layers)),
            activation=next(name for name, kind in ACTIVATIONS.items() if type(network.activation) is kind),
            node_dropout=float(readout.node_dropout.p),
            learns_readout=readout.kind == "weighted",
        )

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the parts of a member's vector."""
        found: list[tuple[int, ...]] = [(self.n_filters, self.n_inputs), (self.n_filters,), (self.n_nodes, self.heads)]
        for before, after in pairwise(self.widths):
            found += [(after, before), (after,)]
        return found

    def rates(self) -> Tensor:
        """Return the multiples of the learning rate for all weights of a member."""
        rates = [torch.ones(math.prod(shape), dtype=torch.float32) for shape in self.shapes]
        rates[2][:] = readout_rate(self.n_nodes) if self.learns_readout else 0.0
        return torch.cat(rates)

    def parts(self, theta: Tensor) -> list[Tensor]:
        """Return the parts of vectors (…, D), each of its shape."""
        sizes = [math.prod(shape) for shape in self.shapes]
        pieces = theta.split(sizes, -1)
        return [piece.reshape(*theta.shape[:-1], *shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def vector(self, network: SVNN) -> Tensor:
        """Return the weights of a network as one vector."""
        layers, layer, readout = _linear(network), _first(network), network.readout
        weights = readout.weight.T if self.learns_readout else torch.ones(self.n_nodes, 1)
        assert layer.bias is not None
        found = [layer.weight.flatten(0, 1).T, layer.bias, weights.to(layer.weight)]
        first = layers[0].weight.unflatten(1, (self.heads, self.n_filters)).transpose(1, 2).flatten(1)
        for number, linear in enumerate(layers):
            found += [linear.weight if number else first, linear.bias]
        return torch.cat([part.detach().reshape(-1) for part in found])

    @torch.no_grad()
    def write(self, theta: Tensor, network: SVNN) -> None:
        """Give the weights of a vector to a network."""
        layer, readout = _first(network), network.readout
        filters, biases, weights, *head = self.parts(theta)
        layer.weight.copy_(filters.T.reshape(layer.weight.shape))
        assert layer.bias is not None
        layer.bias.copy_(biases)
        if self.learns_readout:
            readout.weight.copy_(weights.T)
        head[0] = head[0].unflatten(1, (self.n_filters, self.heads)).transpose(1, 2).flatten(1)
        for part, weight, bias in zip(_linear(network), head[::2], head[1::2], strict=True):
            part.weight.copy_(weight)
            part.bias.copy_(bias)

    def outputs(self, theta: Tensor, x: Signals, factors: Tensor | None = None) -> Tensor:
        """Return the outputs (members, t, n_outputs) for shifted signals (t, N, P).

        ``factors`` (members, t, N) is the factor of each node in dropout.
        """
        act = ACTIVATIONS[self.activation]()
        filters, biases, readout, *head = self.parts(theta)
        u = act(self._filtered(filters, biases, x))
        if factors is not None:
            u = u * factors[:, :, None]
        members, t, *_ = u.shape
        pooled = u.view(members, t * self.n_filters, -1) @ (readout / self.n_nodes)
        values = pooled.view(members, t, -1)  # filter by filter
        for number, (weight, bias) in enumerate(zip(head[::2], head[1::2], strict=True)):
            values = values if number == 0 else act(values)
            values = values @ weight.mT + bias[:, None]
        return values

    def _filtered(self, filters: Tensor, biases: Tensor, x: Signals) -> Tensor:
        """Return the filtered signals (members, t, F, N) of all members: one product."""
        members = len(filters)
        if isinstance(x, Tensor):
            t, n, _ = x.shape
            flat = x.reshape(1, t * n, -1) @ filters.mT + biases[:, None]
            return flat.view(members, t, n, self.n_filters).mT.contiguous()
        taps = filters.view(members, self.n_filters, x.order + 1, -1).permute(2, 3, 0, 1)
        u = x.filtered(taps.flatten(2), biases.flatten())
        return u.unflatten(-1, (members, self.n_filters)).permute(2, 0, 3, 1).contiguous()


class StackedTrainer(Trainer):
    """Members of one plan, trained at once by torch's gradients and Adam.

    Parameters
    ----------
    networks : list of SVNN
        They are given the best weights in the end.
    plan : Plan
    loss, data, validation, optimiser, noise : as for ``ModuleTrainer``; the signals are :class:`PowerSignals` or
        :class:`SpectralSignals`
    """

    def __init__(
        self,
        networks: list[SVNN],
        plan: Plan,
        loss: Loss,
        data: Batch,
        validation: Batch | None,
        optimiser: Optimiser,
        noise: Sequence[torch.Generator],
    ) -> None:
        self.networks, self.plan, self.loss, self.data, self.validation = networks, plan, loss, data, validation
        self.optimiser, self.noise, self.n_members = optimiser, noise, len(networks)
        self.watched = watched_members(validation, len(networks))
        self.x = _values(data)
        self.held = None if validation is None else _values(validation)
        self.theta = torch.stack([plan.vector(network) for network in networks])
        self.moments = self.theta.new_zeros(self.n_members, 2, self.theta.shape[1])
        self.average, self.best = self.theta.clone(), self.theta.clone()
        self.rates = plan.rates().to(self.theta)
        self.steps = 0

    def epoch(self, order: np.ndarray, ends: Sequence[int], rates: Sequence[float], members: np.ndarray) -> np.ndarray:
        rows = torch.from_numpy(order).to(self.theta.device)
        total = self.theta.new_zeros(self.n_members)
        for start, end, rate in zip([0, *ends[:-1]], ends, rates, strict=True):
            part = rows[start:end]
            self.steps += 1
            found = self._step(part, self._factors(len(part)), *self._step_sizes(rate))
            total += found * ((end - start) / len(order))
        return total.double().cpu().numpy()

    def _step(self, rows: Tensor, factors: Tensor | None, size: Number, spread: Number, follow: Number) -> Tensor:
        """Take a step for all members; return their losses. ``theta``, ``moments`` and ``average`` change in place."""
        theta = self.theta.requires_grad_()
        outputs = self.plan.outputs(theta, self.x[rows], factors)
        y, weight = self.data.y[rows], self.data.weight[rows]
        values = self.loss(outputs.flatten(0, 1), y.repeat(self.n_members, *[1] * (y.ndim - 1)))
        losses = weighted(values.view(self.n_members, -1), weight)
        (gradient,) = torch.autograd.grad(losses.sum(), theta)
        theta.requires_grad_(False)
        gradient = gradient + self.optimiser.weight_decay * theta
        first, second = self.moments.unbind(1)
        first.lerp_(gradient, 1 - BETAS[0])
        second.lerp_(gradient * gradient, 1 - BETAS[1])
        theta -= self.rates * size * first / ((second * spread).sqrt_() + TINY)
        self.average += follow * (theta - self.average)
        return losses.detach()

    def _step_sizes(self, rate: float) -> tuple[float, float, float]:
        """Return what the present step multiplies Adam's two means and the way of the average with."""
        size, spread = rate / (1 - BETAS[0] ** self.steps), 1 / (1 - BETAS[1] ** self.steps)
        return size, spread, 1 - decay_at(self.optimiser.averaging, self.steps)

    def _factors(self, n_rows: int) -> Tensor | None:
        """Return the factors of dropout for every node of every sample, for all members."""
        p = self.plan.node_dropout
        if not p:
            return None
        drawn = [node_factors(n_rows, self.plan.n_nodes, p, generator) for generator in self.noise]
        return torch.stack(drawn).to(self.theta.device)

    def validate(self, members: np.ndarray) -> np.ndarray:
        losses = np.zeros(self.n_members)
        for member in members[self.watched[members]].tolist():
            assert self.validation is not None
            losses[member] = float(weighted(self.loss(*self.held_out(member)), self.validation.weight))
        return losses

    @torch.no_grad()
    def held_out(self, member: int) -> tuple[Tensor, Tensor]:
        assert self.validation is not None and self.held is not None
        x = self.held
        rows = max(1, _EVALUATE_VALUES // (x.shape[1] * max(x.shape[2], self.plan.n_filters)))
        theta = self.average[member : member + 1]
        starts = range(0, max(len(x), 1), rows)
        found = torch.cat([self.plan.outputs(theta, x[i : i + rows])[0] for i in starts])
        return found, self.validation.y

    def keep(self, members: Sequence[int]) -> None:
        for member in members:
            self.best[member].copy_(self.average[member])

    def state(self) -> dict[str, Tensor]:
        found = {name: getattr(self, name) for name in _STATE} | generator_states(self.noise)
        return {**found, "steps": torch.tensor(self.steps)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name in _STATE:
            here, there = getattr(self, name), state[name]
            if here.shape != there.shape or here.dtype != there.dtype:
                raise ValueError(f"its {name} has shape {tuple(there.shape)}, the training has {tuple(here.shape)}")
            here.copy_(there)  # recordings read these very tensors
        self.steps = int(state["steps"])
        set_generators(self.noise, state)

    def restore(self) -> None:
        self.average = self.best
        for theta, network in zip(self.best, self.networks, strict=True):
            self.plan.write(theta, network)
            network.eval()


def _first(network: SVNN) -> CovarianceFilter:
    """Return the only layer of a network."""
    return cast(CovarianceFilter, network.filters[0])


def _linear(network: SVNN) -> list[nn.Linear]:
    """Return the layers of the head."""
    return [layer for layer in network.head if isinstance(layer, nn.Linear)]


def _values(data: Batch) -> Signals:
    """Return shifted signals, those side by side without the column of ones."""
    if isinstance(data.x, SpectralSignals):
        return data.x
    assert isinstance(data.x, PowerSignals)
    return data.x.powers[..., :-1].contiguous()
