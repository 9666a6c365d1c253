"""How much memory a device takes under a choice: liveness over the entry, with the sizes of shards.

Two orders are tried, the text's and a list schedule, and the lower peak counts, as XLA does. What is made from a scalar
or from nothing takes no memory of its own, nor does a reshape. A value that is read in another spec is there twice.
No result is taken to be written over an operand. An estimate from above: up to a fifth too much was seen.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from hloom.analysis.schedule import order_of
from hloom.ir import Apply, Constant, Module, Node, Parameter, TensorType
from hloom.sharding.mesh import Mesh
from hloom.sharding.pricing import width_of
from hloom.sharding.problem import Problem, aliases, asked, output_at
from hloom.sharding.spec import Spec

VIEWS = frozenset({"reshape", "bitcast", "tuple", "get-tuple-element"})
MADE_ANEW = frozenset({"broadcast", "iota", "constant", "partition-id"})

Piece = tuple[Node, Spec | None]
"""A value as it lies, or (with a spec) a copy of it in that spec."""


def footprint(problem: Problem, choice: dict[int, int], specs: dict[Node, Spec]) -> int:
    """Bytes at the peak: parameters, outputs that alias none of them, and what is live between."""
    module, mesh = problem.module, problem.mesh
    sizes = {node: _bytes(node, specs.get(node), mesh) for node in module.entry.nodes}
    wanted = _wanted(problem, choice, specs)
    arguments = sum(sizes[each] for each in module.entry.parameters)
    orders = (module.entry.nodes, _listed(module, mesh, specs))
    peak = min(_peak(module, order, sizes, wanted, mesh) for order in orders)
    return round(arguments + _unaliased(module, sizes) + peak)


def _bytes(node: Node, spec: Spec | None, mesh: Mesh) -> float:
    if not isinstance(node.type, TensorType):
        return 0.0
    dims = mesh.local_dims(node.type.dims, spec) if spec is not None else node.type.dims
    return math.prod(dims) * width_of(node)


def _wanted(problem: Problem, choice: dict[int, int], specs: dict[Node, Spec]) -> dict[tuple[Node, int], Spec]:
    """By reader and operand the spec that is read, where the value lies otherwise."""
    found: dict[tuple[Node, int], Spec] = {}
    for value, reads in problem.reads.items():
        for read in reads:
            cluster = problem.clusters.of(read.like if read.like is not None else read.reader)
            if cluster is None or read.like is not None:
                continue
            target = asked(problem, read, problem.options[cluster.number][choice[cluster.number]])
            if specs.get(value) != target:
                found[read.reader, read.place] = target
    return found


def _listed(module: Module, mesh: Mesh, specs: dict[Node, Spec]) -> Sequence[Node]:
    """A list schedule of the entry, by the sizes of shards."""
    copy = module.clone()
    pairs = dict(zip(copy.entry.nodes, module.entry.nodes, strict=True))
    for made, node in pairs.items():
        if isinstance(node.type, TensorType) and node in specs:
            copy.entry.set_type(made, TensorType(node.type.dtype, mesh.local_dims(node.type.dims, specs[node])))
    return [pairs[each] for each in order_of(copy, "list")(copy.entry)]


def _unaliased(module: Module, sizes: dict[Node, float]) -> float:
    root = module.entry.output
    if root is None:
        return 0.0
    given = {output_at(root, alias.output_index) for alias in aliases(module)}
    outputs = root.inputs if root.opcode == "tuple" else (root,)
    return sum(sizes[each] for each in dict.fromkeys(outputs) if each not in given)


def _peak(
    module: Module,
    order: Sequence[Node],
    sizes: dict[Node, float],
    wanted: dict[tuple[Node, int], Spec],
    mesh: Mesh,
) -> float:
    """The most bytes of temporaries that are live at once."""
    root = module.entry.output
    fixed = set(root.inputs if root is not None and root.opcode == "tuple" else (root,))
    readers = _last_reads(order, wanted)
    ends: dict[int, list[Piece]] = defaultdict(list)
    for piece, place in readers.items():
        ends[place].append(piece)
    live, peak, present = 0.0, 0.0, set()
    for place, node in enumerate(order):
        pieces: list[Piece] = [
            (operand, wanted[node, n]) for n, operand in enumerate(node.inputs) if (node, n) in wanted
        ]
        if _is_made(node) and node not in fixed:
            pieces.append((node, None))
        for piece in pieces:
            if piece not in present:
                present.add(piece)
                live += sizes[piece[0]] if piece[1] is None else _bytes(piece[0], piece[1], mesh)
        peak = max(peak, live)
        for piece in ends[place]:
            if piece in present:
                present.discard(piece)
                live -= sizes[piece[0]] if piece[1] is None else _bytes(piece[0], piece[1], mesh)
    return peak


def _last_reads(order: Sequence[Node], wanted: dict[tuple[Node, int], Spec]) -> dict[Piece, int]:
    """When each piece is read last, through views and what is made anew."""
    found: dict[Piece, int] = {}
    for place, node in enumerate(order):
        waiting = [(operand, wanted.get((node, n))) for n, operand in enumerate(node.inputs)]
        while waiting:
            operand, spec = waiting.pop()
            found[operand, spec] = place
            if spec is not None:
                found[operand, None] = max(found.get((operand, None), 0), place)
            elif isinstance(operand, Apply) and operand.opcode in VIEWS | MADE_ANEW:
                waiting += [(each, wanted.get((operand, n))) for n, each in enumerate(operand.inputs)]
    return found


def _is_made(node: Node) -> bool:
    """Whether an instruction fills a buffer of its own."""
    return not isinstance(node, Parameter | Constant) and node.opcode not in VIEWS and node.opcode not in MADE_ANEW
