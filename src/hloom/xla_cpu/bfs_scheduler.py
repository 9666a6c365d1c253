"""The order in which kernels run: first come, first served, as each has what it reads (XLA's BFScheduler)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Sequence

from hloom.ir import Graph, Node


def breadth_first(graph: Graph, fused: Collection[Node]) -> Sequence[Node]:
    """The nodes that are needed, each kernel when it is ready, what is fused before the first that takes it in."""
    kernels = [node for node in _post_order(graph) if node not in fused]
    readers: dict[Node, list[Node]] = defaultdict(list)
    waiting: dict[Node, int] = {}
    for kernel in kernels:
        read = _read(kernel, fused)
        waiting[kernel] = len(read)
        for each in read:
            readers[each].append(kernel)
    ready = deque(kernel for kernel in kernels if not waiting[kernel])
    order: list[Node] = []
    placed: set[Node] = set()
    while ready:
        kernel = ready.popleft()
        _place(kernel, fused, placed, order)
        for reader in readers[kernel]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return order


def last_readers(order: Sequence[Node], fused: Collection[Node]) -> dict[Node, int]:
    """By fused node the place of the last kernel that takes it in."""
    found: dict[Node, int] = {}
    for place in range(len(order) - 1, -1, -1):
        node = order[place]
        until = found[node] if node in fused else place
        for operand in node.inputs:
            if operand in fused and found.get(operand, -1) < until:
                found[operand] = until
    return found


def _post_order(graph: Graph) -> list[Node]:
    """What is needed, operands before what reads them, the first one first: XLA's order before scheduling."""
    roots = [node for node in graph.nodes if node is graph.output or node.opcode == "parameter" or _has_effect(node)]
    order: list[Node] = []
    entered: set[Node] = set()
    pending = [(node, False) for node in sorted(roots, key=lambda node: node is not graph.output, reverse=True)]
    while pending:
        node, is_done = pending.pop()
        if is_done:
            order.append(node)
        elif node not in entered:
            entered.add(node)
            pending.append((node, True))
            pending += ((each, False) for each in reversed(node.inputs) if each not in entered)
    return order


def _has_effect(node: Node) -> bool:
    return node.opcode in ("outfeed", "send", "custom-call") and node.type is not None


def _read(kernel: Node, fused: Collection[Node]) -> list[Node]:
    """The kernels that one reads, through what is fused."""
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    pending = list(reversed(kernel.inputs))
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in fused:
            pending += reversed(node.inputs)
        else:
            found[node] = None
    return list(found)


def _place(kernel: Node, fused: Collection[Node], placed: set[Node], order: list[Node]) -> None:
    """Put a kernel at the end of the order, behind what is fused into it."""
    pending: list[tuple[Node, bool]] = [(kernel, False)]
    while pending:
        node, is_ready = pending.pop()
        if node in placed:
            continue
        if is_ready:
            placed.add(node)
            order.append(node)
            continue
        pending.append((node, True))
        pending += ((each, False) for each in node.inputs if each in fused and each not in placed)
