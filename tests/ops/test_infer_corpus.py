"""On every module of the corpus: the types written are the types inferred, and the axis maps fit both.

Layouts are left aside. For element-by-element, shaping, indexing and random ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Apply, FactorKind, Inference, Module, Op, TensorType, TypeProblem, node_axes, same_shape
from hloom.ops import data_movement, elementwise, indexing, random
from hloom.text import HloomError
from tests.corpus import handwritten, lowered

FAMILIES = {"elementwise": elementwise, "shaping": data_movement, "indexing": indexing, "random": random}

WRONGLY_TYPED = {
    "quirk_bitcast_of_tuple/b": "a bitcast takes arrays",
    "quirk_bitcast_size_mismatch/b": "a bitcast keeps the size",
    "quirk_bitcast_type_mismatch/b": "a bitcast keeps the size",
    "quirk_broadcast_dimension_out_of_range/b": "the result has no such dimension",
    "quirk_concatenate_dimension/b": "the operand has no such dimension",
    "quirk_gather_index_negative/b": "index_vector_dim must not be negative",
    "quirk_iota_dimension_out_of_range/b": "the result has no such dimension",
    "quirk_iota_scalar/b": "a scalar has no dimension",
    "quirk_pad_rank/b": "padding for too many dimensions",
    "quirk_reshape_type_mismatch/b": "a reshape keeps the element type",
    "quirk_rng_algorithm_shape/b": "the numbers are missing",
    "quirk_slice_rank/b": "slices for too many dimensions",
    "quirk_transpose_repeated/b": "no permutation",
    "quirk_transpose_wrong_rank/b": "no permutation",
    "shape_written_is_believed/b": "the size differs",
    "shape_written_is_believed/c": "the operands do not fit together",
}
"""Instructions whose written types are wrong on purpose: XLA's parser believes what is written."""


@cache
def modules() -> dict[str, Module]:
    """Every module that can be read: fragments of texts that say too little are left out."""
    parsed = {}
    for name, text in (
        handwritten() | lowered("before") | {f"after/{n}": t for n, t in lowered("after").items()}
    ).items():
        try:
            parsed[name] = parse(text)
        except HloomError:
            assert name.startswith(("fragments/", "quirk_")), name
    return parsed


def nodes_of(family: str) -> Iterator[tuple[str, Apply]]:
    rows = FAMILIES[family].ROWS
    for name, module in modules().items():
        for graph in module.graphs:
            for node in graph.nodes:
                if isinstance(node, Apply) and isinstance(node.function, Op) and node.opcode in rows:
                    yield f"{name}/{node.name}", node


@pytest.mark.parametrize("family", FAMILIES)
def test_the_types_written_are_inferred(family: str) -> None:
    inference = Inference()
    for path, node in nodes_of(family):
        if path in WRONGLY_TYPED:
            continue
        inferred = inference.type_of(node)
        assert same_shape(inferred, node.type), f"{path}: {node!r} is {inferred}"


@pytest.mark.parametrize("path", WRONGLY_TYPED)
def test_wrong_types_are_noticed(path: str) -> None:
    name, _, instruction = path.rpartition("/")
    node = next(node for graph in modules()[name].graphs for node in graph.nodes if node.name == instruction)
    try:
        assert not same_shape(Inference().type_of(node), node.type)
    except TypeProblem as problem:
        assert problem.message


@pytest.mark.parametrize("family", FAMILIES)
def test_axis_maps_fit_the_types(family: str) -> None:
    """Dimensions are the products of their factors; a shifted factor has the result's size, whatever the operand's."""
    for path, node in nodes_of(family):
        operands = [operand_type for operand_type in node.operand_types() if operand_type is not None]
        if path in WRONGLY_TYPED or len(operands) < len(node.operands) or node.type is None:
            continue
        axis_map = node_axes(node)
        assert axis_map is not None, path
        sides = (
            (axis_map.operands, [leaf for operand_type in operands for leaf in operand_type.leaves()]),
            (axis_map.results, node.type.leaves()),
        )
        for side, leaves in sides:
            for dimensions, leaf in zip(side, leaves, strict=True):
                sizes = leaf.dims if isinstance(leaf, TensorType) else ()
                for factors, size in zip(dimensions, sizes, strict=True):
                    kinds = {axis_map.factors[number].kind for number in factors}
                    shifted = side is axis_map.operands and FactorKind.SHIFTED in kinds
                    whole = prod(axis_map.factors[number].size for number in factors)
                    assert shifted or whole == size or size < 0, f"{path}: {node!r} {axis_map}"


def test_every_opcode_is_in_the_corpus() -> None:
    seen = {node.opcode for family in FAMILIES for _, node in nodes_of(family)}
    assert seen == {name for family in FAMILIES.values() for name in family.ROWS}
