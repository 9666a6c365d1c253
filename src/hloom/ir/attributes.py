"""The attributes of one node: an immutable mapping that many nodes may share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, cast


class Referent:
    """A graph or a node that an attribute holds by reference rather than by name."""

    __slots__ = ()
    is_graph: ClassVar[bool] = False


class Attributes(dict[str, Any]):
    """Attribute names and values in printing order; `changed` returns a modified copy.

    >>> Attributes(dimensions=(0, 1)).changed(dimensions=(1,), index=None)
    Attributes({'dimensions': (1,)})
    """

    __slots__ = ("_referents", "parts", "refers", "text")

    refers: bool
    """Whether any value is or contains a graph or a node, which cloning must remap."""
    text: str | None
    """The printed form, cached by a reader or printer; only kept where it cannot change."""
    parts: tuple[str, str] | None
    """The printed form when there is a backend config: the text before the metadata, and the config."""

    def __init__(self, *arguments: Any, **names: Any) -> None:
        super().__init__(*arguments, **names)
        referents: list[Any] = []
        for value in self.values():
            if isinstance(value, Referent):
                referents.append(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Referent):
                referents += [part for part in cast("tuple[Any, ...]", value) if isinstance(part, Referent)]
        self._referents = tuple(referents)
        self.refers = bool(referents)
        self.text = self.parts = None

    @staticmethod
    def of_reference(before: Attributes, name: str, referent: Referent, text: str | None) -> Attributes:
        """Attributes without references followed by one that has a reference; `text` is the printed form if known."""
        made = Attributes.__new__(Attributes)
        dict[str, Any].__init__(made, before)
        dict[str, Any].__setitem__(made, name, referent)
        made._referents = (referent,)
        made.refers = True
        made.text = text
        made.parts = None
        return made

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("attributes are immutable: use Graph.set_attributes with node.attributes.changed(...)")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _refuse  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Attributes({super().__repr__()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Attributes, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def changed(self, values: Mapping[str, Any] | None = None, /, **names: Any) -> Attributes:
        """A copy with some attributes set; None removes one. Pass names that contain a dash in the mapping."""
        result = {**self, **(values or {}), **names}
        return Attributes({name: value for name, value in result.items() if value is not None})

    def referents(self) -> tuple[Any, ...]:
        """The graphs and nodes that the values are or contain, in order."""
        return self._referents

    def mapped(self, change: Mapping[Any, Any]) -> Attributes:
        """A copy whose graphs and nodes are replaced by the mapping; those not in it are kept."""
        if not self.refers:
            return self
        exchanged: dict[str, Any] = {}
        for name, value in self.items():
            if _refers(value):
                other = _mapped(value, change)
                if other != value:
                    exchanged[name] = other
        return Attributes({**self, **exchanged}) if exchanged else self


def _refers(value: Any) -> bool:
    return isinstance(value[0] if isinstance(value, tuple) and value else value, Referent)


def _mapped(value: Any, change: Mapping[Any, Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(change.get(part, part) for part in cast("tuple[Any, ...]", value))
    return change.get(value, value)


EMPTY = Attributes()
EMPTY.text = ""
