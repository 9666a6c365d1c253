"""The pass `carry-concatenations`: arrays that each iteration of a loop concatenates are carried as one array.

    body(x, y) = ... concatenate(x, y) ...; add(x, u), add(y, v)   ->   body(xy) = ... xy ...; add(xy, uv)

Follows XLA's xla/service/while_loop_concat_code_motion.cc (WhileLoopConcatCodeMotion): the body must be able to compute
the new values of all the arrays at once, without another concatenation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hloom.ir import Apply, Graph, Module, Node, SliceDimension, TensorType, TupleType, TypeProblem, callees_first
from hloom.ops import OPS
from hloom.passes.computation_order import control_predecessors, has_control_dependencies
from hloom.passes.dce import erase_dead
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.dimensions import is_row_major
from hloom.passes.rules.loop_state import element, is_element, tuple_of
from hloom.passes.rules.tuple_elements import elements_of, select_attributes
from hloom.rewrite import Builder, Report, literal_value, tensor_type

_GET = "get-tuple-element"
_POINTWISE = frozenset(POINTWISE)
FEWEST = 2
"""The minimum number of operands of a concatenation."""
MOST_STEPS = 20
"""The maximum number of values to visit, per instruction of a loop's body."""


def carry_concatenations(module: Module) -> Report:
    """Carry concatenations of carried arrays if an iteration can compute all the arrays at once.

    Other uses take slices. Results are bit-identical.
    """
    report = Report("carry-concatenations")
    if module.has_closures:
        return report
    module.index_users()
    for graph in callees_first(module):
        loops = [node for node in graph.nodes if isinstance(node, Apply) and node.opcode == "while"]
        awaited = control_predecessors(graph) if loops else set[Node]()
        for loop in loops:
            plan = None if loop in awaited else _Plan.of(loop)
            groups = [] if plan is None else plan.find_groups()
            if plan is not None and groups:
                names = [", ".join(map(str, group.elements)) for group in groups]
                report.notes.append(f"{loop.name} in {graph.name}: elements {'; '.join(names)} are carried as one")
                report.changes += len(groups)
                _carry(loop, plan, groups)
    return report


@dataclass(frozen=True, slots=True)
class _Joined:
    """Values of one type to join into one array along a dimension, which is new if `is_inserted`."""

    values: tuple[Node, ...]
    dim: int
    is_inserted: bool

    @property
    def type(self) -> TensorType:
        first = self.values[0].array_type
        dims = list(first.dims)
        if self.is_inserted:
            dims.insert(self.dim, len(self.values))
        else:
            dims[self.dim] *= len(self.values)
        return TensorType(first.dtype, tuple(dims))

    def like(self, values: Sequence[Node]) -> _Joined:
        return _Joined(tuple(values), self.dim, self.is_inserted)


@dataclass(frozen=True, slots=True)
class _Group:
    """Elements of a loop's state to carry as one array."""

    elements: tuple[int, ...]
    dim: int
    is_inserted: bool


