"""Functions that apply ops: `ops.add(x, y)`, one per opcode."""

from keyword import iskeyword
from typing import Any

import pytest

from hloom import ops


class Recorder:
    """An operand that records how it is asked to apply an op."""

    def apply_op(self, opcode: str, operands: tuple[Any, ...], attributes: dict[str, Any]) -> tuple[Any, ...]:
        return opcode, operands, attributes


def test_every_opcode_has_a_function():
    """A file of the package must not hide one: `ops.gather` is the function, not a module."""
    x = Recorder()
    for opcode in ops.OPS:
        name = opcode.replace("-", "_")
        function = getattr(ops, f"{name}_" if iskeyword(name) else name)
        assert function(x, 1, dimensions=(0,)) == (opcode, (x, 1), {"dimensions": (0,)})


def test_no_operand_knows_how():
    with pytest.raises(TypeError, match="none of the operands of add says how"):
        ops.add(1, 2)


def test_unknown_opcode():
    with pytest.raises(AttributeError, match="no op is called 'no-such-op'"):
        _ = ops.no_such_op
