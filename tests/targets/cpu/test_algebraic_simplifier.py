"""Simplifications that change what is stored."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.targets.cpu.algebraic_simplifier import simplify
from tests.targets.cpu.programs import program


@pytest.mark.parametrize(
    ("x", "line", "opcodes"),
    [
        ("f32[8,1]", "ROOT r = f32[8] reduce(x, zero), dimensions={1}, to_apply=add", ["reshape"]),
        ("f32[8]", "ROOT r = f32[8,1] broadcast(x), dimensions={0}", ["reshape"]),
        ("f32[8,1]", "ROOT r = f32[1,8] transpose(x), dimensions={1,0}", ["reshape"]),
        ("f32[8,4]", "ROOT r = f32[4,8] transpose(x), dimensions={1,0}", ["transpose"]),
        ("f32[8]", "n = f32[8] negate(x)\nROOT r = f32[8] copy(n)", ["negate"]),
        (
            "f32[8]",
            "b = f32[8,1] reshape(x)\nROOT r = f32[8,1,4] broadcast(b), dimensions={0,1}",
            ["broadcast"],
        ),
        ("f32[8]", "ROOT r = f32[8,8,4] dot(x, y)", ["broadcast", "broadcast", "multiply"]),
        (
            "f32[8,4]",
            "ROOT r = f32[4,8,8] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={1}",
            ["transpose", "broadcast", "transpose", "broadcast", "multiply"],
        ),
        (
            "f32[8]",
            "t = f32[8] tanh(x)\nb = f32[8,4] broadcast(t), dimensions={0}\nROOT r = f32[8,4] divide(y, b)",
            ["tanh", "divide", "broadcast", "multiply"],
        ),
    ],
)
def test_simplified(x: str, line: str, opcodes: list[str]):
    module = parse(program(f"x = {x} parameter(0)", "y = f32[8,4] parameter(1)", "zero = f32[] constant(0)", line))
    simplify(module)
    made = [node.opcode for node in module.entry.nodes if node.opcode not in ("parameter", "constant")]
    assert made == opcodes
