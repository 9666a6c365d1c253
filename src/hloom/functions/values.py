"""Abstract values: what is known about an expression's value while its graph is built.

Numbers and arrays that only the run knows are `Array`s, nodes of the graph; everything else is known now. Mutable
objects are cells of the store, so that aliases see each other's changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np

from hloom.functions import prelude
from hloom.functions.code import Code
from hloom.ir import DType, Graph, Node, TensorType, dtype
from hloom.text import Location

if TYPE_CHECKING:
    from hloom.functions.views import View

PREDICATE, S32 = dtype("pred"), dtype("s32")


class AbstractValue:
    """An abstract value; compared by identity.

    A class whose values are made of others names in `made_of` the fields that hold these: a value, or a tuple or dict
    of values. So values of all classes can be walked, compared and made again of other parts in one way.
    """

    __slots__ = ()
    made_of: ClassVar[tuple[str, ...]] = ()

    @property
    def children(self) -> tuple[AbstractValue, ...]:
        """The values that it is made of."""
        children: list[AbstractValue] = []
        for name in self.made_of:
            part = getattr(self, name)
            if isinstance(part, tuple):
                children.extend(part)
            else:
                children.extend(part.values() if isinstance(part, dict) else (part,))
        return tuple(children)

    @property
    def outline(self) -> tuple[Any, ...]:
        """Everything but the children, to compare and to hash: values with equal outlines have as many children."""
        parts = [(row.name, getattr(self, row.name)) for row in fields(self)]  # type: ignore[arg-type]
        return tuple(_outline(part) if name in self.made_of else part for name, part in parts)

    def with_children(self, children: Iterable[Any]) -> Any:
        """A value with the same outline, made of others."""
        rest = iter(children)
        return replace(self, **{name: _refilled(getattr(self, name), rest) for name in self.made_of})  # type: ignore[type-var]


def _outline(part: Any) -> Any:
    """How many values a field holds, and under which keys."""
    return len(part) if isinstance(part, tuple) else tuple(part) if isinstance(part, dict) else None


def _refilled(part: Any, values: Iterator[Any]) -> Any:
    """What a field holds, with the next values in place of its own."""
    if isinstance(part, tuple):
        return tuple(next(values) for _ in part)
    return {name: next(values) for name in part} if isinstance(part, dict) else next(values)


class Array(AbstractValue):
    """An array, or a number, that the run computes. A weak one is Python's own number, whose type gives way.

    An array whose elements may change acts as a name: its contents at one point of the program are another `Array`,
    whose `root` is this one.
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
    """A text with placeholders for numbers that only the run knows; it can be used only in error messages."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Const(AbstractValue):
    """A Python object that is known now: None, a string, a type, a function, a number of the source."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)


NONE, TRUE, FALSE = Const(None), Const(True), Const(False)


@dataclass(frozen=True, eq=False, slots=True)
class Tuple(AbstractValue):
    """A tuple, a named tuple of a class, or a slice: its start, stop and step."""

    made_of = ("items",)
    items: tuple[AbstractValue, ...]
    cls: type = tuple

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.items))})"


ITERATOR = type(iter(()))
"""The class of the objects that stand for iterators, which hold the items that are left."""


@dataclass(eq=False, slots=True)
class Cell:
    """A mutable object: a list, a dict, or an instance of a class. What it holds is in the store."""

    cls: type
    frozen: str | None = None
    """Why it may not be changed, if it may not."""


@dataclass(frozen=True, eq=False, slots=True)
class Ref(AbstractValue):
    """A reference to a mutable object."""

    cell: Cell

    def __repr__(self) -> str:
        return f"a {self.cell.cls.__name__}"


@dataclass(frozen=True, eq=False, slots=True)
class Fields(AbstractValue):
    """The contents of a cell: the items of a list (keys None), of a dict, or the attributes of an instance."""

    made_of = ("items",)
    keys: tuple[Any, ...] | None
    items: tuple[AbstractValue, ...]

    @property
    def pairs(self) -> list[tuple[Any, AbstractValue]]:
        """The keys with their items; none for a list."""
        return list(zip(self.keys, self.items, strict=True)) if self.keys is not None else []

    def get(self, key: Any) -> AbstractValue | None:
        """The item of a key."""
        for name, item in self.pairs:
            if name is key or name == key:
                return item
        return None

    def changed(self, key: Any, item: AbstractValue) -> Fields:
        """The same with another item, added last if the key is new; raises TypeError for a key that has no hash."""
        assert self.keys is not None
        hash(key)
        for number, name in enumerate(self.keys):
            if name is key or name == key:
                return Fields(self.keys, (*self.items[:number], item, *self.items[number + 1 :]))
        return Fields((*self.keys, key), (*self.items, item))

    def without(self, key: Any) -> Fields:
        """The same without a key."""
        return fields_of((name, item) for name, item in self.pairs if name != key)


