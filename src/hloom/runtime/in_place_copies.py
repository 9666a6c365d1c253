"""Inserts copies of arrays that are overwritten while something may still read them.

At the end of XLA's pipeline, where a transformation gets a module, XLA has already inserted the copies that in-place
updates (a dynamic-update-slice, a scatter, a fusion that ends in one) need because of other readers of the array; it
inserts no more. A change may make a reader run after the update: then the update needs a copy.

    d = dynamic-slice(a, i)    u = dynamic-update-slice(a, x, j)      which of them runs first, nothing says
      ->
    c = copy(a)    u = dynamic-update-slice(c, x, j)

Follows the requirements of CopyInsertion (xla/service/copy_insertion.cc), for the updates of each computation.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloom.analysis import VIEWS, AliasInfo
from hloom.ir import Apply, Constant, Module, Node, Parameter, TensorType
from hloom.ops import CONTROL_PREDECESSORS, OPS, SAME_BYTES, is_fused

_PASSED_ON = VIEWS | SAME_BYTES
"""Opcodes whose result may have the buffer of their first operand."""


def insert_copies(module: Module) -> int:
    """Copy arrays that are updated in place unless all readers are known to run before; returns the number of copies.
    """
    module.index_users()
    aliases = AliasInfo()
    count = 0
    for graph in list(module.graphs):
        if not is_fused(graph):
            count += sum(_separate(node, aliases) for node in list(graph.nodes) if isinstance(node, Apply))
    return count


def _separate(node: Apply, aliases: AliasInfo) -> int:
    """Give one instruction copies of the arrays that it overwrites, where it needs them."""
    count = 0
    for pair in aliases.pairs(node) if node.opcode in ("dynamic-update-slice", "fusion", "scatter") else ():
        array = node.operands[pair.operand]
        if pair.operand_index or not isinstance(array.type, TensorType) or not _needs_copy(node, array):
            continue
        own = node.graph.add_apply(OPS["copy"], [array], array.type, before=node)
        operands = [own if number == pair.operand else operand for number, operand in enumerate(node.operands)]
        node.graph.set_operands(node, operands)
        count += 1
    return count


def _needs_copy(update: Apply, array: Node) -> bool:
    """Whether the buffer of an array may not be written, or may be read after the update wrote to it."""
    made, path = _made_by(array)
    is_entry = update.graph.module.is_entry(update.graph)
    if isinstance(made, Constant) or (isinstance(made, Parameter) and is_entry):
        return True
    readers = set[Node]()
    for reader in _readers(made, path):
        if reader is None:
            return True
        readers.add(reader)
    if sum(operand is array for operand in update.operands) == 1:
        readers.discard(update)
    return bool(readers) and not _run_before(readers, update)


def _made_by(array: Node) -> tuple[Node, tuple[int, ...]]:
    """The instruction that made a buffer, and where it is in the instruction's tuple: outermost index last."""
    path: list[int] = []
    while array.operands:
        if array.opcode == "get-tuple-element":
            path.append(array.attributes["index"])
        elif array.opcode == "tuple" and path:
            array = array.operands[path.pop()]
            continue
        elif array.opcode not in _PASSED_ON:
            break
        array = array.operands[0]
    return array, tuple(path)


def _readers(made: Node, path: tuple[int, ...]) -> Iterator[Node | None]:
    """What reads a buffer, through all that passes it on; None where the computation yields it."""
    pending, seen = [(made, path)], {(made, path)}
    while pending:
        value, inner = pending.pop()
        if value.is_output:
            yield None
        for user in value.users:
            further: list[tuple[Node, tuple[int, ...]]] = []
            if user.opcode == "get-tuple-element":
                further = [(user, inner[:-1])] if inner and user.attributes["index"] == inner[-1] else []
            elif user.opcode == "tuple":
                further = [(user, (*inner, at)) for at, operand in enumerate(user.operands) if operand is value]
            elif user.opcode in _PASSED_ON:
                further = [(user, inner)]
            elif value in user.operands:
                yield user
            for item in further:
                if item not in seen:
                    seen.add(item)
                    pending.append(item)


def _run_before(readers: set[Node], update: Node) -> bool:
    """Whether an update is computed of, or waits for, all of some instructions."""
    missing, pending, seen = set(readers), [update], {update}
    while pending and missing:
        node = pending.pop()
        for other in (*node.operands, *(node.attributes.get(CONTROL_PREDECESSORS) or ())):
            if other not in seen:
                seen.add(other)
                missing.discard(other)
                pending.append(other)
    return not missing