@dataclass(slots=True)
class _Plan:
    """How a loop's body computes joined values: for each, the rule, and the joined values it needs."""

    loop: Apply
    body: Graph
    state: Node
    awaited: set[Node]
    groups: dict[int, _Group] = field(default_factory=dict[int, _Group])
    """The group that an element is in."""
    steps: dict[_Joined, tuple[str, list[_Joined]]] = field(default_factory=dict[_Joined, "tuple[str, list[_Joined]]"])
    operands: dict[_Joined, list[_Joined]] = field(default_factory=dict[_Joined, "list[_Joined]"])
    fuel: int = 0
    """The number of values that may still be visited."""

    @classmethod
    def of(cls, loop: Apply) -> _Plan | None:
        """A plan for a loop whose state is a tuple built by the body; None for others."""
        condition, body = loop.attributes["condition"], loop.attributes["body"]
        root = body.output
        if root is None or root.opcode != "tuple" or condition.output is None or body.missing or condition.missing:
            return None
        if len(body.parameters) != 1 or len(condition.parameters) != 1 or has_control_dependencies(loop):
            return None
        holders = (loop, root, body.parameters[0], condition.parameters[0])
        if elements_of(loop.type) is None or any("sharding" in node.attributes for node in holders):
            return None
        for graph in (condition, body):
            state = graph.parameters[0]
            if graph.output is state or any(user.opcode != _GET for user in state.users):
                return None
        fuel = MOST_STEPS * (len(body.nodes) + 100)
        return cls(loop, body, body.parameters[0], control_predecessors(body), fuel=fuel)

    def find_groups(self) -> list[_Group]:
        """The groups of elements that the body concatenates, and those that go with them."""
        for node in self.body.nodes:
            if node.opcode != "concatenate" or len(node.operands) < FEWEST or tensor_type(node) is None:
                continue
            joined = _Joined(node.operands, node.attributes["dimensions"][0], False)
            if joined not in self.steps and self.is_of_elements(joined) and self.fuel > 0:
                planned: list[_Joined] = []
                if not self.add(joined, planned):
                    self.remove(planned)
        return list(dict.fromkeys(self.groups.values()))

    def remove(self, planned: list[_Joined]) -> None:
        for joined in planned:
            if self.steps[joined][0] == "elements":
                for value in joined.values:
                    self.groups.pop(_index(value), None)
            del self.steps[joined], self.operands[joined]

    def is_of_elements(self, joined: _Joined) -> bool:
        """Whether values are elements of the state, or reshapes of such, and all of one type."""
        sources = [value.operands[0] if value.opcode == "reshape" else value for value in joined.values]
        return all(source.opcode == _GET and source.operands[0] is self.state for source in sources)

    def add(self, wanted: _Joined, planned: list[_Joined]) -> bool:
        """Plan how joined values are computed, and what that needs; returns whether that is possible."""
        pending = [wanted]
        while pending:
            joined = pending.pop()
            if joined in self.steps:
                continue
            self.fuel -= len(joined.values)
            step = self.step(joined)
            if step is None or self.fuel < 0:
                return False
            self.steps[joined] = step
            self.operands[joined] = step[1]
            planned.append(joined)
            pending += step[1]
            if step[0] == "elements":
                pending.append(self.after(self.groups[_index(joined.values[0])]))
        inside = {value for joined in planned for value in joined.values} | {self.body.root}
        return all(self.is_only_joined(joined, inside) for joined in planned)

    def after(self, group: _Group) -> _Joined:
        """What the body yields for a group."""
        root = self.body.root
        return _Joined(tuple(root.operands[index] for index in group.elements), group.dim, group.is_inserted)

    def is_only_joined(self, joined: _Joined, inside: set[Node]) -> bool:
        """Whether everything computed for joined values is only used in joined form, so nothing is computed twice."""
        if self.steps[joined][0] not in ("pointwise", "reduce"):
            return True
        return all(user in inside for value in joined.values for user in value.users)

    def is_known(self, node: Node) -> bool:
        return _Joined(node.operands, node.attributes["dimensions"][0], False) in self.steps

    def step(self, joined: _Joined) -> tuple[str, list[_Joined]] | None:
        """The rule that computes joined values, and the joined values it needs; None if there is none."""
        values, first = joined.values, joined.values[0]
        types = {value.type for value in values}
        array_type = tensor_type(first)
        if len(types) != 1 or array_type is None or not is_row_major(array_type):
            return None
        if any(not self.is_free(value) for value in values):
            return None
        if all(value is first for value in values):
            return "same", []
        if all(value.opcode == _GET and value.operands[0] is self.state for value in values):
            return ("elements", []) if self.enter(joined) else None
        if all(literal_value(value) is not None for value in values):
            return "constants", []
        if self.slices_of(joined) is not None:
            return "slices", []
        if len({value.opcode for value in values}) != 1 or not all(isinstance(value, Apply) for value in values):
            return None
        if len({value.attributes for value in values}) != 1 or first.opcode not in _STEPS:
            return ("pointwise", self.pointwise(joined)) if self.is_pointwise(joined) else None
        return _STEPS[first.opcode](joined)

    def is_free(self, value: Node) -> bool:
        return (
            "sharding" not in value.attributes
            and value not in self.awaited
            and not (
                isinstance(value, Apply) and any(not referent.is_graph for referent in value.attributes.referents())
            )
        )

    def is_pointwise(self, joined: _Joined) -> bool:
        first = joined.values[0]
        if first.opcode not in _POINTWISE or len({value.attributes for value in joined.values}) != 1:
            return False
        return all(
            tensor_type(operand) is not None and operand.array_type.dims == first.array_type.dims
            for value in joined.values
            for operand in value.operands
        )

    def pointwise(self, joined: _Joined) -> list[_Joined]:
        return [joined.like(operands) for operands in zip(*(value.operands for value in joined.values), strict=True)]

    def enter(self, joined: _Joined) -> bool:
        """Make a group of elements of the state; whether they are none yet, or just this one."""
        indices = tuple(map(_index, joined.values))
        group = _Group(indices, joined.dim, joined.is_inserted)
        known = {self.groups.get(index) for index in indices}
        if known == {None} and len(set(indices)) == len(indices):
            self.groups |= dict.fromkeys(indices, group)
            return True
        return known == {group}

    def slices_of(self, joined: _Joined) -> Node | None:
        """The array of which values are slices, one after the other, all of it."""
        first = joined.values[0]
        if joined.is_inserted or first.opcode != "slice" or len({value.operands[:1] for value in joined.values}) != 1:
            return None
        source = first.operands[0]
        if (
            tensor_type(source) is None
            or source.array_type.dims != joined.type.dims
            or not is_row_major(source.array_type)
        ):
            return None
        size = first.array_type.dims[joined.dim]
        for number, value in enumerate(joined.values):
            bounds = [SliceDimension(0, extent) for extent in source.array_type.dims]
            bounds[joined.dim] = SliceDimension(number * size, (number + 1) * size)
            if value.attributes["slice"] != tuple(bounds):
                return None
        return source


