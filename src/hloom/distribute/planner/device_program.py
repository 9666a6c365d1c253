"""The program of one device under a choice, with local shapes, as the partitioner would make it.

It is made to be measured and not to run: collectives, slices and copies are where the partitioner puts them, and all
types are right, but attributes are those of the unpartitioned program.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from hloom.distribute.partitioner import TracedCollective, reshard_collectives
from hloom.distribute.planner.device_reshards import ReshardWriter
from hloom.distribute.planner.entry_results import aliases, output_at
from hloom.distribute.planner.problem import Problem, Read
from hloom.distribute.planner.spec_tables import spec_of_classes
from hloom.distribute.planner.strategy_costs import partial_result_collectives
from hloom.ir import Apply, AxisMap, Constant, Graph, Module, Node, Parameter, TensorType, TupleType, Type
from hloom.ops import OPS
from hloom.sharding import Spec


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """What a node of the device's program holds: a value, one before combining partial results, or one for a reader."""

    value: Node
    read: Read | None = None
    is_partial: bool = False


@dataclass(slots=True)
class DeviceProgram:
    """A module of one device's arrays, and what each node holds of the original program."""

    module: Module
    origins: dict[Node, ValueOrigin] = field(default_factory=dict)


def device_program(problem: Problem, choice: Mapping[int, int], specs: Mapping[Node, Spec]) -> DeviceProgram:
    """The program of one device; `specs` are those of the choice, with reshards hoisted or not."""
    return _Writing(problem, choice, specs).program


