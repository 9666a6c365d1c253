"""The modules that the stages of a pipeline run, and the values that pass between them.

    before      parameters                                     -> what is the same for all microbatches, empty sums
    forward     activations of the stages before, weights      -> activations, residuals
    backward    gradients of the stages behind, residuals      -> gradients, sums of the weights' gradients
    update      sums, parameters                               -> results; in rounds, where stages need each other's

A value is sent to each other stage that reads it as soon as it is made. With recomputation a backward module takes what
its forward module takes, and computes the residuals again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from hloom.ir import Apply, Constant, Module, Node, Parameter, TensorType
from hloom.microbatch import Batch
from hloom.ops import may_merge
from hloom.pipeline.extraction import extract, leaves_of
from hloom.pipeline.layers import LayerAssignment
from hloom.pipeline.plan import ActionKind, PipelinePlan, Schedule
from hloom.pipeline.step import Accumulator, Step, byte_count, owner, parameters_of
from hloom.text import HloomError

MOST_COPIED_BYTES = 4096
"""Values of the update up to this size that need no sums are computed by each stage that reads them."""


class Scope(Enum):
    """What a value belongs to."""

    PARAMETER = "parameter"
    MICROBATCH_NUMBER = "the number of the microbatch"
    MICROBATCH = "one microbatch"
    STEP = "the step"


@dataclass(frozen=True, slots=True)
class Value:
    """An array of a step or of one of its microbatches.

    `number` is a parameter's; `batch_dim` is the dimension that is a slice of the batch, None where there is none.
    """

    name: str
    scope: Scope
    number: int = -1
    batch_dim: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StageProgram:
    """A module that a stage runs: what it reads and yields, and which of its results go to which other stages.

    `sums` are pairs of an operand's and a result's number: the result is the operand's value from then on, and may be
    written over it.
    """

    module: Module
    stage: int
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    sends: tuple[tuple[int, int], ...] = ()
    sums: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """A result of the step: the stage that has it, and as what."""

    stage: int
    value: Value


@dataclass(frozen=True, slots=True)
class PipelineProgram:
    """All that a pipeline runs: by stage the modules of microbatches, those before and behind them, in order.

    `placements` are for each parameter of the step the stages that read it, its own first. `totals` are the sums that
    another stage's update reads: whose they are, and which stages read them. `outputs` are the step's results, in
    order. A stage without a module for some work has nothing to do then.
    """

    plan: PipelinePlan
    before: tuple[StageProgram, ...]
    microbatch: dict[tuple[ActionKind, int], StageProgram]
    update: tuple[StageProgram, ...]
    placements: tuple[tuple[int, ...], ...]
    totals: tuple[tuple[Output, tuple[int, ...]], ...]
    outputs: tuple[Output, ...]
    parameter_types: tuple[TensorType, ...]


def pipeline_program(module: Module, plan: PipelinePlan, *, batch: Batch | str | None = None) -> PipelineProgram:
    """Cut a step into the modules of a plan's stages.

    The plan's layers are those of `layers(module)`. `batch` is as for `hloom.microbatch`. Raises MixedExamples where
    examples mix, HloomError where the batch is not divisible, an instruction has effects, or there are fewer layers
    than the plan has.
    """
    step = Step(module, plan.microbatches, batch)
    assignment = LayerAssignment(step)
    check_layers(plan, assignment.count, module.name)
    return _Cut(step, assignment, plan).program()


def check_layers(plan: PipelinePlan, count: int, name: str) -> None:
    """Raise HloomError where a plan is for another number of layers."""
    planned = plan.stages[-1].last + 1
    if planned != count:
        problem = f"{name} has {count} layers, and the plan's {len(plan.stages)} stages are of {planned}"
        if len(plan.stages) > count:
            raise HloomError(f"{problem}: a stage needs a layer", hint=f"plan at most {count} stages")
        raise HloomError(problem, hint="hloom.pipeline.layers lists them")


@dataclass(slots=True)
class _Sum:
    """An accumulator, and the slot of work in which it is added to."""

    accumulator: Accumulator
    kind: ActionKind
    stage: int

    @property
    def value(self) -> Value:
        return Value(f"{self.accumulator.before.name}", Scope.STEP)


_FORWARD, _BACKWARD = ActionKind.FORWARD, ActionKind.BACKWARD
_INPUT, _WEIGHT = ActionKind.BACKWARD_INPUT, ActionKind.BACKWARD_WEIGHT


class _Cut:
    """The stages' modules while they are made."""

    def __init__(self, step: Step, assignment: LayerAssignment, plan: PipelinePlan) -> None:
        self.step, self.plan = step, plan
        self.count = len(plan.stages)
        stage_of_layer = [number for number, stage in enumerate(plan.stages) for _ in range(stage.first, stage.last + 1)]
        self.stage_of = {node: stage_of_layer[layer] for node, layer in assignment.layer_of.items()}
        self.kind_of = {
            node: _BACKWARD if node in assignment.backward else _FORWARD for node in assignment.layer_of
        }
        self.sums = self._split_sums()
        self.given = step.given
        self.order = {node: number for number, node in enumerate(step.body.nodes)}
        self.programs: dict[tuple[ActionKind, int], StageProgram] = {}
        self.captured_by: list[dict[Node, None]] = [{} for _ in range(self.count)]

    def program(self) -> PipelineProgram:
        self._separate_weight_gradients()
        self._write_microbatch()
        update = _Update(self)
        before = [self._before(stage) for stage in range(self.count)]
        placements = self._placements(before, update)
        types = [parameter.type for parameter in self.step.entry.parameters]
        return PipelineProgram(
            self.plan,
            tuple(program for program in before if program is not None),
            self.programs,
            tuple(update.programs),
            tuple(placements),
            tuple(update.totals()),
            tuple(update.outputs),
            tuple(value_type for value_type in types if isinstance(value_type, TensorType)),
        )

    # Sums

    def _split_sums(self) -> list[_Sum]:
        """The accumulators; where stages add to one, each has its own, and these are added in the end."""
        sums: list[_Sum] = []
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
                    for node in (part.after, part.after.inputs[1]):
                        self.stage_of[node], self.kind_of[node] = stage, self.kind_of.get(owner(term), _FORWARD)
                    sums.append(self._sum(part, part.after))
            self._add_totals(accumulator, parts)
        return sums

    def _sum(self, accumulator: Accumulator, node: Node) -> _Sum:
        node = owner(node)
        return _Sum(accumulator, self.kind_of.get(node, _FORWARD), self.stage_of.get(node, 0))

    def _terms(self, accumulator: Accumulator) -> list[Node]:
        """What is added to a sum, where several stages make it: each of these alone."""
        after = accumulator.after
        if after.opcode != "add" or accumulator.before not in after.inputs or after.inputs[0] is after.inputs[1]:
            return [after]
        (added,) = [operand for operand in after.inputs if operand is not accumulator.before]
        terms, pending = [], [added]
        while pending:
            node = pending.pop()
            inner = node.inputs[0] if node.opcode == "convert" and node.inputs[0].opcode == "add" else node
            is_sum = inner.opcode == "add" and len(node.users) == 1 and len(inner.users) == 1
            if is_sum and len(self._stages(inner)) > 1:
                pending += reversed(inner.inputs)
            else:
                terms.append(node)
        return terms

    def _stages(self, node: Node) -> set[int]:
        return {self.stage_of[owner(operand)] for operand in node.inputs if owner(operand) in self.stage_of}

    def _converted(self, accumulator: Accumulator, term: Node) -> Node:
        held = accumulator.before.type
        assert isinstance(held, TensorType) and isinstance(term.type, TensorType)
        if term.type.dtype is held.dtype:
            return term
        converted = next((user for user in term.graph.nodes if user.opcode == "convert"), None)
        if converted is None or not isinstance(converted, Apply):
            raise HloomError(f"{term.name} is added up as {held}, and nothing converts it")
        return self.step.body.add_apply(converted.function, (term,), held)

    def _add_totals(self, accumulator: Accumulator, parts: Sequence[Accumulator]) -> None:
        entry, total = self.step.entry, parts[0].total
        assert isinstance(accumulator.after, Apply)
        for part in parts[1:]:
            total = entry.add_apply(accumulator.after.function, (total, part.total), total.type, before=accumulator.total)
        entry.replace_uses(accumulator.total, total)

    # The modules of one microbatch

    def _slot(self, node: Node) -> tuple[ActionKind, int]:
        node = owner(node)
        return self.kind_of[node], self.stage_of[node]

    def _separate_weight_gradients(self) -> None:
        """For a schedule that runs them apart, tell what other stages need of a backward part from the rest."""
        if self.plan.schedule is not Schedule.ZERO_BUBBLE:
            return
        backward = [node for node in self.kind_of if self.kind_of[node] is _BACKWARD]
        urgent: set[Node] = set()
        for node in sorted(backward, key=lambda node: self.order[node], reverse=True):
            for maker in map(owner, self.step.reads(node)):
                is_sent = self.stage_of.get(maker) != self.stage_of[node]
                if self.kind_of.get(maker) is _BACKWARD and (is_sent or node in urgent):
                    urgent.add(maker)
        for node in backward:
            self.kind_of[node] = _INPUT if node in urgent else _WEIGHT
        for total in self.sums:
            total.kind = self.kind_of.get(owner(total.accumulator.after), total.kind)

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
        for kind, stage in reversed(self._slots()):
            slot = kind, stage
            sums = [total for total in self.sums if (total.kind, total.stage) == slot]
            made = sorted((node for node in readers if self._slot(node) == slot), key=lambda node: self.order[node])
            outputs = [*made, *[total.accumulator.after for total in sums]]
            if not outputs:
                continue
            leaves = self._leaves(outputs, slot)
            for leaf in leaves:
                if leaf in self.step.captured:
                    self.captured_by[stage][leaf] = None
                elif owner(leaf) in self.kind_of:
                    readers.setdefault(leaf, {})[stage] = None
            before = {total.accumulator.before for total in sums}
            given = sorted(leaves, key=lambda node: (node in before, self.order[node]))
            operands = [self._value(leaf, stage) for leaf in given]
            results = [*[self._value(node, stage) for node in made], *[total.value for total in sums]]
            sends = [(n, other) for n, node in enumerate(made) for other in sorted(readers[node]) if other != stage]
            places = {leaf: number for number, leaf in enumerate(given)}
            kept = [
                (places[total.accumulator.before], len(made) + number)
                for number, total in enumerate(sums)
                if total.accumulator.before in places
            ]
            name = f"{self.step.module.name}.stage{stage}.{kind.name.lower()}"
            module = extract(name, outputs, given)
            self.programs[slot] = StageProgram(
                module, stage, tuple(operands), tuple(results), tuple(sends), tuple(kept)
            )
        self.programs = {slot: self.programs[slot] for slot in self._slots() if slot in self.programs}

    def _leaves(self, outputs: Sequence[Node], slot: tuple[ActionKind, int]) -> list[Node]:
        """What a part of a microbatch's work is given: values of other parts, captured ones, sums."""
        kind, stage = slot
        again = kind is not _FORWARD and self.plan.recompute[stage]
        own = {slot, (_FORWARD, stage)} if again else {slot}
        is_given = _Given(self, own)
        return leaves_of([node for node in outputs], is_given)

    def _value(self, node: Node, stage: int) -> Value:
        step = self.step
        if node is step.counter:
            return Value("microbatch", Scope.MICROBATCH_NUMBER)
        if node in step.captured:
            initial = step.captured[node]
            if isinstance(initial, Parameter):
                return Value(initial.name, Scope.PARAMETER, initial.number)
            return Value(node.name, Scope.STEP)
        if node in self.given:
            return Value(node.name, Scope.STEP)
        return Value(node.name, Scope.MICROBATCH, batch_dim=step.batch_dims.get(node))

    # The modules before the microbatches

    def _before(self, stage: int) -> StageProgram | None:
        """What a stage computes once: captured values that are no parameters, and the sums' first values."""
        captured = [node for node in self.captured_by[stage] if not isinstance(self.step.captured[node], Parameter)]
        sums = [total for total in self.sums if total.stage == stage]
        nodes = [*[self.step.captured[node] for node in captured], *[total.accumulator.initial for total in sums]]
        if not nodes:
            return None
        results = [*[Value(node.name, Scope.STEP) for node in captured], *[total.value for total in sums]]
        parameters = sorted(leaves_of(nodes, _PARAMETERS), key=lambda node: node.number)  # pyright: ignore
        operands = [Value(p.name, Scope.PARAMETER, p.number) for p in parameters]  # pyright: ignore
        module = extract(f"{self.step.module.name}.stage{stage}.before", nodes, parameters)
        return StageProgram(module, stage, tuple(operands), tuple(results))

    def _placements(self, before: Iterable[StageProgram | None], update: _Update) -> list[tuple[int, ...]]:
        """For each parameter the stages that read it, the one of its update first."""
        homes = update.homes
        readers: list[dict[int, None]] = [{} for _ in self.step.entry.parameters]
        programs = [*before, *self.programs.values(), *update.programs]
        for program in programs:
            for operand in program.operands if program is not None else ():
                if operand.scope is Scope.PARAMETER:
                    readers[operand.number][program.stage] = None  # pyright: ignore[reportOptionalMemberAccess]
        for output in update.outputs:
            if output.value.scope is Scope.PARAMETER:
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
        return maker in cut.kind_of and (cut.kind_of[maker], cut.stage_of[maker]) not in self._own