def fields_of(pairs: Iterable[tuple[Any, AbstractValue]]) -> Fields:
    """Keys and their items as the contents of a dict."""
    rows = list(pairs)
    return Fields(tuple(key for key, _ in rows), tuple(item for _, item in rows))


@dataclass(frozen=True, eq=False, slots=True)
class Variable:
    """A variable of one run of a function's scope; what it is bound to is in the store."""

    name: str

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

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> Variable | None:
        """The variable that a name means, in this scope or around it."""
        return next((scope.variables[name] for scope in self.chain() if name in scope.variables), None)

    def find_outside(self, name: str) -> Any:
        """The cell of a Python closure that a name means, or None."""
        return next((scope.outside[name] for scope in self.chain() if name in scope.outside), None)


@dataclass(frozen=True, eq=False, slots=True)
class FunctionClosure(AbstractValue):
    """A function of the program with the scope that it was defined in."""

    made_of = ("defaults", "keyword_defaults")
    code: Code
    scope: Scope
    defaults: tuple[AbstractValue, ...]
    keyword_defaults: dict[str, AbstractValue]
    original: Any = None
    """Python's function, if it is from outside the program."""

    def __repr__(self) -> str:
        return f"function {self.code.name}"


@dataclass(frozen=True, eq=False, slots=True)
class PartialCall(AbstractValue):
    """A function with some arguments given, as of `functools.partial`; a method with its object."""

    made_of = ("function", "arguments", "keywords")
    function: AbstractValue
    arguments: tuple[AbstractValue, ...]
    keywords: Keywords

    def __repr__(self) -> str:
        return f"partial {self.function!r}"


@dataclass(frozen=True, eq=False, slots=True)
class Method(AbstractValue):
    """A method of a built-in or an array, by name, with its object."""

    made_of = ("owner",)
    owner: AbstractValue
    name: str

    def __repr__(self) -> str:
        return f"method {self.name}"


@dataclass(frozen=True, eq=False, slots=True)
class Parent(AbstractValue):
    """What `super()` gives: an object, seen as of the classes after one in the order of resolution."""

    cls: type
    owner: AbstractValue

    def __repr__(self) -> str:
        return f"super of {self.owner!r}"


@dataclass(frozen=True, eq=False, slots=True)
class Derived(AbstractValue):
    """A function made of another by `grad` and the like: the transformation's name, its function, its options."""

    made_of = ("function",)
    transformation: str
    function: AbstractValue
    options: dict[str, Any]

    @property
    def outline(self) -> tuple[Any, ...]:
        return self.transformation, repr(self.options)

    def __repr__(self) -> str:
        return f"{self.transformation} of {self.function!r}"


@dataclass(frozen=True, eq=False, slots=True)
class Series(AbstractValue):
    """What a `for` goes over without being a container: a range, and zip, enumerate, reversed and map of others."""

    made_of = ("parts",)
    rule: str
    parts: tuple[AbstractValue, ...]

    def __repr__(self) -> str:
        return self.rule


@dataclass(frozen=True, eq=False, slots=True)
class ValueChoice(AbstractValue):
    """One of several values that no one type holds, such as functions; a number of the run says which."""

    made_of = ("tag", "options")
    tag: Array
    options: tuple[AbstractValue, ...]

    def __repr__(self) -> str:
        return f"one of {', '.join(map(repr, self.options))}"


class Unbound(AbstractValue):
    """A variable that is not bound yet."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "unbound"


UNBOUND = Unbound()


@dataclass(frozen=True, eq=False, slots=True)
class Maybe(AbstractValue):
    """A variable that is bound if a run-time condition holds."""

    made_of = ("value", "flag")
    value: AbstractValue
    flag: Array

    def __repr__(self) -> str:
        return f"{self.value!r}, or unbound"


@dataclass(frozen=True, eq=False, slots=True)
class ConflictingValue(AbstractValue):
    """A variable whose values at a join have no common type; an error only if it is used."""

    reason: str
    location: Location | None = None
    """Where the paths meet."""


Arguments = Sequence[AbstractValue]
Keywords = dict[str, AbstractValue]


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


def walk(value: AbstractValue) -> Iterator[AbstractValue]:
    """A value and everything that it is made of, except what cells hold."""
    pending = [value]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(part.children)


def is_number(value: Any) -> bool:
    """Whether a value is a number that is known now, Python's or NumPy's."""
    return isinstance(value, Const) and isinstance(value.value, (bool, int, float, complex, np.generic))


def is_none(value: Any) -> bool:
    return isinstance(value, Const) and value.value is None


def is_slice(value: AbstractValue) -> TypeGuard[Tuple]:
    return isinstance(value, Tuple) and value.cls is slice


def index_parts(index: AbstractValue) -> tuple[AbstractValue, ...]:
    """The parts of an index: `x[i, j]` has two."""
    return index.items if isinstance(index, Tuple) and index.cls is not slice else (index,)


def is_moving(value: AbstractValue) -> TypeGuard[Array]:
    """Whether a value is an array, or a number, that only the run knows."""
    return isinstance(value, Array) and value.literal is None
