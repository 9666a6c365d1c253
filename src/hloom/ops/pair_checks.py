"""What XLA's verifier asks of operations in two parts: that each start has its end, and what runs until then.

Source: xla/service/hlo_verifier.cc, VerifyAsynchronousInstructionPairs, VerifyChannels and VerifyAsyncComputation, as
of jaxlib 0.10.2. XLA of August 2026 also lets async-starts go through tuples and loops.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from hloom.ir import Apply, Graph, Node, Parameter, Surroundings
from hloom.ops.alias_checks import alias_problem
from hloom.ops.rows import Check

_CONTROL = "control_dep"
"""The target of custom calls that are not counted among users: they only order."""
_GROUPED = "_collectives_group"
"""The key in `frontend_attributes` of an async-start that runs several collectives."""


def check_start(node: Apply, surroundings: Surroundings, *, ends: Collection[str]) -> str | None:
    """One user, and that an end."""
    users = [user for user in surroundings.users(node) if user.attributes.get("custom_call_target") != _CONTROL]
    if len(users) != 1:
        return f"{node.opcode} must have one user, {' or '.join(ends)}, not {len(users)}"
    if users[0].opcode not in ends:
        return f"the user of {node.opcode} must be {' or '.join(ends)}, not {users[0].opcode}"
    return None


def check_end(node: Apply, _: Surroundings, *, starts: Collection[str]) -> str | None:
    """An operand that is a start."""
    if not node.operands or node.operands[0].opcode in starts:
        return None
    return f"the operand of {node.opcode} must be {' or '.join(starts)}, not {node.operands[0].opcode}"


def start_of(*ends: str) -> Check:
    """The check of what starts and has one of these opcodes for an end."""
    return partial(check_start, ends=ends)


def end_of(*starts: str) -> Check:
    """The check of what ends and has one of these opcodes for a start."""
    return partial(check_end, starts=starts)


def check_transfer(node: Apply, surroundings: Surroundings, *, end: str) -> str | None:
    """A send or recv: as other starts, but alone it may be what an async-start runs, and a tuple may carry it."""
    graph = node.graph
    if node is graph.output and "async-start" in surroundings.callers(graph):
        return None
    problem = check_start(node, surroundings, ends=(end, "tuple"))
    if problem:
        return problem
    users = surroundings.users(node)
    if "channel_id" in node.attributes and len(users) != 1:
        return f"{node.opcode} on a channel must have one user, not {len(users)}"
    done = next((user for user in users if user.opcode == end), None)
    if done and "channel_id" in node.attributes and _is_to_host(node) != _is_to_host(done):
        return f"is_host_transfer differs from that of {done.name}"
    return None


def transfer_to(end: str) -> Check:
    """The check of a send or recv that has this opcode for an end."""
    return partial(check_transfer, end=end)


def _is_to_host(node: Node) -> bool:
    return bool(node.attributes.get("is_host_transfer"))


def check_async_start(node: Apply, surroundings: Surroundings) -> str | None:
    """As other starts; and on the main thread the computation is one instruction, unless it groups collectives."""
    problem = check_start(node, surroundings, ends=("async-update", "async-done"))
    if problem or (problem := alias_problem(node, is_compatible=False)):
        return problem
    graph = node.attributes["calls"]
    thread = node.attributes.get("async_execution_thread", "main")
    if not isinstance(graph, Graph) or graph.is_declared or thread != "main":
        return None
    if any(key == _GROUPED for key, _ in node.attributes.get("frontend_attributes", ())):
        return None
    other = next((inner for inner in graph.nodes if not _is_allowed(inner, graph)), None)
    return f"{graph.name} must be one instruction, but contains {other.name} beside its root" if other else None


def _is_allowed(node: Node, graph: Graph) -> bool:
    return node is graph.output or isinstance(node, Parameter) or node.opcode == "get-tuple-element"
