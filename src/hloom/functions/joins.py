"""Joins: computes the `JoinSpec` that covers all values that meet at a control-flow join."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.aliases import origins_of
from hloom.functions.container_classes import is_container
from hloom.functions.equality import same
from hloom.functions.join_specs import (
    ABSENT,
    CellSpec,
    ChoiceSpec,
    JoinSpec,
    LeafSpec,
    MaybeSpec,
    NoCommonType,
    PartsSpec,
    SameSpec,
    ViewSpec,
    chain_of,
)
from hloom.functions.store import MISSING, Store
from hloom.functions.values import (
    UNBOUND,
    AbstractValue,
    Array,
    Cell,
    ConflictingValue,
    Const,
    Derived,
    Fields,
    FunctionClosure,
    Maybe,
    Method,
    PartialCall,
    Ref,
    Scope,
    Series,
    Tuple,
    ValueChoice,
    Variable,
    described,
)
from hloom.functions.view_maps import ViewMap
from hloom.ir import TensorType

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

NUMBERS = (bool, int, float, complex, np.generic)


class Join:
    """One meeting of paths: what was decided for cells and scopes, so that aliases stay aliases."""

    def __init__(self, interpreter: Interpreter, store: Store, rebound: Collection[Any] = ()) -> None:
        self.interpreter = interpreter
        self.store = store  # where control flow goes on
        self.rebound = rebound  # the variables whose values are joined
        self._met: dict[tuple[int, Cell], Cell] = {}  # by path and object: what stands for it after the join
        self.arrays: dict[tuple[Any, ...], Array] = {}
        """The arrays that were lifted, by what they are on each path."""
        self._cells: dict[tuple[Any, ...], CellSpec] = {}
        self._scopes: dict[tuple[Any, ...], Scope] = {}
        self._pending: set[Any] = set()

    def unify(self, values: Sequence[Any], stores: Sequence[Store], *, widen: bool = False) -> JoinSpec:
        """The common structure of values from several paths; raises NoCommonType."""
        given = [(value, store) for value, store in zip(values, stores, strict=True) if value is not ABSENT]
        if not given:
            return SameSpec(UNBOUND)
        values, stores = [value for value, _ in given], [store for _, store in given]
        first = values[0]
        conflict = next(filter(None, map(_conflict, values, stores)), None)
        if conflict is not None:
            return SameSpec(conflict)
        if any(value is UNBOUND or isinstance(value, Maybe) for value in values):
            return self._maybe(values, stores, widen)
        if all(same(first, value) for value in values[1:]) and not (widen and _is_number(first)) and self._stays(first):
            return SameSpec(first)
        if all(isinstance(value, Array) or _is_number(value) for value in values):
            return self._view(values) or self._leaf(values, stores)
        if all(isinstance(value, Tuple) for value in values):
            return self._tuple(values, stores, widen)
        is_object = all(isinstance(value, Ref) for value in values)
        if is_object and all(value.cell.cls is first.cell.cls or _is_container(value) for value in values):
            return self._cell(values, stores, widen)
        if all(isinstance(value, Fields) for value in values):
            return self._fields(values, stores, widen)
        if all(isinstance(value, FunctionClosure) and value.code is first.code for value in values):
            spec = self._tried(lambda: self._closure(values, stores, widen), len(values))
            if spec is not None:
                return spec
        if all(isinstance(value, PartialCall) for value in values):
            spec = self._partial(values, stores, widen)
            if spec is not None:
                return spec
        if all(isinstance(value, Method) and value.name == first.name for value in values):
            spec = self._tried(lambda: self._method(values, stores, widen), len(values))
            if spec is not None:
                return spec
        if all(isinstance(value, Derived) and _derivation(value) == _derivation(first) for value in values):
            transformation, options = first.transformation, first.options
            return self._parts(
                [(value.function,) for value in values], stores, widen,
                lambda value, store: (value.function,),
                lambda join, items: Derived(transformation, items[0], options),
            )  # fmt: skip
        if all(isinstance(value, Series) and value.rule == first.rule for value in values):
            rule = first.rule
            return self._parts(
                [value.parts for value in values], stores, widen,
                lambda value, store: value.parts, lambda join, items: Series(rule, tuple(items)),
            )  # fmt: skip
        return self._choice(values, stores, widen)

    def _tried(self, unify: Callable[[], JoinSpec | None], count: int) -> JoinSpec | None:
        """What functions have in common; None where several are to be alternatives instead."""
        try:
            return unify()
        except NoCommonType:
            if count == 1:
                raise
            return None

    def _method(self, values: Sequence[Method], stores: Sequence[Store], widen: bool) -> JoinSpec:
        name = values[0].name
        return self._parts(
            [(value.owner,) for value in values], stores, widen,
            lambda value, store: (value.owner,), lambda join, items: Method(items[0], name),
        )  # fmt: skip

    def _stays(self, value: Any) -> bool:
        """Whether a value means the same where control flow goes on: its arrays are of a graph around."""
        if isinstance(value, Array):
            return self.interpreter.is_visible(value.node)
        if isinstance(value, Tuple):
            return all(map(self._stays, value.items))
        if isinstance(value, Fields):
            return all(map(self._stays, value.items))
        if isinstance(value, PartialCall):
            return self._stays(value.function) and all(map(self._stays, (*value.arguments, *value.keywords.values())))
        if isinstance(value, Method):
            return self._stays(value.owner)
        if isinstance(value, Derived):
            return self._stays(value.function)
        if isinstance(value, Series):
            return all(map(self._stays, value.parts))
        if isinstance(value, ValueChoice):
            return self._stays(value.tag) and all(map(self._stays, value.options))
        if isinstance(value, Ref):
            return value.cell in self.store
        if isinstance(value, FunctionClosure):
            return all(variable in self.store for variable in self.captured(value).values())
        return True

    def captured(self, closure: FunctionClosure) -> dict[str, Variable]:
        """The variables that a closure reads, by name."""
        return self.interpreter.captured_variables(closure)

    def _parts(
        self,
        rows: Sequence[Sequence[Any]],
        stores: Sequence[Store],
        widen: bool,
        take: Callable[[Any, Store], Sequence[Any]],
        make: Callable[[Join, Sequence[Any]], Any],
    ) -> JoinSpec:
        columns = list(zip(*rows, strict=True))
        parts = tuple(self.unify(column, stores, widen=widen) for column in columns)
        return PartsSpec(parts, take, make)

    def _maybe(self, values: Sequence[Any], stores: Sequence[Store], widen: bool) -> JoinSpec:
        inner: list[Any] = []
        inner_stores: list[Store] = []
        for value, store in zip(values, stores, strict=True):
            if value is not UNBOUND:
                inner.append(value.value if isinstance(value, Maybe) else value)
                inner_stores.append(store)
        if not inner:
            return SameSpec(UNBOUND)
        return MaybeSpec(self.unify(inner, inner_stores, widen=widen))

    def _view(self, values: Sequence[Any]) -> JoinSpec | None:
        """What views of one array, which lives on after the join, have in common; None where they are unlike."""
        if not all(isinstance(value, Array) and value.identity.view is not None for value in values):
            return None
        memory = values[0].memory
        chains = [chain_of(value) for value in values]
        is_one = all(value.memory is memory and value.dims == values[0].dims for value in values)
        if not is_one or len(set(map(len, chains))) > 1 or not self.interpreter.is_made_outside(memory):
            return None
        maps: list[ViewMap] = []
        for row in zip(*chains, strict=True):
            common: ViewMap | None = row[0].map.opened(self.interpreter)
            for view in row[1:]:
                common = None if common is None else common.joined(view.map)
            if common is None:
                return None
            maps.append(common)
        numbers = [
            [number for view, way in zip(chain, maps, strict=True) for number in view.map.numbers(way)]
            for chain in chains
        ]
        whole = self.interpreter.numbers.of_python[int]
        strides = tuple(view.strides for view in chains[0])
        if any(tuple(view.strides for view in chain) != strides for chain in chains):
            return None
        return ViewSpec(memory, tuple(maps), strides, (TensorType(whole),) * len(numbers[0]))

    def _leaf(self, values: Sequence[Any], stores: Sequence[Store]) -> JoinSpec:
        numbers = self.interpreter.numbers
        shapes = {value.dims if isinstance(value, Array) else () for value in values}
        if len(shapes) > 1:
            texts = " and ".join(dict.fromkeys(described(value) for value in values))
            raise NoCommonType(f"{texts} have unequal shapes")
        element, weak = numbers.promoted(values)
        return LeafSpec(TensorType(element, shapes.pop()), weak, origins_of(values, stores))

    def _tuple(self, values: Sequence[Tuple], stores: Sequence[Store], widen: bool) -> JoinSpec:
        first = values[0]
        if any(value.cls is not first.cls or len(value.items) != len(first.items) for value in values):
            texts = " and ".join(dict.fromkeys(described(value) for value in values))
            raise NoCommonType(f"{texts} differ in length or class")
        cls = first.cls
        return self._parts(
            [value.items for value in values], stores, widen,
            lambda value, store: value.items, lambda join, items: Tuple(tuple(items), cls),
        )  # fmt: skip

    def _fields(self, values: Sequence[Fields], stores: Sequence[Store], widen: bool) -> JoinSpec:
        first = values[0]
        if any(value.keys != first.keys or len(value.items) != len(first.items) for value in values):
            raise NoCommonType("containers of unequal lengths or keys")
        keys = first.keys
        return self._parts(
            [value.items for value in values], stores, widen,
            lambda value, store: value.items, lambda join, items: Fields(keys, tuple(items)),
        )  # fmt: skip

    def _cell(self, values: Sequence[Ref], stores: Sequence[Store], widen: bool) -> JoinSpec:
        key = tuple(value.cell for value in values)
        if key in self._cells:
            return SameSpec(Ref(self._cells[key].cell))
        first = values[0]
        if any(value.cell.cls is not first.cell.cls for value in values):
            texts = " and ".join(dict.fromkeys(described(value) for value in values))
            raise NoCommonType(f"{texts} have no type in common")
        is_shared = any(
            value.cell in self.store and self.interpreter.references(value.cell, self.rebound) for value in values
        )
        frozen = "which of several objects it is, only the run knows; copy it first" if is_shared else None
        frozen = frozen or next((value.cell.frozen for value in values if value.cell.frozen), None)
        cell = Cell(first.cell.cls, frozen)
        for value, store in zip(values, stores, strict=True):
            other = self._met.setdefault((id(store), value.cell), cell)
            if other is not cell:  # two names that mean one object on this path only
                cell.frozen = other.frozen = "whether two names mean one object, only the run knows; copy it first"
        placeholder = CellSpec(cell, SameSpec(None))
        self._cells[key] = placeholder
        contents = [store.get(value.cell) for value, store in zip(values, stores, strict=True)]
        spec = CellSpec(cell, self.unify(contents, stores, widen=widen))
        self._cells[key] = spec
        return spec

    def _closure(self, values: Sequence[FunctionClosure], stores: Sequence[Store], widen: bool) -> JoinSpec | None:
        """Functions of one source with other captured values: one function whose captured values are joined."""
        first = values[0]
        tables = [self.captured(value) for value in values]
        if any(table.keys() != tables[0].keys() for table in tables):
            return None
        names = [name for name in tables[0] if not self._is_common([table[name] for table in tables])]
        if first.code.declared_nonlocal & set(names):
            return None
        key = (first.code, *(value.scope for value in values))
        if key in self._scopes or key in self._pending:
            raise NoCommonType(f"{described(first)} captures itself")
        counts = (len(first.defaults), list(first.keyword_defaults))
        if any((len(value.defaults), list(value.keyword_defaults)) != counts for value in values):
            return None

        def take(value: FunctionClosure, store: Store) -> Sequence[Any]:
            table = self.captured(value)
            return [
                *(self._content(store, table[name]) for name in names),
                *value.defaults,
                *value.keyword_defaults.values(),
            ]

        def make(join: Join, items: Sequence[Any]) -> FunctionClosure:
            scope = Scope(first.code, None, tables[0], globals=first.scope.globals, outside=_all_outside(first.scope))
            scope.variables.update((name, variable) for name, variable in tables[0].items() if name not in names)
            for name, item in zip(names, items, strict=False):
                join.store.set(scope.variables[name], item)
            rest = list(items[len(names) :])
            return FunctionClosure(
                first.code, scope, tuple(rest[: counts[0]]), dict(zip(counts[1], rest[counts[0] :], strict=True))
            )

        rows = [take(value, store) for value, store in zip(values, stores, strict=True)]
        self._pending.add(key)
        try:
            return self._parts(rows, stores, widen, take, make)
        finally:
            self._pending.discard(key)

    def _is_common(self, variables: Sequence[Variable]) -> bool:
        """Whether paths capture one variable, which lives on after the join."""
        return all(variable is variables[0] for variable in variables) and variables[0] in self.store

    @staticmethod
    def _content(store: Store, variable: Variable) -> Any:
        value = store.get(variable)
        return UNBOUND if value is MISSING else value

    def _partial(self, values: Sequence[PartialCall], stores: Sequence[Store], widen: bool) -> JoinSpec | None:
        first = values[0]
        counts = (len(first.arguments), list(first.keywords))
        if any((len(value.arguments), list(value.keywords)) != counts for value in values):
            return None
        for column in zip(*(value.arguments for value in values), strict=True):  # methods of objects of several classes
            if len({item.cell.cls for item in column if isinstance(item, Ref)}) > 1:
                return None

        def take(value: PartialCall, store: Store) -> Sequence[Any]:
            return [value.function, *value.arguments, *value.keywords.values()]

        def make(join: Join, items: Sequence[Any]) -> PartialCall:
            arguments = tuple(items[1 : 1 + counts[0]])
            return PartialCall(items[0], arguments, dict(zip(counts[1], items[1 + counts[0] :], strict=True)))

        try:
            rows = [take(value, store) for value, store in zip(values, stores, strict=True)]
            return self._parts(rows, stores, widen, take, make)
        except NoCommonType:
            return None

    def _choice(self, values: Sequence[Any], stores: Sequence[Store], widen: bool) -> JoinSpec:
        """Functions and objects of unlike structure: alternatives, each of values that differ in arrays only."""
        alternatives: list[list[tuple[AbstractValue, Store]]] = []
        for value, store in zip(values, stores, strict=True):
            for option in value.options if isinstance(value, ValueChoice) else (value,):
                is_leaf = isinstance(option, Array) or _is_number(option)
                if (is_leaf and not _has_none(values)) or isinstance(option, Fields):
                    texts = " and ".join(dict.fromkeys(described(item) for item in values))
                    raise NoCommonType(f"{texts} have no type in common")
                row = next((row for row in alternatives if self.is_alike(*row[0], option, store)), None)
                if row is None:
                    alternatives.append([(option, store)])
                elif not any(same(option, known) for known, _ in row):
                    row.append((option, store))
        firsts = [row[0][0] for row in alternatives]
        present = [option for option in firsts if not _is_none(option)]
        shapes = {_shape(option) for option in present}
        is_mixed = len({type(option) for option in present}) > 1 and any(map(_is_container, present))
        if is_mixed or (len(shapes) > 1 and any(shape is not None for shape in shapes)):
            texts = " and ".join(dict.fromkeys(described(option) for option in firsts))
            raise NoCommonType(f"{texts} have no type in common")
        if len(alternatives) == 1 and not any(isinstance(value, ValueChoice) for value in values):
            raise NoCommonType(f"{described(firsts[0])} holds what only one path computes")
        parts = [self._alternative(row, widen) for row in alternatives]
        return ChoiceSpec(tuple(row[0] for row in alternatives), tuple(parts))

    def _alternative(self, row: Sequence[tuple[AbstractValue, Store]], widen: bool) -> JoinSpec:
        option = row[0][0]
        if len(row) == 1 and self._stays(option):
            return SameSpec(option)
        if isinstance(option, ValueChoice):
            raise NoCommonType(f"{described(option)} holds what only one path computes")
        return self.unify([value for value, _ in row], [store for _, store in row], widen=widen)

    def is_alike(
        self, a: Any, a_store: Store, b: Any, b_store: Store, pending: frozenset[tuple[int, int]] = frozenset()
    ) -> bool:
        """Whether two values are of one alternative: they differ in numbers, and in the functions that they hold."""
        key = id(a), id(b)
        if a is b or key in pending:
            return True
        pending = pending | {key}

        def same_elements(left: Sequence[Any], right: Sequence[Any]) -> bool:
            rows = zip(left, right, strict=False)
            return len(left) == len(right) and all(self.is_alike(x, a_store, y, b_store, pending) for x, y in rows)

        if any(value is UNBOUND or isinstance(value, Maybe) for value in (a, b)):
            return True
        if all(isinstance(value, Array) or _is_number(value) for value in (a, b)):
            dims = [value.dims if isinstance(value, Array) else () for value in (a, b)]
            return dims[0] == dims[1]
        if type(a) is not type(b):
            return bool(pending - {key}) and _is_function(a) and _is_function(b)
        if isinstance(a, FunctionClosure):
            if a.code is not b.code:
                return bool(pending - {key})
            tables = self.captured(a), self.captured(b)
            if tables[0].keys() != tables[1].keys():
                return False
            held = [[self._content(a_store, tables[0][name]), self._content(b_store, tables[1][name])]
                    for name in tables[0] if tables[0][name] is not tables[1][name]]  # fmt: skip
            return same_elements(
                [*(x for x, _ in held), *a.defaults], [*(y for _, y in held), *b.defaults]
            ) and same_elements(list(a.keyword_defaults.values()), list(b.keyword_defaults.values()))
        if isinstance(a, PartialCall):
            return a.keywords.keys() == b.keywords.keys() and same_elements(
                [a.function, *a.arguments, *a.keywords.values()], [b.function, *b.arguments, *b.keywords.values()]
            )
        if isinstance(a, Method):
            return a.name == b.name and same_elements([a.owner], [b.owner])
        if isinstance(a, Derived):
            return _derivation(a) == _derivation(b) and same_elements([a.function], [b.function])
        if isinstance(a, Series):
            return a.rule == b.rule and same_elements(a.parts, b.parts)
        if isinstance(a, Tuple):
            return a.cls is b.cls and same_elements(a.items, b.items)
        if isinstance(a, Fields):
            return a.keys == b.keys and same_elements(a.items, b.items)
        if isinstance(a, Ref):
            return a.cell.cls is b.cell.cls and same_elements([a_store.get(a.cell)], [b_store.get(b.cell)])
        if isinstance(a, ValueChoice):
            return True
        return same(a, b) or (bool(pending - {key}) and _is_function(a) and _is_function(b))


def _conflict(value: Any, store: Store) -> ConflictingValue | None:
    """Why a value cannot be used: itself, or what became of the elements of an array."""
    if isinstance(value, Array) and value.has_elements:
        value = store.get(value.memory)
    return value if isinstance(value, ConflictingValue) else None


def _is_function(value: Any) -> bool:
    if isinstance(value, Const):
        return callable(value.value) and not isinstance(value.value, type)
    return isinstance(value, (FunctionClosure, PartialCall, Method, Derived, ValueChoice))


def _is_none(value: Any) -> bool:
    return isinstance(value, Const) and value.value is None


def _has_none(values: Sequence[Any]) -> bool:
    return any(map(_is_none, (option for value in values for option in getattr(value, "options", (value,)))))


def _shape(value: Any) -> tuple[int, ...] | None:
    """The dimensions of an array or a number; None of what is no such thing."""
    return value.dims if isinstance(value, Array) else () if _is_number(value) else None


def _is_container(value: Any) -> bool:
    return isinstance(value, Tuple) or (isinstance(value, Ref) and is_container(value.cell.cls))


def _is_number(value: Any) -> bool:
    return isinstance(value, Const) and isinstance(value.value, NUMBERS)


def _derivation(value: Derived) -> Any:
    return value.transformation, repr(value.options)


def _all_outside(scope: Scope) -> dict[str, Any]:
    tables: list[dict[str, Any]] = []
    current: Scope | None = scope
    while current is not None:
        tables.append(current.outside)
        current = current.parent
    return {name: cell for table in reversed(tables) for name, cell in table.items()}
