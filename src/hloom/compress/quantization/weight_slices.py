"""Which elements of a weight a product reads at run time: positions in the weight, moved like its elements."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from hloom.analysis import call_sites, is_loop
from hloom.compress.quantization.weights import WeightUse
from hloom.ir import Apply, Constant, Node, Parameter, Trait
from hloom.ops import with_trait

MOVES = (with_trait(Trait.REINDEXES) - {"bitcast", "broadcast", "reverse"}) | {"convert", "dynamic-slice"}
_GET = "get-tuple-element"
_ARITHMETIC = with_trait(Trait.ELEMENTWISE)
_MOST_DEPTH = 8
"""How deep expressions of starts are compared: further down only instructions that are the same are alike."""


@dataclass(frozen=True, slots=True)
class MovementPath:
    """From where a value comes by movements alone: a parameter of the entry, or whatever is not a movement."""

    source: Node
    steps: tuple[Apply, ...]
    nodes: tuple[Node, ...]
    """All on the way, elements of loops' states included, from the source on."""

    @property
    def starts(self) -> frozenset[Hashable]:
        """What chooses the elements: the expressions of the slices' starts, with the sizes of what they cut.

        Paths that have the same cut their parameters at the same indices, in every run.
        """
        return frozenset(
            (_expression(start, _MOST_DEPTH), size)
            for step in self.steps
            if step.opcode == "dynamic-slice"
            for start, size in zip(_starts(step), step.operands[0].array_type.dims, strict=True)
            if not isinstance(start, Constant)
        )


def movement_path(node: Node) -> MovementPath:
    """The movements that lead to a node, also into loops by elements of the state that stay."""
    nodes, steps = [node], list[Apply]()
    while True:
        if isinstance(node, Apply) and node.opcode in MOVES:
            steps.append(node)
            following = node.operands[0]
        else:
            following = _before_loop(node)
            if following is None:
                return MovementPath(node, tuple(steps[::-1]), tuple(nodes[::-1]))
        node = following
        nodes.append(node)


def movements_to(use: WeightUse) -> list[Apply]:
    """The movements between a weight and a product, in order, also those in front of loops."""
    return list(movement_path(use.node.operands[use.operand_index]).steps)


def product_dims(use: WeightUse) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]]:
    """The batch and contracting dimensions of a dot's weight, and of its activation, in the latter's order."""
    names = ("lhs", "rhs")
    sides: tuple[list[list[int]], list[list[int]]] = ([], [])
    for what in ("batch", "contracting"):
        dims = [tuple(use.node.attribute(f"{name}_{what}_dims") or ()) for name in names]
        pairs = sorted(zip(dims[1 - use.operand_index], dims[use.operand_index], strict=True))
        sides[0].append([weight for _, weight in pairs])
        sides[1].append([activation for activation, _ in pairs])
    return (sides[0][0], sides[0][1]), (sides[1][0], sides[1][1])


def matrices(use: WeightUse, weight: np.ndarray, activation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A dot's weight as [batch, summed, free], its activation as [batch, rows, summed] in f64."""
    (batch, summed), (other_batch, other_summed) = product_dims(use)
    free = [dim for dim in range(weight.ndim) if dim not in (*batch, *summed)]
    shape = [prod(weight.shape[dim] for dim in dims) for dims in (batch, summed, free)]
    first = weight.transpose((*batch, *summed, *free)).reshape(shape)
    free = [dim for dim in range(activation.ndim) if dim not in (*other_batch, *other_summed)]
    shape = [prod(activation.shape[dim] for dim in dims) for dims in (other_batch, free, other_summed)]
    order = (*other_batch, *free, *other_summed)
    return first, activation.astype(np.float64).transpose(order).reshape(shape)


def _before_loop(node: Node) -> Node | None:
    """What an element of a loop's state is before the loop, where the body passes it on, or a branch's operand.

    None for other nodes.
    """
    if isinstance(node, Parameter):
        return _before_branch(node)
    if node.opcode != _GET:
        return None
    whole, index = node.operands[0], node.attributes["index"]
    operand = _before_branch(whole) if isinstance(whole, Parameter) else None
    if operand is not None:
        return operand.operands[index] if operand.opcode == "tuple" else None
    callers = whole.graph.callers if isinstance(whole, Parameter) else (whole,)
    loops = [caller for caller in callers if isinstance(caller, Apply) and is_loop(caller)]
    if len(callers) != 1 or len(loops) != 1 or loops[0].opcode != "while":
        return None
    body, start = loops[0].attributes["body"], loops[0].operands[0]
    if (
        start.opcode != "tuple"
        or body.root.opcode != "tuple"
        or (isinstance(whole, Parameter) and whole.graph is not body)
    ):
        return None
    yielded = body.root.operands[index]
    is_kept = yielded.opcode == _GET and yielded.operands[0] is body.parameters[0]
    return start.operands[index] if is_kept and yielded.attributes["index"] == index else None


def _before_branch(parameter: Parameter) -> Node | None:
    """The operand that the parameter of a conditional's branch is; None for other parameters."""
    callers = parameter.graph.callers
    if len(callers) != 1 or callers[0].opcode != "conditional":
        return None
    sites = [site for site in call_sites(callers[0]) if site.computation is parameter.graph]
    return sites[0].operands[parameter.number] if len(sites) == 1 and sites[0].operands else None


def moved_positions(step: Apply, positions: np.ndarray, latest: Mapping[Node, np.ndarray]) -> np.ndarray:
    """The positions after a movement; `latest` are the values of what it reads beside the weight."""
    match step.opcode:
        case "reshape":
            return positions.reshape(step.array_type.dims)
        case "transpose":
            return positions.transpose(step.attributes["dimensions"])
        case "slice":
            return positions[tuple(slice(cut.start, cut.limit, cut.stride) for cut in step.attributes["slice"])]
        case "dynamic-slice":
            sizes = step.attributes["dynamic_slice_sizes"]
            starts = np.concatenate([np.atleast_1d(_known(node, latest)) for node in step.operands[1:]])
            cuts = []
            for start, size, whole in zip(starts, sizes, positions.shape, strict=True):
                first = min(max(int(start), 0), whole - size)
                cuts.append(slice(first, first + size))
            return positions[tuple(cuts)]
    return positions


def _known(node: Node, latest: Mapping[Node, np.ndarray]) -> np.ndarray:
    return latest[node] if node.literal is None else node.literal.numpy()


def _starts(step: Apply) -> tuple[Node, ...]:
    """The start of every dimension; of one vector of starts as often the vector."""
    starts = tuple(step.operands[1:])
    rank = step.operands[0].array_type.rank
    return starts if len(starts) == rank else starts * rank


def _expression(node: Node, depth: int) -> Hashable:
    """A node as what computes it, so that instructions that compute the same from the same are alike."""
    if node.literal is not None:
        array = node.literal.numpy()
        return node.type, array.shape, array.tobytes()
    if not isinstance(node, Apply) or not depth or node.opcode not in _ARITHMETIC:
        return node
    operands = tuple(_expression(operand, depth - 1) for operand in node.operands)
    return node.opcode, node.type, node.attributes, operands
