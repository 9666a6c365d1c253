"""The table of custom calls: targets, a name for people, and how the cost of a call is counted.

A custom call is opaque to XLA; what it computes follows from its target, its configuration and the types it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from hloom.analysis.cost_properties import Cost
from hloom.analysis.rules.custom_calls.backend_config import CallConfig, Uncountable, read_config
from hloom.analysis.rules.table import CalleeCosts, Instruction
from hloom.analysis.sizes import first_array, leaf_bytes, shape_bytes
from hloom.ir import UNBOUNDED, Apply, Graph, TensorType, TupleType, Type

LONGEST_TARGET = 512
"""Characters of the longest target that is looked up; those of libraries have fewer than 100."""
SCRATCH_TYPES = ("s8", "u8")
"""Element types of a library's workspace."""
MALFORMED = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError)
"""Exceptions of a count whose instruction lacks operands, attributes or types."""


@dataclass(frozen=True, slots=True)
class CallWork:
    """What one run of a custom call does.

    `bytes_accessed` is None if every operand is read and every result written once. `matrix_types` are the values whose
    widest element type decides at which matrix rate the FLOPs run; they run at the vector rate if it is empty.
    `is_fast` says that a device may multiply f32 with fewer bits.
    """

    flops: int = 0
    transcendentals: int = 0
    bytes_accessed: int | None = None
    matrix_types: tuple[Type | None, ...] = ()
    is_fast: bool = True


CallCount = Callable[[Instruction, CallConfig], CallWork]
"""Counts the work of a call; raises Uncountable, or one of MALFORMED, if that is not known."""


@dataclass(frozen=True, slots=True)
class CallKind:
    """A row of the table.

    `targets` are regular expressions for whole targets, `name` what people call it. `count` is None if no call of this
    kind can be counted; `because` says what is counted, or why not. `has_scratch` says that the last element of the
    result, an array of bytes, is the library's workspace and no result; `runs_computation`, that the call runs the
    computation it refers to, whose cost it then has.
    """

    targets: tuple[str, ...]
    name: str
    count: CallCount | None
    because: str
    has_scratch: bool = False
    runs_computation: bool = False


@dataclass(frozen=True, slots=True)
class CustomCall:
    """What is known of one custom call: its kind and work (None if unknown), its cost, and why it is not counted.

    If the work is not known, the cost is the bytes of operands and results. `scratch_bytes` are in no cost.
    """

    target: str
    kind: CallKind | None
    work: CallWork | None
    cost: Cost
    scratch_bytes: int
    problem: str = ""

    @property
    def name(self) -> str:
        """The name for people; the target if it is not in the table."""
        return self.kind.name if self.kind is not None else self.target


KINDS: list[CallKind] = []
"""The rows; the files of this package fill the table, and the first row that matches counts."""


def kind(
    targets: str | Iterable[str],
    name: str,
    count: CallCount | None,
    *,
    because: str,
    has_scratch: bool = False,
    runs_computation: bool = False,
) -> None:
    """Add a row for a pattern of targets, or for several."""
    patterns = (targets,) if isinstance(targets, str) else tuple(targets)
    KINDS.append(CallKind(patterns, name, count, because, has_scratch, runs_computation))


@lru_cache(maxsize=4096)
def kind_of(target: str) -> CallKind | None:
    """The row of a target; None if it is unknown."""
    if len(target) > LONGEST_TARGET:
        return None
    matching = (row for row in KINDS if any(re.fullmatch(pattern, target) for pattern in row.targets))
    return next(matching, None)


def computation_of(node: Apply) -> Graph | None:
    """The computation that a custom call runs in its place; None if it is the library that knows what runs."""
    row = kind_of(str(node.attributes.get("custom_call_target") or "")) if node.opcode == "custom-call" else None
    return next(iter(node.called_graphs), None) if row is not None and row.runs_computation else None


def custom_call(instruction: Instruction, callee_cost: CalleeCosts) -> CustomCall:
    """What a custom call does and costs."""
    target = str(instruction.attributes.get("custom_call_target") or "")
    row = kind_of(target)
    scratch = _scratch_bytes(instruction.result) if row is not None and row.has_scratch else 0
    moved = Cost(bytes_accessed=leaf_bytes(instruction.result) - scratch + sum(map(shape_bytes, instruction.operands)))
    called = computation_of(instruction.node)
    if called is not None:
        inside = callee_cost(called)
        work = CallWork(inside.flops, inside.transcendentals)
        return CustomCall(target, row, work, inside.arithmetic() + moved, scratch)
    if row is None or row.count is None:
        return CustomCall(target, row, None, moved, scratch, _reason(row))
    if any(map(_is_unbounded, (*instruction.operands, instruction.result))):
        return CustomCall(target, row, None, moved, scratch, "a dimension has no bound")
    try:
        work = row.count(instruction, read_config(instruction.attributes.get("backend_config")))
    except Uncountable as problem:
        return CustomCall(target, row, None, moved, scratch, problem.reason)
    except MALFORMED:
        return CustomCall(target, row, None, moved, scratch, "its operands or attributes are not those of its target")
    bytes_accessed = moved.bytes_accessed if work.bytes_accessed is None else work.bytes_accessed
    return CustomCall(target, row, work, Cost(work.flops, work.transcendentals, bytes_accessed), scratch)


def array(value_type: Type | None) -> TensorType:
    """A value that must be an array; raises Uncountable if it is not."""
    if not isinstance(value_type, TensorType):
        raise Uncountable("an operand or result is not an array")
    return value_type


def first_result(instruction: Instruction) -> TensorType:
    """The first array of the result."""
    return array(first_array(instruction.result))


def nothing(instruction: Instruction, config: CallConfig) -> CallWork:
    """No cost: a marker, or a value that is only forwarded."""
    return CallWork(bytes_accessed=0)


def moves(instruction: Instruction, config: CallConfig) -> CallWork:
    """Bytes only."""
    return CallWork()


def _reason(row: CallKind | None) -> str:
    """Why no call of a kind is counted."""
    if row is None:
        return "unknown target"
    return "it refers to no computation" if row.runs_computation else row.because


def _scratch_bytes(result: Type | None) -> int:
    last = result.elements[-1] if isinstance(result, TupleType) and len(result.elements) > 1 else None
    is_scratch = isinstance(last, TensorType) and last.rank == 1 and last.dtype.name in SCRATCH_TYPES
    return shape_bytes(last) if is_scratch else 0


def _is_unbounded(value_type: Type | None) -> bool:
    leaves = value_type.leaves() if value_type is not None else ()
    return any(isinstance(leaf, TensorType) and UNBOUNDED in leaf.dims for leaf in leaves)
