"""What a module's entry yields, and which of it takes the buffer of a parameter."""

from __future__ import annotations

from hloom.ir import InputOutputAlias, Module, Node, TensorType


def aliases(module: Module) -> tuple[InputOutputAlias, ...]:
    """The outputs that take a parameter's buffer."""
    return module.attributes.get("input_output_alias") or ()


def output_at(root: Node, index: tuple[int, ...]) -> Node | None:
    """The value at an index of the entry's result; None where it is deeper than the root tuple."""
    if not index:
        return root if isinstance(root.type, TensorType) else None
    return root.operands[index[0]] if root.opcode == "tuple" and len(index) == 1 else None
