"""Stages sharded over a mesh by the planner: a layout for each value of a stage, a plan for each of its programs.

What precedes the microbatches, forward, backward and update of a stage read each other's values: parameters, residuals,
gradients. Joined into one module they are planned together, which decides the layout of each of these values. Then each
program is planned by itself, with these layouts kept, and XLA's partitioner compiles it for the stage's devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hloom.analysis import Device, as_device
from hloom.autodiff import Emitter
from hloom.distribute.pipeline.extraction import copy_callees
from hloom.distribute.pipeline.plan import InvalidPlan
from hloom.distribute.pipeline.program import PipelineProgram, StageProgram, StageValue
from hloom.distribute.planner import CandidatePlan, Plan, PlanSpace, Rates, annotation, check_plannable
from hloom.ir import Module, Node, Parameter, TensorType, verify
from hloom.sharding import Mesh, Spec


@dataclass(frozen=True)
class StageSharding:
    """A stage's programs on a mesh.

    `specs` are by value, of the stage's parameters, activations, residuals and sums, the layout that all of its
    programs agree on; `candidates` are by module the programs' plans with what they are expected to cost.
    """

    mesh: Mesh
    rates: Rates
    specs: Mapping[StageValue, Spec]
    candidates: Mapping[Module, CandidatePlan]

    def spec(self, value: StageValue) -> Spec:
        """The layout of a value that the stage reads or yields."""
        return self.specs[value.key]

    def plan(self, program: StageProgram) -> Plan:
        """The plan of one of the stage's programs."""
        return self.candidates[program.module].plan

    def annotated(self, program: StageProgram, *, for_shardy: bool) -> Module:
        """A copy of a program's module with its plan's shardings on instructions, for one of XLA's partitioners."""
        copy = program.module.clone()
        constrain = annotation.constrain_for_shardy if for_shardy else annotation.constrain
        constrain(self.plan(program), copy)
        return copy

    def local_bytes(self, value: StageValue, value_type: TensorType) -> int:
        """The bytes that each device holds of a value."""
        dims = self.mesh.local_dims(value_type.dims, self.spec(value))
        return TensorType(value_type.dtype, dims).byte_count

    def comm_seconds(self, program: StageProgram) -> float:
        """Seconds of a program's collectives, one after the other."""
        expected = self.candidates[program.module].expected
        return expected.comm_seconds(self.rates) if expected is not None else 0.0

    def comm_bytes(self, program: StageProgram) -> float:
        """Bytes that each device sends in a program."""
        expected = self.candidates[program.module].expected
        return expected.sent if expected is not None else 0.0


def shard_stages(program: PipelineProgram, on: Device | str | None = None) -> dict[int, StageSharding]:
    """By stage that has a mesh (`Stage.mesh`) how its programs are sharded.

    Rates and links are those of a device, given or named, else the planner's default ones. Raises HloomError where a
    stage's programs cannot be planned.
    """
    return {
        number: shard_stage(program, number, on)
        for number, stage in enumerate(program.plan.stages)
        if stage.mesh is not None
    }


def shard_stage(program: PipelineProgram, stage: int, on: Device | str | None = None) -> StageSharding:
    """How the programs of one stage are sharded over its mesh; raises InvalidPlan for a stage without one."""
    mesh = program.plan.stages[stage].device_mesh
    if mesh is None:
        raise InvalidPlan(f"stage {stage} has no mesh", hint='give it one: Stage(0, 3, (0, 1), mesh="model=2")')
    rates = Rates() if on is None else Rates.of(as_device(on), mesh)
    programs = [other for other in program.programs() if other.stage == stage]
    joined = _JoinedPrograms(programs, f"{program.plan.stages[stage].first}")
    check_plannable(joined.module)
    chosen = PlanSpace(joined.module, mesh, rates).search().plan
    specs = joined.specs(chosen)
    candidates = {other.module: _planned(other, mesh, rates, specs) for other in programs}
    return StageSharding(mesh, rates, specs, candidates)


class _JoinedPrograms:
    """The programs of a stage, in the order in which they run, as one module: each reads what those before it yield.

    A sum over microbatches is added to once.
    """

    def __init__(self, programs: Sequence[StageProgram], name: str) -> None:
        self.module = Module(f"stage_{name}")
        self.entry = self.module.add_graph("main")
        self.module.entry = self.entry
        self._values: dict[StageValue, Node] = {}
        self._add_parameters(programs)
        mapping: dict[Any, Any] = {}
        for program in programs:
            self._add(program, mapping)
        self._made = [value for value, node in self._values.items() if not isinstance(node, Parameter)]
        self._given = {value: node for value, node in self._values.items() if isinstance(node, Parameter)}
        self.entry.set_output(Emitter(self.entry).tuple([self._values[value] for value in self._made]))
        verify(self.module)

    def _add_parameters(self, programs: Sequence[StageProgram]) -> None:
        made: set[StageValue] = set()
        for program in programs:
            for value, parameter in zip(program.operands, program.module.entry.parameters, strict=True):
                if value.key not in made and value.key not in self._values:
                    self._values[value.key] = self.entry.add_parameter(parameter.type, parameter.name)
            made.update(value.key for value in program.results)

    def _add(self, program: StageProgram, mapping: dict[Any, Any]) -> None:
        entry = program.module.entry
        for value, parameter in zip(program.operands, entry.parameters, strict=True):
            mapping[parameter] = self._values[value.key]
        nodes = [node for node in entry.nodes if not isinstance(node, Parameter) and node is not entry.root]
        copy_callees(self.module, nodes, mapping)
        self.entry.copy_nodes(nodes, mapping)
        for value, node in zip(program.results, entry.root.operands, strict=True):
            self._values[value.key] = mapping[node]

    def specs(self, plan: Plan) -> dict[StageValue, Spec]:
        """The layouts of the stage's values under a plan of the module, where jax can hold them."""
        parameters = annotation.parameter_specs(plan, self.module)
        results = annotation.result_specs(plan, self.module)
        specs = {value: parameters[node.number] for value, node in self._given.items() if isinstance(node, Parameter)}
        specs |= dict(zip(self._made, results, strict=True))
        return {value: _held(spec, self._values[value], plan.mesh) for value, spec in specs.items()}


def _held(spec: Spec, node: Node, mesh: Mesh) -> Spec:
    """The layout of a value between programs: no partial results, and no uneven shards."""
    assert isinstance(node.type, TensorType)
    return annotation.even_spec(replace(spec, partial=(), manual=()), node.type.dims, mesh)


def _planned(program: StageProgram, mesh: Mesh, rates: Rates, specs: Mapping[StageValue, Spec]) -> CandidatePlan:
    """The plan of one program, its parameters and results as they are held."""
    entry = program.module.entry
    parameters = {number: specs[value.key] for number, value in enumerate(program.operands)}
    results = {number: specs[value.key] for number, value in enumerate(program.results)}
    named: dict[str, Spec | tuple[Spec, ...]] = {
        node.name: results[number]
        for number, node in enumerate(entry.root.operands)
        if not isinstance(node, Parameter) and isinstance(node.type, TensorType) and node.type.rank
    }
    like = Plan(mesh, parameters=parameters, instructions=named)
    candidate = PlanSpace(program.module, mesh, rates).complete(like)
    return replace(candidate, plan=replace(candidate.plan, parameters=parameters, outputs=results))
