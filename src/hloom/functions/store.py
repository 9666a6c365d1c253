"""The store: values of variables and contents of mutable objects, at one point of a program's run.

A branch or a loop body works on a layer of its own, whose changes are joined into the layer below or thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hloom.functions.values import Array, Tuple, Variable
from hloom.ir import DTYPES, Apply, Node, Parameter

MISSING = object()
ARGUMENT = "argument"
"""The name of a program's parameters, followed by a number, until a variable is bound to them."""
MOST_NAMED = 16
"""The maximum number of items of a tuple named after its variable."""


def name_nodes(value: Any, name: str) -> None:
    """Name the node of a variable's value after the variable, where it has the name of its op or is an argument's."""
    if isinstance(value, Array):
        name_node(value.node, name)
    elif isinstance(value, Tuple) and len(value.items) <= MOST_NAMED:
        for item in value.items:
            if isinstance(item, Array):
                name_node(item.node, name)


def name_node(node: Node, name: str) -> None:
    stem = node.name.partition(".")[0]
    is_anonymous = stem == node.opcode if isinstance(node, Apply) else is_argument(node)
    if is_anonymous and name.isascii() and name.isidentifier() and not is_reserved(name):
        node.graph.rename(node, name)


def is_reserved(name: str) -> bool:
    """Whether HLO text has no instruction of this name."""
    return name in DTYPES or name in ("token", "opaque") or name.startswith("__")


def is_argument(node: Node) -> bool:
    return isinstance(node, Parameter) and node.name.removeprefix(ARGUMENT).isdecimal()


class Store:
    """A layer of bindings over another one."""

    __slots__ = ("entries", "lines", "parent", "reads")

    def __init__(self, parent: Store | None = None) -> None:
        self.parent = parent
        self.entries: dict[Any, Any] = {}
        self.lines: dict[Any, str] = {}  # where variables were bound
        self.reads: dict[Any, Any] | None = None  # what was read from the layers below, where that is noted

    def get(self, key: Any) -> Any:
        """What a variable is bound to or a cell holds; MISSING where the key is not of this point."""
        layer: Store | None = self
        while layer is not None:
            value = layer.entries.get(key, MISSING)
            if value is not MISSING:
                return value
            if layer.reads is not None and layer.parent is not None:
                value = layer.parent.get(key)
                layer.reads.setdefault(key, value)
                return value
            layer = layer.parent
        return MISSING

    def set(self, key: Any, value: Any) -> None:
        """Bind a variable, or change what a cell or an array holds."""
        if isinstance(value, Array):
            if isinstance(key, Array):
                value.root = key
            elif value.root is not None:
                value = value.root
        self.entries[key] = value
        if isinstance(key, Variable):
            name_nodes(value, key.name)

    def line(self, key: Any) -> str | None:
        """Where a variable was bound last."""
        layer: Store | None = self
        while layer is not None:
            if key in layer.lines:
                return layer.lines[key]
            layer = layer.parent
        return None

    def held(self, key: Any) -> Any:
        """The same, but an array that nothing changed yet holds itself."""
        value = self.get(key)
        return key if value is MISSING and isinstance(key, Array) else value

    def array(self, array: Array) -> Array:
        """An array with its elements as they are at this point."""
        root = array.identity
        held = self.get(root)
        return held if isinstance(held, Array) else root if held is MISSING else array

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not MISSING

    def former(self, key: Any) -> Any:
        """What the layers below hold for a key."""
        return self.parent.held(key) if self.parent is not None else MISSING

    def changed(self) -> Iterator[Any]:
        """The keys of the layers below that this layer changes, in the order of first changes."""
        for key, value in self.entries.items():
            former = self.former(key)
            if former is not MISSING and former is not value:
                yield key