def _index(node: Node) -> int:
    return node.attributes["index"]


def _broadcast_step(joined: _Joined) -> tuple[str, list[_Joined]] | None:
    dimensions = joined.values[0].attributes["dimensions"]
    if list(dimensions) != sorted(dimensions) or any(tensor_type(value.operands[0]) is None for value in joined.values):
        return None
    operands = [value.operands[0] for value in joined.values]
    if joined.is_inserted or joined.dim not in dimensions:
        return "broadcast", [_Joined(tuple(operands), sum(dim < joined.dim for dim in dimensions), True)]
    return "broadcast", [_Joined(tuple(operands), dimensions.index(joined.dim), False)]


def _reshape_step(joined: _Joined) -> tuple[str, list[_Joined]] | None:
    """Through a reshape that adds or drops dimensions of size 1."""
    outer, inner = joined.values[0].array_type.dims, joined.values[0].operands[0].array_type.dims
    large = [dim for dim, size in enumerate(inner) if size != 1]
    if [inner[dim] for dim in large] != [size for size in outer if size != 1]:
        return None
    operands = tuple(value.operands[0] for value in joined.values)
    before = sum(size != 1 for size in outer[: joined.dim])
    if not joined.is_inserted and outer[joined.dim] != 1:
        return "reshape", [_Joined(operands, large[before], False)]
    start = large[before - 1] + 1 if before else 0
    end = large[before] if before < len(large) else len(inner)
    if start < end:  # a dimension of size 1 stands there already
        return "reshape", [_Joined(operands, start, False)]
    return "reshape", [_Joined(operands, start, True)]


def _reduce_step(joined: _Joined) -> tuple[str, list[_Joined]] | None:
    first = joined.values[0]
    if len(first.operands) != 2 or len({value.operands[1] for value in joined.values}) != 1:
        return None
    reduced = first.attributes["dimensions"]
    kept = [dim for dim in range(len(first.operands[0].array_type.dims)) if dim not in reduced]
    operands = tuple(value.operands[0] for value in joined.values)
    if not joined.is_inserted:
        return "reduce", [_Joined(operands, kept[joined.dim], False)]
    return "reduce", [_Joined(operands, kept[joined.dim - 1] + 1 if joined.dim else 0, True)]


_STEPS = {"broadcast": _broadcast_step, "reshape": _reshape_step, "reduce": _reduce_step}


