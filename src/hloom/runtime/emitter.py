"""Emits nodes before another node, for passes that replace one node by several."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.ir import EMPTY, DType, Literal, Node, TensorType, Type
from hloom.ops import OPS
from hloom.text import Unsupported


class ReplacementEmitter:
    """Adds nodes in front of one node; `finish` replaces that node by the last of them, which gets its name."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.graph = node.graph
        self.made: set[Node] = set()

    def apply(self, opcode: str, inputs: tuple[Node, ...], result_type: Type | None, **attributes: Any) -> Node:
        """One op, named after the node that is replaced."""
        made = self.graph.add_apply(
            OPS[opcode], inputs, result_type, attributes or EMPTY, self.node.name, before=self.node
        )
        self.made.add(made)
        return made

    def splat(self, value: float, array_type: TensorType) -> Node:
        """An array of one value everywhere."""
        bare = TensorType(array_type.dtype, array_type.dims)
        literal = Literal.splat(bare, np.asarray(value).astype(array_type.dtype.numpy))
        if not array_type.dims:
            return self.graph.add_constant(literal, bare, before=self.node)
        scalar = TensorType(array_type.dtype)
        constant = self.graph.add_constant(Literal.splat(scalar, literal.splat_value()), scalar, before=self.node)
        return self.apply("broadcast", (constant,), bare, dimensions=())

    def reshape(self, value: Node, dtype: DType, dims: tuple[int, ...]) -> Node:
        """The same elements in the same order in other dimensions."""
        return self.apply("reshape", (value,), TensorType(dtype, dims))

    def finish(self, replacement: Node) -> None:
        """Make all users use the replacement, and erase the node."""
        name = self.node.name
        self.graph.replace_uses(self.node, replacement)
        self.graph.erase(self.node)
        if replacement in self.made:
            self.graph.rename(replacement, name)


def tensor_type(node: Node) -> TensorType:
    """The type of a node that must be an array of known size; Unsupported if it is not."""
    array_type = node.type
    if isinstance(array_type, TensorType) and array_type.is_static:
        return array_type
    raise Unsupported(f"the type of {node.name} is {array_type or 'not written'}: an array of static size is needed")
