"""Rules that move instructions into the branches of a conditional, and out of them.

Follows xla/service/conditional_code_motion.cc (ConditionalCodeMotion) of XLA: what only one branch needs goes in, what
all branches end with comes out. Whether that pays, `conditional_benefit.py` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hloom.ir import Apply, Constant, Graph, Node, TensorType, TupleType, Type
from hloom.ops import OPS, may_merge
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.conditional import are_isomorphic, branches_of, copied_branch, with_branches
from hloom.passes.rules.loop_state import is_small_constant, tuple_of
from hloom.passes.rules.tuple_elements import element_nodes, elements_of, only_elements
from hloom.rewrite import Builder, Family, literal_value, tensor_type, used_once

INTO_BRANCHES = Family("into-branches", because="moves operations into a branch")
OUT_OF_BRANCHES = Family("out-of-branches", because="moves operations out of all branches")
MOVABLE = frozenset((*POINTWISE, "broadcast", "iota", "reshape", "slice", "transpose"))
"""What takes little memory of its own, and has no effect."""
COLLECTIVES = frozenset(("all-reduce",))
"""What comes out of branches that all end with it, and never goes in."""
_GET = "get-tuple-element"
_Row = tuple[Node, ...]
"""A value of every branch."""


@INTO_BRANCHES.rewrites("conditional", benefit=2, depth=4, effects=True)
def operands_of_one_branch(build: Builder, node: Apply) -> Node | None:
    """conditional(i, f(x), y) -> conditional(i, tuple(x), y), f computed in the branch: where it is not chosen, never.

    So too elements of a tuple that nothing but a branch is given.
    """
    branches = branches_of(node)
    if len(branches) + 1 != len(node.operands) or has_shardings(node, branches):
        return build.decline("it has a sharding")
    operands, graphs = list(node.operands), list(branches)
    for number, graph in enumerate(branches):
        moved = _with_operations(build, graph, node.operands[number + 1])
        if moved is not None:
            graphs[number], operands[number + 1] = moved
    if operands == list(node.operands):
        return build.decline("no operand is computed for one branch only")
    build.carries_itself = True
    build.consumed.append(node)
    attributes = with_branches(node, graphs, dict(node.attributes))
    return build.op("conditional", *operands, type=node.type, attributes=attributes)


def _with_operations(build: Builder, graph: Graph, operand: Node) -> tuple[Graph, Node] | None:
    """A branch that computes what it is given, and what it is given instead; None where there is nothing to move."""
    if graph.missing or graph.output is None or graph.module.has_closures or len(graph.parameters) != 1:
        return None
    if not used_once(operand):
        return None
    is_tuple = operand.opcode == "tuple"
    values = list(operand.operands) if is_tuple else [operand]
    moved = _computed_for(operand, values)
    if not moved:
        return None
    given: dict[Node, None] = {}
    for value in values:
        if value not in moved:
            given[value] = None
    for value in moved:
        given.update(dict.fromkeys(x for x in value.operands if x not in moved and not is_copied(x)))
    types = [value.type for value in given]
    if any(value_type is None for value_type in types):
        return None
    whole = graph.parameters[0]
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    state = TupleType([value_type for value_type in types if value_type is not None])
    parameter = made.add_parameter(state, whole.name, metadata=whole.raw_metadata)

    def apply(opcode: str, inputs: Sequence[Node], value_type: Type | None, **attributes: Any) -> Node:
        result = made.add_apply(OPS[opcode], inputs, value_type, attributes)
        build.made.append(result)
        return result

    mapping: dict[Any, Any] = {
        value: apply(_GET, [parameter], value.type, index=index) for index, value in enumerate(given)
    }
    for value in moved:
        build.copy_nodes([x for x in value.operands if is_copied(x)], mapping, made)
        build.copy_nodes([value], mapping, made)
    if not is_tuple:
        mapping[whole] = mapping[operand]
    else:
        for index, nodes in element_nodes(whole).items():
            mapping |= dict.fromkeys(nodes, mapping[values[index]])
        if only_elements(whole) is None:
            mapping[whole] = apply("tuple", [mapping[value] for value in values], whole.type)
    build.copy_nodes([x for x in graph.nodes if x not in mapping and x is not whole], mapping, made)
    made.set_output(mapping[graph.output])
    return made, tuple_of(build, list(given))


def _computed_for(operand: Node, values: Sequence[Node]) -> dict[Node, None]:
    """What is computed for nothing but some values that a branch is given, operands first."""
    inside: set[Node] = {operand}
    pending = list(values)
    while pending:
        value = pending.pop()
        is_wanted = value is operand or all(user in inside for user in value.users)
        if (value not in inside or value is operand) and is_wanted and _may_go_in(value):
            inside.add(value)
            pending += value.operands
        elif value is operand:
            return {}
    if operand.opcode == "tuple":
        inside.discard(operand)
    ordered: dict[Node, None] = {}
    waiting = [value for value in values if value in inside]
    while waiting:
        value = waiting[-1]
        missing = [x for x in value.operands if x in inside and x not in ordered]
        waiting += missing
        if not missing:
            ordered[waiting.pop()] = None
    return ordered


def _may_go_in(value: Node) -> bool:
    """Whether a branch can compute what it is given."""
    if not isinstance(value, Apply) or value.opcode not in MOVABLE or tensor_type(value) is None:
        return False
    if value.is_output or "sharding" in value.attributes or not may_merge(value) or has_control_dependencies(value):
        return False
    return all(tensor_type(given) is not None for given in value.operands)


def is_copied(node: Node) -> bool:
    """Whether it is a constant that goes into branches as a copy."""
    return isinstance(node, Constant) and is_small_constant(node)


@OUT_OF_BRANCHES.rewrites("conditional", benefit=2, depth=2, effects=True)
def results_of_all_branches(build: Builder, node: Apply) -> Node | None:
    """conditional(i, x, y) whose branches end in tanh(a) and tanh(b) -> tanh of one whose branches end in a and b

    So with each element that branches yield; operands that are the same constant in all branches are copied. Of a
    conditional that its computation yields, only conversions come out, one of each element.
    """
    moved, reason = ends_of(node)
    if moved is None:
        return build.decline(reason)
    branches, rows = moved.branches, moved.yielded
    asked = [row for row in rows if row not in moved.rows]
    asked += [operands for row in moved.rows for operands in _operand_rows(row) if operands not in moved.rows]
    results = list(dict.fromkeys(row for row in asked if not _is_one_constant(row)))
    graphs = [
        _with_results(build, graph, [row[number] for row in results], {row[number] for row in moved.rows})
        for number, graph in enumerate(branches)
    ]
    known = [row[0].type for row in results]
    state = TupleType([result_type for result_type in known if result_type is not None])
    attributes = {name: value for name, value in node.attributes.items() if name not in ("origin", "statistics")}
    made = build.op("conditional", *node.operands, type=state, attributes=with_branches(node, graphs, attributes))
    build.carries_itself = True
    build.consumed.append(node)
    positions = {row: position for position, row in enumerate(results)}
    taken: dict[_Row, Node] = {}
    pending = list(rows)
    while pending:
        row = pending[-1]
        missing = [operands for operands in _operand_rows(row) if operands not in taken] if row in moved.rows else []
        pending += missing
        if not missing:
            pending.pop()
            if row not in taken:
                taken[row] = _outside(build, row, made, positions, taken)
    parts = [taken[row] for row in rows]
    return parts[0] if elements_of(node.type) is None else tuple_of(build, parts)


def ends_of(node: Apply) -> tuple[Ends | None, str]:
    """What comes out of the branches of a conditional, or None, and why not."""
    branches = branches_of(node)
    types = elements_of(node.type)
    if has_shardings(node, branches) or len(branches) < 2 or any(not _is_plain(graph) for graph in branches):
        return None, "it has a sharding, or one branch"
    if types is not None:
        used = only_elements(node)
        if any(graph.root.opcode != "tuple" for graph in branches) or (used is None and not node.is_output):
            return None, "the results are used whole"
        rows = list(zip(*(graph.root.operands for graph in branches), strict=True))
    else:
        used, rows = None, [tuple(graph.root for graph in branches)]
    moved = Ends(branches, [row for index, row in enumerate(rows) if used is None or index in used], rows)
    moved.find(only_converts=node.is_output)
    if not moved.rows:
        return None, "the branches end in other instructions"
    if node.is_output and any(row not in moved.rows for row in rows):
        return None, "not all that it yields is converted last"
    return moved, ""


def _outside(build: Builder, row: _Row, made: Node, positions: dict[_Row, int], taken: dict[_Row, Node]) -> Node:
    """What stands after the conditional for what its branches end with."""
    first = row[0]
    if row in positions:
        return build.op(_GET, made, index=positions[row], type=first.type)
    literal = literal_value(first)
    if literal is not None:
        return build.constant(literal)
    assert isinstance(first, Apply) and first.type is not None, f"{first!r} comes out"
    return build.apply(first.op, [taken[operands] for operands in _operand_rows(row)], first.type, first.attributes)


class Ends:
    """What branches end with: values of all branches side by side, made by the same op.

    `yielded` are the values that the branches yield, `rows` those that can be computed afterwards.
    """

    def __init__(self, branches: Sequence[Graph], wanted: Sequence[_Row], yielded: Sequence[_Row]) -> None:
        self.branches = branches
        self.wanted = wanted
        self.yielded = yielded
        self.rows: dict[_Row, None] = {}
        self.inside: list[dict[Node, _Row]] = [{} for _ in branches]
        self.at_root: list[dict[Node, set[_Row]]] = [{} for _ in branches]
        for row in yielded:
            for value, known in zip(row, self.at_root, strict=True):
                known.setdefault(value, set()).add(row)

    def find(self, *, only_converts: bool) -> None:
        """Find what can be computed afterwards, users first."""
        pending = list(self.wanted)
        while pending:
            row = pending.pop()
            if only_converts and any(value.opcode != "convert" or value.use_count != 1 for value in row):
                continue
            if row not in self.rows and self.may_come_out(row):
                self.rows[row] = None
                for value, inside in zip(row, self.inside, strict=True):
                    inside[value] = row
                pending += _operand_rows(row)

    def may_come_out(self, row: _Row) -> bool:
        """Whether all branches do the same there, for nothing else."""
        if not _is_same_op(row):
            return False
        for value, graph, inside, at_root in zip(row, self.branches, self.inside, self.at_root, strict=True):
            if value in inside or at_root.get(value, {row}) != {row}:
                return False
            root = graph.root
            if any(user not in inside and user is not root for user in value.users):
                return False
            if any(row not in _operand_rows(inside[user]) for user in value.users if user in inside):
                return False
            if value in root.operands and value not in at_root:
                return False
        return not all(_is_one_constant(operands) for operands in _operand_rows(row))


def _operand_rows(row: _Row) -> list[_Row]:
    return list(zip(*(value.operands for value in row), strict=True))


def _is_same_op(row: _Row) -> bool:
    first = row[0]
    if not isinstance(first, Apply) or first.opcode not in MOVABLE | COLLECTIVES or not first.operands:
        return False
    types = [given.type for given in first.operands]
    if any(not isinstance(given, TensorType) for given in (first.type, *types)):
        return False
    for value in row:
        if not isinstance(value, Apply) or value.opcode != first.opcode or not _has_same_attributes(first, value):
            return False
        if value.type is not first.type or has_control_dependencies(value):
            return False
        if [given.type for given in value.operands] != types:
            return False
    return True


def _has_same_attributes(first: Apply, value: Apply) -> bool:
    """Whether attributes are equal; of collectives all but the channel, and their computations by what they do.

    All devices that take part in a collective run the same branch, or it would never end: one channel serves all.
    """
    if first.opcode not in COLLECTIVES:
        return value.attributes == first.attributes
    plain = {"channel_id": None, "to_apply": None}
    if value.attributes.changed(plain) != first.attributes.changed(plain):
        return False
    if (value.attributes.get("channel_id") is None) != (first.attributes.get("channel_id") is None):
        return False
    return are_isomorphic(first.attributes["to_apply"], value.attributes["to_apply"])


def _is_one_constant(row: Sequence[Node]) -> bool:
    """Whether all branches have the same small constant."""
    first = literal_value(row[0])
    if first is None or not is_small_constant(row[0]):
        return False
    return all(other.type is row[0].type and literal_value(other) == first for other in row[1:])


def _is_plain(graph: Graph) -> bool:
    return graph.output is not None and not graph.missing and not graph.module.has_closures


def _with_results(build: Builder, graph: Graph, results: Sequence[Node], moved: Collection[Node]) -> Graph:
    """A branch that yields other values, since some are computed outside."""
    made, mapping = copied_branch(build, graph, results, moved)
    types = [result.type for result in results if result.type is not None]
    output = made.add_apply(OPS["tuple"], [mapping[result] for result in results], TupleType(types))
    build.made.append(output)
    made.set_output(output)
    return made


def has_shardings(node: Apply, branches: Sequence[Graph]) -> bool:
    """Whether a conditional, or what its branches take or yield, says where it is."""
    roots = [graph.output for graph in branches]
    holders = [
        node,
        *(value for value in roots if value is not None),
        *(x for graph in branches for x in graph.parameters),
    ]
    return any("sharding" in holder.attributes for holder in holders)
