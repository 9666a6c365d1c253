"""Results of dynamic size, such as f32[<=5]: XLA's client returns arrays of the bounds' sizes, in which
the elements come first and arbitrary values follow.

    ROOT y = f32[<=5] f(x)   ->   ROOT t = (f32[<=5], s32[]) tuple(y, get-dimension-size(y), dimensions={0})
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.ir import DTYPES, TOKEN, Graph, Module, Node, TensorType, TupleType, Type
from hloom.ops import OPS

SIZE = TensorType(DTYPES["s32"])
"""The type of get-dimension-size."""


@dataclass(frozen=True, slots=True)
class DynamicDim:
    """A dimension of an output whose size is known when it has run only."""

    output: int
    dim: int


def expose_sizes(module: Module) -> list[DynamicDim]:
    """Let a module yield the sizes of its results' dynamic dimensions too, behind the results; which they are.

    A module without such results stays as it is.
    """
    entry = module.entry
    leaves = _leaves(entry, entry.root) if _has_dynamic(entry.root.type) else []
    dims = [
        (node, DynamicDim(output, dim))
        for output, node in enumerate(leaves)
        if isinstance(node.type, TensorType) and node.type.dynamic is not None
        for dim, is_dynamic in enumerate(node.type.dynamic)
        if is_dynamic
    ]
    if not dims:
        return []
    sizes = [entry.add_apply(OPS["get-dimension-size"], (node,), SIZE, {"dimensions": (of.dim,)}) for node, of in dims]
    results = [*leaves, *sizes]
    types = [node.type for node in results if node.type is not None]
    entry.set_output(entry.add_apply(OPS["tuple"], results, TupleType(types)))
    return [of for _, of in dims]


def cut(outputs: Sequence[np.ndarray], dims: Sequence[DynamicDim]) -> list[np.ndarray]:
    """The outputs at their true sizes, which are the last of them.

    XLA packs the elements of a dynamic array at the start of its buffer (IrEmitter::HandleSliceToDynamic in
    xla/service/cpu/ir_emitter.cc).
    """
    count = len(outputs) - len(dims)
    results = list(outputs[:count])
    shapes = {of.output: list(results[of.output].shape) for of in dims}
    for of, size in zip(dims, outputs[count:], strict=True):
        shapes[of.output][of.dim] = int(size)
    for output, shape in shapes.items():
        results[output] = results[output].reshape(-1)[: math.prod(shape)].reshape(shape).copy()
    return results


def _has_dynamic(root_type: Type | None) -> bool:
    leaves = root_type.leaves() if root_type is not None else ()
    return any(isinstance(leaf, TensorType) and leaf.dynamic is not None for leaf in leaves)


def _leaves(entry: Graph, root: Node) -> list[Node]:
    """The arrays of a result, tuples taken apart and tokens left out, in order."""
    leaves: list[Node] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if not isinstance(node.type, TupleType):
            leaves += [node] if node.type is not TOKEN else []
        elif node.opcode == "tuple":
            pending += reversed(node.inputs)
        else:
            get = OPS["get-tuple-element"]
            parts = [entry.add_apply(get, (node,), part, {"index": n}) for n, part in enumerate(node.type.elements)]
            pending += reversed(parts)
    return leaves
