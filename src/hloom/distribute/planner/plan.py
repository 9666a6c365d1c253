"""A plan: the specs of a module's values on a mesh, as JSON and as shardings on the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hloom.distribute.planner.dataflow import element_reads
from hloom.distribute.planner.duplicates import ENTRY as ENTRY
from hloom.distribute.planner.duplicates import Duplicate, needed_duplicates, put_duplicates
from hloom.distribute.planner.entry_results import aliases, output_at
from hloom.distribute.planner.free_values import spec_of_free
from hloom.distribute.planner.problem import Problem
from hloom.ir import Apply, Graph, Module, Node, Parameter, TensorType, TupleType
from hloom.ops import OPS
from hloom.passes import canonicalize_in_place, is_loop_or_branch
from hloom.sharding import Mesh, Spec, mesh_to_json, spec_to_json, to_tiled, to_tuple
from hloom.text import Display, Displayed, DisplayTable, HloomError

ValueSpec = Spec | tuple[Spec, ...]
"""The spec of an array, or those of the leaves of a tuple that passes a barrier."""


AddSharding = Callable[[Node, Spec, Node | None], Node]
"""Adds a custom call, before another instruction or last, that carries the sharding of a value."""


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """The spec that an instruction of a computation requires of an operand, if it is not the value's own.

    Without a name it is the computation's result.
    """

    computation: str
    name: str
    operand_index: int
    spec: Spec

    def to_json(self) -> list[Any]:
        """As a list of the four."""
        return [self.computation, self.name, self.operand_index, spec_to_json(self.spec)]

    def put(self, module: Module, mark: AddSharding, made: dict[tuple[Node, Spec], Node]) -> None:
        """Put a sharding custom call between the value and its reader, or take one that is there.

        Raises HloomError where the module has no such computation or instruction.
        """
        graph = _graph(module, self.computation)
        if graph is None or (self.name and self.name not in graph):
            raise HloomError(f"the plan names {self.name} of {self.computation}, which {module.name} has not")
        reader = graph[self.name] if self.name else None
        value = reader.operands[self.operand_index] if reader is not None else graph.root
        marked = made.get((value, self.spec))
        if marked is None:
            marked = made[value, self.spec] = mark(value, self.spec, reader)
        if reader is None:
            graph.set_output(marked)
        else:
            inputs = list(reader.operands)
            inputs[self.operand_index] = marked
            graph.set_operands(reader, inputs)


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayed):
    """Specs of parameters by number, of outputs by index, and of other instructions of the entry by name.

    `computations` has those of other computations, by computation and name, in the module's canonical form, including
    entry instructions from inlined calls. `operand_specs` are operands read in another spec than the value's own: by a
    dot, a loop, its next iteration, or after a branch. `duplicates` are instructions computed twice: their clones are
    named like other instructions. Unnamed values are left to the partitioner's propagation; parameters and outputs are
    then replicated.
    """

    mesh: Mesh
    parameters: dict[int, Spec] = field(default_factory=dict)
    outputs: dict[int, Spec] = field(default_factory=dict)
    instructions: dict[str, ValueSpec] = field(default_factory=dict)
    name: str = ""
    computations: dict[str, dict[str, ValueSpec]] = field(default_factory=dict)
    operand_specs: tuple[OperandSpec, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()

    def display(self) -> Display:
        tables = (
            _spec_table("parameters", self.parameters),
            _spec_table("outputs", self.outputs),
            _spec_table("instructions", self.instructions),
        )
        return Display(f"<plan {self.name or '(no name)'} on {self.mesh}>", tables)

    def to_json(self) -> dict[str, Any]:
        """JSON that names parameters, outputs and the entry's instructions; the rest is beside it.

        Axes are recorded by size only, without links.
        """
        inner = {
            graph: {name: self._value_json(spec) for name, spec in named.items()}
            for graph, named in self.computations.items()
        }
        mesh = self.mesh
        plain = dict(zip(mesh.names, mesh.sizes, strict=True))
        return {
            "mesh": plain if mesh.devices is None else mesh_to_json(mesh),
            "params": {str(n): spec_to_json(spec) for n, spec in sorted(self.parameters.items()) if spec.axes},
            "outputs": {str(n): spec_to_json(spec) for n, spec in sorted(self.outputs.items())},
            "ops": {name: self._value_json(spec) for name, spec in self.instructions.items()},
            **({"computations": inner} if inner else {}),
            **(
                {"operands": [operand_spec.to_json() for operand_spec in self.operand_specs]}
                if self.operand_specs
                else {}
            ),
            **({"duplicates": [duplicate.to_json() for duplicate in self.duplicates]} if self.duplicates else {}),
        }

    def annotate(self, module: Module) -> Module:
        """A copy of the module with the plan's shardings on parameters, instructions and the result.

        It is in normal form where the plan speaks of what loops, branches and calls run, or of clones.
        """
        copy = self.form(module)
        root = copy.entry.output
        if root is None:
            raise HloomError(f"{module.name} has no result")
        for node in list(copy.entry.nodes):
            if node is not root and isinstance(node, Parameter):
                rank = len(node.type.dims) if isinstance(node.type, TensorType) else 0
                _set_sharding(node, self.parameters.get(node.number, Spec.replicated(rank)), self.mesh)
        self.annotate_instructions(copy)
        sharding = self._result_sharding(root, copy)
        copy.entry.set_attributes(root, {**root.attributes, "sharding": sharding})
        return copy

    def annotate_instructions(self, module: Module) -> None:
        """Put the plan's shardings on the instructions of a module that has its form, but for the result.

        Raises HloomError if the module lacks an instruction that the plan names.
        """
        self._check_computations(module)
        root = module.entry.output
        named = [(node, value_spec) for node, value_spec in self.instruction_specs(module) if node is not root]
        for node, value_spec in named:
            _set_sharding(node, value_spec, self.mesh)
        self._constrain_loops(named)
        made: dict[tuple[Node, Spec], Node] = {}
        for operand_spec in self.operand_specs:
            operand_spec.put(module, self._mark, made)

    def form(self, module: Module) -> Module:
        """A copy of the module that has all that the plan speaks of: in normal form if need be, and with its clones.

        Raises HloomError where the module has not what is cloned.
        """
        copy = module.clone()
        self.bring_into_form(copy)
        return copy

    def bring_into_form(self, module: Module) -> None:
        """As `form`, of the module itself."""
        if self.computations or self.operand_specs or self.duplicates:
            canonicalize_in_place(module)
        put_duplicates(module, self.duplicates)

    def instruction_specs(self, module: Module) -> Iterator[tuple[Node, ValueSpec]]:
        """The instructions of a module that the plan names, and the spec of each.

        Raises HloomError where the entry has no such instruction, or one of another rank.
        """
        entry = module.entry
        for name, value_spec in self.instructions.items():
            if name not in entry:
                hint = "is it another module's plan?"
                raise HloomError(f"the plan names {name}, which {entry.name} has not", hint=hint)
            node = entry[name]
            node_type = node.type
            if isinstance(value_spec, Spec) and not (
                isinstance(node_type, TensorType) and len(node_type.dims) == value_spec.rank
            ):
                raise HloomError(f"the plan has {value_spec} for {name}, which is {node_type}")
            yield node, value_spec
        for name, named in self.computations.items():
            graph = _graph(module, name)
            for node in graph.nodes if graph is not None else ():
                if node.name in named:
                    yield node, named[node.name]

    def _check_computations(self, module: Module) -> None:
        """Raise HloomError where the plan names a computation, or an instruction of one, that is not there."""
        for name, named in self.computations.items():
            graph = _graph(module, name)
            missing = name if graph is None else next((name for name in named if name not in graph), None)
            if missing is not None:
                hint = "is it another module's plan?"
                raise HloomError(f"the plan names {missing} of {name}, which {module.name} has not", hint=hint)

    def _constrain_loops(self, named: Sequence[tuple[Node, ValueSpec]]) -> None:
        """Put sharding custom calls behind the elements of loops' states that are read in another sharding.

        XLA's importer drops annotations on the elements themselves. Its propagation then gives the state the sharding
        of a reader, and a body that computes in the plan's sharding reshards the state in every iteration.
        """
        marked = {(operand_spec.computation, operand_spec.name) for operand_spec in self.operand_specs}
        elements = [(node, spec) for node, spec in named if isinstance(spec, Spec) and _is_element_of_loop(node)]
        following: dict[Node, Node] = {}
        for graph in dict.fromkeys(node.graph for node, _ in elements):
            following.update(pairwise(graph.nodes))
        for node, spec in elements:
            graph = node.graph
            computation = ENTRY if graph is graph.module.entry else graph.name
            if any((computation, user.name) in marked or not _is_split_alike(user, node) for user in node.users):
                mark = self._mark(node, spec, following.get(node))
                graph.replace_uses(node, mark)
                graph.set_operands(mark, (node,))

    def _mark(self, value: Node, spec: Spec, before: Node | None) -> Node:
        marks = {"custom_call_target": "Sharding", "sharding": to_tiled(spec, self.mesh)}
        return value.graph.add_apply(OPS["custom-call"], (value,), value.type, marks, value.name, before=before)

    def _value_json(self, value_spec: ValueSpec) -> Any:
        return str(to_tuple(value_spec, self.mesh)) if isinstance(value_spec, tuple) else spec_to_json(value_spec)

    def _result_sharding(self, root: Node, module: Module) -> Any:
        given = {a.output_index: a.parameter for a in aliases(module) if not a.parameter_index}
        if isinstance(root.type, TensorType):
            spec = self.outputs.get(0) or self.parameters.get(given.get((), -1)) or Spec.replicated(len(root.type.dims))
            return to_tiled(spec, self.mesh)
        assert isinstance(root.type, TupleType)
        shardings = []
        for index, element_type in enumerate(root.type.elements):
            if not isinstance(element_type, TensorType):
                raise HloomError(f"{root.name} holds a tuple: its elements cannot be planned")
            aliased = self.parameters.get(given.get((index,), -1))
            shardings.append(self.outputs.get(index) or aliased or Spec.replicated(len(element_type.dims)))
        return to_tuple(shardings, self.mesh)


def _spec_table(heading: str, specs: Mapping[Any, ValueSpec]) -> DisplayTable:
    rows = (
        (str(key), ", ".join(map(str, spec)) if isinstance(spec, tuple) else str(spec)) for key, spec in specs.items()
    )
    return DisplayTable(heading, ("value", "spec"), rows, len(specs))


def plan_of(
    problem: Problem,
    mesh: Mesh,
    specs: Mapping[Node, Spec],
    original: Module,
    name: str = "",
    marks: Mapping[tuple[Node, int], Spec] | None = None,
    free: Sequence[tuple[Duplicate, Spec]] = (),
) -> Plan:
    """The plan of specs that were chosen for a problem's values; free values are left out, unless they are clones.

    `original` is the module before it was brought into normal form: its entry's names come first. `marks` are the specs
    that readers require of operands, by reader and operand index, if not those of the values, and `free` has clones of
    free values.
    """
    entry, plan, known = problem.module.entry, Plan(mesh, name=name), original.entry
    duplicates = tuple(needed_duplicates(problem.module, problem.duplicates, specs))
    left_out = _clones(problem.duplicates) - _clones(duplicates)
    for node, value_spec in (*_value_specs(problem, specs), *_free_clones(problem, specs)):
        if node.name in left_out:
            continue
        if node.graph is entry and node.name in known:
            plan.instructions[node.name] = value_spec
        else:
            plan.computations.setdefault(ENTRY if node.graph is entry else node.graph.name, {})[node.name] = value_spec
    plan.parameters.update({parameter.number: specs[parameter] for parameter in entry.parameters if parameter in specs})
    root = entry.output
    operand_specs = (*_operand_specs(problem, specs), *_marked(problem, marks or {}))
    plan = replace(plan, operand_specs=operand_specs, duplicates=(*duplicates, *(duplicate for duplicate, _ in free)))
    for duplicate, spec in free:
        plan.computations.setdefault(duplicate.computation, {})[duplicate.clones[-1][1]] = spec
    if root is None:
        return plan
    aliased = {alias.output_index for alias in aliases(problem.module)}
    for index in range(len(root.operands) if root.opcode == "tuple" else 1):
        shape_index = (index,) if root.opcode == "tuple" else ()
        value = output_at(root, shape_index)
        if shape_index not in aliased and value is not None and value in specs:
            plan.outputs[index] = specs[value]
    return plan


def with_all_parameters(plan: Plan, module: Module) -> Plan:
    """The plan with the parameters that it does not name, which are replicated."""
    ranks = {p.number: len(p.type.dims) for p in module.entry.parameters if isinstance(p.type, TensorType)}
    specs = {number: plan.parameters.get(number, Spec.replicated(rank)) for number, rank in ranks.items()}
    return replace(plan, parameters=specs)


def _free_clones(problem: Problem, specs: Mapping[Node, Spec]) -> Iterator[tuple[Node, Spec]]:
    """The clones that cost nothing in any spec, with the spec that the first reader requires."""
    clones = _clones(problem.duplicates)
    for node in problem.clusters.free:
        spec = spec_of_free(problem, specs, node) if node.name in clones else None
        if spec is not None and spec.rank:
            yield node, spec


def _clones(duplicates: Sequence[Duplicate]) -> set[str]:
    return {clone for duplicate in duplicates for _, clone in duplicate.clones}


def _value_specs(problem: Problem, specs: Mapping[Node, Spec]) -> Iterator[tuple[Node, ValueSpec]]:
    """The arrays of rank 1 and more, and the tuples that pass barriers, but for the entry's parameters and result."""
    entry, flow = problem.module.entry, problem.clusters.dataflow
    for node in flow.nodes:
        if node is entry.output or is_loop_or_branch(node) or (isinstance(node, Parameter) and node.graph is entry):
            continue
        if _is_again(node):
            continue
        if node.opcode == "opt-barrier" and node in flow.tuples:
            yield node, tuple(_leaves(node, flow.tuples[node], specs))
        elif node in problem.clusters.maps and isinstance(node.type, TupleType):
            yield node, tuple(_leaves(node, element_reads(node), specs))
        elif node in specs and isinstance(node.type, TensorType) and node.type.dims:
            yield node, specs[node]


