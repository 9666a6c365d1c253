"""A plan: how the values of a module's entry lie on a mesh, as the judge's JSON and as shardings on the module."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hloom.ir import Module, Node, Parameter, TensorType, TupleType
from hloom.sharding.clusters import Clusters
from hloom.sharding.forms import to_tiled, to_tuple
from hloom.sharding.json_forms import mesh_to_json, spec_to_json
from hloom.sharding.mesh import Mesh
from hloom.sharding.problem import aliases, output_at
from hloom.sharding.spec import Spec
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class Plan:
    """Specs of parameters by number, of outputs by index, and of other instructions of the entry by name.

    What is not named is left to the partitioner's propagation; parameters and outputs are then replicated.
    """

    mesh: Mesh
    parameters: dict[int, Spec] = field(default_factory=dict)
    outputs: dict[int, Spec] = field(default_factory=dict)
    instructions: dict[str, Spec] = field(default_factory=dict)
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        """The judge's form."""
        return {
            "mesh": mesh_to_json(self.mesh),
            "params": {str(n): spec_to_json(spec) for n, spec in sorted(self.parameters.items()) if spec.axes},
            "outputs": {str(n): spec_to_json(spec) for n, spec in sorted(self.outputs.items())},
            "ops": {name: spec_to_json(spec) for name, spec in self.instructions.items()},
        }

    def annotate(self, module: Module) -> Module:
        """A copy of the module with the plan's shardings on parameters, instructions and the result."""
        copy = module.clone()
        entry = copy.entry
        for node in list(entry.nodes):
            spec = self._spec_of(node)
            if spec is not None and node is not entry.output:
                entry.set_attributes(node, {**node.attributes, "sharding": to_tiled(spec, self.mesh)})
        root = entry.output
        if root is None:
            raise HloomError(f"{module.name} has no result")
        entry.set_attributes(root, {**root.attributes, "sharding": self._result_sharding(root, copy)})
        return copy

    def _spec_of(self, node: Node) -> Spec | None:
        if isinstance(node, Parameter):
            rank = len(node.type.dims) if isinstance(node.type, TensorType) else 0
            return self.parameters.get(node.number, Spec.replicated(rank))
        return self.instructions.get(node.name)

    def _result_sharding(self, root: Node, module: Module) -> Any:
        given = {a.output_index: a.parameter for a in aliases(module) if not a.parameter_index}
        if isinstance(root.type, TensorType):
            spec = self.outputs.get(0) or self.parameters.get(given.get((), -1)) or Spec.replicated(len(root.type.dims))
            return to_tiled(spec, self.mesh)
        assert isinstance(root.type, TupleType)
        found = []
        for index, kind in enumerate(root.type.elements):
            if not isinstance(kind, TensorType):
                raise HloomError(f"{root.name} holds a tuple: its elements cannot be planned")
            aliased = self.parameters.get(given.get((index,), -1))
            found.append(self.outputs.get(index) or aliased or Spec.replicated(len(kind.dims)))
        return to_tuple(found, self.mesh)


def plan_of(module: Module, mesh: Mesh, specs: dict[Node, Spec], clusters: Clusters, name: str = "") -> Plan:
    """The plan of specs that were chosen for the entry's values; free values are left out: XLA makes them anew."""
    root = module.entry.output
    plan = Plan(mesh, name=name)
    for node, spec in specs.items():
        if isinstance(node, Parameter):
            plan.parameters[node.number] = spec
        elif node is not root and isinstance(node.type, TensorType) and node.type.dims:
            plan.instructions[node.name] = spec
    if root is None:
        return plan
    aliased = {alias.output_index for alias in aliases(module)}
    count = len(root.inputs) if root.opcode == "tuple" else 1
    for index in range(count):
        place = (index,) if root.opcode == "tuple" else ()
        value = output_at(root, place)
        if place not in aliased and value is not None and value in specs:
            plan.outputs[index] = specs[value]
    return plan