class _Writing:
    """A copy of the problem's module that gets local types, and steps between specs."""

    def __init__(self, problem: Problem, choice: Mapping[int, int], specs: Mapping[Node, Spec]) -> None:
        self.problem, self.choice, self.specs = problem, choice, specs
        self.clusters, self.mesh = problem.clusters, problem.mesh
        module = problem.module.clone()
        module.index_users()
        self.program = DeviceProgram(module)
        self.copies: dict[Node, Node] = {}
        self.made: dict[tuple[Node, Spec], Node] = {}
        self.reshards = ReshardWriter(module)
        self.outputs = _outputs(problem)
        self.free_specs = self._specs_in_loops()
        pairs = list(zip(problem.module.graphs, module.graphs, strict=True))
        for graph, copy in pairs:
            self.copies.update(zip(graph.nodes, copy.nodes, strict=True))
        for graph, copy in pairs:
            if graph in self.clusters.dataflow.times:
                self._types(graph, copy)
        for graph, copy in pairs:
            if graph in self.clusters.dataflow.times:
                made = list(copy.nodes)
                for node, following in zip(graph.nodes, [*made[1:], None], strict=True):
                    self._write(node, copy, following)
        for graph, copy in pairs:
            if graph in self.clusters.dataflow.times:
                self._erase_unread(graph, copy)

    def _erase_unread(self, graph: Graph, copy: Graph) -> None:
        """Erase free values that all readers compute again, in specs of their own."""
        for node in reversed(graph.nodes):
            made = self.copies[node]
            if node in self.clusters.free and isinstance(made, Apply) and not made.is_used and made is not copy.output:
                self.program.origins.pop(made, None)
                copy.erase(made)

    def _specs_in_loops(self) -> dict[Node, Spec]:
        """The specs of values that are computed again in any spec, but that pass into loops and branches.

        There they have one spec: the one that most readers want, as XLA's propagation goes from these to the loop's
        state (`ShardingPropagation::InferShardingFromUsers`, xla/service/sharding_propagation.cc).
        """
        flow, free = self.clusters.dataflow, self.clusters.free
        passed = {flow.origin(name) for name in flow.aliases if name in free}
        wanted: dict[Node, Counter[Spec]] = defaultdict(Counter)
        for node in flow.nodes if passed else ():
            for operand_index, operand in enumerate(node.operands):
                origin = flow.origin(operand)
                if origin in passed and isinstance(origin.type, TensorType) and origin.type.dims:
                    spec = self._wanted(node, operand_index)
                    if spec is not None:
                        wanted[origin][spec] += 1
        specs = {origin: counts.most_common(1)[0][0] for origin, counts in wanted.items()}
        return specs | {name: specs[origin] for name in flow.aliases if (origin := flow.origin(name)) in specs}

    def _spec(self, value: Node) -> Spec | None:
        """The spec of a value; None if it is recomputed in any spec."""
        return self.specs.get(value, self.free_specs.get(value))

    def _types(self, graph: Graph, copy: Graph) -> None:
        """Give every node of a graph the type that it has on one device."""
        for node in graph.nodes:
            local_type = self._type(node)
            made = self.copies[node]
            if local_type is not made.type:
                _set_local_type(copy, made, local_type)
            if isinstance(node.type, TensorType):
                self.program.origins[made] = ValueOrigin(node)

    def _type(self, node: Node) -> Type | None:
        if isinstance(node.type, TensorType):
            return self._local(node, self._spec(node))
        if not isinstance(node.type, TupleType):
            return node.type
        elements = node.operands if node.opcode == "tuple" else self.clusters.dataflow.tuples.get(node, ())
        if len(elements) != len(node.type.elements):
            return node.type
        wanted = (
            [self._wanted(node, operand_index) for operand_index in range(len(elements))]
            if node.opcode == "tuple"
            else []
        )
        kinds: list[Type] = []
        for operand_index, (element, element_type) in enumerate(zip(elements, node.type.elements, strict=True)):
            spec = wanted[operand_index] if wanted else None
            local = self._type(element) if element is not None and spec is None else None
            if element is not None and spec is not None:
                local = self._local(element, spec)
            kinds.append(local if local is not None else element_type)
        return TupleType(tuple(kinds))

    def _local(self, node: Node, spec: Spec | None) -> TensorType:
        assert isinstance(node.type, TensorType)
        dims = self.mesh.local_dims(node.type.dims, spec) if spec is not None else node.type.dims
        return TensorType(node.type.dtype, tuple(dims))

    def _write(self, node: Node, graph: Graph, following: Node | None) -> None:
        """Make a node read its operands in the specs it needs, and combine its partial results."""
        made = self.copies[node]
        inputs = [self._read(node, operand_index, graph) for operand_index in range(len(node.operands))]
        if inputs != list(made.operands):
            graph.set_operands(made, inputs)
        cluster = self.clusters.of(node)
        if cluster is None or node not in self.clusters.maps or not isinstance(node.type, TensorType):
            return
        strategy = self.problem.strategy(cluster, self.choice)
        steps = partial_result_collectives(self.problem, cluster, strategy, node)
        if not steps:
            return
        held = strategy.before if node is cluster.lead else strategy.after
        natural = spec_of_classes(self.problem.spec_tables.local(cluster, self.clusters.result_dims(node)), held)
        _set_local_type(graph, made, self._local(node, natural))
        self.program.origins[made] = ValueOrigin(node, is_partial=True)
        target = self.problem.spec_tables.result_spec(node, strategy)
        self.copies[node] = self._moved(graph, made, node, (natural, target), steps, ValueOrigin(node), following)

    def _read(self, node: Node, operand_index: int, graph: Graph) -> Node:
        """An operand as the node wants it."""
        value = node.operands[operand_index]
        if not isinstance(value.type, TensorType) or not value.type.dims:
            return self.copies.get(value, value)
        target = self._wanted(node, operand_index)
        source = self._spec(value)
        if target is None or target == source:
            return self.copies[value]
        if (value, target) in self.made:
            return self.made[value, target]
        origin = ValueOrigin(value, Read(node, operand_index, self._destination(node, operand_index)))
        if value in self.clusters.free:
            operand = self._anew(value, target, graph, self.copies[node], origin)
        elif source is None:
            return self.copies[value]
        else:
            steps = reshard_collectives(value.type.dims, source, target, self.mesh)
            operand = self._moved(graph, self.copies[value], value, (source, target), steps, origin, self.copies[node])
        self.made[value, target] = operand
        return operand

    def _anew(self, value: Node, spec: Spec, graph: Graph, before: Node, origin: ValueOrigin) -> Node:
        """A free value, recomputed in this spec."""
        copy = self.copies[value]
        local_type = self._local(value, spec)
        if local_type is copy.type or isinstance(value, Parameter):
            return copy
        if isinstance(value, Constant) or not isinstance(copy, Apply):
            attributes = {"dynamic_slice_sizes": local_type.dims}
            rebuilt = graph.add_apply(OPS["dynamic-slice"], (copy,), local_type, attributes, before=before)
        else:
            rebuilt = graph.add_apply(copy.function, copy.operands, local_type, copy.attributes, before=before)
        self.program.origins[rebuilt] = origin
        return rebuilt

    def _wanted(self, node: Node, operand_index: int) -> Spec | None:
        """The spec in which a node reads an operand; None if the operand's own."""
        destination = self._destination(node, operand_index)
        if destination is not None:
            return self.specs.get(destination)
        cluster = self.clusters.of(node)
        if (
            cluster is None
            or node.opcode == "tuple"
            or self.clusters.is_given(node)
            or node in self.clusters.dataflow.aliases
        ):
            return None
        own = self.problem.wanted_spec(Read(node, operand_index), self.choice)
        result_spec = self.specs.get(node)
        if (
            result_spec is not None
            and node in self.clusters.maps
            and result_spec != self.problem.chosen_spec(node, self.choice)
        ):
            return _followed(self.clusters.maps[node], operand_index, own, result_spec)
        return own

    def _destination(self, node: Node, operand_index: int) -> Node | None:
        """The phi or parameter whose spec an operand must have where it is passed on; None where there is none."""
        if node.opcode == "tuple":
            known = self.clusters.dataflow.tuples.get(node)
            return known[operand_index] if known is not None else self.outputs.get((node, operand_index))
        reads = self.problem.reads.get(node.operands[operand_index], ())
        return next((read.destination for read in reads if read.reader is node and read.destination is not None), None)

    def _moved(
        self,
        graph: Graph,
        made: Node,
        value: Node,
        specs: tuple[Spec, Spec],
        steps: tuple[TracedCollective, ...],
        origin: ValueOrigin,
        before: Node | None,
    ) -> Node:
        """A value after the reshard steps from one spec to another."""
        assert isinstance(value.type, TensorType)
        source, target = (tuple(self.mesh.local_dims(value.type.dims, spec)) for spec in specs)
        nodes = self.reshards.write(graph, before, made, value.type.dims, source, target, steps)
        self.program.origins.update(dict.fromkeys(nodes, origin))
        return nodes[-1] if nodes else made


