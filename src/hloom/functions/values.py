"""Abstract values: what is known about an expression's value while its graph is built.

Numbers and arrays that only the run knows are `Array`s, nodes of the graph; everything else is known now. Mutable
objects are cells of the store, so that aliases see each other's changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions import prelude
from hloom.functions.code import Code
from hloom.ir import DType, Graph, Node, TensorType
from hloom.text import Location

if TYPE_CHECKING:
    from hloom.functions.views import View


class AbstractValue:
    """An abstract value; compared by identity."""

    __slots__ = ()


class Array(AbstractValue):
    """An array, or a number, that the run computes. A weak one is Python's own number, whose type gives way.

    An array whose elements may change is a name: what it holds at a point is another `Array`, whose `root` it is.
    """

    __slots__ = ("home", "is_boxed", "is_fixed", "is_row_major", "node", "root", "view", "weak")

    def __init__(self, node: Node, weak: bool = False, view: View | None = None) -> None:
        self.node = node
        self.weak = weak
        self.view = view  # where its elements are, if they are another array's
        self.root: Array | None = None  # the array whose elements these are after a change
        self.home: Graph | None = None  # the graph that a copy was made in, whose node is another array's
        self.is_boxed = False  # an array without dimensions, whose one element may be changed
        self.is_fixed = False  # an array of jax's, whose elements do not change
        self.is_row_major = True  # laid out in memory as NumPy's new arrays are; False where that is not known

    def copied(self, graph: Graph) -> Array:
        """A copy made in a graph, whose elements may be changed apart."""
        made = Array(self.node, self.weak)
        made.home = graph
        made.is_boxed, made.is_fixed = self.identity.is_boxed, self.identity.is_fixed
        return made

    @property
    def identity(self) -> Array:
        """The array that these are the elements of at some point."""
        return self.root or self

    @property
    def memory(self) -> Array:
        """The array that holds the elements: that of which it is a view, or itself."""
        array = self.identity
        while array.view is not None:
            array = array.view.owner.identity
        return array

    @property
    def has_elements(self) -> bool:
        """Whether its elements may be changed where they are, as those of no number can be."""
        identity = self.identity
        return not self.weak and bool(self.dims or identity.is_boxed or identity.view is not None)

    @property
    def type(self) -> TensorType:
        collected = self.node.type
        assert isinstance(collected, TensorType)
        return collected

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        return self.type.dims

    @property
    def literal(self) -> np.ndarray | None:
        """The elements, where they are known."""
        literal = self.node.literal
        return None if literal is None or literal.is_elided else literal.numpy()

    def __repr__(self) -> str:
        return f"{'weak ' if self.weak else ''}{self.type}"


class MessageText(str):
    """A text with placeholders for numbers that only the run knows: fit for messages of errors only."""

    __slots__ = ()


class Const(AbstractValue):
    """A Python object that is known now: None, a string, a type, a function, a number of the source."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


NONE, TRUE, FALSE = Const(None), Const(True), Const(False)


class Tuple(AbstractValue):
    """A tuple, or a named tuple of a class."""

    __slots__ = ("cls", "items")

    def __init__(self, items: tuple[AbstractValue, ...], cls: type = tuple) -> None:
        self.items = items
        self.cls = cls

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.items))})"


ITERATOR = type(iter(()))
"""The class of the objects that stand for iterators, which hold the items that are left."""


class Cell:
    """A mutable object: a list, a dict, or an instance of a class. What it holds is in the store."""

    __slots__ = ("cls", "frozen")

    def __init__(self, cls: type, frozen: str | None = None) -> None:
        self.cls = cls
        self.frozen = frozen  # why it may not be changed


class Ref(AbstractValue):
    """A reference to a mutable object."""

    __slots__ = ("cell",)

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def __repr__(self) -> str:
        return f"a {self.cell.cls.__name__}"


@dataclass(frozen=True, eq=False, slots=True)
class Fields:
    """The contents of a cell: the items of a list (keys None), of a dict, or the attributes of an instance."""

    keys: tuple[Any, ...] | None
    items: tuple[AbstractValue, ...]

    def get(self, key: Any) -> AbstractValue | None:
        """The item of a key."""
        assert self.keys is not None
        for name, item in zip(self.keys, self.items, strict=True):
            if name is key or name == key:
                return item
        return None

    def changed(self, key: Any, item: AbstractValue) -> Fields:
        """The same with another item, added last where the key is new; raises TypeError for what is not a key."""
        assert self.keys is not None
        hash(key)
        for number, name in enumerate(self.keys):
            if name is key or name == key:
                return Fields(self.keys, (*self.items[:number], item, *self.items[number + 1 :]))
        return Fields((*self.keys, key), (*self.items, item))


class Variable:
    """A variable of one run of a function's scope; what it is bound to is in the store."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Scope:
    """The variables of one run of a function, inside the scope of the function around."""

    __slots__ = ("code", "globals", "outside", "parent", "variables")

    def __init__(
        self,
        code: Code | None,
        parent: Scope | None,
        names: Any = (),
        *,
        globals: dict[str, Any] | None = None,
        outside: dict[str, Any] | None = None,
    ) -> None:
        self.code = code
        self.parent = parent
        self.variables: dict[str, Variable] = {name: Variable(name) for name in names}
        self.globals: dict[str, Any] = globals if globals is not None else parent.globals if parent else {}
        self.outside = outside or {}  # cells of Python closures, by name

    def find(self, name: str) -> Variable | None:
        """The variable that a name means, in this scope or around it."""
        scope: Scope | None = self
        while scope is not None:
            variable = scope.variables.get(name)
            if variable is not None:
                return variable
            scope = scope.parent
        return None

    def find_outside(self, name: str) -> Any:
        """The cell of a Python closure that a name means, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.outside:
                return scope.outside[name]
            scope = scope.parent
        return None