def _carry(loop: Apply, plan: _Plan, groups: list[_Group]) -> None:
    """Replace a loop by one that carries one array per group."""
    types = elements_of(loop.type) or ()
    gone = {index for group in groups for index in group.elements[1:]}
    kept = [index for index in range(len(types)) if index not in gone]
    joined_types = {group.elements[0]: plan.after(group).type for group in groups}
    state_type = TupleType([joined_types.get(index, types[index]) for index in kept])
    graphs: dict[str, Graph] = {}
    for name in ("condition", "body"):
        graphs[name] = _Rewritten(loop, plan, groups, kept, state_type).graph_of(name)
    build = Builder(loop)
    start = loop.operands[0]
    by_first = {group.elements[0]: group for group in groups}
    begins = [
        _join(build, [element(build, start, index) for index in by_first[first].elements], by_first[first])
        if first in by_first
        else element(build, start, first)
        for first in kept
    ]
    attributes = select_attributes(loop.attributes, loop.type, kept) | graphs
    made = build.op("while", tuple_of(build, begins), type=state_type, attributes=attributes)
    parts: dict[int, Node] = {}
    for position, index in enumerate(kept):
        taken = build.op(_GET, made, index=position, type=state_type.elements[position])
        if index in by_first:
            parts |= _split(build, taken, by_first[index], types)
        else:
            parts[index] = taken
    whole = tuple_of(build, [parts[index] for index in range(len(types))])
    for user in list(loop.users):
        if user.opcode == _GET and is_element(user, loop, _index(user)):
            loop.graph.replace_uses(user, parts[_index(user)])
            loop.graph.erase(user)
    name, callees = loop.name, (plan.body, loop.attributes["condition"])
    loop.graph.replace_uses(loop, whole)
    loop.graph.erase(loop)
    made.graph.rename(made, name)
    for callee in callees:
        if not callee.callers:
            callee.module.erase_graph(callee)
    erase_dead([whole, *parts.values(), start])


def _join(build: Builder, values: Sequence[Node], group: _Group) -> Node:
    """Values as one array."""
    if group.is_inserted:
        dims = list(values[0].array_type.dims)
        dims.insert(group.dim, 1)
        values = [build.reshape(value, TensorType(value.array_type.dtype, tuple(dims))) for value in values]
    return build.op("concatenate", *values, dimensions=(group.dim,))


def _split(build: Builder, whole: Node, group: _Group, types: Sequence[Any]) -> dict[int, Node]:
    """The elements of a group, by number, from the array that they are carried as."""
    size = 1 if group.is_inserted else types[group.elements[0]].dims[group.dim]
    parts: dict[int, Node] = {}
    for number, index in enumerate(group.elements):
        bounds = [SliceDimension(0, extent) for extent in whole.array_type.dims]
        bounds[group.dim] = SliceDimension(number * size, (number + 1) * size)
        parts[index] = build.reshape(build.op("slice", whole, slice=tuple(bounds)), types[index])
    return parts


