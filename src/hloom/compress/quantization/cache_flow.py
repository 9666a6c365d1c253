"""How the values of a cache flow through a program: moved, written into, carried by loops, passed to branches.

Programs are in canonical form: values are passed between computations as elements of tuples. A `CacheSlot` is one such
element: its names are one value, which comes from one of its sources.

    body { k = f32[8,4] get-tuple-element(state), index=1      <- a name
           k1 = f32[8,4] dynamic-update-slice(k, row, i, zero) <- written: a cache as k is
           ROOT t = tuple(i1, k1) }                            <- a source
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, Protocol, TypeGuard, TypeVar

from hloom.analysis import call_sites, is_branch, is_loop
from hloom.compress.quantization.insertion_point import first_instruction, redirect
from hloom.ir import Apply, Constant, Graph, Module, Node, Parameter, TensorType, Trait, TupleType
from hloom.ops import OPS, with_trait
from hloom.passes import dce

Known = TypeVar("Known")
"""What is known of a value of a cache."""

GET = "get-tuple-element"
TUPLE = "tuple"
BARRIER = "opt-barrier"
_MOST_DEPTH = 16
"""The maximum depth of index expressions to examine."""


@dataclass(frozen=True, slots=True, eq=False)
class CacheSlot:
    """An element that a loop carries, or that a branch, a conditional or a barrier passes on.

    `holder` is the loop, conditional or barrier. A `branch` takes the element; where it is None the holder yields it.
    """

    holder: Apply
    index: int
    names: tuple[Node, ...]
    sources: tuple[Node, ...]
    branch: Graph | None = None

    @property
    def is_loop(self) -> bool:
        return is_loop(self.holder)

    @property
    def later_sources(self) -> tuple[Node, ...]:
        """What a loop's body yields."""
        return self.sources[1:] if self.is_loop else ()


class CacheSlots:
    """All slots of a module in canonical form, by the nodes that they are and come from; and the results by theirs.

    The module is changed so that every tuple belongs to one loop, branch or result, and stands in front of it.
    """

    def __init__(self, module: Module) -> None:
        _give_branches_tuples(module)
        _separate_tuples(module)
        self.of_name: dict[Node, CacheSlot] = {}
        self.of_source: dict[Node, list[CacheSlot]] = {}
        root = module.entry.root
        self.outputs: tuple[Node, ...] = root.operands if root.opcode == TUPLE else (root,)
        self.output_numbers: dict[Node, list[int]] = {}
        for number, output in enumerate(self.outputs):
            self.output_numbers.setdefault(output, []).append(number)
        for graph in module.graphs:
            for node in graph.nodes:
                for slot in _slots(node) if isinstance(node, Apply) and node.has_row else ():
                    self.of_name.update(dict.fromkeys(slot.names, slot))
                    for source in dict.fromkeys(slot.sources):
                        self.of_source.setdefault(source, []).append(slot)


def _slots(node: Apply) -> Iterator[CacheSlot]:
    if node.opcode == BARRIER:
        yield from _slots_between(node, (node,), (node.operands[0],))
        return
    sites = call_sites(node) if is_loop(node) or is_branch(node) else ()
    if not sites or any(site.computation.output is None for site in sites):
        return
    if is_loop(node):
        if node.opcode != "while" or len(node.operands) != 1:
            return
        body, condition = node.attributes["body"], node.attributes["condition"]
        if len(body.parameters) == len(condition.parameters) == 1:
            names = (body.parameters[0], condition.parameters[0], node)
            yield from _slots_between(node, names, (node.operands[0], body.root))
        return
    for site in sites:
        for parameter, operand in zip(site.computation.parameters, site.operands, strict=False):
            yield from _slots_between(node, (parameter,), (operand,), site.computation)
    yield from _slots_between(node, (node,), tuple(site.computation.root for site in sites))


def _slots_between(
    holder: Apply, names: Sequence[Node], sources: Sequence[Node], branch: Graph | None = None
) -> Iterator[CacheSlot]:
    """The slots of tuples that are written out."""
    type_ = names[0].type
    if not isinstance(type_, TupleType) or any(source.opcode != TUPLE for source in sources):
        return
    if any(user.opcode != GET for name in names for user in name.users):
        return
    taken: dict[int, list[Node]] = {}
    for name in names:
        for user in name.users:
            if user.opcode == GET and user.operands[0] is name:
                taken.setdefault(user.attributes["index"], []).append(user)
    for index, element in enumerate(type_.elements):
        if isinstance(element, TensorType):
            yield CacheSlot(
                holder, index, tuple(taken.get(index, ())), tuple(source.operands[index] for source in sources), branch
            )


class FlowRules(Protocol[Known]):
    """How facts about a cache's value carry over to derived values; None if the result is not a cache."""

    def moved(self, node: Apply, operand_index: int, known: Known) -> Known | None:
        """Of what an instruction that is not a write makes of an operand."""
        ...

    def written(self, node: Apply, known: Known) -> Known | None:
        """Of a cache after a write, of what is known of it before; and back."""
        ...

    def holding(self, node: Apply, operand_index: int, known: Known) -> Known | None:
        """Of a cache after a write, of what is known of what is written; None where that makes no cache."""
        ...