def _marked(problem: Problem, marks: Mapping[tuple[Node, int], Spec]) -> Iterator[OperandSpec]:
    entry = problem.module.entry
    for (node, operand_index), spec in marks.items():
        yield OperandSpec(ENTRY if node.graph is entry else node.graph.name, node.name, operand_index, spec)


def _is_again(node: Node) -> bool:
    """Whether moves lead back to a value that is there already: XLA's importer then marks that value instead."""
    before = node
    while before.opcode == "reshape" or _changes_nothing(before):
        before = before.operands[0]
        if isinstance(before.type, TensorType) and before.type.dims == getattr(node.type, "dims", None):
            return True
    return False


def _changes_nothing(node: Node) -> bool:
    """Whether a broadcast or transpose leaves every dimension where it is."""
    if not isinstance(node, Apply) or node.opcode not in ("broadcast", "transpose"):
        return False
    dims = tuple(node.attributes.get("dimensions") or ())
    return dims == tuple(range(len(dims))) and node.operands[0].type == node.type


def _leaves(node: Node, elements: Sequence[Node | None], specs: Mapping[Node, Spec]) -> Iterator[Spec]:
    """The spec of each leaf of a tuple: replicated, where nothing was decided."""
    assert isinstance(node.type, TupleType)
    for element_type, element in zip(node.type.elements, elements, strict=True):
        if element is not None and element in specs:
            yield specs[element]
        else:
            leaves = [element_type] if isinstance(element_type, TensorType) else list(element_type.leaves())
            yield from (Spec.replicated(len(leaf.dims) if isinstance(leaf, TensorType) else 0) for leaf in leaves)