class FunctionClosure(AbstractValue):
    """A function of the program with the scope that it was defined in."""

    __slots__ = ("code", "defaults", "keyword_defaults", "original", "scope")

    def __init__(
        self, code: Code, scope: Scope, defaults: tuple[AbstractValue, ...], keyword_defaults: dict[str, AbstractValue],
        original: Any = None,
    ) -> None:  # fmt: skip
        self.code = code
        self.scope = scope
        self.defaults = defaults
        self.keyword_defaults = keyword_defaults
        self.original = original

    def __repr__(self) -> str:
        return f"function {self.code.name}"


class PartialCall(AbstractValue):
    """A function with some arguments given, as of `functools.partial`; a method with its object."""

    __slots__ = ("arguments", "function", "keywords")

    def __init__(
        self, function: AbstractValue, arguments: tuple[AbstractValue, ...], keywords: dict[str, AbstractValue]
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords

    def __repr__(self) -> str:
        return f"partial {self.function!r}"


class Method(AbstractValue):
    """A method of a built-in or an array, by name, with its object."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: AbstractValue, name: str) -> None:
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        return f"method {self.name}"


class Parent(AbstractValue):
    """What `super()` gives: an object, seen as of the classes after one in the order of resolution."""

    __slots__ = ("cls", "owner")

    def __init__(self, cls: type, owner: AbstractValue) -> None:
        self.cls = cls
        self.owner = owner

    def __repr__(self) -> str:
        return f"super of {self.owner!r}"


class Derived(AbstractValue):
    """A function made of another by `grad` and the like: the transformation's name, its function, its options."""

    __slots__ = ("function", "options", "transformation")

    def __init__(self, transformation: str, function: AbstractValue, options: dict[str, Any]) -> None:
        self.transformation = transformation
        self.function = function
        self.options = options

    def __repr__(self) -> str:
        return f"{self.transformation} of {self.function!r}"


class Series(AbstractValue):
    """What a `for` goes over without being a container: a range, and zip, enumerate, reversed and map of others."""

    __slots__ = ("parts", "rule")

    def __init__(self, rule: str, parts: tuple[AbstractValue, ...]) -> None:
        self.rule = rule
        self.parts = parts

    def __repr__(self) -> str:
        return self.rule


class ValueChoice(AbstractValue):
    """One of several values that no one type holds, such as functions; a number of the run says which."""

    __slots__ = ("options", "tag")

    def __init__(self, tag: Array, options: tuple[AbstractValue, ...]) -> None:
        self.tag = tag
        self.options = options

    def __repr__(self) -> str:
        return f"one of {', '.join(map(repr, self.options))}"


class Unbound(AbstractValue):
    """A variable that is not bound yet."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "unbound"


UNBOUND = Unbound()


class Maybe(AbstractValue):
    """A variable that is bound if a run-time condition holds."""

    __slots__ = ("flag", "value")

    def __init__(self, value: AbstractValue, flag: Array) -> None:
        self.value = value
        self.flag = flag

    def __repr__(self) -> str:
        return f"{self.value!r}, or unbound"


class ConflictingValue(AbstractValue):
    """A variable whose values at a join have no common type; an error only if it is used."""

    __slots__ = ("location", "reason")

    def __init__(self, reason: str, location: Location | None = None) -> None:
        self.reason = reason
        self.location = location  # where the paths meet


def described(value: AbstractValue) -> str:
    """What a value is, for people."""
    if isinstance(value, Array):
        if value.weak:
            return f"a number ({value.dtype})"
        return f"an array {value.type}" if value.dims else f"a scalar {value.type}"
    if isinstance(value, Const):
        if value.value is None:
            return "None"
        return f"{type(value.value).__name__} {value.value!r}"
    if isinstance(value, Tuple):
        return f"a {value.cls.__name__} of {len(value.items)}"
    return repr(value)


@dataclass(frozen=True, slots=True)
class ErrorSite:
    """An operation that may raise when the program runs, and the line that it stands on."""

    exception: type[BaseException]
    message: str
    location: Location | None
    chain: tuple[Location, ...] = ()

    @property
    def locations(self) -> tuple[Location, ...]:
        """The line and the calls around it, innermost first, without those inside of Python's own functions."""
        locations = tuple(location for location in (self.location, *self.chain) if location is not None)
        return tuple(location for location in locations if location.source != prelude.__file__) or locations


def walk(value: Any) -> Iterator[AbstractValue]:
    """A value and all that it is made of, but what cells hold."""
    pending = [value]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, Tuple):
            pending.extend(part.items)
        elif isinstance(part, PartialCall):
            pending.extend((part.function, *part.arguments, *part.keywords.values()))
        elif isinstance(part, Method):
            pending.append(part.owner)
        elif isinstance(part, Derived):
            pending.append(part.function)
        elif isinstance(part, Series):
            pending.extend(part.parts)
        elif isinstance(part, ValueChoice):
            pending.extend((part.tag, *part.options))
        elif isinstance(part, Maybe):
            pending.extend((part.value, part.flag))
        elif isinstance(part, FunctionClosure):
            pending.extend((*part.defaults, *part.keyword_defaults.values()))
        elif isinstance(part, Fields):
            pending.extend(part.items)
