"""How values come about: a pass through a program, instruction by instruction, as it would run.

Called graphs are visited where they are called; the condition and the body of a loop once each.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hloom.analysis.fused import Plan, Planner
from hloom.analysis.rules import branches_of
from hloom.analysis.rules.calls import application_of
from hloom.analysis.sharing import Index, Sharing
from hloom.analysis.sizes import shape_bytes
from hloom.analysis.values import Merge, Tree, Values, leaves, part_at
from hloom.ir import Apply, Graph, Module, Node, TupleType, Type
from hloom.text import HloomError

MOST_VISITS = 8
"""Graphs called from several places are followed at each, up to so many visits per instruction of the module."""

FORWARDS = frozenset(("bitcast", "opt-barrier", "domain", "add-dependency", "all-reduce-done", "send-done"))
"""Opcodes that yield their first operand itself."""
READ_INSIDE = frozenset(("call", "while"))
"""Opcodes that read no operand themselves: their graphs do."""
DONE = {"copy-done": 0, "recv-done": 0, "async-done": 1, "all-gather-done": 1, "collective-permute-done": 1}
"""Opcodes that yield an element of what an asynchronous start has made."""
PASSES = {"copy-start": 1, "send": 0, "all-gather-start": 0, "collective-permute-start": 0}
"""Opcodes whose result holds their first operand, and at which element."""


def find_values(module: Module, planner: Planner) -> Values:
    """Run through a module once; raises HloomError where graphs call each other in a circle."""
    return _Run(module, planner).whole()


Visit = Generator[tuple[Graph, list[Tree]], Tree, Tree]


class _Trees(dict[Node, Tree]):
    """The values of nodes; a name that a text uses and never defines gets one without bytes when it is first read."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self._values = values

    def __missing__(self, node: Node) -> Tree:
        number = self._values.add(node, 0, len(self._values.steps))
        self._values.constants.add(number)
        self[node] = number
        return number