class _Rewritten:
    """The condition and the body of a loop that carries groups of elements as one array."""

    def __init__(self, loop: Apply, plan: _Plan, groups: list[_Group], kept: list[int], state_type: TupleType) -> None:
        self.loop, self.plan, self.groups, self.kept, self.state_type = loop, plan, groups, kept, state_type
        self.types = elements_of(loop.type) or ()
        self.wholes: dict[_Group, Node] = {}
        self.joined: dict[_Joined, Node] = {}
        self.mapping: dict[Any, Any] = {}

    def graph_of(self, name: str) -> Graph:
        old: Graph = self.loop.attributes[name]
        made = Builder(self.loop).new_graph(old.name)
        made.execution_thread = old.execution_thread
        state = old.parameters[0]
        parameter = made.add_parameter(self.state_type, state.name, metadata=state.raw_metadata)
        self.mapping, self.wholes, self.joined = {state: parameter}, {}, {}
        last = made.add_apply(OPS["tuple"], [], TupleType([]))  # what is made stands before it
        build = Builder(last)
        by_first = {group.elements[0]: group for group in self.groups}
        elements: dict[int, Node] = {}
        for position, index in enumerate(self.kept):
            taken = build.op(_GET, parameter, index=position, type=self.state_type.elements[position])
            if index in by_first:
                self.wholes[by_first[index]] = taken
                elements |= _split(build, taken, by_first[index], self.types)
            else:
                elements[index] = taken
        for user in state.users:
            self.mapping[user] = elements[_index(user)]
        for node in old.nodes:
            if node not in self.mapping and not self.is_joined_here(node):
                made.copy_nodes([node], self.mapping, before=last)
            elif node not in self.mapping:
                self.mapping[node] = self.value(build, _Joined(node.operands, node.attributes["dimensions"][0], False))
        output = self.mapping[old.root]
        if name == "body":
            results = [
                self.value(build, self.plan.after(by_first[index])) if index in by_first
                else self.mapping[old.root.operands[index]]
                for index in self.kept
            ]  # fmt: skip
            output = tuple_of(build, results)
        made.set_output(output)
        made.erase(last)
        erase_dead(reversed(made.nodes))
        return made

    def is_joined_here(self, node: Node) -> bool:
        """Whether a node is a concatenation whose value is carried."""
        return node.graph is self.plan.body and node.opcode == "concatenate" and self.plan.is_known(node)

    def value(self, build: Builder, wanted: _Joined) -> Node:
        """The array that joined values are, made where it is not there yet."""
        pending = [wanted]
        while pending:
            joined = pending[-1]
            missing = [needed for needed in self.plan.operands[joined] if needed not in self.joined]
            if joined in self.joined or not missing:
                pending.pop()
                if joined not in self.joined:
                    self.joined[joined] = self.make(build, joined)
            else:
                pending += missing
        return self.joined[wanted]

    def make(self, build: Builder, joined: _Joined) -> Node:
        rule = self.plan.steps[joined][0]
        first, wanted = joined.values[0], joined.type
        operands = [self.joined[needed] for needed in self.plan.operands[joined]]
        match rule:
            case "elements":
                return self.wholes[self.plan.groups[_index(first)]]
            case "same":
                return _repeat(build, self.copied(first), joined)
            case "constants":
                return _join(
                    build, [self.copied(value) for value in joined.values], _Group((), joined.dim, joined.is_inserted)
                )
            case "slices":
                return self.copied(first.operands[0])
            case "reshape":
                return build.reshape(operands[0], wanted)
            case "broadcast":
                return _wide_broadcast(build, operands[0], joined, self.plan.operands[joined][0])
            case "reduce":
                dim = self.plan.operands[joined][0].dim
                dims = first.attributes["dimensions"]
                if joined.is_inserted:
                    dims = tuple(number + (number >= dim) for number in dims)
                assert isinstance(first, Apply), f"{first!r} reduces"
                attributes = first.attributes.changed(dimensions=dims)
                return build.apply(first.op, [operands[0], self.copied(first.operands[1])], wanted, attributes)
            case _:
                assert isinstance(first, Apply), f"{first!r} computes"
                return build.apply(first.op, operands, wanted, first.attributes)

    def copied(self, node: Node) -> Node:
        if node not in self.mapping:
            raise TypeProblem(f"{node.name} is not there yet")
        return self.mapping[node]


def _repeat(build: Builder, value: Node, joined: _Joined) -> Node:
    """One value for all that are joined."""
    dims = list(value.array_type.dims)
    count = len(joined.values)
    dimensions = tuple(dim + (dim >= joined.dim) for dim in range(len(dims)))
    dims.insert(joined.dim, count)
    made = build.op("broadcast", value, type=TensorType(value.array_type.dtype, tuple(dims)), dimensions=dimensions)
    return build.reshape(made, joined.type)


def _wide_broadcast(build: Builder, operand: Node, joined: _Joined, needed: _Joined) -> Node:
    """A broadcast of joined values, of which the operand is the array."""
    first = joined.values[0]
    dimensions = list(first.attributes["dimensions"])
    dims = list(first.array_type.dims)
    if needed.is_inserted:
        dimensions = [dim + (dim >= joined.dim) for dim in dimensions]
        dimensions.insert(needed.dim, joined.dim)
        dims.insert(joined.dim, len(joined.values))
    else:
        dims = list(joined.type.dims)
    array_type = TensorType(first.array_type.dtype, tuple(dims))
    made = build.op("broadcast", operand, type=array_type, dimensions=tuple(dimensions))
    return build.reshape(made, joined.type)


register_pass("carry-concatenations", "loops carry one array for those that they concatenate", carry_concatenations)