@dataclass(frozen=True, slots=True)
class CacheFlow(Generic[Known]):
    """The facts about all values of some caches, and about the slots that hold them."""

    known: dict[Node, Known]
    slots: dict[CacheSlot, Known]


def follow(slots: CacheSlots, seeds: dict[Node, Known], rules: FlowRules[Known]) -> CacheFlow[Known]:
    """Follow caches from some of their values. A loop whose body yields something else is not followed into."""
    blocked: set[CacheSlot] = set()
    while True:
        flow, contradicted = _follow_once(slots, seeds, rules, blocked)
        if not contradicted:
            return flow
        blocked |= contradicted


def _follow_once(
    slots: CacheSlots, seeds: dict[Node, Known], rules: FlowRules[Known], blocked: set[CacheSlot]
) -> tuple[CacheFlow[Known], set[CacheSlot]]:
    known: dict[Node, Known] = {}
    active: dict[CacheSlot, Known] = {}
    pending: list[tuple[Node, Known]] = [*seeds.items()]

    def want(node: Node, value: Known) -> None:
        """Ask for a value before a write, or before a loop, to be as what it becomes."""
        slot = slots.of_name.get(node)
        if slot is not None and slot not in blocked:
            pending.append((node, value))
        elif is_write(node) and (before := rules.written(node, value)) is not None:
            pending.append((node, before))

    def enter(slot: CacheSlot, value: Known) -> None:
        if slot in blocked or slot in active:
            return
        active[slot] = value
        pending.extend((name, value) for name in slot.names)
        for source in slot.sources:
            want(source, value)

    def is_open(node: Node) -> bool:
        return slots.of_name.get(node) not in blocked

    while pending:
        node, value = pending.pop()
        if node in known:
            continue
        known[node] = value
        if node in slots.of_name:
            enter(slots.of_name[node], value)
        if is_write(node):
            for operand_index in bases_of(node):
                want(node.operands[operand_index], value)
        for slot in slots.of_source.get(node, ()):
            enter(slot, value)
        for user in node.users:
            if not isinstance(user, Apply) or not user.has_row or user.opcode == TUPLE or user in known:
                continue
            for operand_index, operand in enumerate(user.operands):
                made = _made(user, operand_index, value, rules, is_open) if operand is node else None
                if made is not None:
                    pending.append((user, made))
                    break
    contradicted = {slot for slot in active if any(source not in known for source in slot.later_sources)}
    return CacheFlow(known, active), contradicted


def _made(
    user: Apply, operand_index: int, value: Known, rules: FlowRules[Known], is_open: Callable[[Node], bool]
) -> Known | None:
    if not is_write(user):
        return rules.moved(user, operand_index, value)
    if operand_index in bases_of(user):
        return rules.written(user, value)
    is_held = all(is_open(user.operands[base]) for base in bases_of(user))
    return rules.holding(user, operand_index, value) if is_held else None


def is_write(node: Node) -> TypeGuard[Apply]:
    """Whether an instruction yields an operand with some elements replaced by those of another."""
    if not isinstance(node, Apply):
        return False
    match node.opcode:
        case "dynamic-update-slice" | "concatenate":
            return True
        case "scatter":
            return len(node.operands) == 3 and _keeps_updates(node.attributes["to_apply"])
        case "select":
            return isinstance(node.type, TensorType)
    return False


def bases_of(write: Apply) -> tuple[int, ...]:
    """The operands of a write that have its result's type: of which elements stay."""
    match write.opcode:
        case "dynamic-update-slice" | "scatter":
            return (0,)
        case "select":
            return (1, 2)
    return ()


def rows_of(write: Apply) -> tuple[int, ...]:
    """The operands of a write that replace elements."""
    match write.opcode:
        case "dynamic-update-slice":
            return (1,)
        case "scatter":
            return (2,)
        case "concatenate":
            return tuple(range(len(write.operands)))
    return ()


def written_dims(write: Apply) -> frozenset[int]:
    """The dimensions along which a write chooses elements."""
    type_ = write.type
    assert isinstance(type_, TensorType), "writes yield arrays"
    match write.opcode:
        case "dynamic-update-slice":
            update = write.operands[1].type
            assert isinstance(update, TensorType), "it writes an array"
            starts = write.operands[2:] if len(write.operands) == 2 + type_.rank else ()
            sizes = zip(type_.dims, update.dims, strict=True)
            return frozenset(
                dim
                for dim, (size, written) in enumerate(sizes)
                if size != written or (dim < len(starts) and not isinstance(starts[dim], Constant))
            )
        case "scatter":
            batching = tuple(write.attribute("input_batching_dims") or ())
            update = write.operands[2].type
            assert isinstance(update, TensorType), "it writes an array"
            whole = {dim for target, dim in window_dims(write) if update.dims[target] == type_.dims[dim]}
            return frozenset((*write.attributes["scatter_dims_to_operand_dims"], *batching)) - whole
        case "concatenate":
            return frozenset(write.attributes["dimensions"])
    return frozenset(dim for dim in range(type_.rank) if not is_same_along(write.operands[0], dim))


