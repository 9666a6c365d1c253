"""MindSpore's cost model: what its dynamic programming minimises, from the formulas of its AutoParallel.

Computation is the bytes an operator reads, communication the bytes it sends, both per device and in the forward pass;
the gradients of parameters are what communication is beyond `forward`, at a thousandth of the weight. Small messages
cost a flat fee.

Formulas: `operator_costmodel.cc`, `edge_costmodel.cc`, `costmodel.cc` in MindSpore's
`frontend/parallel/auto_parallel`, defaults of `costmodel_context.h` for Ascend, all devices in use.
Its memory model is not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.mindspore.cost_graph import CostEdge, CostGraph, cost_node
from benchmarks.mindspore.layouts import Layout, moves
from hloom.text import HloomError, Unsupported


@dataclass(frozen=True, slots=True)
class Weights:
    """How computation and communication are weighed, and what a message costs at least."""

    alpha: float = 1.0
    beta: float = 400.0
    gamma: float = 0.001
    small: float = 2048.0
    flat: float = 3072.0
    fee: float = 1024.0


WEIGHTS = Weights()


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes per device: computation, all communication, and of it what is not for parameters' gradients."""

    computation: float = 0.0
    communication: float = 0.0
    forward: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.computation + other.computation,
            self.communication + other.communication,
            self.forward + other.forward,
        )

    def weighed_communication(self, weights: Weights = WEIGHTS) -> float:
        """Communication with gradients at their small price."""
        return self.forward + weights.gamma * (self.communication - self.forward)

    def time(self, weights: Weights = WEIGHTS) -> float:
        """What is minimised."""
        return weights.alpha * self.computation + weights.beta * self.weighed_communication(weights)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand: its dimensions, bytes per element, and whether it is a parameter that is trained."""

    shape: tuple[int, ...]
    itemsize: int = 4
    is_parameter: bool = False


@dataclass(frozen=True, slots=True)
class OperatorStrategy:
    """The layouts of an operator's inputs and output, and what that costs."""

    inputs: tuple[Layout, ...]
    output: Layout
    cost: Cost


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with the strategies that use all devices; of its inputs those before it come over edges."""

    name: str
    itemsize: int
    strategies: tuple[OperatorStrategy, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """An operator's output that is another's input."""

    source: int
    target: int
    input: int = 0


def matmul(name: str, left: Tensor, right: Tensor, devices: int, weights: Weights = WEIGHTS) -> Operator:
    """[rows, inner] by [inner, columns]: reads both, and sums the result over devices where the inner one is split."""
    if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[1] != right.shape[0]:
        hint = "[rows, inner] by [inner, columns]"
        raise HloomError(f"{name}: a product of {left.shape} and {right.shape}", hint=hint)
    rows, inner, columns = *left.shape, right.shape[1]
    result = []
    for splits in _splits((rows, inner, columns), devices):
        inputs = Layout(left.shape, splits, (0, 1)), Layout(right.shape, splits, (1, 2))
        output = Layout((rows, columns), splits, (0, 2))
        summed = output.slice_size * left.itemsize if splits[1] > 1 else 0
        read = inputs[0].slice_size * left.itemsize + inputs[1].slice_size * right.itemsize
        gradient = _gradient(inputs[1], right, devices)
        cost = _cost(read + summed, summed, gradient, _is_by_batch(inputs[0], devices), weights)
        result.append(OperatorStrategy(inputs, output, cost))
    return _operator(name, left.itemsize, result)


def elementwise(name: str, tensors: Sequence[Tensor], devices: int, weights: Weights = WEIGHTS) -> Operator:
    """Activations and arithmetic of tensors of one shape: read all, send nothing but gradients of parameters."""
    shape = tensors[0].shape
    if any(tensor.shape != shape for tensor in tensors):
        raise Unsupported(f"{name}: operands of different shapes", hint="MindSpore's broadcasts are not modelled")
    result = []
    for splits in _splits(shape, devices):
        layout = Layout(shape, splits, tuple(range(len(shape))))
        read = sum(layout.slice_size * tensor.itemsize for tensor in tensors)
        gradients = sum(_gradient(layout, tensor, devices) for tensor in tensors)
        cost = _cost(read, 0, gradients, _is_by_batch(layout, devices), weights)
        result.append(OperatorStrategy((layout,) * len(tensors), layout, cost))
    return _operator(name, tensors[0].itemsize, result)


def reduce_sum(
    name: str, tensor: Tensor, dimensions: Sequence[int], devices: int, weights: Weights = WEIGHTS
) -> Operator:
    """The sum over some dimensions: reads its operand, and sums over devices where one of those is split."""
    return _reduction(name, tensor, dimensions, devices, 1, weights)


def reduce_mean(
    name: str, tensor: Tensor, dimensions: Sequence[int], devices: int, weights: Weights = WEIGHTS
) -> Operator:
    """The mean over some dimensions: the summed result counts as computation twice."""
    return _reduction(name, tensor, dimensions, devices, 2, weights)


def batch_input(name: str, tensor: Tensor, devices: int) -> Operator:
    """What is fed in: split by batch, for nothing."""
    layout = Layout(tensor.shape, (devices,), (0, *(None,) * (len(tensor.shape) - 1)))
    return Operator(name, tensor.itemsize, (OperatorStrategy((layout,), layout, Cost()),))


def redistribution(source: Layout, target: Layout, itemsize: int, weights: Weights = WEIGHTS) -> Cost:
    """What an edge costs where its ends have different layouts; backwards counts as much as forwards."""
    moved = moves(source, target)
    both = _with_fee(itemsize * moved.forward, weights) + _with_fee(itemsize * moved.backward, weights)
    return Cost(itemsize * moved.computation, both, both)


def cost_graph(operators: Sequence[Operator], links: Sequence[Link], weights: Weights = WEIGHTS) -> CostGraph:
    """The graph that dynamic programming shrinks; it knows no memory."""
    nodes = (
        cost_node(operator.name, [one.cost.time(weights) for one in operator.strategies]) for operator in operators
    )
    edges = (CostEdge(link.source, link.target, _table(operators, link, weights)) for link in links)
    return CostGraph(tuple(nodes), tuple(edges))


def total_cost(
    operators: Sequence[Operator], links: Sequence[Link], choice: Sequence[int], weights: Weights = WEIGHTS
) -> Cost:
    """What a choice of strategies costs in all, counted as MindSpore does."""
    total = Cost()
    for operator, chosen in zip(operators, choice, strict=True):
        total += operator.strategies[chosen].cost
    for link in links:
        total += _along(operators, link, choice[link.source], choice[link.target], weights)
    return total


def _table(operators: Sequence[Operator], link: Link, weights: Weights) -> np.ndarray:
    shape = len(operators[link.source].strategies), len(operators[link.target].strategies)
    times = [_along(operators, link, row, column, weights).time(weights) for row, column in np.ndindex(*shape)]
    return np.array(times).reshape(shape)


def _along(operators: Sequence[Operator], link: Link, source: int, target: int, weights: Weights) -> Cost:
    before, after = operators[link.source], operators[link.target]
    layouts = before.strategies[source].output, after.strategies[target].inputs[link.input]
    return redistribution(*layouts, before.itemsize, weights)


def _reduction(
    name: str, tensor: Tensor, dimensions: Sequence[int], devices: int, passes: int, weights: Weights
) -> Operator:
    rank = len(tensor.shape)
    kept = tuple(dimension for dimension in range(rank) if dimension not in dimensions)
    result = []
    for splits in _splits(tensor.shape, devices):
        layout = Layout(tensor.shape, splits, tuple(range(rank)))
        output = Layout(tuple(tensor.shape[dimension] for dimension in kept), splits, kept)
        is_split = any(splits[dimension] > 1 for dimension in dimensions)
        summed = output.slice_size * tensor.itemsize if is_split else 0
        read = layout.slice_size * tensor.itemsize
        gradient = _gradient(layout, tensor, devices)
        cost = _cost(read + passes * summed, summed, gradient, _is_by_batch(layout, devices), weights)
        result.append(OperatorStrategy((layout,), output, cost))
    return _operator(name, tensor.itemsize, result)


def _operator(name: str, itemsize: int, result: list[OperatorStrategy]) -> Operator:
    if not result:
        hint = "MindSpore splits by powers of two, and uses all devices or refuses"
        raise Unsupported(f"{name}: no strategy splits it over all devices", hint=hint)
    return Operator(name, itemsize, tuple(result))


def _splits(sizes: tuple[int, ...], devices: int) -> Iterator[tuple[int, ...]]:
    """Ways to split dimensions by powers of two over all devices."""
    if not sizes:
        if devices == 1:
            yield ()
        return
    part = 1
    while part <= devices:
        if devices % part == 0 and sizes[0] % part == 0:
            yield from ((part, *rest) for rest in _splits(sizes[1:], devices // part))
        part *= 2


def _gradient(layout: Layout, tensor: Tensor, devices: int) -> float:
    """Bytes of a parameter's gradient to be summed: none where every device holds a slice of its own."""
    if not tensor.is_parameter or layout.slice_size * devices == math.prod(tensor.shape):
        return 0.0
    return layout.slice_size * tensor.itemsize


def _is_by_batch(layout: Layout, devices: int) -> bool:
    return layout.splits[:1] == (devices,)


def _cost(computation: float, forward: float, gradient: float, is_by_batch: bool, weights: Weights) -> Cost:
    """A fee on what is sent forwards only: gradients are paid by the byte.

    Data parallelism is preferred among equals, by a byte less of everything that is not zero.
    """
    counted = (computation, forward + gradient, forward)
    computation, communication, forward = (amount - 1 if is_by_batch and amount > 1 else amount for amount in counted)
    paid = _with_fee(forward, weights)
    return Cost(computation, paid + communication - forward, paid)


def _with_fee(sent: float, weights: Weights) -> float:
    if sent <= 0:
        return 0.0
    return weights.flat if sent <= weights.small else sent + weights.fee