def _followed(axis_map: AxisMap, operand_index: int, own: Spec, result_spec: Spec) -> Spec:
    """The spec of an operand that goes with a result whose spec is not its cluster's."""
    of = {dimension: axes for dimension, axes in zip(axis_map.results[0], result_spec.dims, strict=True) if dimension}
    return Spec(
        tuple(of.get(factors, axes) for factors, axes in zip(axis_map.operands[operand_index], own.dims, strict=True))
    )


def _set_local_type(graph: Graph, made: Node, local_type: Type | None) -> None:
    """Give a node its type on one device; the slices of a gather take their sizes from its result."""
    graph.set_type(made, local_type)
    if isinstance(made, Apply) and made.opcode == "gather" and isinstance(local_type, TensorType):
        graph.set_attributes(made, made.attributes.changed(slice_sizes=_local_slices(made, local_type)))


def _local_slices(gather: Apply, local_type: TensorType) -> tuple[int, ...]:
    """The sizes of a gather's slices where these are as large as its result has them on one device."""
    attributes = gather.attributes
    inner = {*(attributes.get("collapsed_slice_dims") or ()), *(attributes.get("operand_batching_dims") or ())}
    sizes = iter([local_type.dims[dim] for dim in attributes.get("offset_dims") or ()])
    slices = attributes.get("slice_sizes") or ()
    return tuple(1 if dim in inner else next(sizes, size) for dim, size in enumerate(slices))


def _outputs(problem: Problem) -> dict[tuple[Node, int], Node]:
    """For each result index, the parameter whose buffer it takes."""
    root = problem.module.entry.output
    if root is None:
        return {}
    parameters = {parameter.number: parameter for parameter in problem.module.entry.parameters}
    return {
        (root, alias.output_index[0]): parameters[alias.parameter]
        for alias in aliases(problem.module)
        if alias.output_index and not alias.parameter_index and output_at(root, alias.output_index) is not None
    }