def window_dims(scatter: Apply) -> Iterator[tuple[int, int]]:
    """The dimensions of the updates that are dimensions of the array too, and which."""
    gone = {*(scatter.attribute("inserted_window_dims") or ()), *(scatter.attribute("input_batching_dims") or ())}
    rank = scatter.type.rank if isinstance(scatter.type, TensorType) else 0
    kept = [dim for dim in range(rank) if dim not in gone]
    return zip(scatter.attributes["update_window_dims"], kept, strict=True)


def is_same_along(node: Node, dim: int, depth: int = _MOST_DEPTH) -> bool:
    """Whether an array is certain not to change along a dimension; scalars do not."""
    type_ = node.type
    if not isinstance(type_, TensorType) or not type_.rank or type_.dims[dim] == 1:
        return True
    if isinstance(node, Constant):
        return bool(getattr(node.value, "is_splat", False))
    if not isinstance(node, Apply) or not node.has_row or not depth:
        return False
    if node.opcode == "broadcast":
        into = tuple(node.attributes.get("dimensions") or ())
        return dim not in into or is_same_along(node.operands[0], into.index(dim), depth - 1)
    if node.opcode == "iota":
        return node.attributes["iota_dimension"] != dim
    is_elementwise = all(isinstance(o.type, TensorType) and o.type.dims in ((), type_.dims) for o in node.operands)
    if node.opcode in _ELEMENTWISE and is_elementwise:
        return all(is_same_along(operand, dim, depth - 1) for operand in node.operands)
    return False


_ELEMENTWISE = with_trait(Trait.ELEMENTWISE)
"""Ops whose result repeats along a dimension where all operands do."""


def _keeps_updates(graph: Graph) -> bool:
    root = graph.output
    return len(graph.parameters) == 2 and isinstance(root, Parameter) and root.number == 1


def _give_branches_tuples(module: Module) -> None:
    """Let branches of conditionals take and yield arrays as elements of tuples.

    conditional(p, x, y)  ->  get-tuple-element(conditional(p, tuple(x), tuple(y))), index=0
    """
    for graph in module.graphs:
        nodes = list(graph.nodes)
        for node, following in zip_longest(nodes, nodes[1:]):
            if not isinstance(node, Apply) or node.opcode != "conditional":
                continue
            branches = [site.computation for site in call_sites(node)]
            if any(not one.is_called_once or len(one.parameters) != 1 or one.output is None for one in branches):
                continue
            operands = list(node.operands)
            for number, one in enumerate(branches, 1):
                if isinstance(one.parameters[0].type, TensorType):
                    _take_element(one.parameters[0], first_instruction(one))
                    operands[number] = _tuple_of(operands[number], node)
            graph.set_operands(node, operands)
            if isinstance(node.type, TensorType):
                for one in branches:
                    one.set_output(_tuple_of(one.root, None))
                _take_element(node, following)


def _tuple_of(node: Node, before: Node | None) -> Apply:
    """A tuple of one value, in front of a node or at the end."""
    assert node.type is not None, "values have types"
    type_ = TupleType([node.type])
    return node.graph.add_apply(OPS[TUPLE], [node], type_, {}, f"{node.name}.tuple", before=before)


def _take_element(holder: Node, before: Node | None) -> None:
    """Let a branch's parameter, or a conditional, be a tuple of what it was; its users read the element."""
    graph, type_ = holder.graph, holder.type
    users, is_output = tuple(holder.users), holder.is_output
    assert type_ is not None, "values have types"
    graph.set_type(holder, TupleType([type_]))
    element = graph.add_apply(OPS[GET], [holder], type_, {"index": 0}, f"{holder.name}.element", before=before)
    redirect(holder, users, element)
    if is_output:
        graph.set_output(element)


def _separate_tuples(module: Module) -> None:
    """Take elements out of tuples that are written out, and give every other user of a tuple one of its own."""
    for graph in module.graphs:
        for node in graph.nodes:
            if node.opcode == GET and node.operands[0].opcode == TUPLE:
                graph.replace_uses(node, node.operands[0].operands[node.attributes["index"]])
    dce(module)
    for graph in module.graphs:
        for node in graph.nodes:
            if node.opcode != TUPLE:
                continue
            for number, user in enumerate(node.users):
                own = node
                if number or node.is_output:
                    own = graph.add_apply(OPS[TUPLE], node.operands, node.type, node.attributes, node.name, before=user)
                    redirect(node, [user], own)
                else:
                    graph.move_before(node, user)