def _operand_specs(problem: Problem, specs: Mapping[Node, Spec]) -> Iterator[OperandSpec]:
    """The inputs of phis whose specs are not the phi's; one that is computed again has the spec that is required."""
    entry = problem.module.entry
    for source in problem.clusters.dataflow.phi_inputs:
        spec = specs.get(source.phi)
        if spec is None or not spec.rank or specs.get(source.value, None) == spec:
            continue
        graph = source.value.graph
        name = source.holder.name if source.holder is not None else ""
        yield OperandSpec(ENTRY if graph is entry else graph.name, name, source.operand_index, spec)


def _graph(module: Module, name: str) -> Graph | None:
    if name == ENTRY:
        return module.entry
    return module[name] if name in module else None  # noqa: SIM401


def _is_element_of_loop(node: Node) -> bool:
    """Whether a node takes an array of one dimension or more out of a loop's result, or out of what its body takes."""
    if node.opcode != "get-tuple-element" or not isinstance(node.type, TensorType) or not node.type.dims:
        return False
    state = node.operands[0]
    is_body = isinstance(state, Parameter) and any(
        caller.opcode == "while" and caller.attributes.get("body") is node.graph for caller in node.graph.callers
    )
    return state.opcode == "while" or is_body


def _is_split_alike(user: Node, value: Node) -> bool:
    """Whether a user of the dimensions of a value has its sharding."""
    own, other = (node.attributes.get("sharding") if isinstance(node, Apply) else None for node in (value, user))
    return other == own and getattr(user.type, "dims", None) == getattr(value.type, "dims", None)


def _set_sharding(node: Node, value_spec: ValueSpec, mesh: Mesh) -> None:
    sharding = to_tuple(value_spec, mesh) if isinstance(value_spec, tuple) else to_tiled(value_spec, mesh)
    node.graph.set_attributes(node, node.attributes.changed(sharding=sharding))
