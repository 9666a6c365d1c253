"""Cuts: a subset of a program's instructions as a program, with parameters in place of missing operands.

x = f(p)                        p = parameter(0)
y = g(x)      keeping y   ->    y = g(p)
ROOT z = h(y)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from hloom.autodiff import Emitter
from hloom.ir import EMPTY, TOKEN, Apply, Graph, Module, Node, Parameter, TensorType, Trait, TupleType, Type, same_shape
from hloom.ops import OPS, with_trait
from hloom.passes import erase_unused

SIGNATURE_ATTRIBUTES = (
    "entry_computation_layout",
    "input_output_alias",
    "buffer_donor",
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "origin_recovery_table",
)
"""Header attributes about parameters and results, which are dropped when those change."""
GET = "get-tuple-element"
MOVING = with_trait(Trait.KEEPS_ORDER)
"""Opcodes that do what a reshape does."""
PREDECESSORS = "control-predecessors"
VALUE = ".value"
"""How the names of parameters end that take the place of instructions; those of the instructions come before."""


def output_tuple(entry: Graph) -> Node | None:
    """The tuple that an entry yields and nothing else uses; None where it yields another value."""
    root = entry.root
    return root if root.opcode == "tuple" and not root.users else None


def outputs_of(entry: Graph) -> list[Node]:
    """The values that an entry yields, each once."""
    bundle = output_tuple(entry)
    return list(dict.fromkeys(bundle.operands if bundle else (entry.root,)))


def entry_instructions(module: Module) -> list[str]:
    """The names of what the entry computes, without the tuple of its results."""
    bundle = output_tuple(module.entry)
    return [node.name for node in module.entry.nodes if isinstance(node, Apply) and node is not bundle]


def keep_instructions(module: Module, names: Collection[str]) -> Module:
    """A copy in which the entry has these instructions alone, with the constants that they use.

    What else they use becomes a parameter. The copy yields what the module yielded of them, and what none of them uses;
    without any instruction it yields a parameter, of the type of the module's first output.
    """
    copy = module.clone()
    entry = copy.entry
    copy.index_users()
    kept: set[Apply] = {node for node in entry.nodes if isinstance(node, Apply) and node.name in names}
    for node in [node for node in entry.nodes if node.opcode == GET and isinstance(node, Apply) and node in kept]:
        if isinstance(node.operands[0], Apply) and node.operands[0] not in kept:
            kept.discard(node)  # its own value is the parameter, and not the tuple
    _keep_pairs(kept)
    if not kept:
        entry.set_output(entry.add_parameter((outputs_of(entry) or [entry.root])[0].type, "p"))
        erase_all(node for node in reversed(entry.nodes) if isinstance(node, Apply))
        return tidied(copy, module)
    outputs = [node for node in outputs_of(entry) if node in kept]
    outputs += [node for node in entry.nodes if node in kept and not any(user in kept for user in node.users)]
    for node in [node for node in entry.nodes if isinstance(node, Apply) and node not in kept]:
        users = [user for user in node.users if user in kept]
        if users:
            _give(entry, node, users)
    yield_values(entry, list(dict.fromkeys(outputs)))
    erase_all(node for node in reversed(entry.nodes) if isinstance(node, Apply) and node not in kept)
    return tidied(copy, module)


def _keep_pairs(kept: set[Apply]) -> None:
    """Let what begins an asynchronous operation stay with what ends it."""
    pending = list(kept)
    while pending:
        node = pending.pop()
        others = [*node.operands] if waits_for_start(node) else []
        others += [user for user in node.users if waits_for_start(user)]
        added = [other for other in others if isinstance(other, Apply) and other not in kept]
        kept.update(added)
        pending += added


def waits_for_start(node: Node) -> bool:
    """Whether an instruction goes on with what another has begun, and takes nothing else in its place."""
    return node.opcode.endswith("-done") or node.opcode == "async-update"


def has_whole_pairs(module: Module) -> bool:
    """Whether each asynchronous operation that is ended is begun by an instruction of the same graph."""
    waiting = (node for node in module.nodes() if waits_for_start(node))
    return all(node.operands and isinstance(node.operands[0], Apply) for node in waiting)


def keep_outputs(module: Module, names: Collection[str]) -> Module | None:
    """A copy that yields the values of these names alone; None where there are none."""
    copy = module.clone()
    copy.index_users()
    kept = [node for node in outputs_of(copy.entry) if node.name in names]
    if not kept:
        return None
    yield_values(copy.entry, kept)
    return tidied(copy, module)


def replace_nodes(module: Module, names: Iterable[tuple[str, str]], replacement: Replacement) -> Module | None:
    """A copy in which nodes, named with their graphs, are replaced by others; None where none can be."""
    copy = module.clone()
    copy.index_users()
    count = 0
    for graph_name, name in names:
        node = copy[graph_name][name]
        value = replacement(node)
        if value is not None:
            node.graph.replace_uses(node, value)
            erase_all([node])
            count += 1
    return tidied(copy, module) if count else None


Replacement = Callable[[Node], "Node | None"]
"""Another value of a node's type, made before it or there already."""


def same_type_operands(node: Node) -> list[Node]:
    """The operands of a node's type, each once."""
    return [operand for operand in dict.fromkeys(node.operands) if operand.type and same_shape(operand.type, node.type)]


def first_operand(node: Node) -> Node | None:
    """The first operand of a node's type."""
    return next(iter(same_type_operands(node)), None)


def last_operand(node: Node) -> Node | None:
    """The last operand of a node's type, where there are several."""
    operands = same_type_operands(node)
    return operands[-1] if len(operands) > 1 else None


