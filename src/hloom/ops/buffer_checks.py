"""What XLA's verifier asks of custom calls: how they make, write and give back buffers, and of targets it knows.

A buffer, `b(f32[8])`, is written in place: each value of one has one writer at most.

Source: xla/service/hlo_verifier.cc, VerifyCustomCall, CountWriters and InstructionVerifier::HandleCustomCall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from hloom.ir import Apply, BufferType, Node, OutputAlias, Surroundings, TensorType, TupleType, Type, dtype
from hloom.ops.alias_checks import alias_problem

_PIN, _UNPIN = "Pin", "Unpin"


def check_custom_call(node: Apply, surroundings: Surroundings) -> str | None:
    """Aliases that fit; buffers among operands and results once each; what known targets take and yield."""
    target = node.attributes.get("custom_call_target")
    if problem := alias_problem(node, through_buffers=target in (_PIN, _UNPIN)):
        return problem
    own = _TARGETS.get(target) if isinstance(target, str) else None
    problem = own(node) if own else _uses_problem(node)
    return problem or check_writer(node, surroundings)


def check_writer(node: Apply, surroundings: Surroundings) -> str | None:
    """Whether another node writes a buffer that this one writes: its operands, and all that they hold."""
    for operand in node.operands:
        for index in _buffers(operand.type):
            origin = _origin(operand, index)
            first = surroundings.claim(("writer", *origin), node)
            if first is not node:
                return f"{first.name} writes the buffer {origin[0].name} already: each value of one has one writer"
    return None


def _origin(node: Node, index: tuple[int, ...]) -> tuple[Node, tuple[int, ...]]:
    """The node that makes a part of a value, tuples and their elements followed back."""
    while True:
        if node.opcode == "get-tuple-element" and node.operands:
            node, index = node.operands[0], (node.attributes["index"], *index)
        elif node.opcode == "tuple" and index:
            node, index = node.operands[index[0]], index[1:]
        else:
            return node, index


def _buffers(type_: Type | None) -> list[tuple[int, ...]]:
    """Where the buffers are in a value of this type."""
    if type_ is None or not any(isinstance(leaf, BufferType) for leaf in type_.leaves()):
        return []
    indices: list[tuple[int, ...]] = []
    pending: list[tuple[tuple[int, ...], Type]] = [((), type_)]
    while pending:
        index, part = pending.pop()
        if isinstance(part, BufferType):
            indices.append(index)
        elif isinstance(part, TupleType):
            pending += [((*index, position), element) for position, element in enumerate(part.elements)]
    return indices[::-1]


def _uses_problem(node: Apply) -> str | None:
    aliases: Sequence[OutputAlias] = node.attributes.get("output_to_operand_aliasing", ())
    taken = Counter((alias.operand, alias.operand_index) for alias in aliases)
    yielded = Counter(alias.output_index for alias in aliases)
    for number, operand in enumerate(node.operands):
        for index in _buffers(operand.type):
            if taken[number, index] != 1:
                return f"the buffer in operand {number} must be the alias of one result, not of {taken[number, index]}"
    for index in _buffers(node.type):
        if yielded[index] != 1:
            return f"a buffer that it yields must be the alias of one operand, not of {yielded[index]}"
    return None


def _pin(node: Apply) -> str | None:
    operands = node.operand_types()
    if len(operands) != 1 or not isinstance(operands[0], TensorType | None):
        return "Pin takes one array"
    if not isinstance(node.type, BufferType | None):
        return f"Pin yields a buffer, not {node.type}"
    return _one_alias(node)


def _unpin(node: Apply) -> str | None:
    operands = node.operand_types()
    if len(operands) != 1 or not isinstance(operands[0], BufferType | None):
        return "Unpin takes one buffer"
    if not isinstance(node.type, TensorType | None):
        return f"Unpin yields an array, not {node.type}"
    return _one_alias(node)


def _one_alias(node: Apply) -> str | None:
    count = len(node.attributes.get("output_to_operand_aliasing", ()))
    return None if count == 1 else f"its result must be the alias of its operand: there are {count} aliases"


def _create(node: Apply) -> str | None:
    if node.operands:
        return "CreateBuffer takes no operand"
    return None if isinstance(node.type, BufferType | None) else f"CreateBuffer yields a buffer, not {node.type}"


def _seed(node: Apply) -> str | None:
    if node.operands:
        return "GetRngSeed takes no operand"
    is_seed = node.type is None or (isinstance(node.type, TensorType) and node.type == TensorType(dtype("u64")))
    return None if is_seed else f"GetRngSeed yields u64[], not {node.type}"


_TARGETS: dict[str, Callable[[Apply], str | None]] = {
    _PIN: _pin,
    _UNPIN: _unpin,
    "CreateBuffer": _create,
    "GetRngSeed": _seed,
}
