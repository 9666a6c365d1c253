"""Types that XLA derives from the operands of transfers and tokens, whatever type is written.

Source: xla/hlo/parser/hlo_parser.cc (CreateInstruction), which ignores the written shape of these instructions, or all
but its first element; a computation's signature is compared with the derived types.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.ir import TOKEN, Node, TensorType, TupleType, Type, compatible, dtype

_CONTEXT = TensorType(dtype("u32"), ())


def _first(type_: Type | None) -> Type | None:
    return type_.elements[0] if isinstance(type_, TupleType) and type_.elements else None


def _with(first: Type | None, *others: Type) -> Type | None:
    return None if first is None else TupleType((first, *others))


def _operand(node: Node) -> Type | None:
    return node.operands[0].type if node.operands else None


_IMPLIED: dict[str, Callable[[Node], Type | None]] = {
    "add-dependency": _operand,
    "after-all": lambda node: TOKEN,
    "infeed": lambda node: _with(_first(node.type), TOKEN),
    "outfeed": lambda node: TOKEN,
    "recv": lambda node: _with(_first(node.type), _CONTEXT, TOKEN),
    "recv-done": lambda node: _with(_first(_operand(node)), TOKEN),
    "send": lambda node: _with(_operand(node), _CONTEXT, TOKEN),
    "send-done": lambda node: TOKEN,
}
"""The type that XLA gives a node; None if it cannot be derived."""
IMPLYING = frozenset(_IMPLIED)
"""The opcodes whose written type XLA ignores."""


def type_for_xla(node: Node) -> Type | None:
    """The type that XLA gives a node: the written one unless the operands imply another."""
    implied = _IMPLIED[node.opcode](node) if node.opcode in IMPLYING else None
    return node.type if implied is None or compatible(implied, node.type) else implied