def reshaped_operand(node: Node) -> Node | None:
    """The first operand of as many elements of the same type, reshaped; None for what only moves elements."""
    wanted = node.type
    if node.opcode in MOVING or not isinstance(wanted, TensorType) or not wanted.is_static:
        return None
    for operand in node.operands:
        given = operand.type
        if isinstance(given, TensorType) and given.dims != wanted.dims and _may_be_reshaped(given, wanted):
            return node.graph.add_apply(OPS["reshape"], (operand,), wanted, EMPTY, before=node)
    return None


def skipped_operand(node: Node) -> Node | None:
    """An operand of an operand, of a node's type or reshaped to it: what is between the two is skipped."""
    wanted = node.type
    for operand in node.operands:
        for given in operand.operands:
            if given.graph is node.graph and given.type and same_shape(given.type, wanted):
                return given
    if not isinstance(wanted, TensorType) or not wanted.is_static:
        return None
    for operand in node.operands:
        for given in operand.operands:
            if isinstance(given.type, TensorType) and _may_be_reshaped(given.type, wanted):
                return node.graph.add_apply(OPS["reshape"], (given,), wanted, EMPTY, before=node)
    return None


def _may_be_reshaped(given: TensorType, wanted: TensorType) -> bool:
    return given.is_static and given.dtype is wanted.dtype and given.element_count == wanted.element_count


def zero(node: Node) -> Node | None:
    """Zeros in the place of an array, broadcast from a scalar; None where the type has none."""
    if not isinstance(node.type, TensorType) or not node.type.is_static:
        return None
    graph = node.graph
    before = len(graph.nodes)
    value = Emitter(graph).zeros(node.type)
    for made in graph.nodes[before:]:
        graph.move_before(made, node)
    return value


def first_parameter_alike(node: Node) -> Node | None:
    """The first parameter of a parameter's type; None where it is that one itself."""
    first = next(other for other in node.graph.parameters if same_shape(other.type, node.type))
    return None if first is node else first


def put_in_place(node: Node, called: Graph, operands: Sequence[Node]) -> None:
    """Put a computation, given operands, in place of a loop or branch that runs it."""
    graph = node.graph
    call = graph.add_apply(OPS["call"], operands, node.type, {"to_apply": called}, before=node)
    graph.replace_uses(node, call)
    graph.erase(node)
    graph.inline(call)


def erase_all(nodes: Iterable[Node]) -> None:
    """Take nodes out that nothing uses, those with effects among them, which are not dead to `dce`."""
    for node in nodes:
        if not node.is_used and not isinstance(node, Parameter):
            node.graph.erase(node)


def yield_values(entry: Graph, values: list[Node]) -> None:
    """Let an entry yield some values: one alone, several as a tuple."""
    if len(values) == 1:
        entry.set_output(values[0])
        return
    types = [value.type for value in values if value.type is not None]
    entry.set_output(entry.add_apply(OPS["tuple"], values, TupleType(types)))


def is_plain(node: Node) -> bool:
    """Whether an instruction can stand alone: it takes and gives arrays of fixed shapes, and waits for nothing."""
    if not isinstance(node, Apply) or waits_for_start(node) or any(map(waits_for_start, node.users)):
        return False
    return not node.attributes.get(PREDECESSORS) and all(map(_is_of_arrays, (node, *node.operands)))


def _is_of_arrays(node: Node) -> bool:
    leaves = node.type.leaves() if node.type is not None else (None,)
    return all(isinstance(leaf, TensorType) and leaf.is_static for leaf in leaves)


def yield_leaves(module: Module, nodes: Iterable[Node]) -> list[int]:
    """Let an entry yield these values as one flat tuple, tuples taken apart; how many arrays there are of each."""
    entry = module.entry
    values: list[Node] = []
    counts: list[int] = []
    for node in nodes:
        before = len(values)
        pending = [node]
        while pending:
            part = pending.pop()
            if not isinstance(part.type, TupleType):
                values.append(part)
                continue
            elements = enumerate(part.type.elements)
            pending += [entry.add_apply(OPS[GET], (part,), leaf, {"index": at}) for at, leaf in elements][::-1]
        counts.append(len(values) - before)
    types = [value.type for value in values if value.type is not None]
    entry.set_output(entry.add_apply(OPS["tuple"], values, TupleType(types)))
    module.attributes = module.attributes.changed(dict.fromkeys(SIGNATURE_ATTRIBUTES))
    return counts


def tidied(module: Module, original: Module) -> Module:
    """The module without dead code, parameters that nothing uses, and what its header says of another signature."""
    erase_unused(module)
    entry = module.entry
    for parameter in [parameter for parameter in entry.parameters if not parameter.is_used]:
        entry.erase(parameter)
    if signature_of(module) != signature_of(original):
        module.attributes = module.attributes.changed(dict.fromkeys(SIGNATURE_ATTRIBUTES))
    return module


def signature_of(module: Module) -> tuple[Type | None, ...]:
    """The types of what an entry takes, and of what it yields."""
    return (*[parameter.type for parameter in module.entry.parameters], module.entry.root.type)


def _give(entry: Graph, node: Node, users: Iterable[Node]) -> None:
    """Let instructions use a parameter in the place of a node."""
    if node.type is TOKEN:
        given: Node = entry.add_apply(OPS["after-all"], (), TOKEN, EMPTY, before=entry.nodes[0])
    else:
        given = entry.add_parameter(node.type, f"{node.name}{VALUE}")
        entry.move_before(given, entry.nodes[0])
    for user in users:
        entry.set_operands(user, [given if operand is node else operand for operand in user.operands])
        waited = user.attributes.get(PREDECESSORS) or ()
        if node in waited:
            rest = tuple(other for other in waited if other is not node)
            entry.set_attributes(user, user.attributes.changed({PREDECESSORS: rest or None}))
