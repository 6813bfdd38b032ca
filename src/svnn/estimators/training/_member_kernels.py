"""Compiled training of one small network: forward, backward, Adam and the average of the weights in one pass.

The network has one layer of filters without batch norm, a readout over the nodes and a small head. Its samples do not
meet before the loss, so 32 of them go forward and back side by side while all that belongs to them is in the caches.
``svnn.estimators.training._stacked_networks`` holds the same network in plain torch; a test compares the two.

All weights of a network lie in one vector θ: filters (F, P), their biases (F,), readout (N, H), then weights
(out, in) and biases (out,) of each layer of the head. P is the number of values per node after shifting.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from svnn._jit import cached_njit
from svnn.estimators.training._lanes import (
    LANES,
    accumulate,
    add_row,
    clear,
    combine,
    dots,
    lines,
    multiply_rows,
    scale_rows,
    silu,
    spread,
    total,
)

Array: TypeAlias = np.ndarray
#: The shape of a network: P, F, H, the widths of the head, and the slope of its activation.
Shape: TypeAlias = tuple[int, int, int, Array, Array]
#: Memory for LANES samples: the layer's output and its derivatives (N, F, LANES), the same of the pooled values and the
#: layers of the head, one after the other (..., LANES), the derivatives of the loss by these, and sums over the nodes.
Work: TypeAlias = tuple[Array, Array, Array, Array, Array, Array]

#: The activations: those that are two straight lines, as the slope on the left, and SiLU.
SLOPES = {"leaky_relu": 0.01, "relu": 0.0, "identity": 1.0, "silu": 2.0}
SILU = SLOPES["silu"]

_FAST = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy"}
#: Functions that only these functions call need no way in from Python: that saves a part of the compiling.
_INNER = {**_FAST, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_ROW = 4 * LANES  # bytes


@cached_njit(**_INNER)
def _activate(slope: Array, values: int, scale: int, rates: int) -> None:
    if slope[0] == SILU:
        silu(values, scale, rates)
    else:
        lines(slope.ctypes.data, values, scale, rates)


@cached_njit(**_INNER)
def _work(n: int, shape: Shape) -> Work:
    p, f, heads, widths, _ = shape
    hidden, rates = np.empty((n, f, LANES), np.float32), np.empty((n, f, LANES), np.float32)
    values, slopes = np.empty((widths.sum(), LANES), np.float32), np.empty((widths.sum(), LANES), np.float32)
    errors, sums = np.empty_like(values), np.empty((f * p + f + heads + 1, LANES), np.float32)
    return hidden, rates, values, slopes, errors, sums


@cached_njit(**_INNER)
def _forward(z: Array, scale: Array, theta: Array, shape: Shape, work: Work) -> None:
    """Pass LANES samples through the network and keep what the way back needs; the outputs are the last ``values``.

    ``z`` (N P, LANES) are the samples, ``scale`` (N, LANES) what dropout makes of each node.
    """
    p, f, heads, widths, slope = shape
    hidden, rates, values, slopes, _, _ = work
    n = len(hidden)
    parameters, pooled = theta.ctypes.data, values.ctypes.data
    biases, readout = parameters + 4 * f * p, parameters + 4 * (f * p + f)
    clear(heads * f, pooled)
    for node in range(n):
        signal, kept = z.ctypes.data + node * p * _ROW, scale.ctypes.data + node * _ROW
        for i in range(f):
            u = hidden.ctypes.data + (node * f + i) * _ROW
            combine(parameters + 4 * i * p, p, signal, biases + 4 * i, u)
            _activate(slope, u, kept, rates.ctypes.data + (node * f + i) * _ROW)
            spread(readout + 4 * node * heads, heads, u, pooled + i * heads * _ROW)
    share = np.full(1, 1 / n, np.float32)
    scale_rows(share.ctypes.data, heads * f, pooled)
    weight, start, one = readout + 4 * heads * n, pooled, np.ones(LANES, np.float32)
    for layer in range(len(widths) - 1):
        a, b = widths[layer], widths[layer + 1]
        bias, after = weight + 4 * a * b, start + a * _ROW
        for j in range(b):
            combine(weight + 4 * j * a, a, start, bias + 4 * j, after + j * _ROW)
            if layer < len(widths) - 2:
                row = after + j * _ROW
                _activate(slope, row, one.ctypes.data, slopes.ctypes.data + (row - pooled))
        weight, start = bias + 4 * b, after


@cached_njit(**_INNER)
def _backward(z: Array, theta: Array, shape: Shape, work: Work, gradient: Array) -> None:
    """Add the gradient of LANES samples, whose derivatives of the loss stand at the end of ``errors``."""
    p, f, heads, widths, _ = shape
    hidden, rates, values, slopes, errors, sums = work
    n = len(hidden)
    at, start = len(theta), len(values) - widths[-1]
    base, change = theta.ctypes.data, gradient.ctypes.data
    for layer in range(len(widths) - 2, -1, -1):
        a, b = widths[layer], widths[layer + 1]
        at -= a * b + b
        before = (start - a) * _ROW
        earlier = errors.ctypes.data + before
        clear(a, earlier)
        for j in range(b):
            error = errors.ctypes.data + (start + j) * _ROW
            gradient[at + a * b + j] += total(error)
            dots(error, a, values.ctypes.data + before, change + 4 * (at + j * a))
            spread(base + 4 * (at + j * a), a, error, earlier)
        if layer:
            multiply_rows(slopes.ctypes.data + before, a, earlier)
        start -= a
    at -= heads * n
    share, zero = np.full(1, 1 / n, np.float32), np.zeros(1, np.float32)
    pooled = errors.ctypes.data
    scale_rows(share.ctypes.data, heads * f, pooled)
    by_tap = sums.ctypes.data
    by_bias = by_tap + f * p * _ROW
    by_head = by_bias + f * _ROW
    back = by_head + heads * _ROW
    clear(f * p + f, by_tap)
    for node in range(n):
        readout, signal = base + 4 * (at + node * heads), z.ctypes.data + node * p * _ROW
        clear(heads, by_head)
        for i in range(f):
            u, rate = hidden.ctypes.data + (node * f + i) * _ROW, rates.ctypes.data + (node * f + i) * _ROW
            error = pooled + i * heads * _ROW
            accumulate(u, heads, error, by_head)
            combine(readout, heads, error, zero.ctypes.data, back)
            multiply_rows(rate, 1, back)
            add_row(back, by_bias + i * _ROW)
            accumulate(back, p, signal, by_tap + i * p * _ROW)
        for h in range(heads):
            gradient[at + node * heads + h] += total(by_head + h * _ROW)
    for i in range(f * p + f):
        gradient[i] += total(by_tap + i * _ROW)


@cached_njit(**_INNER)
def _losses(outputs: Array, targets: Array, share: Array, code: int, errors: Array) -> float:
    """Return the sum of the losses of LANES samples, each times its share, and set ``errors`` to the derivatives.

    The losses are Huber's, the squared, the absolute one, and the cross-entropy, whose targets are the classes.
    """
    n = len(outputs)
    result = 0.0
    for k in range(LANES):
        if code == 3:
            largest = outputs[0, k]
            for j in range(1, n):
                largest = max(largest, outputs[j, k])
            mass = 0.0
            for j in range(n):
                e = math.exp(outputs[j, k] - largest)
                errors[j, k] = e
                mass += e
            place = int(targets[0, k])
            result += share[k] * (math.log(mass) + largest - outputs[place, k])
            for j in range(n):
                errors[j, k] *= share[k] / np.float32(mass)
            errors[place, k] -= share[k]
            continue
        for j in range(n):
            d = outputs[j, k] - targets[j, k]
            size, part = abs(d), share[k] / np.float32(n)
            if code == 1 or (code == 0 and size < np.float32(0.5)):
                result += part * d * d
                errors[j, k] = 2 * d * part
            else:
                result += part * (size if code == 2 else size - np.float32(0.25))
                errors[j, k] = part if d > 0 else (-part if d < 0 else np.float32(0))
    return result


@cached_njit(**_INNER)
def _gather(source: Array, rows: Array, lanes: Array) -> None:
    """Set ``lanes`` (size, LANES) to rows of ``source`` (t, size), at most LANES, side by side; the rest to zero."""
    if len(rows) < LANES:
        lanes[:] = 0
    for k in range(len(rows)):
        row = source[rows[k]]
        for i in range(len(row)):
            lanes[i, k] = row[i]


@cached_njit(**_INNER)
def _step(
    gradient: Array, state: tuple[Array, ...], rates: Array, number: int, lr: float, optimiser: tuple[float, float]
) -> None:
    """Take the step with this number, from 1, of Adam and of the average."""
    theta, moments, average = state
    decay, weight_decay = optimiser
    size, root = np.float32(lr / (1 - 0.9**number)), np.float32(1 / math.sqrt(1 - 0.999**number))
    follow = np.float32(1 - min(decay, (1.0 + number) / (10.0 + number)))
    pull, tenth, thousandth, tiny = np.float32(weight_decay), np.float32(0.1), np.float32(0.001), np.float32(1e-8)
    for d in range(len(theta)):
        g = gradient[d] + pull * theta[d]
        moments[0, d] += (g - moments[0, d]) * tenth
        moments[1, d] += (g * g - moments[1, d]) * thousandth
        theta[d] -= rates[d] * size * moments[0, d] / (np.sqrt(moments[1, d]) * root + tiny)
        average[d] += follow * (theta[d] - average[d])


@cached_njit(**_FAST)
def train_epoch(
    data: tuple[Array, Array, Array],
    batches: tuple[Array, Array, Array],
    dropout: tuple[Array, int],
    members: Array,
    state: tuple[Array, Array, Array],
    rates: Array,
    n_steps: int,
    optimiser: tuple[float, float],
    shape: Shape,
    loss: int,
    totals: Array,
) -> None:
    """Take a step for some members and every batch, and add the losses of the batches, times their rows, to ``totals``.

    Parameters
    ----------
    data : signals (t, N P), targets (t, n_outputs) and weights (t,)
    batches : the rows in the order of this epoch, where in it the batches end, and the learning rate of each
    dropout : draws (some members, rows, at least N), and the threshold below which a node is left out of a sample
    members : the members to train
    state : weights (members, D), Adam's running means (members, 2, D) and averaged weights (members, D). They change.
    rates : (D,) multiples of the learning rate
    n_steps : the number of steps taken before
    optimiser : the decay of the average, and of the weights
    """
    (signals, targets, weight), (order, ends, learning), (draws, threshold) = data, batches, dropout
    theta, moments, average = state
    n, outputs = signals.shape[1] // shape[0], -shape[3][-1]
    most = 0
    for batch in range(len(ends)):
        most = max(most, ends[batch] - (ends[batch - 1] if batch else 0))
    blocks = (most + LANES - 1) // LANES
    z = np.empty((blocks, signals.shape[1], LANES), np.float32)
    y = np.empty((blocks, targets.shape[1], LANES), np.float32)
    share, scale = np.empty((blocks, LANES), np.float32), np.ones((n, LANES), np.float32)
    work, gradient = _work(n, shape), np.empty(theta.shape[1], np.float32)
    values, errors = work[2], work[4]
    drops = draws.shape[1] > 0
    kept = np.float32(65536.0 / (32768 - threshold))
    start = 0
    for batch in range(len(ends)):
        end = ends[batch]
        used = (end - start + LANES - 1) // LANES
        for block in range(used):
            rows = order[start + block * LANES : min(start + (block + 1) * LANES, end)]
            _gather(signals, rows, z[block])
            _gather(targets, rows, y[block])
        mass = 0.0
        for i in range(start, end):
            mass += weight[order[i]]
        share[:] = 0
        for i in range(start, end if mass > 0 else start):
            share[(i - start) // LANES, (i - start) % LANES] = weight[order[i]] / mass
        for index in range(len(members)):
            member = members[index]
            gradient[:] = 0
            for block in range(used):
                if drops:
                    first = start + block * LANES
                    for k in range(min(LANES, end - first)):
                        for node in range(n):
                            scale[node, k] = kept if draws[index, first + k, node] >= threshold else np.float32(0)
                _forward(z[block], scale, theta[member], shape, work)
                found = _losses(values[outputs:], y[block], share[block], loss, errors[outputs:])
                totals[index] += found * (end - start)
                _backward(z[block], theta[member], shape, work, gradient)
            own = theta[member], moments[member], average[member]
            _step(gradient, own, rates, n_steps + batch + 1, learning[batch], optimiser)
        start = end


@cached_njit(**_FAST)
def evaluate(signals: Array, theta: Array, shape: Shape, outputs: Array) -> None:
    """Set ``outputs`` (t, n_outputs) to those of one member for ``signals`` (t, N P)."""
    n = signals.shape[1] // shape[0]
    z, scale, work = np.empty((signals.shape[1], LANES), np.float32), np.ones((n, LANES), np.float32), _work(n, shape)
    values = work[2]
    for start in range(0, len(signals), LANES):
        some = np.arange(start, min(start + LANES, len(signals)))
        _gather(signals, some, z)
        _forward(z, scale, theta, shape, work)
        for k in range(len(some)):
            for j in range(outputs.shape[1]):
                outputs[start + k, j] = values[len(values) - outputs.shape[1] + j, k]
