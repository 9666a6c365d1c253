"""What is expected of a plan beside what XLA's partitioner made of it."""

from __future__ import annotations

from dataclasses import replace

from hloom.ir import Module
from hloom.planner.candidates import Candidate
from hloom.planner.partitioned import KINDS, Compared, Emitted
from hloom.planner.plan import Plan
from hloom.planner.search import complete_plan


def compared(measured: Emitted, candidate: Candidate) -> Emitted:
    """What was measured, with what was expected beside it; as it is, where nothing was."""
    return replace(measured, compared=comparison(measured, candidate))


def comparison(measured: Emitted, candidate: Candidate) -> tuple[Compared, ...]:
    """Bytes on the wire by kind of collective and altogether, FLOPs, and bytes held: expected and measured."""
    expected = candidate.expected
    if expected is None:
        return ()
    kinds = [each for each in KINDS if each in expected.wire or each in measured.comm_bytes_by_kind]
    found = [Compared(each, expected.wire.get(each, 0.0), measured.comm_bytes_by_kind.get(each, 0.0)) for each in kinds]
    found += [Compared("wire", expected.sent, measured.wire), Compared("FLOPs", expected.flops, measured.flops)]
    if candidate.memory is not None:
        found.append(Compared("memory", candidate.memory, measured.memory))
    return tuple(found)


def predicted(module: Module, plan: Plan) -> Candidate:
    """What a plan of any origin is expected to cost; what it does not name is completed the cheapest way."""
    return replace(complete_plan(module, plan), plan=plan)
