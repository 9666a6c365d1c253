"""The pass `simplify-tuples`: elements of tuples are what they were made of, tuples of all elements the tuple itself.

    t = tuple(x, y)
    a = get-tuple-element(t), index=0, control-predecessors={p}
    b = negate(a)
      ->
    b = negate(x), control-predecessors={p}

`simplify` does the same by rules, but leaves what waits by control dependencies. Follows XLA's
xla/hlo/transforms/simplifiers/tuple_simplifier.cc (TupleSimplifier::RunImpl, RemoveWholeTuple,
RelayControlDependenciesSafely).
"""

from __future__ import annotations

from hloom.ir import Apply, Graph, Module, Node, TupleType
from hloom.ops import fixed_form
from hloom.passes.dce import erase_dead
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.dimensions import lost_in_replacement
from hloom.rewrite import Report
from hloom.text import HloomError

_GET, _WAITS = "get-tuple-element", "control-predecessors"


def simplify_tuples(module: Module, entry: int | str = 1, thread: str | None = None) -> Report:
    """Replace elements of tuples, and tuples of all elements of one, by what they are, once, operands first.

    What used such an instruction, or waited for it, waits for what it waited for. With `entry=0` the entry stays as it
    is; with `thread` only computations of that execution thread change: `main` is that of the entry. Raises HloomError
    where `entry` is neither 0 nor 1.
    """
    if entry not in (0, 1):
        raise HloomError(f"simplify-tuples: entry is 0 or 1, not '{entry}'")
    report = Report("simplify-tuples")
    if module.has_closures:
        return report
    module.index_users()
    for graph in module.graphs:
        is_left = not entry and module.is_entry(graph)
        if not is_left and not fixed_form(graph) and thread in (None, graph.execution_thread or "main"):
            report.changes += _simplify(graph)
    return report


def _simplify(graph: Graph) -> int:
    """Replace what can be in one graph; how many instructions are gone."""
    replaced: list[Node] = []
    for node in graph.nodes:
        if not isinstance(node, Apply) or node.opcode not in (_GET, "tuple"):
            continue
        source = _made_of(node) if node.opcode == _GET else _whole(node)
        if source is None or lost_in_replacement(node, source) or (node.is_output and _waits(node)):
            continue
        _replace(node, source)
        replaced.append(node)
    erase_dead(reversed(replaced))
    return len(replaced)


def _made_of(element: Node) -> Node | None:
    """What an element of a tuple, or of tuples in one another, was made of; None where that cannot be told."""
    path, source = list[int](), element
    while source.opcode == _GET:
        if source is not element and _waits(source):
            return None
        path.append(source.attributes["index"])
        source = source.operands[0]
    while path:
        if source.opcode != "tuple" or path[-1] >= len(source.operands) or _waits(source):
            return None
        source = source.operands[path.pop()]
    return source


def _whole(made: Apply) -> Node | None:
    """The tuple of which another one has all elements, in order; None where there is none."""
    first = made.operands[0] if made.operands else made
    source = first.operands[0] if first.opcode == _GET else None
    if source is None or not isinstance(source.type, TupleType) or len(source.type.elements) != len(made.operands):
        return None
    for number, element in enumerate(made.operands):
        if element.opcode != _GET or element.operands[0] is not source or element.attributes["index"] != number:
            return None
        if _waits(element):
            return None
    return source


def _waits(node: Node) -> bool:
    return bool(node.attributes.get(_WAITS))


def _replace(node: Apply, source: Node) -> None:
    """Let what uses a node use another, and wait for what the node waited for; so too what waits for the node."""
    users, before = node.users, node.attributes.get(_WAITS) or ()
    node.graph.replace_uses(node, source)
    for user in users:
        awaited = dict.fromkeys((*(user.attributes.get(_WAITS) or ()), *before))
        if awaited:
            may_go = user.opcode in (_GET, "tuple")  # and what uses it wait for what it waits for, not for its operands
            left = tuple(other for other in awaited if may_go or other not in user.operands)
            user.graph.set_attributes(user, user.attributes.changed({_WAITS: left or None}))
    if before:  # what used it waits now
        node.graph.set_attributes(node, node.attributes.changed({_WAITS: None}))


register_pass(
    "simplify-tuples",
    "elements of tuples are what they were made of, and tuples of all elements the tuple itself",
    simplify_tuples,
    ("entry", "thread"),
)