class _Parameters:
    def __contains__(self, node: object) -> bool:
        return isinstance(node, Parameter)


_PARAMETERS = _Parameters()


class _Update:
    """What follows the microbatches, by stage and round: a round reads what other stages made in the rounds before."""

    def __init__(self, cut: _Cut) -> None:
        self.cut, self.step = cut, cut.step
        entry = self.step.entry
        self.sums = {total.accumulator.total: total for total in cut.sums}
        self.results = list(entry.root.inputs) if entry.root.opcode == "tuple" else [entry.root]
        self.nodes = self._nodes()
        self.stage_of: dict[Node, int] = {}
        self.copied = self._copied()
        self.spread = {node for node in self.nodes if self._is_spread(node)}
        self._assign()
        self.homes = {node: stage for node, stage in self.stage_of.items() if isinstance(node, Parameter)}
        self.round_of = self._rounds()
        self.programs = self._write()
        self.outputs = [self._output(node) for node in self.results]

    def _nodes(self) -> list[Node]:
        """The nodes that the results need, up to sums and parameters, in order."""
        known: set[Node] = set()
        pending = list(self.results)
        while pending:
            node = pending.pop()
            if node not in known:
                known.add(node)
                pending += () if node in self.sums else node.inputs
        return [node for node in self.step.entry.nodes if node in known]

    def _copied(self) -> set[Node]:
        """The nodes that each stage computes for itself: constants, and small values that need no sums."""
        copied: set[Node] = set()
        results = set(self.results)
        for node in self.nodes:
            if isinstance(node, Parameter) or node in self.sums:
                continue
            small = byte_count(node) <= MOST_COPIED_BYTES or isinstance(node, Constant)
            spread = node.opcode in ("broadcast", "iota", "constant")
            known = all(operand in copied or self._is_small_parameter(operand) for operand in node.inputs)
            if known and (small or spread) and may_merge(node) and node not in results and node.opcode != "tuple":
                copied.add(node)
        return copied

    def _is_spread(self, node: Node) -> bool:
        """Whether what a node is made of is sent instead of it: tuples, and smaller arrays that it repeats."""
        if node in self.results:
            return False
        return node.opcode == "tuple" or (
            node.opcode == "broadcast" and byte_count(node.inputs[0]) < byte_count(node) and node not in self.copied
        )

    def _is_small_parameter(self, node: Node) -> bool:
        return isinstance(node, Parameter) and isinstance(node.type, TensorType) and not node.type.rank

    def _assign(self) -> None:
        """Give each node the stage that has most of the bytes that it reads; parameters that of their first reader."""
        for total, held in self.sums.items():
            self.stage_of[total] = held.stage
        for stage in reversed(range(self.cut.count)):
            for captured in self.cut.captured_by[stage]:
                if captured not in self.step.batches:
                    for parameter in parameters_of(self.step.captured[captured]):
                        self.stage_of[parameter] = stage
        computed = [node for node in self.nodes if not self._is_everywhere(node) and node not in self.sums]
        for node in computed:
            if not isinstance(node, Parameter):
                votes: dict[int, int] = {}
                for operand in leaves_of(node.inputs, _Leaf(self)):
                    if operand in self.stage_of:
                        stage = self.stage_of[operand]
                        votes[stage] = votes.get(stage, 0) + max(byte_count(operand), 1)
                if votes:
                    self.stage_of[node] = max(votes, key=lambda stage: (votes[stage], -stage))
        for node in reversed(computed):
            if node not in self.stage_of:
                self.stage_of[node] = self._stage_of_users(node)
        for stage in range(self.cut.count):
            for captured in self.cut.captured_by[stage]:
                for parameter in parameters_of(self.step.captured[captured]):
                    self.stage_of.setdefault(parameter, stage)

    def _stage_of_users(self, node: Node) -> int:
        """The stage of an instruction that reads a node, itself or spread; the first where none does."""
        pending = list(node.users)
        while pending:
            user = pending.pop(0)
            if user in self.stage_of:
                return self.stage_of[user]
            if self._is_everywhere(user):
                pending += user.users
        return 0

    def _is_everywhere(self, node: Node) -> bool:
        return node in self.copied or node in self.spread

    def _leaves(self, node: Node) -> list[Node]:
        """What an instruction reads that its stage does not compute for itself."""
        return [leaf for leaf in leaves_of(node.inputs, _Leaf(self)) if not isinstance(leaf, Parameter)]

    def _rounds(self) -> dict[Node, int]:
        rounds: dict[Node, int] = {}
        for node in self.nodes:
            if self._is_everywhere(node) or isinstance(node, Parameter):
                continue
            if node in self.sums:
                rounds[node] = -1
                continue
            stage = self.stage_of[node]
            rounds[node] = max(
                (rounds[leaf] + (self.stage_of[leaf] != stage or rounds[leaf] < 0) for leaf in self._leaves(node)),
                default=0,
            )
        return rounds

    def _write(self) -> list[StageProgram]:
        computed = [node for node in self.nodes if self.round_of.get(node, -1) >= 0]
        readers: dict[Node, dict[int, None]] = {}
        used_in: dict[Node, set[tuple[int, int]]] = {}
        for node in computed:
            for leaf in self._leaves(node):
                readers.setdefault(leaf, {})[self.stage_of[node]] = None
                used_in.setdefault(leaf, set()).add((self.round_of[node], self.stage_of[node]))
        self._sum_readers = {leaf: tuple(stages) for leaf, stages in readers.items() if leaf in self.sums}
        results, programs = set(self.results), []
        for number, stage in sorted({(self.round_of[node], self.stage_of[node]) for node in computed}):
            own = [node for node in computed if (self.round_of[node], self.stage_of[node]) == (number, stage)]
            made = [node for node in own if node in results or used_in.get(node, set()) - {(number, stage)}]
            given = sorted(
                leaves_of(made, _Leaf(self, set(own))), key=lambda node: (not isinstance(node, Parameter), node.name)
            )
            module = extract(f"{self.step.module.name}.stage{stage}.update{number}", made, given)
            sends = [(n, s) for n, node in enumerate(made) for s in readers.get(node, ()) if s != stage]
            programs.append(
                StageProgram(
                    module, stage, tuple(map(self.value, given)), tuple(map(self.value, made)), tuple(sends)
                )
            )
        return programs

    def totals(self) -> list[tuple[Output, tuple[int, ...]]]:
        """The sums that other stages read."""
        totals: list[tuple[Output, tuple[int, ...]]] = []
        for total, stages in self._sum_readers.items():
            held = self.sums[total]
            others = tuple(sorted(stage for stage in stages if stage != held.stage))
            if others:
                totals.append((Output(held.stage, held.value), others))
        return totals

    def value(self, node: Node) -> Value:
        """A parameter, a sum or a result of the update."""
        if isinstance(node, Parameter):
            return Value(node.name, Scope.PARAMETER, node.number)
        if node in self.sums:
            return self.sums[node].value
        return Value(f"update.{node.name}", Scope.STEP)

    def _output(self, node: Node) -> Output:
        return Output(self.stage_of[node], self.value(node))


class _Leaf:
    """The nodes of the entry that a program of the update is given."""

    def __init__(self, update: _Update, own: set[Node] | None = None) -> None:
        self._update, self._own = update, own or set()

    def __contains__(self, node: object) -> bool:
        update = self._update
        if not isinstance(node, Node):
            return False
        return isinstance(node, Parameter) or not (update._is_everywhere(node) or node in self._own)

