"""Every opcode gives XLA's values on a grid of edge values, in no, one and more dimensions, or is said to have no grid.

Covers `table.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import parse
from hloom.ir import DTYPES
from hloom.ops import OPS
from hloom.runtime import run_text
from tests.evaluator.edge_programs import GRIDS, WITHOUT_GRID, EdgeProgram, add_every_pointwise, pointwise_opcodes
from tests.evaluator.test_complex_numbers import assert_no_number_differs
from tests.evaluator.test_elementwise import assert_near
from tests.evaluator.xla import types

FURTHER = (
    "s2 s4 s8 s16 s32 s64 u2 u4 u8 u16 u32 u64 f16 bf16 f64 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz "
    "f8e4m3fnuz f8e8m0fnu f4e2m1fn c64 c128"
)
NOT_OF_COMPLEX_NUMBERS = frozenset(("atan2", "clamp", "maximum", "minimum", "power", "remainder"))
"""What needs an order that complex numbers lack, or multiplies angles by great numbers (test_complex_numbers.py has moderate
ones)."""


def test_every_opcode_has_a_grid_or_a_reason_for_none():
    kinds = [set(GRIDS), set(WITHOUT_GRID), set(pointwise_opcodes())]
    assert sum(map(len, kinds)) == len(OPS) and set.union(*kinds) == set(OPS)
    assert all(WITHOUT_GRID.values())


@pytest.mark.parametrize("dtype", types("pred", long=f"f32 {FURTHER}"))
def test_ops_that_work_element_by_element(dtype: str):
    program = EdgeProgram(dtype)
    add_every_pointwise(program, NOT_OF_COMPLEX_NUMBERS if DTYPES[dtype].is_complex else frozenset())
    for opcode in ("compare", "complex", "reduce-precision"):
        GRIDS[opcode](program)
    assert_as_xla(program)


@pytest.mark.parametrize("dtype", types("pred", long=f"f32 {FURTHER}"))
def test_changes_of_type(dtype: str):
    program = EdgeProgram(dtype)
    for opcode in ("bitcast-convert", "convert"):
        GRIDS[opcode](program)
    assert_as_xla(program)


@pytest.mark.parametrize("dtype", types("f32", long=f"pred {FURTHER}"))
def test_other_ops(dtype: str):
    program = EdgeProgram(dtype)
    done = {GRIDS[opcode] for opcode in ("bitcast-convert", "compare", "complex", "convert", "reduce-precision")}
    for add in dict.fromkeys(GRIDS.values()):
        if add not in done:
            add(program)
    assert_as_xla(program)


def assert_as_xla(program: EdgeProgram) -> None:
    """XLA's results and ours are the same, or as near as each opcode may be."""
    if not program.opcodes:
        return
    theirs = run_text(program.text, program.inputs).outputs
    ours = evaluate(parse(program.text), program.inputs)
    for opcode, expected, value in zip(program.opcodes, theirs, ours, strict=True):
        assert (expected.dtype, expected.shape) == (value.dtype, value.shape), opcode
        element = next(row for row in DTYPES.values() if row.numpy == expected.dtype)
        if element.is_complex or (program.element.is_complex and element.is_float):
            assert_no_number_differs(opcode, expected, value, [])
        elif element.is_float:
            assert_near(opcode, np.asarray(expected), np.asarray(value), [])
        else:
            np.testing.assert_array_equal(np.asarray(value), np.asarray(expected), opcode)
