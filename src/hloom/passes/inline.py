"""The passes `inline` and `inline-fusions`: inline callees into their callers.

Follows XLA's xla/service/call_inliner.cc (CallInliner::Inline).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Any

from hloom.analysis import is_plain_call
from hloom.ir import Apply, Attributes, Graph, Missing, Module, Node, Parameter, callees_first
from hloom.ops import ASYNC_PARTS
from hloom.passes.computation_order import control_predecessors
from hloom.passes.instruction_copies import separate_computations
from hloom.passes.pipeline import register_pass
from hloom.rewrite import Report
from hloom.text import HloomError

MAX_NODES = 4_000_000
"""The maximum number of instructions to copy: nested calls may multiply without bound."""
MAX_CALLEE_NODES = 50_000
"""The maximum number of instructions of a graph with several callers, including those inlined into it.

The bound applies to each graph rather than to all copies: a graph that stays exceeds it, so a second run leaves it too.
"""
MANUAL_BODY = "xla.sdy.manual_computation_body"
"""The name prefix of bodies of manual computations (`kManualComputationBodyFuncName`,
xla/service/spmd/shardy/constants.h).
"""


def inline(module: Module, limit: int | str = MAX_CALLEE_NODES, once: int | str = 0) -> Report:
    """Replace every call by a copy of the called graph, and erase graphs without callers.

    A call stays if a control dependency names it, if its frontend attribute `inlineable` has a value other than "true"
    ("false", or "xla_late": after the compiler has simplified), if it runs a manual computation of Shardy's, has a
    backend config, or runs asynchronously, if its graph is undefined or recursive, or if its graph has several callers
    and more than `limit` instructions, counting those inlined into it. With `once=1`, only graphs with one caller are
    inlined, so no instruction is copied.
    """
    if once not in (0, 1):
        raise HloomError(f"inline: once is 0 or 1, not '{once}'")
    return _inline(module, "inline", _is_only_call if once else _is_open_call, limit)


def inline_fusions(module: Module, limit: int | str = MAX_CALLEE_NODES) -> Report:
    """Replace every fusion by its instructions, up to the same limit, unless a backend determined its contents."""
    return _inline(module, "inline-fusions", _is_open_fusion, limit)


def _inline(module: Module, name: str, wanted: Callable[[Apply], bool], limit: int | str) -> Report:
    """Inline from the entry down, so that every instruction is copied directly to its final place."""
    if isinstance(limit, str) or limit < 0:
        raise HloomError(
            f"{name}: limit is a number of instructions, not '{limit}'", hint=f"as in -p '{name}(limit=1000)'"
        )
    report, left = Report(name), Counter[str]()
    module.index_users()
    order = callees_first(module)
    planned = _planned(order, wanted, limit, left)
    copied, called = 0, set[Graph]()
    for graph in reversed(order):
        if graph in called and not graph.callers and not module.is_entry(graph):
            module.erase_graph(graph)
            continue
        pending = list(reversed(planned[graph].items()))
        while pending:
            call, inner = pending.pop()
            nodes = inner.nodes
            if copied + len(nodes) > MAX_NODES and not inner.is_called_once:
                left[f"more than {MAX_NODES:,} instructions would be copied"] += 1
            elif _yields_missing(call, inner):
                left["the output would be a value that nothing defines"] += 1
            else:
                copied += len(nodes)
                copies = _put_in_place(call, inner, nodes)
                pending += [(copies[nested], callee) for nested, callee in reversed(planned[inner].items())]
                called.add(inner)
                report.changes += 1
    report.notes += [f"{count:,} calls stay: {reason}" for reason, count in left.items()]
    return report


def _planned(
    order: Sequence[Graph], wanted: Callable[[Apply], bool], limit: int, left: Counter[str]
) -> dict[Graph, dict[Apply, Graph]]:
    """The calls of each graph to inline, with their callees; counts the reasons for those that stay."""
    planned: dict[Graph, dict[Apply, Graph]] = {}
    sizes: dict[Graph, int] = {}
    for graph in order:
        runs_alone = any(caller.opcode == "async-start" for caller in graph.callers)
        nodes = [] if runs_alone else graph.nodes
        calls = [node for node in nodes if isinstance(node, Apply) and node.has_row and wanted(node)]
        awaited = control_predecessors(graph) if calls else set()
        inlined: dict[Apply, Graph] = {}
        for call in calls:
            inner = next(iter(call.called_graphs), None)
            obstacle = _obstacle(call, inner, planned, awaited)
            if inner is None or obstacle:
                left[obstacle or "it calls nothing"] += 1
            elif sizes[inner] > limit and not inner.is_called_once:
                left[f"the computation has more than {limit:,} instructions (limit= allows more)"] += 1
            else:
                inlined[call] = inner
        planned[graph] = inlined
        sizes[graph] = len(graph.nodes) + sum(sizes[inner] - len(inner.parameters) - 1 for inner in inlined.values())
    return planned


def _obstacle(call: Apply, inner: Graph | None, done: Container[Graph], awaited: set[Node]) -> str:
    """Why a call stays; empty if it is inlined."""
    if inner is None or inner.is_declared or inner.output is None:
        return "the computation is not defined"
    if inner not in done:
        return "the computation leads back to its caller"
    if call in awaited or any(not referent.is_graph for referent in call.attributes.referents()):
        return "control dependencies name it"
    if inner.missing or inner.module.has_closures or len(inner.parameters) != len(call.operands):
        return "the computation is not closed"
    return ""


def _yields_missing(call: Apply, inner: Graph) -> bool:
    """Whether inlining a call would make an undefined name the output of its graph."""
    if not call.is_output or not isinstance(inner.root, Parameter):
        return False
    return isinstance(call.operands[inner.parameters.index(inner.root)], Missing)


def _is_open_call(node: Node) -> bool:
    return is_plain_call(node) and not _is_kept(node)


def _is_only_call(node: Node) -> bool:
    return _is_open_call(node) and all(graph.is_called_once for graph in node.called_graphs)


def _is_open_fusion(node: Node) -> bool:
    return node.opcode == "fusion" and node.attributes.get("kind") != "kCustom"


def _is_kept(node: Node) -> bool:
    if "backend_config" in node.attributes or _frontend(node.attributes).get("inlineable", "true") != "true":
        return True
    return any(_is_manual(graph, node) for graph in node.called_graphs)


def _is_manual(called: Graph, call: Node) -> bool:
    """Whether a call runs the body of a manual computation, in which Shardy's shapes are those of shards.

    As `InlineUnderShardy` (xla/service/call_inliner.cc); GSPMD marks its bodies by surrounding instructions.
    """
    if MANUAL_BODY in called.name or "xla.sdy.manual_axes" in _frontend(call.attributes):
        return True
    return "shmap_body" in called.name and "xla.sdy.meshes" in _frontend(call.graph.module.attributes)


def _frontend(attributes: Attributes) -> dict[str, str]:
    return dict(attributes.get("frontend_attributes") or ())


def _put_in_place(call: Apply, inner: Graph, nodes: Sequence[Node]) -> dict[Any, Any]:
    """Inline one call; the call's placement attributes move to the value. Returns the copies by original."""
    graph, call_type, attributes = call.graph, call.type, call.attributes
    is_fresh = isinstance(inner.root, Apply)
    copies: dict[Any, Any] = {}
    result = graph.inline(call, inner, copies)
    if inner.callers:  # else its own instructions go
        separate_computations([copies[node] for node in nodes if node.opcode in ASYNC_PARTS])
    if result.type is None:
        graph.set_type(result, call_type)
    sharding = attributes.get("sharding")
    if is_fresh and sharding is not None and "sharding" not in result.attributes:
        graph.set_attributes(result, result.attributes.changed(sharding=sharding))
    return copies


register_pass("inline", "put the called computations in place of calls", inline, options=("limit", "once"))
register_pass("inline-fusions", "put the fused instructions in place of fusions", inline_fusions, options=("limit",))
