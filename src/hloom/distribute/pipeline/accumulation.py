"""Steps that accumulate gradients: the body of their own loop over microbatches is split into stages.

grads, loss = while(i < 4)(grads + g(weights, batch[i]), loss + l)
weights = update(weights, grads)
"""

from __future__ import annotations

from hloom.analysis import ScalarEvolution, derive_trip_count, graphs_run_by
from hloom.distribute.microbatch import MicrobatchLoop
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, Trait
from hloom.ops import with_trait
from hloom.text import HloomError

HEAVY = with_trait(Trait.CONTRACTS) | {"custom-call"}
"""Opcodes, besides loops and branches, of which a layer has at least one."""
LEAST_SHARE = 0.5
"""The minimum share of a program's expensive instructions in a loop that counts as its loop over microbatches."""
GET = "get-tuple-element"


def accumulation_loop(module: Module, microbatches: int) -> MicrobatchLoop | None:
    """A copy of a canonical step with its own loop over microbatches; None where there is none.

    That is a loop that has most of the expensive instructions, sums up arrays of the size of a parameter, and carries
    nothing but sums and rows that it fills. Raises HloomError where it has another number of microbatches.
    """
    name = next((loop.name for loop in module.entry.nodes if _is_accumulation(loop, module)), None)
    if name is None:
        return None
    copy = module.clone()
    loop = copy.entry[name]
    assert isinstance(loop, Apply)
    count, counter = derive_trip_count(loop, ScalarEvolution({})).count, _counter(loop)
    if count != microbatches:
        raise HloomError(
            f"{name} in {module.name} is a loop over {count} microbatches already: "
            f"the step cannot be cut into {microbatches}",
            hint=f"plan {count} microbatches, or let the step take its batch at once",
        )
    return MicrobatchLoop(copy, loop, {}, {}, microbatches, 1.0, counter or 0)


def _is_accumulation(loop: Node, module: Module) -> bool:
    if loop.opcode != "while" or not isinstance(loop, Apply) or loop.operands[0].opcode != "tuple":
        return False
    body: Graph = loop.attributes["body"]
    if any(user.opcode != GET for user in loop.users) or body.root.opcode != "tuple" or _counter(loop) is None:
        return False
    if derive_trip_count(loop, ScalarEvolution({})).count is None or _heavy(body) < LEAST_SHARE * _heavy(module.entry):
        return False
    counter, known = _counter(loop), (_is_sum, _is_passed_on, _is_filled)
    elements = [index for index in range(len(body.root.operands)) if index != counter]
    if not all(any(holds(body, index) for holds in known) for index in elements):
        return False
    dims = {dims for parameter in module.entry.parameters if (dims := _float_dims(parameter))}
    return any(_is_sum(body, index) and _float_dims(body.root.operands[index]) in dims for index in elements)


def _counter(loop: Apply) -> int | None:
    """The element of the state that counts 0, 1, 2, as s32."""
    body, initial = loop.attributes["body"], loop.operands[0].operands
    for index, after in enumerate(body.root.operands):
        is_s32 = isinstance(after.type, TensorType) and not after.type.rank and after.type.dtype.name == "s32"
        if is_s32 and after.opcode == "add" and initial[index].splat == 0:
            operands = sorted(after.operands, key=lambda operand: isinstance(operand, Constant))
            if _is_element(operands[0], body, index) and operands[1].splat == 1:
                return index
    return None


def _is_element(node: Node, body: Graph, index: int) -> bool:
    return node.opcode == GET and node.operands[0] is body.parameters[0] and node.attributes["index"] == index


def _is_passed_on(body: Graph, index: int) -> bool:
    return _is_element(body.root.operands[index], body, index)


def _is_sum(body: Graph, index: int) -> bool:
    """Whether an element is what it was before and something added, and read for nothing else."""
    after = body.root.operands[index]
    before = [operand for operand in after.operands if _is_element(operand, body, index)]
    return after.opcode == "add" and len(before) == 1 and _only_users(body, index) == {after}


def _is_filled(body: Graph, index: int) -> bool:
    """Whether an element is an array of which each iteration writes a part, and reads nothing."""
    after = body.root.operands[index]
    is_update = after.opcode == "dynamic-update-slice" and _is_element(after.operands[0], body, index)
    return is_update and _only_users(body, index) == {after}


def _only_users(body: Graph, index: int) -> set[Node]:
    elements = [user for user in body.parameters[0].users if user.opcode == GET and user.attributes["index"] == index]
    return {user for element in elements for user in element.users}


def _float_dims(node: Node) -> tuple[int, ...] | None:
    """The dimensions of a floating-point array that is not a number."""
    is_float = isinstance(node.type, TensorType) and node.type.dtype.is_float
    return node.type.dims or None if is_float and isinstance(node.type, TensorType) else None


def _heavy(graph: Graph) -> int:
    """How many expensive instructions a graph has, with those that it calls."""
    return sum(node.opcode in HEAVY for inner in graphs_run_by(graph) for node in inner.nodes)
