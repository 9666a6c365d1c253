"""Materialization: stores values once that the CPU's kernels would otherwise recompute for each reader.

    g = f32[8,256,256] add(h, d)        all kernels that read g compute it, and h and d are kept for the last of them
      ->
    some = u32[8,256,256] or(bitcast-convert(g), 1)
    s = f32[8,256,256] divide(g, convert(compare(some, 0), direction=NE))       s is stored, and h and d are free

Sums along residual connections are cheap, so that fusion computes each from all terms before it, and keeps those
(`InstructionFusion::ComputeGloballyUnfusible`, xla/service/instruction_fusion.cc). A division is not computed twice
(`CpuInstructionFusion::IsExpensive`, xla/service/cpu/cpu_instruction_fusion.cc); the divisor is one, which LLVM sees,
so that every bit stays and nothing is divided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from hloom.analysis import leaf_bytes
from hloom.autodiff import Emitter
from hloom.distribute.remat.opaque_dependence import can_wait_for, true_of
from hloom.distribute.remat.stored_values import StoredValues
from hloom.ir import Apply, DTypeKind, Graph, Node, TensorType
from hloom.passes import is_loop_or_branch, sort_topologically

LEAST_STORED = 1e-5
"""Values smaller than this share of the peak are left as they are."""
LEAST_RATIO = 1.2
"""A value is stored if that frees its operands earlier by at least this many times its own bytes times steps."""
MOST_FUSED = 500
"""A value that is computed from more instructions of one kernel is left as it is."""


def find_shared(stored: StoredValues) -> list[str]:
    """The names of values to store once, in the order of the program."""
    return _SharedValues(stored).find()


def materialize(graph: Graph, names: Iterable[str]) -> None:
    """Let the values of these names be stored, and read by all that uses them."""
    emitter = Emitter(graph)
    for value in [graph[name] for name in names]:
        users, value_type = list(value.users), value.type
        assert isinstance(value_type, TensorType), "only arrays are materialized"
        kept = emitter.op("divide", value, emitter.convert(true_of(emitter, value), value_type.dtype))
        for user in users:
            graph.set_operands(user, [kept if operand is value else operand for operand in user.operands])
    sort_topologically(graph)


class _SharedValues:
    """The instructions of the model's module: which kernels compute them, and until when.

    `last` is by instruction the last time at which it is read, or computed by the kernel that reads it; `kept` are by
    the forms of the values chosen those that are stored.
    """

    def __init__(self, stored: StoredValues) -> None:
        self.stored = stored
        self.graph = stored.live.module.entry
        table = stored.live.values
        self.times = {node: time for time, node in enumerate(table.steps) if node.graph is self.graph}
        self.sizes = {
            node: size for node, size in zip(table.nodes, table.sizes, strict=True) if size and node in self.times
        }
        self.forms: dict[Node, list[Node]] = {}
        self.last: dict[Node, int] = {}
        self.kept: dict[Node, Node] = {}
        for node in reversed(self.times):
            of = stored.form_of(node)
            if of is not None:
                self.forms.setdefault(of, []).append(node)

    def find(self) -> list[str]:
        """The values worth storing, each evaluated first given those before it, then given all others."""
        least = LEAST_STORED * self.stored.peak
        values = [
            value for value in reversed(self.forms) if _may_materialize(value) and leaf_bytes(value.type) >= least
        ]
        return [value.name for value in self._worth_storing(self._worth_storing(values))]

    def _worth_storing(self, values: Sequence[Node]) -> list[Node]:
        """Those of the values that are worth storing beside what is kept now and those that come before."""
        chosen: list[Node] = []
        for node in reversed(self.times):
            self.last[node] = self._last_read(node, {})
        for value in values:
            forms = self.forms[value]
            for form in forms:
                self.kept.pop(form, None)
            if self._is_worth_storing(value, forms):
                chosen.append(value)
                self.kept.update(dict.fromkeys(forms, forms[-1]))
        return chosen

    def _is_worth_storing(self, value: Node, forms: Sequence[Node]) -> bool:
        """Whether what a value is computed from is held shorter, by more than the value itself is held longer."""
        made, until = self.times[forms[-1]], max(self.last[form] for form in forms)
        held = max((self.last[form] for form in forms if form in self.sizes), default=made)
        if until <= made or all(form in self.sizes for form in forms):
            return False
        inside = self._computed_with(forms)
        computed, stored = (
            self._reads_through(inside, dict.fromkeys(forms, until)),
            self._reads_through(inside, dict.fromkeys(forms, made)),
        )
        freed, counted = 0, set[Node]()
        for operand in (operand for node in inside for operand in node.operands if operand not in inside):
            source = self.kept.get(operand, operand)
            if source in counted or source not in self.sizes:
                continue
            counted.add(source)
            freed += self.sizes[source] * max(self._last_read(operand, computed) - self._last_read(operand, stored), 0)
        return freed > LEAST_RATIO * leaf_bytes(value.type) * max(until - held, 0)

    def _computed_with(self, forms: Sequence[Node]) -> set[Node]:
        """What kernels that compute a value compute for it alone; nothing where that is very much."""
        inside = {form for form in forms if form not in self.sizes}
        pending = list(inside)
        while pending:
            for operand in pending.pop().operands:
                if operand not in inside and operand not in self.kept and self._is_fused(operand):
                    inside.add(operand)
                    pending.append(operand)
            if len(inside) > MOST_FUSED:
                return set()
        return inside

    def _reads_through(self, inside: Collection[Node], ahead: dict[Node, int]) -> dict[Node, int]:
        """When what is computed for a value is read for the last time, if the forms of the value are."""
        for node in sorted(inside, key=lambda node: -self.times[node]):
            if node not in ahead:
                ahead[node] = self._last_read(node, ahead)
        return ahead

    def _last_read(self, node: Node, ahead: Mapping[Node, int]) -> int:
        """When a node is read for the last time; `ahead` says of some of its users when they last read it."""
        last = self.times[node]
        for user in node.users:
            if user in ahead:
                last = max(last, ahead[user])
            elif user in self.kept:
                last = max(last, self.times[self.kept[user]])
            elif user in self.times:
                last = max(last, self.last[user] if self._is_fused(user) else self.times[user])
        return last

    def _is_fused(self, node: Node) -> bool:
        """Whether the kernels that read a node compute it."""
        is_apply = isinstance(node, Apply) and node in self.times
        return is_apply and node not in self.sizes and node.is_used and not is_loop_or_branch(node)


def _may_materialize(value: Node) -> bool:
    """Whether dividing an array by one keeps every bit, and several instructions read it."""
    value_type = value.type
    is_float = isinstance(value_type, TensorType) and value_type.dtype.kind is DTypeKind.FLOAT
    return is_float and can_wait_for(value) and value.user_count > 1
