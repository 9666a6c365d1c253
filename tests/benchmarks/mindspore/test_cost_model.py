"""MindSpore's costs, and the plan that it was measured to choose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.mindspore.cost_model import (
    Cost,
    Link,
    Operator,
    Tensor,
    Weights,
    batch_input,
    cost_graph,
    elementwise,
    matmul,
    redistribution,
    reduce_mean,
    reduce_sum,
    total_cost,
)
from benchmarks.mindspore.eliminations import solve
from benchmarks.mindspore.layouts import Layout, moves
from hloom.text import HloomError, Unsupported
from tests.benchmarks.mindspore.brute_force import brute_force

DEVICES = 8
BATCH = 64 * DEVICES
"""MindSpore takes x f32[64,256] for one device's part of the batch."""


def three_layers(reduction: Callable[..., Operator]) -> tuple[list[Operator], list[Link]]:
    values, weights = Tensor((BATCH, 256)), Tensor((256, 256), is_parameter=True)
    operators = [batch_input("x", values, DEVICES)]
    for layer in range(3):
        operators.append(matmul(f"matmul{layer}", values, weights, DEVICES))
        operators.append(elementwise(f"relu{layer}", [values], DEVICES))
    operators.append(reduction("loss", values, (0, 1), DEVICES))
    return operators, [Link(number, number + 1) for number in range(len(operators) - 1)]


@pytest.mark.parametrize(("reduction", "excess"), [(reduce_sum, 4 - 7), (reduce_mean, 8 - 7)])
def test_three_layers_on_eight_devices_are_data_parallel_as_measured(reduction: Callable[..., Operator], excess: int):
    """MindSpore 2.10 logs six digits: computation 1.24518e+06, communication 3858.43."""
    operators, links = three_layers(reduction)
    graph = cost_graph(operators, links)
    result = solve(graph)
    chosen = [item.strategies[strategy] for item, strategy in zip(operators, result.strategies, strict=True)]
    assert result.time == graph.time_of(brute_force(graph) or ())
    assert {strategy.inputs[0].splits for strategy in chosen} == {(DEVICES, 1)}
    read = sum(4 * layout.slice_size for strategy in chosen[1:] for layout in strategy.inputs)
    assert read == 1_245_184

    total = total_cost(operators, links, result.strategies)
    assert total.computation == read + excess  # the loss that is sent, less a byte for each of seven operators
    assert f"{total.computation:g}" == "1.24518e+06"
    assert total.forward == 3072
    assert total.communication - total.forward == 786_432 - 3  # three gradients, less a byte for each
    assert f"{total.weighed_communication():g}" == "3858.43" == f"{3072 + 0.001 * 786_432:g}"
    assert result.time == pytest.approx(total.time(), rel=1e-12)


def test_a_product_split_on_the_inner_dimension_sends_its_result():
    operator = matmul("m", Tensor((64, 256)), Tensor((256, 128), is_parameter=True), DEVICES)
    result = {
        strategy.inputs[0].splits + strategy.inputs[1].splits[1:]: strategy.cost for strategy in operator.strategies
    }
    assert len(result) == 10
    # rows only: the weights are read whole, and their gradient is summed
    assert result[8, 1, 1] == Cost(4 * (8 * 256 + 256 * 128) - 1, 4 * 256 * 128 - 1, 0)
    # inner only: the result is summed; every device has its own weights
    assert result[1, 8, 1] == Cost(4 * (64 * 32 + 32 * 128 + 64 * 128), 4 * 64 * 128 + 1024, 4 * 64 * 128 + 1024)
    # columns only: nothing is sent
    assert result[1, 1, 8] == Cost(4 * (64 * 256 + 256 * 16), 0, 0)


@pytest.mark.parametrize(("sent", "paid"), [(0, 0), (4, 3072), (2048, 3072), (2052, 2052 + 1024)])
def test_small_messages_cost_a_flat_fee(sent: int, paid: int):
    operator = reduce_sum("r", Tensor((8, sent // 4)), (0,), 8)
    by_rows = next(strategy for strategy in operator.strategies if strategy.inputs[0].splits == (8, 1))
    less = 1 if sent > 2049 else 0  # data parallelism is a byte cheaper, which a flat fee swallows
    assert by_rows.cost.forward == paid - less


def test_weights():
    assert Cost(100, 30, 10).time() == 100 + 400 * (10 + 0.001 * 20)
    assert Cost(100, 30, 10).time(Weights(alpha=2, beta=1, gamma=1)) == 200 + 30


MOVES = [
    # from                 to                    computation, forwards, backwards, of slices of the first layout
    ((8, 1), (8, 1), (0, 0, 0)),
    ((4, 1), (8, 1), (1 + 2, 0, 0)),  # a split, and reshapes around it
    ((8, 1), (1, 8), (1 + 1, 2, 2)),
    ((1, 8), (8, 1), (1 + 17, 2, 2)),
    ((8, 1), (1, 1), (1 + 1, 4, 0.5)),
    ((1, 8), (1, 1), (1 + 17, 4, 0.5)),
    ((8, 1), (4, 2), (1 + 5 + 2, 2, 2)),
]


@pytest.mark.parametrize(("before", "after", "expected"), MOVES)
def test_moving_a_tensor(before: tuple[int, int], after: tuple[int, int], expected: tuple[float, float, float]):
    source, target = (_over_eight(item) for item in (before, after))
    result = moves(source, target)
    size = source.slice_size
    assert (result.computation / size, result.forward / size, result.backward / size) == expected


def test_moving_pays_forwards_and_backwards_in_full():
    source, target = Layout((64, 256), (8, 1), (0, 1)), Layout((64, 256), (1, 8), (0, 1))
    size = 8 * 256 * 4
    assert redistribution(source, target, 4) == Cost(2 * size, 2 * (2 * size + 1024), 2 * (2 * size + 1024))


def test_what_is_not_modelled_is_refused():
    with pytest.raises(HloomError, match=r"m: a product of \(2, 3\) and \(4, 5\)"):
        matmul("m", Tensor((2, 3)), Tensor((4, 5)), 1)
    with pytest.raises(Unsupported, match="a: operands of different shapes"):
        elementwise("a", [Tensor((2, 3)), Tensor((3,))], 1)
    with pytest.raises(Unsupported, match="a: no strategy splits it over all devices"):
        elementwise("a", [Tensor((3, 3))], 2)


def _over_eight(splits: tuple[int, int]) -> Layout:
    """The layouts of operators: the matrix of devices has a dimension for each dimension, and what repeats comes last."""
    return Layout((64, 256), (*splits, 8 // (splits[0] * splits[1])), (0, 1))
