"""The part of a step after the microbatches as modules of the stages: the optimizer, and work that needs all sums.

An instruction belongs to the stage that holds most of the bytes it reads, so parameters are updated where their
gradients are. If stages need each other's results (the norm of all gradients), the work is done in rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloom.analysis import BROADCASTS
from hloom.distribute.pipeline.extraction import extract, leaves_of
from hloom.distribute.pipeline.plan import ActionKind
from hloom.distribute.pipeline.program import StageOutput, StageProgram, StageValue, ValueScope
from hloom.distribute.pipeline.step import Accumulator, BatchedStep, byte_count, parameters_of
from hloom.ir import Constant, Node, Parameter, TensorType, reachable
from hloom.ops import may_merge

MOST_COPIED_BYTES = 4096
"""Values of the update up to this size that need no sums are computed by each stage that reads them."""


@dataclass(slots=True)
class StageSum:
    """An accumulator, and the slot of work in which it is added to."""

    accumulator: Accumulator
    phase: ActionKind
    stage: int

    @property
    def value(self) -> StageValue:
        return StageValue(f"{self.accumulator.before.name}", ValueScope.STEP)


class StageUpdates:
    """What follows the microbatches, by stage and round: a round reads what other stages made in the rounds before.

    `captured_by` are by stage the captured values of the body that its microbatches read.
    """

    def __init__(self, step: BatchedStep, sums: Sequence[StageSum], captured_by: Sequence[Mapping[Node, None]]) -> None:
        self.step, self.captured_by = step, captured_by
        entry = self.step.entry
        self.sums = {total.accumulator.total: total for total in sums}
        self.results = list(entry.root.operands) if entry.root.opcode == "tuple" else [entry.root]
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
        known = reachable(self.results, lambda node: () if node in self.sums else node.operands)
        return [node for node in self.step.entry.nodes if node in known]

    def _copied(self) -> set[Node]:
        """The nodes that each stage computes for itself: constants, and small values that need no sums."""
        copied: set[Node] = set()
        results = set(self.results)
        for node in self.nodes:
            if isinstance(node, Parameter) or node in self.sums:
                continue
            small = byte_count(node) <= MOST_COPIED_BYTES or isinstance(node, Constant)
            spread = isinstance(node, Constant) or node.opcode in BROADCASTS
            known = all(operand in copied or self._is_small_parameter(operand) for operand in node.operands)
            if known and (small or spread) and may_merge(node) and node not in results and node.opcode != "tuple":
                copied.add(node)
        return copied

    def _is_spread(self, node: Node) -> bool:
        """Whether what a node is made of is sent instead of it: tuples, and smaller arrays that it repeats."""
        if node in self.results:
            return False
        return node.opcode == "tuple" or (
            node.opcode == "broadcast" and byte_count(node.operands[0]) < byte_count(node) and node not in self.copied
        )

    def _is_small_parameter(self, node: Node) -> bool:
        return isinstance(node, Parameter) and isinstance(node.type, TensorType) and not node.type.rank

    def _assign(self) -> None:
        """Give each node the stage that has most of the bytes that it reads; parameters that of their first reader."""
        for total, held in self.sums.items():
            self.stage_of[total] = held.stage
        for stage in reversed(range(len(self.captured_by))):
            for captured in self.captured_by[stage]:
                if captured not in self.step.batches:
                    for parameter in parameters_of(self.step.captured[captured]):
                        self.stage_of[parameter] = stage
        computed = [node for node in self.nodes if not self._is_everywhere(node) and node not in self.sums]
        for node in computed:
            if not isinstance(node, Parameter):
                votes: dict[int, int] = {}
                for operand in leaves_of(node.operands, _Leaf(self)):
                    if operand in self.stage_of:
                        stage = self.stage_of[operand]
                        votes[stage] = votes.get(stage, 0) + max(byte_count(operand), 1)
                if votes:
                    self.stage_of[node] = max(votes, key=lambda stage: (votes[stage], -stage))
        for node in reversed(computed):
            if node not in self.stage_of:
                self.stage_of[node] = self._stage_of_users(node)
        for stage in range(len(self.captured_by)):
            for captured in self.captured_by[stage]:
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
        return [leaf for leaf in leaves_of(node.operands, _Leaf(self)) if not isinstance(leaf, Parameter)]

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
                StageProgram(module, stage, tuple(map(self.value, given)), tuple(map(self.value, made)), tuple(sends))
            )
        return programs

    def totals(self) -> list[tuple[StageOutput, tuple[int, ...]]]:
        """The sums that other stages read."""
        totals: list[tuple[StageOutput, tuple[int, ...]]] = []
        for total, stages in self._sum_readers.items():
            held = self.sums[total]
            others = tuple(sorted(stage for stage in stages if stage != held.stage))
            if others:
                totals.append((StageOutput(held.stage, held.value), others))
        return totals

    def value(self, node: Node) -> StageValue:
        """A parameter, a sum or a result of the update."""
        if isinstance(node, Parameter):
            return StageValue(node.name, ValueScope.PARAMETER, node.number)
        if node in self.sums:
            return self.sums[node].value
        return StageValue(f"update.{node.name}", ValueScope.STEP)

    def _output(self, node: Node) -> StageOutput:
        return StageOutput(self.stage_of[node], self.value(node))


class _Leaf:
    """The nodes of the entry that a program of the update is given."""

    def __init__(self, update: StageUpdates, own: set[Node] | None = None) -> None:
        self._update, self._own = update, own or set()

    def __contains__(self, node: object) -> bool:
        update = self._update
        if not isinstance(node, Node):
            return False
        return isinstance(node, Parameter) or not (update._is_everywhere(node) or node in self._own)
