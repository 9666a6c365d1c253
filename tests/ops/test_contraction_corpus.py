"""Every product, reduction, sort, factorisation of the corpus: we infer what is written, and every axis map adds up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Apply, FactorKind, TensorType, Type, TypeProblem, infer_type, node_axes, same_shape
from hloom.ops import contraction, linalg, reduction
from hloom.text import HloomError
from tests.corpus import handwritten, lowered

ROWS = {**contraction.ROWS, **reduction.ROWS, **linalg.ROWS}

WRONGLY_TYPED = {
    "opcode_convolution_sparse": "a kernel of half the features is written with all of them",
    "opcode_convolution_unused_dimension": "XLA's own inference knows no dimension labelled '?'",
    "quirk_convolution_operand_scalar": "scalars",
    "quirk_reduce_dimension_out_of_range": "dimension 4 of 1",
}
"""Files whose types XLA's parser takes as written, and refuses where they are left out."""


@cache
def nodes() -> list[tuple[str, Apply]]:
    texts = [*handwritten().items(), *lowered("before").items(), *lowered("after").items()]
    return [(name, node) for name, text in texts if mentions(text) for node in applications(text)]


def mentions(text: str) -> bool:
    return any(f" {name}(" in text for name in ROWS)


def applications(text: str) -> Iterator[Apply]:
    try:
        module = parse(text)
    except HloomError:
        return
    for graph in module.graphs:
        for node in graph.nodes:
            if isinstance(node, Apply) and node.opcode in ROWS and all(operand.type for operand in node.operands):
                yield node


def operand_types(node: Apply) -> list[Type]:
    return [operand.type for operand in node.operands if operand.type is not None]


pytestmark = pytest.mark.filterwarnings("ignore::hloom.text.HloomWarning")


def test_every_op_is_there() -> None:
    assert set(Counter(node.opcode for _, node in nodes())) == set(ROWS)


def test_inferred_types_are_those_written() -> None:
    wrong = []
    for name, node in nodes():
        try:
            inferred = infer_type(node.op, operand_types(node), node.attributes, node.type)
        except TypeProblem as problem:
            if name not in WRONGLY_TYPED:
                wrong.append(f"{name}: {node}: {problem}")
            continue
        if not same_shape(inferred, node.type):
            wrong.append(f"{name}: {node}: inferred {inferred}")
    assert wrong == []


def test_wrong_types_are_refused() -> None:
    refused = set()
    for name, node in nodes():
        try:
            infer_type(node.op, operand_types(node), node.attributes, node.type)
        except TypeProblem:
            refused.add(name)
    assert refused == set(WRONGLY_TYPED)


def test_the_factors_of_a_dimension_multiply_to_its_size() -> None:
    """But for two kinds of dimensions: those with no factor, and the array that a window slides over."""
    wrong = []
    for name, node in nodes():
        if name in WRONGLY_TYPED:
            continue
        axis_map = node_axes(node)
        assert axis_map is not None
        result = node.type or infer_type(node.op, operand_types(node), node.attributes)
        values = [*zip(operand_types(node), axis_map.operands, strict=True)]
        values += zip(result.leaves(), axis_map.results, strict=True)
        for value_type, dimensions in values:
            sizes = value_type.dims if isinstance(value_type, TensorType) else ()
            for size, factors in zip(sizes, dimensions, strict=True):
                slides = any(axis_map.factors[factor].kind is FactorKind.WINDOWED for factor in factors)
                product = math.prod(axis_map.factors[factor].size for factor in factors)
                if factors and not slides and product != size:
                    wrong.append(f"{name}: {node}: {axis_map}")
    assert wrong == []


def test_results_of_windows_have_the_size_of_their_factors() -> None:
    for name, node in nodes():
        if name not in WRONGLY_TYPED and node.opcode in ("convolution", "reduce-window"):
            axis_map = node_axes(node)
            result = node.type or infer_type(node.op, operand_types(node), node.attributes)
            assert axis_map is not None
            for number, leaf in enumerate(result.leaves()):
                assert isinstance(leaf, TensorType) and axis_map.result_dims(number) == leaf.dims
