"""Functions that apply ops to whatever knows how: `ops.add(x, y)` asks its first such operand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def applying(opcode: str) -> Callable[..., Any]:
    """The function that applies an op; attributes by keyword.

    An operand says how by a method `apply_op(opcode, operands, attributes)`; plain numbers may stand beside it.
    """

    def apply(*operands: Any, **attributes: Any) -> Any:
        for operand in operands:
            apply_op = getattr(operand, "apply_op", None)
            if apply_op is not None:
                return apply_op(opcode, operands, attributes)
        raise TypeError(f"none of the operands of {opcode} says how to apply an op: {operands!r}")

    apply.__name__ = apply.__qualname__ = opcode.replace("-", "_")
    apply.__doc__ = f"Apply {opcode}; attributes by keyword."
    return apply
