"""Traits of ops, held against what the evaluator computes: each trait where it is claimed, and nowhere else.

Covers `ir/traits.py`, `ir/flow.py`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from hloom import HloomError, evaluate, parse
from hloom.ir import Op, Trait
from hloom.ops import (
    ASYNC_PARTS,
    CALLERS,
    CONTROL_FLOW,
    EXTREMES,
    INLINABLE,
    OPS,
    OWNERS,
    PRODUCTS,
    SAME_BYTES,
    with_trait,
)

FLOATS = np.array([-np.inf, -3.5, -1.0, -0.5, -0.0, 0.0, 0.1, 1.0, 1.5, 7.25, np.inf, np.nan], np.float32)
INTEGERS = np.array([-(2**31), -7, -1, 0, 1, 2, 5, 31, 2**31 - 1], np.int32)
ATTRIBUTES = {"compare": ", direction=GE", "reduce-precision": ", exponent_bits=5, mantissa_bits=3"}
NOT_POINTWISE = {"stochastic-convert", "bitcast-convert", "convert", "complex", "real", "imag"}
"""Ops whose result has another type than the operands: they stand in no chain of themselves."""


def applied(op: Op, dtype: str, columns: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    """The op applied to columns of operands; None where it takes no operands of that type."""
    count = len(columns)
    if not op.accepts(count):
        return None
    names = [f"x{number}" for number in range(count)]
    types = [f"{dtype}[{len(columns[0])}]"] * count
    if op.name == "select":
        types[0] = f"pred[{len(columns[0])}]"
        columns = [columns[0] > 0, *columns[1:]]
    lines = [
        f"{name} = {written} parameter({number})" for number, (name, written) in enumerate(zip(names, types, strict=True))
    ]
    result = "pred" if op.name in ("compare", "is-finite") else dtype
    last = f"ROOT r = {result}[{len(columns[0])}] {op.name}({', '.join(names)}){ATTRIBUTES.get(op.name, '')}"
    try:
        module = parse("ENTRY e {\n" + "\n".join([*lines, last]) + "\n}")
        with np.errstate(all="ignore"):
            return np.asarray(evaluate(module, columns)[0])
    except HloomError:
        return None


def same(left: np.ndarray[Any, Any] | None, right: np.ndarray[Any, Any] | None) -> bool:
    assert left is not None and right is not None
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))


def grids(op: Op) -> list[tuple[str, list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]]:
    """Element types that an op takes, every combination of edge values, and what it yields."""
    made = []
    for dtype, values in (("f32", FLOATS), ("s32", INTEGERS), ("pred", np.array([False, True]))):
        pairs = list(itertools.product(values, repeat=op.arity[0]))
        columns = [np.array(column, values.dtype) for column in zip(*pairs, strict=True)]
        result = applied(op, dtype, columns)
        if result is not None:
            made.append((dtype, columns, result))
    return made


POINTWISE = [
    OPS[name] for name in sorted(with_trait(Trait.ELEMENTWISE) - NOT_POINTWISE) if OPS[name].arity[0] in (1, 2, 3)
]
BINARY = [op for op in POINTWISE if op.arity == (2, 2)]


@pytest.mark.parametrize("op", BINARY, ids=str)
def test_commutative_ops_are_those_whose_operands_may_be_exchanged(op: Op):
    exchanged = [same(result, applied(op, dtype, columns[::-1])) for dtype, columns, result in grids(op)]
    assert exchanged
    assert all(exchanged) == (Trait.COMMUTATIVE in op.traits)


@pytest.mark.parametrize("op", BINARY, ids=str)
def test_associative_ops_may_be_grouped_in_any_way(op: Op):
    if op.name == "compare":
        return  # its result is no operand
    small = {
        "f32": np.array([-2, 0, 1, 4], np.float32),
        "s32": np.array([-3, 0, 1, 5], np.int32),
        "pred": np.array([False, True]),
    }
    grouped = []
    for dtype, values in small.items():
        a, b, c = (np.array(column, values.dtype) for column in zip(*itertools.product(values, repeat=3), strict=True))
        left, right = applied(op, dtype, [a, b]), applied(op, dtype, [b, c])
        if left is not None and right is not None:
            grouped.append(same(applied(op, dtype, [left, c]), applied(op, dtype, [a, right])))
    assert grouped
    assert all(grouped) == (Trait.ASSOCIATIVE in op.traits)


@pytest.mark.parametrize("op", [op for op in POINTWISE if op.arity[0] < 3 and op.name != "compare"], ids=str)
def test_idempotent_ops_change_nothing_the_second_time(op: Op):
    if op.name == "is-finite":
        return
    unchanged = []
    for dtype, columns, result in grids(op):
        again = [result] if len(columns) == 1 else [columns[0], columns[0]]
        unchanged.append(same(applied(op, dtype, again), result if len(columns) == 1 else columns[0]))
    assert unchanged
    expected = Trait.IDEMPOTENT in op.traits or op.name == "copy"
    assert all(unchanged) == expected


@pytest.mark.parametrize("op", POINTWISE, ids=str)
def test_ops_that_propagate_nan_are_nan_where_an_operand_is(op: Op):
    floats = [(columns, result) for dtype, columns, result in grids(op) if dtype == "f32"]
    for columns, result in floats:
        nan = np.isnan(np.stack(columns)).any(axis=0)
        passes = result.dtype.kind == "f" and bool(np.isnan(result[nan]).all())
        assert passes == (Trait.PROPAGATES_NAN in op.traits or op.name == "copy")
    if not floats:
        assert Trait.PROPAGATES_NAN not in op.traits


@pytest.mark.parametrize("op", [op for op in POINTWISE if op.name != "reduce-precision"], ids=str)
def test_ops_round_where_wider_numbers_give_another_result(op: Op):
    values = np.array([0.1, 0.3, 0.7, 1.1, 2.3, 16777217.0], np.float32)
    columns = [
        np.array(column, np.float32) for column in zip(*itertools.product(values, repeat=op.arity[0]), strict=True)
    ]
    narrow, wide = applied(op, "f32", columns), applied(op, "f64", [column.astype(np.float64) for column in columns])
    if narrow is None or wide is None:
        assert Trait.ROUNDS not in op.traits
    else:
        assert (not same(narrow.astype(wide.dtype), wide)) == (Trait.ROUNDS in op.traits)


BITS = {
    "bitcast": "ROOT r = s32[2] bitcast(x)",
    "bitcast-convert": "ROOT r = s32[2] bitcast-convert(x)",
}
"""One application to f32 of each op that reads the bits of numbers; the others name a format, or take random bits."""


@pytest.mark.parametrize("opcode", sorted(BITS))
def test_ops_about_the_bits_of_numbers_are_refused_of_wider_ones(opcode: str):
    assert set(BITS) | {"reduce-precision", "stochastic-convert"} == with_trait(Trait.REPRESENTATION)
    evaluate(parse(f"ENTRY e {{ x = f32[2] constant({{1, 2}})\n{BITS[opcode]} }}"), [])
    with pytest.raises(HloomError):
        evaluate(parse(f"ENTRY e {{ x = f64[2] constant({{1, 2}})\n{BITS[opcode]} }}"), [])


MOVEMENTS = {
    "bitcast": "ROOT r = f32[6] bitcast(x)",
    "broadcast": "ROOT r = f32[2,5,3] broadcast(x), dimensions={0,2}",
    "concatenate": "ROOT r = f32[4,3] concatenate(x, y), dimensions={0}",
    "copy": "ROOT r = f32[2,3] copy(x)",
    "dynamic-slice": "i = s32[] constant(1)\nROOT r = f32[1,2] dynamic-slice(x, i, i), dynamic_slice_sizes={1,2}",
    "dynamic-update-slice": "i = s32[] constant(1)\nu = f32[1,2] slice(y), slice={[0:1], [0:2]}\n"
    "ROOT r = f32[2,3] dynamic-update-slice(x, u, i, i)",
    "gather": "i = s32[4] constant({0,1,1,0})\nROOT r = f32[4,3] gather(x, i), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "pad": "v = f32[] constant(2.5)\nROOT r = f32[3,7] pad(x, v), padding=0_1x1_1_1",
    "reshape": "ROOT r = f32[3,2] reshape(x)",
    "reverse": "ROOT r = f32[2,3] reverse(x), dimensions={1}",
    "slice": "ROOT r = f32[1,2] slice(x), slice={[1:2], [0:3:2]}",
    "transpose": "ROOT r = f32[3,2] transpose(x), dimensions={1,0}",
}
"""One application of each op that moves data; a dynamic reshape needs a size that only the run knows."""


def test_each_op_that_moves_data_is_tried():
    assert set(MOVEMENTS) == with_trait(Trait.MOVES_DATA) - {"dynamic-reshape"}


@pytest.mark.parametrize("opcode", sorted(MOVEMENTS))
def test_ops_that_move_data_yield_elements_of_their_operands(opcode: str):
    text = f"ENTRY e {{ x = f32[2,3] parameter(0)\ny = f32[2,3] parameter(1)\n{MOVEMENTS[opcode]} }}"
    module = parse(text)
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), 10 + np.arange(6, dtype=np.float32).reshape(2, 3)
    result = np.asarray(evaluate(module, [x, y])[0])
    assert set(result.flat) <= {*x.flat, *y.flat, 2.5}
    op = OPS[opcode]
    if Trait.REINDEXES in op.traits:
        assert op.arity == (1, 1) and set(result.flat) <= set(x.flat)
    if Trait.KEEPS_ORDER in op.traits:
        assert result.ravel().tolist() == x.ravel().tolist()
    if Trait.READS_PART in op.traits:
        assert set(result.flat) <= set(x.flat)


def test_traits_that_imply_others():
    assert with_trait(Trait.KEEPS_ORDER) < with_trait(Trait.REINDEXES) < with_trait(Trait.MOVES_DATA)
    assert with_trait(Trait.READS_PART) < with_trait(Trait.MOVES_DATA)
    assert with_trait(Trait.TRANSCENDENTAL) < with_trait(Trait.ROUNDS)
    assert not with_trait(Trait.MOVES_DATA) & with_trait(Trait.ROUNDS)


def test_extremes_are_one_of_their_operands():
    assert {"maximum", "minimum"} == EXTREMES
    for opcode in EXTREMES:
        for _, (left, right), result in grids(OPS[opcode]):
            assert np.all((result == left) | (result == right) | np.isnan(result.astype(np.float64)))


def test_products_contract_two_arrays():
    assert PRODUCTS == ("dot", "convolution")
    assert all(OPS[opcode].arity == (2, 2) for opcode in PRODUCTS)
    assert with_trait(Trait.CONTRACTS) - set(PRODUCTS) == {"ragged-dot", "scaled-dot"}


def test_each_start_has_a_done():
    parts = {opcode.removesuffix("-start") for opcode in with_trait(Trait.ASYNC_START)}
    assert parts == {opcode.removesuffix("-done") for opcode in with_trait(Trait.ASYNC_DONE)}


def test_only_ops_with_a_flow_call_computations_in_their_place():
    assert {"call", "while", "conditional", "async-start"} <= CONTROL_FLOW
    assert {"call", "while", "conditional"} <= CALLERS
    assert not CONTROL_FLOW & {"fusion", "map", "reduce", "sort"}
    assert {"call", "fusion"} == INLINABLE
    assert ASYNC_PARTS | {"fusion"} == OWNERS
    assert {"async-start", "async-update", "async-done"} == ASYNC_PARTS
    assert all(OPS[opcode].effect is not None for opcode in CONTROL_FLOW)


def test_ops_that_give_their_operand_another_name_forward_all_of_its_bytes():
    assert {"add-dependency", "bitcast", "domain", "opt-barrier"} == SAME_BYTES


def test_tuples_are_built_and_taken_apart():
    lines = "x = f32[2] parameter(0) t = (f32[2], f32[2]) tuple(x, x) ROOT r = f32[2] get-tuple-element(t), index=1"
    module = parse(f"ENTRY e {{ {lines} }}")
    assert {node.opcode for node in module.entry.nodes if node.has_trait(Trait.TUPLE)} == with_trait(Trait.TUPLE)
    assert np.array_equal(evaluate(module, [np.ones(2, np.float32)])[0], np.ones(2))


def test_ops_that_number_devices_take_nothing():
    assert with_trait(Trait.DEVICE_ID) == {"partition-id", "replica-id"}
    assert all(OPS[opcode].arity == (0, 0) for opcode in with_trait(Trait.DEVICE_ID))
