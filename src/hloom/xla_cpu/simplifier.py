"""What XLA's simplifier makes of a program before kernels are formed, as far as it matters for what is stored.

reduce(x[8,1]), dimensions={1}            ->   reshape(x)
broadcast(x[8]), dimensions={0}  [8,1]    ->   reshape(x)
transpose(x[8,1]), dimensions={1,0}       ->   reshape(x)
copy(x)                                   ->   reshape(x)
broadcast(reshape(x[8])[8,1])  [8,4]      ->   broadcast(x), dimensions={0}
divide(x, broadcast(y))                   ->   multiply(x, broadcast(divide(1, y)))
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import Apply, Graph, Module, Node, TensorType
from hloom.ops import OPS
from hloom.passes.cse import cse
from hloom.passes.dce import dce
from hloom.xla_cpu.float_normalization import widen


def simplify(module: Module) -> None:
    """Write out reshapes for what they are, compute equal things once, and leave out what nothing needs."""
    dce(module)
    for graph in module.graphs:
        widen(graph)
        for node in graph.nodes:
            if isinstance(node, Apply) and isinstance(node.type, TensorType):
                _simplify(graph, node)
    cse(module)
    dce(module)
    for graph in module.graphs:
        for node in graph.nodes:
            if node.opcode == "divide" and isinstance(node, Apply):
                _multiply(graph, node)


def _simplify(graph: Graph, node: Apply) -> None:
    if _is_view(node):
        _reshape(graph, node)
    if node.opcode == "broadcast":
        _read_behind(graph, node)
    elif node.opcode == "reshape":
        base = _base(node.inputs[0])
        if base is not node.inputs[0]:
            graph.set_inputs(node, (base,))


def _multiply(graph: Graph, node: Apply) -> None:
    """Divide the few elements that are broadcast, where nothing else reads the broadcast; what is ones is no matter."""
    spread = node.inputs[1]
    if spread.opcode != "broadcast" or spread.user_count != 1 or not isinstance(spread.inputs[0], Apply):
        return
    few = spread.inputs[0]
    inverse = graph.add_apply(OPS["divide"], (few, few), few.type, before=spread)
    graph.set_inputs(spread, (inverse,))
    graph.set_function(node, OPS["multiply"])


def _is_view(node: Apply) -> bool:
    """Whether the elements stay as they are, in their order."""
    kind = node.inputs[0].type if node.inputs else None
    if not isinstance(kind, TensorType) or not isinstance(node.type, TensorType):
        return False
    if node.opcode == "copy":
        return True
    if node.opcode == "reduce" and len(node.inputs) == 2:
        return all(kind.dims[each] == 1 for each in node.attributes.get("dimensions") or ())
    if node.opcode == "broadcast":
        return math.prod(kind.dims) == math.prod(node.type.dims)
    if node.opcode == "transpose":
        moved = [each for each in node.attributes["dimensions"] if kind.dims[each] != 1]
        return moved == sorted(moved)
    return False


def _reshape(graph: Graph, node: Apply) -> None:
    graph.set_inputs(node, node.inputs[:1])
    graph.set_function(node, OPS["reshape"])
    graph.set_attributes(node, {})


def _read_behind(graph: Graph, node: Apply) -> None:
    """Let a broadcast read what is behind a reshape that only adds or drops dimensions of size one."""
    operand, base = node.inputs[0], _base(node.inputs[0])
    if base is operand or not isinstance(base.type, TensorType) or not isinstance(operand.type, TensorType):
        return
    shown = [at for at, size in zip(node.attributes["dimensions"], operand.type.dims, strict=True) if size != 1]
    sizes = _without_ones(base.type.dims)
    if sizes != _without_ones(operand.type.dims) or len(sizes) != len(base.type.dims):
        return
    graph.set_inputs(node, (base,))
    graph.set_attributes(node, {**node.attributes, "dimensions": tuple(shown)})


def _base(node: Node) -> Node:
    while node.opcode in ("reshape", "bitcast") and node.inputs:
        node = node.inputs[0]
    return node


def _without_ones(dims: Sequence[int]) -> list[int]:
    return [size for size in dims if size != 1]