class _Run:
    """One pass through a program."""

    def __init__(self, module: Module, planner: Planner) -> None:
        self.module = module
        self.planner = planner
        self.sharing = Sharing()
        self.values = Values()
        self.trees = _Trees(self.values)
        self.types: dict[Type | None, Any] = {}
        self.visits_left = MOST_VISITS * module.node_count + 1000

    def whole(self) -> Values:
        """The values of the entry and all that it calls."""
        values, entry = self.values, self.module.entry
        values.parameters = [()] * (1 + max((each.number for each in entry.parameters), default=-1))
        for each in entry.parameters:
            values.parameters[each.number] = self._made(each, each.type, 0)
        values.output = self._visited(entry, values.parameters)
        self._read(values.output, len(values.steps))
        return values

    def _visited(self, graph: Graph, arguments: list[Tree]) -> Tree:
        """Visit a graph, each graph it calls being visited where it is called, without recursion."""
        open_graphs = [graph]
        visits: list[Visit] = [self._visit(graph, arguments)]
        answer: Tree | None = None
        while True:
            try:
                called, given = visits[-1].send(answer) if answer is not None else next(visits[-1])
            except StopIteration as end:
                visits.pop()
                open_graphs.pop()
                answer = end.value
                if not visits:
                    assert answer is not None
                    return answer
                continue
            if called in open_graphs:
                raise HloomError(f"graph {open_graphs[-1].name} leads back to {called.name}: its memory has no end")
            open_graphs.append(called)
            visits.append(self._visit(called, given))
            answer = None

    def _visit(self, graph: Graph, arguments: list[Tree]) -> Visit:
        """The instructions of a graph in order; what it yields."""
        trees, steps = self.trees, self.values.steps
        plan: Plan = self.planner.plan(graph)
        self.visits_left -= len(plan.order)
        waiting: dict[int, list[tuple[Node, Tree]]] = {}
        for position, node in enumerate(plan.order):
            now = len(steps)
            late = waiting.pop(position, ()) if waiting else ()
            for _, tree in late:
                self._read(tree, now)
            if type(node) is not Apply:
                trees[node] = self._leaf(node, arguments, now)
                steps.append(node)
                continue
            until = plan.fused.get(node)
            if until is not None:
                trees[node] = self.values.add(node, 0, now)
                held = [(each, trees[each]) for each in node.inputs if each in trees]
                waiting.setdefault(until, []).extend(held)
                steps.append(node)
                continue
            handler = _HANDLERS.get(node.opcode)
            if handler is None:
                made = self._plain(node, now, late)
            else:
                made = handler(self, node, now)
                if isinstance(made, Generator):
                    made = yield from made
                    now = len(steps)
            trees[node] = made
            for operand in node.inputs:
                if operand in trees:
                    self._read_by(node, trees[operand], now)
            steps.append(node)
        output = graph.output
        return trees.get(output, ()) if output is not None else ()

    def _leaf(self, node: Node, arguments: list[Tree], now: int) -> Tree:
        """A parameter, a constant or a name without a definition."""
        if node.opcode == "parameter":
            number = getattr(node, "number", 0)
            return arguments[number] if number < len(arguments) else self._made(node, node.type, now)
        made = self._made(node, node.type, now)
        self.values.constants.update(leaves(made))
        return made

    def _read(self, tree: Tree, now: int) -> None:
        ends = self.values.ends
        for leaf in (tree,) if type(tree) is int else leaves(tree):
            if ends[leaf] < now:
                ends[leaf] = now

    def _read_by(self, node: Apply, tree: Tree, now: int) -> None:
        if type(tree) is int and node.opcode not in READ_INSIDE:
            if self.values.ends[tree] < now:
                self.values.ends[tree] = now
        elif node.opcode == "get-tuple-element":
            self._read(self.trees[node], now)
        elif node.opcode not in READ_INSIDE:
            self._read(tree, now)

    def _made(self, node: Node, kind: Type | None, now: int) -> Tree:
        """New values for all arrays of a result."""
        if not isinstance(kind, TupleType):
            return self.values.add(node, shape_bytes(kind), now)
        return self._made_tuple(node, kind, now, ())

    def _made_tuple(self, node: Node, kind: TupleType, now: int, index: Index) -> Tree:
        made: list[Tree] = []
        for place, each in enumerate(kind.elements):
            inner = (*index, place)
            if isinstance(each, TupleType):
                made.append(self._made_tuple(node, each, now, inner))
            else:
                made.append(self.values.add(node, shape_bytes(each), now, inner))
        return tuple(made)

    def _plain(self, node: Apply, now: int, late: Any = ()) -> Tree:
        """What most instructions do: make new values, some of them in place of operands."""
        made = self._made(node, node.type, now)
        self._overwrite(node, made, late)
        for pair in self.sharing.pairs(node):
            operand = self.trees.get(node.inputs[pair.operand]) if pair.operand < len(node.inputs) else None
            old, new = part_at(operand, pair.operand_index), part_at(made, pair.result_index)
            if old is not None and new is not None:
                self.values.merges += [Merge(a, b, True) for a, b in zip(leaves(old), leaves(new), strict=False)]
        return made

    def _overwrite(self, node: Apply, made: Tree, late: Any) -> None:
        """Note which operands the results may be written over."""
        kind = node.type
        if node.opcode == "copy" or kind is None:
            return
        candidates = [(each, self.trees.get(each)) for each in node.inputs]
        for leaf in leaves(made) if type(made) is not int else (made,):
            index = self.values.indices[leaf]
            part = _part(kind, index)
            found = [
                (old, self.values.nodes[old] is operand)
                for operand, old in candidates
                if type(old) is int and self.sharing.may_overwrite(node, operand, part, index)
            ]
            found += [(old, True) for _, old in late if type(old) is int and self._is_alike(old, node)]
            if found:
                self.values.overwrites[leaf] = found

    def _is_alike(self, old: int, node: Apply) -> bool:
        return self.sharing.may_replace(self.values.nodes[old], node)

    def _forwarded(self, node: Apply, now: int) -> Tree:
        return self.trees[node.inputs[0]]

    def _collected(self, node: Apply, now: int) -> Tree:
        return tuple([self.trees[each] for each in node.inputs])

    def _element(self, node: Apply, now: int) -> Tree:
        tree = self.trees[node.inputs[0]]
        index = node.attributes.get("index")
        if type(tree) is tuple and isinstance(index, int) and 0 <= index < len(tree):
            return tree[index]
        return self._made(node, node.type, now)

    def _done(self, node: Apply, now: int) -> Tree:
        tree = self.trees[node.inputs[0]]
        place = DONE[node.opcode]
        if type(tree) is not tuple or place >= len(tree):
            return self._made(node, node.type, now)
        if node.opcode != "recv-done":
            return tree[place]
        return (tree[place], self.values.add(node, 0, now, (1,)))

    def _passing(self, node: Apply, now: int) -> Tree:
        """A start whose result holds its operands beside what it makes."""
        made = self._plain(node, now)
        place = PASSES[node.opcode]
        if type(made) is not tuple or place >= len(made):
            return made
        operands = [self.trees[each] for each in node.inputs]
        held: Tree = tuple(operands) if type(made[place]) is tuple else operands[0]
        for leaf in leaves(made[place]):
            self.values.sizes[leaf] = 0
        return (*made[:place], held, *made[place + 1 :])

    def _call(self, node: Apply, now: int) -> Tree | Visit:
        graph = node.attributes.get("to_apply") or node.attributes.get("calls")
        if not isinstance(graph, Graph) or graph.is_declared or len(graph.nodes) > self.visits_left:
            self.values.opaque_calls += 1
            return self._plain(node, now)
        return self._entered(node, graph)

    def _entered(self, node: Apply, graph: Graph) -> Visit:
        arguments = [self.trees[each] for each in node.inputs]
        result = yield graph, arguments
        self._read(result, len(self.values.steps))
        if node.opcode != "async-start":
            return result
        now = len(self.values.steps)
        rest = node.type.elements[2:] if isinstance(node.type, TupleType) else ()
        return (tuple(arguments), result, *[self._made(node, kind, now) for kind in rest])

    def _conditional(self, node: Apply, now: int) -> Tree | Visit:
        branches = branches_of(application_of(node))
        if not branches or any(graph.is_declared for graph in branches) or self.visits_left < 0:
            self.values.opaque_calls += 1
            return self._plain(node, now)
        return self._branched(node, branches)

    def _branched(self, node: Apply, branches: tuple[Graph, ...]) -> Visit:
        results: list[Tree] = []
        for graph, argument in zip(branches, node.inputs[1:], strict=False):
            result = yield graph, [self.trees[argument]]
            self._read(result, len(self.values.steps))
            results.append(result)
        made = self._made(node, node.type, len(self.values.steps))
        for result in results:
            self.values.merges += [Merge(a, b, True) for a, b in zip(leaves(result), leaves(made), strict=False)]
        return made

    def _while(self, node: Apply, now: int) -> Tree | Visit:
        body, condition = node.attributes.get("body"), node.attributes.get("condition")
        graphs = [graph for graph in (body, condition) if isinstance(graph, Graph) and not graph.is_declared]
        if len(graphs) < 2 or self.visits_left < 0:
            self.values.opaque_calls += 1
            return self._plain(node, now)
        return self._looped(node, graphs[0], graphs[1])

    def _looped(self, node: Apply, body: Graph, condition: Graph) -> Visit:
        """The condition and the body, once; what goes round shares one buffer, what stays as it is is not touched.

        before:  state ─▶ condition's parameter, body's parameter ─▶ what the body yields ─▶ the loop's result
        """
        values = self.values
        state = self.trees[node.inputs[0]]
        kept = _unchanged(body)
        before = len(values.steps)
        given = self._carried(node, state, kept, before)
        self._read(state, before)
        yield condition, [given]
        self._read(given, len(values.steps))
        inside = self._carried(node, state, kept, len(values.steps))
        yielded = yield body, [inside]
        after = len(values.steps)
        self._read(yielded, after)
        result = self._carried(node, state, kept, after)
        rows = zip(leaves(state), leaves(given), leaves(inside), leaves(yielded), leaves(result), strict=False)
        for first, asked, taken, made, last in rows:
            if first == last:
                self._read(first, after)
                continue
            is_met = self.planner.is_final or self._may_replace(made, taken)
            values.merges += [
                Merge(first, asked, True),
                Merge(asked, taken, True),
                Merge(taken, made, is_met),
                Merge(made, last, True),
            ]
        return result

    def _may_replace(self, made: int, old: int) -> bool:
        return any(each == old for each, _ in self.values.overwrites.get(made, ()))

    def _carried(self, node: Apply, state: Tree, kept: frozenset[int], now: int) -> Tree:
        """New values for a loop's state, but for the elements that the body passes on as they are."""
        kind = node.type
        if type(state) is not tuple or not isinstance(kind, TupleType) or len(kind.elements) != len(state):
            return self._made(node, kind, now)
        made: list[Tree] = []
        for place, (old, each) in enumerate(zip(state, kind.elements, strict=True)):
            if place in kept:
                made.append(old)
            elif isinstance(each, TupleType):
                made.append(self._made_tuple(node, each, now, (place,)))
            else:
                made.append(self.values.add(node, shape_bytes(each), now, (place,)))
        return tuple(made)


def _unchanged(body: Graph) -> frozenset[int]:
    """The elements of a loop's state that its body yields as it got them."""
    root = body.output
    if root is None or root.opcode != "tuple" or not body.parameters:
        return frozenset()
    parameter = body.parameters[0]
    return frozenset(
        place
        for place, each in enumerate(root.inputs)
        if each.opcode == "get-tuple-element" and each.inputs[0] is parameter and each.attributes.get("index") == place
    )


def _part(kind: Type, index: Index) -> Type:
    for place in index:
        assert isinstance(kind, TupleType), "as the tree"
        kind = kind.elements[place]
    return kind


_HANDLERS: dict[str, Any] = {
    "tuple": _Run._collected,
    "get-tuple-element": _Run._element,
    "call": _Run._call,
    "async-start": _Run._call,
    "while": _Run._while,
    "conditional": _Run._conditional,
    **dict.fromkeys(FORWARDS, _Run._forwarded),
    **dict.fromkeys(DONE, _Run._done),
    **dict.fromkeys(PASSES, _Run._passing),
}
