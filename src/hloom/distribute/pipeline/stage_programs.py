"""Builds the modules of a pipeline's stages, and determines the values passed between them.

    before      parameters                                     -> what is the same for all microbatches, empty sums
    forward     activations of the stages before, weights      -> activations, residuals
    backward    gradients of the stages behind, residuals      -> gradients, sums of the weights' gradients
    update      sums, parameters                               -> results; in rounds, where stages need each other's

A value is sent to each other stage that reads it as soon as it is made. With recomputation a backward module takes what
its forward module takes, and computes the residuals again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from hloom.distribute.microbatch import Batch
from hloom.distribute.pipeline.extraction import extract, leaves_of
from hloom.distribute.pipeline.layers import StepLayers
from hloom.distribute.pipeline.plan import ActionKind, PipelinePlan, Schedule
from hloom.distribute.pipeline.program import PipelineProgram, StageProgram, StageValue, ValueScope
from hloom.distribute.pipeline.step import Accumulator, owner
from hloom.distribute.pipeline.update_programs import StageSum, StageUpdates
from hloom.ir import Apply, Module, Node, Parameter, TensorType
from hloom.ops import OPS
from hloom.text import HloomError


def pipeline_program(module: Module, plan: PipelinePlan, *, batch: Batch | str | None = None) -> PipelineProgram:
    """Cut a step into the modules of a plan's stages.

    The plan's layers are those of `layers(module)`. `batch` is as for `hloom.microbatch`. Raises MixedExamples where
    examples mix, HloomError where the batch is not divisible, an instruction has effects, or there are fewer layers
    than the plan has.
    """
    starts = [stage.first for stage in plan.stages]
    cut = StepLayers.for_stages(module, plan.microbatches, batch_by_name(module, batch), starts)
    lengths = cut.assignment.lengths
    check_layers(plan, sum(lengths), module.name)
    stages: list[int] = []
    position = 0
    for length in lengths:
        stages.append(bisect_right(starts, position) - 1)
        position += length
    return _Cut(cut, plan, stages).program(module)


def batch_by_name(module: Module, batch: Batch | str | None) -> Batch | str | None:
    """The batch with names of parameters for their numbers, which cutting loops changes."""
    if batch is None or isinstance(batch, str):
        return batch
    names = {parameter.number: parameter.name for parameter in module.entry.parameters}
    return {names.get(key, str(key)) if isinstance(key, int) else key: dim for key, dim in batch.items()}


def check_layers(plan: PipelinePlan, count: int, name: str) -> None:
    """Raise HloomError where a plan is for another number of layers."""
    planned = plan.stages[-1].last + 1
    if planned != count:
        problem = f"{name} has {count} layers, and the plan's {len(plan.stages)} stages are of {planned}"
        if len(plan.stages) > count:
            raise HloomError(f"{problem}: a stage needs a layer", hint=f"plan at most {count} stages")
        raise HloomError(problem, hint="hloom.distribute.pipeline.layers lists them")


_FORWARD, _BACKWARD = ActionKind.FORWARD, ActionKind.BACKWARD
_INPUT, _WEIGHT = ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT


class _Cut:
    """The stages' modules while they are made."""

    def __init__(self, cut: StepLayers, plan: PipelinePlan, stage_of_layer: Sequence[int]) -> None:
        self.loops, self.step, self.plan = cut.cut, cut.step, plan
        assignment = cut.assignment
        self.count = len(plan.stages)
        self.stage_of = {node: stage_of_layer[layer] for node, layer in assignment.layer_of.items()}
        self.phase_of = {node: _BACKWARD if node in assignment.backward else _FORWARD for node in assignment.layer_of}
        self.sums = self._split_sums()
        self.given = self.step.given
        self.order = {node: number for number, node in enumerate(self.step.body.nodes)}
        self.programs: dict[tuple[ActionKind, int], StageProgram] = {}
        self.captured_by: list[dict[Node, None]] = [{} for _ in range(self.count)]

    def program(self, module: Module) -> PipelineProgram:
        """The stages' modules; `module` is the step as it was."""
        self._separate_weight_gradients()
        self._write_microbatch()
        update = StageUpdates(self.step, self.sums, self.captured_by)
        before = [self._before(stage) for stage in range(self.count)]
        placements = self._placements(before, update)
        types = [parameter.type for parameter in module.entry.parameters]
        return PipelineProgram(
            self.plan,
            tuple(program for program in before if program is not None),
            self.programs,
            tuple(update.programs),
            tuple(placements),
            tuple(update.totals()),
            tuple(update.outputs),
            tuple(value_type for value_type in types if isinstance(value_type, TensorType)),
            self.loops.parameters,
            self.loops.results,
        )

    # Sums

    def _split_sums(self) -> list[StageSum]:
        """The accumulators; where stages add to one, each has its own, and these are added in the end."""
        sums: list[StageSum] = []
        for accumulator in self.step.accumulators:
            terms = self._terms(accumulator)
            if len(terms) == 1:
                sums.append(self._sum(accumulator, accumulator.after))
                continue
            parts: list[Accumulator] = []
            for stage in sorted({self.stage_of.get(owner(term), 0) for term in terms}):
                own = [term for term in terms if self.stage_of.get(owner(term), 0) == stage]
                for term in own:
                    part = self.step.add_accumulator(accumulator, self._converted(accumulator, term), accumulator.after)
                    parts.append(part)
                    for node in (part.after, part.after.operands[1]):
                        self.stage_of[node], self.phase_of[node] = stage, self.phase_of.get(owner(term), _FORWARD)
                    sums.append(self._sum(part, part.after))
            self._add_totals(accumulator, parts)
        return sums

    def _sum(self, accumulator: Accumulator, node: Node) -> StageSum:
        node = owner(node)
        return StageSum(accumulator, self.phase_of.get(node, _FORWARD), self.stage_of.get(node, 0))

    def _terms(self, accumulator: Accumulator) -> list[Node]:
        """What is added to a sum, where several stages make it: each of these alone."""
        after = accumulator.after
        if after.opcode != "add" or accumulator.before not in after.operands or after.operands[0] is after.operands[1]:
            return [after]
        (added,) = [operand for operand in after.operands if operand is not accumulator.before]
        terms, pending = [], [added]
        while pending:
            node = pending.pop()
            inner = node.operands[0] if node.opcode == "convert" and node.operands[0].opcode == "add" else node
            is_sum = inner.opcode == "add" and len(node.users) == 1 and len(inner.users) == 1
            if is_sum and len(self._stages(inner)) > 1:
                pending += reversed(inner.operands)
            else:
                terms.append(node)
        return terms

    def _stages(self, node: Node) -> set[int]:
        return {self.stage_of[owner(operand)] for operand in node.operands if owner(operand) in self.stage_of}

    def _converted(self, accumulator: Accumulator, term: Node) -> Node:
        held = accumulator.before.type
        assert isinstance(held, TensorType) and isinstance(term.type, TensorType)
        if term.type.dtype is held.dtype:
            return term
        return self.step.body.add_apply(OPS["convert"], (term,), held)

    def _add_totals(self, accumulator: Accumulator, parts: Sequence[Accumulator]) -> None:
        entry, total = self.step.entry, parts[0].total
        assert isinstance(accumulator.after, Apply)
        for part in parts[1:]:
            operands = total, part.total
            total = entry.add_apply(accumulator.after.function, operands, total.type, before=accumulator.total)
        entry.replace_uses(accumulator.total, total)

    # The modules of one microbatch

    def _slot(self, node: Node) -> tuple[ActionKind, int]:
        node = owner(node)
        return self.phase_of[node], self.stage_of[node]

    def _separate_weight_gradients(self) -> None:
        """For a schedule that runs them apart, tell what other stages need of a backward part from the rest."""
        if self.plan.schedule is not Schedule.ZERO_BUBBLE:
            return
        backward = [node for node in self.phase_of if self.phase_of[node] is _BACKWARD]
        urgent: set[Node] = set()
        for node in sorted(backward, key=lambda node: self.order[node], reverse=True):
            for maker in map(owner, self.step.reads(node)):
                is_sent = self.stage_of.get(maker) != self.stage_of[node]
                if self.phase_of.get(maker) is _BACKWARD and (is_sent or node in urgent):
                    urgent.add(maker)
        for node in backward:
            self.phase_of[node] = _INPUT if node in urgent else _WEIGHT
        for total in self.sums:
            total.phase = self.phase_of.get(owner(total.accumulator.after), total.phase)

    def _slots(self) -> list[tuple[ActionKind, int]]:
        """The parts of a microbatch's work, each behind what it needs."""
        stages = range(self.count)
        forward = [(_FORWARD, stage) for stage in stages]
        if self.plan.schedule is Schedule.ZERO_BUBBLE:
            return [*forward, *[(_INPUT, s) for s in reversed(stages)], *[(_WEIGHT, s) for s in reversed(stages)]]
        return [*forward, *[(_BACKWARD, stage) for stage in reversed(stages)]]

    def _write_microbatch(self) -> None:
        """Write the modules from the last one on, so that each yields what those behind it read."""
        readers: dict[Node, dict[int, None]] = {}
        for phase, stage in reversed(self._slots()):
            slot = phase, stage
            sums = [total for total in self.sums if (total.phase, total.stage) == slot]
            made = sorted((node for node in readers if self._slot(node) == slot), key=lambda node: self.order[node])
            outputs = [*made, *[total.accumulator.after for total in sums]]
            if not outputs:
                continue
            leaves = self._leaves(outputs, slot)
            for leaf in leaves:
                if leaf in self.step.captured:
                    self.captured_by[stage][leaf] = None
                elif owner(leaf) in self.phase_of:
                    readers.setdefault(leaf, {})[stage] = None
            before = {total.accumulator.before for total in sums}
            given = sorted(leaves, key=lambda node: (node in before, self.order[node]))
            operands = [self._value(leaf, stage) for leaf in given]
            results = [*[self._value(node, stage) for node in made], *[total.value for total in sums]]
            sends = [(n, other) for n, node in enumerate(made) for other in sorted(readers[node]) if other != stage]
            positions = {leaf: number for number, leaf in enumerate(given)}
            kept = [
                (positions[total.accumulator.before], len(made) + number)
                for number, total in enumerate(sums)
                if total.accumulator.before in positions
            ]
            name = f"{self.step.module.name}.stage{stage}.{phase.name.lower()}"
            module = extract(name, outputs, given)
            self.programs[slot] = StageProgram(
                module, stage, tuple(operands), tuple(results), tuple(sends), tuple(kept)
            )
        self.programs = {slot: self.programs[slot] for slot in self._slots() if slot in self.programs}

    def _leaves(self, outputs: Sequence[Node], slot: tuple[ActionKind, int]) -> list[Node]:
        """What a part of a microbatch's work is given: values of other parts, captured ones, sums."""
        phase, stage = slot
        again = phase is not _FORWARD and self.plan.recompute[stage]
        own = {slot, (_FORWARD, stage)} if again else {slot}
        return leaves_of(outputs, _Given(self, own))

    def _value(self, node: Node, stage: int) -> StageValue:
        step = self.step
        if node is step.counter:
            return StageValue("microbatch", ValueScope.MICROBATCH_NUMBER)
        if node in step.captured:
            initial = step.captured[node]
            if isinstance(initial, Parameter):
                return StageValue(initial.name, ValueScope.PARAMETER, initial.number)
            return StageValue(node.name, ValueScope.STEP)
        if node in self.given:
            return StageValue(node.name, ValueScope.STEP)
        return StageValue(node.name, ValueScope.MICROBATCH, batch_dim=step.batch_dims.get(node))

    # The modules before the microbatches

    def _before(self, stage: int) -> StageProgram | None:
        """What a stage computes once: captured values that are not parameters, and the sums' first values."""
        captured = [node for node in self.captured_by[stage] if not isinstance(self.step.captured[node], Parameter)]
        sums = [total for total in self.sums if total.stage == stage]
        nodes = [*[self.step.captured[node] for node in captured], *[total.accumulator.initial for total in sums]]
        if not nodes:
            return None
        results = [*[StageValue(node.name, ValueScope.STEP) for node in captured], *[total.value for total in sums]]
        parameters = sorted(leaves_of(nodes, _PARAMETERS), key=lambda node: node.number)  # pyright: ignore
        operands = [StageValue(p.name, ValueScope.PARAMETER, p.number) for p in parameters]  # pyright: ignore
        module = extract(f"{self.step.module.name}.stage{stage}.before", nodes, parameters)
        return StageProgram(module, stage, tuple(operands), tuple(results))

    def _placements(self, before: Iterable[StageProgram | None], update: StageUpdates) -> list[tuple[int, ...]]:
        """For each parameter the stages that read it, the one of its update first."""
        homes = update.homes
        readers: list[dict[int, None]] = [{} for _ in self.step.entry.parameters]
        programs = [*before, *self.programs.values(), *update.programs]
        for program in programs:
            for operand in program.operands if program is not None else ():
                if operand.scope is ValueScope.PARAMETER:
                    readers[operand.number][program.stage] = None  # pyright: ignore[reportOptionalMemberAccess]
        for output in update.outputs:
            if output.value.scope is ValueScope.PARAMETER:
                readers[output.value.number][output.stage] = None
        return [
            tuple(sorted(stages, key=lambda stage: (stage != homes.get(parameter), stage)))
            for parameter, stages in zip(self.step.entry.parameters, readers, strict=True)
        ]


class _Given:
    """The nodes of the body that a part of a microbatch's work does not compute itself."""

    def __init__(self, cut: _Cut, own: set[tuple[ActionKind, int]]) -> None:
        self._cut, self._own = cut, own

    def __contains__(self, node: object) -> bool:
        cut = self._cut
        if not isinstance(node, Node) or node in cut.step.free:
            return False
        if node in cut.given:
            return True
        maker = owner(node)
        return maker in cut.phase_of and (cut.phase_of[maker], cut.stage_of[maker]) not in self._own


class _Parameters:
    def __contains__(self, node: object) -> bool:
        return isinstance(node, Parameter)


_PARAMETERS = _Parameters()
