"""Joins: computes the `JoinSpec` that covers all values that meet at a control-flow join."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hloom.functions.aliases import origins_of
from hloom.functions.container_classes import is_collection
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
    is_none,
    is_number,
)
from hloom.functions.view_maps import ViewMap
from hloom.ir import TensorType

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

Rows = Sequence[tuple[Any, Store]]
"""The values that meet, each with the store of its path."""


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
        self._pending: set[Any] = set()

    def unify(self, rows: Iterable[tuple[Any, Store]], *, widen: bool = False) -> JoinSpec:
        """The common structure of values, each with the store of its path; raises NoCommonType."""
        rows = [(value, store) for value, store in rows if value is not ABSENT]
        if not rows:
            return SameSpec(UNBOUND)
        values = [value for value, _ in rows]
        first = values[0]
        conflict = next(filter(None, (_conflict(value, store) for value, store in rows)), None)
        if conflict is not None:
            return SameSpec(conflict)
        if any(value is UNBOUND or isinstance(value, Maybe) for value in values):
            return self._maybe(rows, widen)
        if all(same(first, value) for value in values[1:]) and not (widen and is_number(first)) and self._stays(first):
            return SameSpec(first)
        if all(isinstance(value, Array) or is_number(value) for value in values):
            return self._view(values) or self._leaf(rows)
        is_object = all(isinstance(value, Ref) for value in values)
        if is_object and all(value.cell.cls is first.cell.cls or _is_container(value) for value in values):
            return self._cell(rows, widen)
        if not all(type(value) is type(first) for value in values):
            return self._choice(rows, widen)
        is_alike = bool(first.made_of) and all(value.outline == first.outline for value in values)
        if isinstance(first, Tuple) and not is_alike:
            raise _unlike(values, "differ in length or class")
        if isinstance(first, Fields) and not is_alike:
            raise NoCommonType("containers of unequal lengths or keys")
        if is_alike and isinstance(first, (Tuple, Fields, Derived, Series)):
            return self._parts(first, rows, widen)
        spec: JoinSpec | None = None
        try:
            if isinstance(first, FunctionClosure) and all(value.code is first.code for value in values):
                spec = self._closure(rows, widen)
            elif is_alike and isinstance(first, (PartialCall, Method)) and not _are_methods_of_several_classes(values):
                spec = self._parts(first, rows, widen)
        except NoCommonType:
            if len(rows) == 1:
                raise
        return spec or self._choice(rows, widen)  # functions that are unlike become alternatives

    def _stays(self, value: Any) -> bool:
        """Whether a value can be used as it is after the join: its arrays belong to a graph around it."""
        if isinstance(value, Array):
            return self.interpreter.is_visible(value.node)
        if isinstance(value, Ref):
            return value.cell in self.store
        if isinstance(value, FunctionClosure):
            return all(variable in self.store for variable in self.interpreter.captured_variables(value).values())
        return all(map(self._stays, value.children)) if isinstance(value, AbstractValue) else True

    def _parts(self, first: AbstractValue, rows: Rows, widen: bool) -> JoinSpec:
        """Values of one kind, part by part."""
        columns = zip(*([(child, store) for child in value.children] for value, store in rows), strict=True)
        return PartsSpec.like(first, [self.unify(column, widen=widen) for column in columns])

    def _maybe(self, rows: Rows, widen: bool) -> JoinSpec:
        bound = [
            (value.value if isinstance(value, Maybe) else value, store) for value, store in rows if value is not UNBOUND
        ]
        return MaybeSpec(self.unify(bound, widen=widen)) if bound else SameSpec(UNBOUND)

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

    def _leaf(self, rows: Rows) -> JoinSpec:
        values = [value for value, _ in rows]
        shapes = {_shape(value) for value in values}
        if len(shapes) > 1:
            raise _unlike(values, "have unequal shapes")
        element, weak = self.interpreter.numbers.promoted(values)
        return LeafSpec(TensorType(element, shapes.pop() or ()), weak, origins_of(rows))

    def _cell(self, rows: Rows, widen: bool) -> JoinSpec:
        values = [value for value, _ in rows]
        key = tuple(value.cell for value in values)
        if key in self._cells:
            return SameSpec(Ref(self._cells[key].cell))
        first = values[0]
        if any(value.cell.cls is not first.cell.cls for value in values):
            raise _unlike(values, "have no type in common")
        is_shared = any(
            value.cell in self.store and self.interpreter.references(value.cell, self.rebound) for value in values
        )
        frozen = "which of several objects it is, only the run knows; copy it first" if is_shared else None
        frozen = frozen or next((value.cell.frozen for value in values if value.cell.frozen), None)
        cell = Cell(first.cell.cls, frozen)
        for value, store in rows:
            other = self._met.setdefault((id(store), value.cell), cell)
            if other is not cell:  # two names that mean one object on this path only
                cell.frozen = other.frozen = "whether two names mean one object, only the run knows; copy it first"
        self._cells[key] = CellSpec(cell, SameSpec(None))  # what an object that holds itself finds
        spec = CellSpec(cell, self.unify([(store.get(value.cell), store) for value, store in rows], widen=widen))
        self._cells[key] = spec
        return spec

    def _closure(self, rows: Rows, widen: bool) -> JoinSpec | None:
        """Functions of one source with other captured values: one function whose captured values are joined."""
        first: FunctionClosure = rows[0][0]
        captured = self.interpreter.captured_variables
        tables = [captured(value) for value, _ in rows]
        if any(table.keys() != tables[0].keys() for table in tables):
            return None
        names = [name for name in tables[0] if not self._is_common([table[name] for table in tables])]
        if first.code.declared_nonlocal & set(names):
            return None
        key = (first.code, *(value.scope for value, _ in rows))
        if key in self._pending:
            raise NoCommonType(f"{described(first)} captures itself")
        counts = [(len(value.defaults), list(value.keyword_defaults)) for value, _ in rows]
        if any(count != counts[0] for count in counts):
            return None

        def take(value: FunctionClosure, store: Store) -> Sequence[Any]:
            table = captured(value)
            return [*(_content(store, table[name]) for name in names), *value.children]

        def make(join: Join, items: Sequence[Any]) -> FunctionClosure:
            scope = Scope(first.code, None, tables[0], globals=first.scope.globals, outside=_all_outside(first.scope))
            scope.variables.update((name, variable) for name, variable in tables[0].items() if name not in names)
            for name, item in zip(names, items, strict=False):
                join.store.set(scope.variables[name], item)
            return replace(first.with_children(items[len(names) :]), scope=scope, original=None)

        columns = zip(*([(part, store) for part in take(value, store)] for value, store in rows), strict=True)
        self._pending.add(key)
        try:
            return PartsSpec(tuple(self.unify(column, widen=widen) for column in columns), take, make)
        finally:
            self._pending.discard(key)

    def _is_common(self, variables: Sequence[Variable]) -> bool:
        """Whether paths capture one variable, which lives on after the join."""
        return all(variable is variables[0] for variable in variables) and variables[0] in self.store

    def _choice(self, rows: Rows, widen: bool) -> JoinSpec:
        """Functions and objects of unlike structure: alternatives, each of values that differ in arrays only."""
        values = [value for value, _ in rows]
        alternatives: list[list[tuple[AbstractValue, Store]]] = []
        for value, store in rows:
            for option in value.options if isinstance(value, ValueChoice) else (value,):
                is_leaf = isinstance(option, Array) or is_number(option)
                if (is_leaf and not _has_none(values)) or isinstance(option, Fields):
                    raise _unlike(values, "have no type in common")
                row = next((row for row in alternatives if self.is_alike(*row[0], option, store)), None)
                if row is None:
                    alternatives.append([(option, store)])
                elif not any(same(option, known) for known, _ in row):
                    row.append((option, store))
        firsts = [row[0][0] for row in alternatives]
        present = [option for option in firsts if not is_none(option)]
        shapes = {_shape(option) for option in present}
        is_mixed = len({type(option) for option in present}) > 1 and any(map(_is_container, present))
        if is_mixed or (len(shapes) > 1 and any(shape is not None for shape in shapes)):
            raise _unlike(firsts, "have no type in common")
        if len(alternatives) == 1 and not any(isinstance(value, ValueChoice) for value in values):
            raise NoCommonType(f"{described(firsts[0])} holds what only one path computes")
        parts = [self._alternative(row, widen) for row in alternatives]
        return ChoiceSpec(tuple(row[0] for row in alternatives), tuple(parts))

    def _alternative(self, row: Rows, widen: bool) -> JoinSpec:
        option = row[0][0]
        if len(row) == 1 and self._stays(option):
            return SameSpec(option)
        if isinstance(option, ValueChoice):
            raise NoCommonType(f"{described(option)} holds what only one path computes")
        return self.unify(row, widen=widen)

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
        if all(isinstance(value, Array) or is_number(value) for value in (a, b)):
            return _shape(a) == _shape(b)
        if type(a) is not type(b):
            return bool(pending - {key}) and _is_function(a) and _is_function(b)
        if isinstance(a, FunctionClosure):
            if a.code is not b.code:
                return bool(pending - {key})
            tables = self.interpreter.captured_variables(a), self.interpreter.captured_variables(b)
            if tables[0].keys() != tables[1].keys():
                return False
            held = [(_content(a_store, tables[0][name]), _content(b_store, tables[1][name]))
                    for name in tables[0] if tables[0][name] is not tables[1][name]]  # fmt: skip
            return same_elements([*(x for x, _ in held), *a.children], [*(y for _, y in held), *b.children])
        if isinstance(a, ValueChoice):
            return True
        if isinstance(a, Ref):
            return a.cell.cls is b.cell.cls and same_elements([a_store.get(a.cell)], [b_store.get(b.cell)])
        if isinstance(a, AbstractValue) and a.made_of:
            return a.outline == b.outline and same_elements(a.children, b.children)
        return same(a, b) or (bool(pending - {key}) and _is_function(a) and _is_function(b))


def _conflict(value: Any, store: Store) -> ConflictingValue | None:
    """Why a value cannot be used: itself, or what became of the elements of an array."""
    if isinstance(value, Array) and value.has_elements:
        value = store.get(value.memory)
    return value if isinstance(value, ConflictingValue) else None


def _content(store: Store, variable: Variable) -> Any:
    """What a variable holds on a path, where it need not be bound."""
    value = store.get(variable)
    return UNBOUND if value is MISSING else value


def _unlike(values: Sequence[Any], problem: str) -> NoCommonType:
    texts = " and ".join(dict.fromkeys(map(described, values)))
    return NoCommonType(f"{texts} {problem}")


def _are_methods_of_several_classes(values: Sequence[Any]) -> bool:
    """Whether values are partial calls whose arguments are objects of several classes, as their `self`."""
    columns = zip(*(value.children for value in values), strict=True)
    return any(len({item.cell.cls for item in column if isinstance(item, Ref)}) > 1 for column in columns)


def _is_function(value: Any) -> bool:
    if isinstance(value, Const):
        return callable(value.value) and not isinstance(value.value, type)
    return isinstance(value, (FunctionClosure, PartialCall, Method, Derived, ValueChoice))


def _has_none(values: Sequence[Any]) -> bool:
    return any(map(is_none, (option for value in values for option in getattr(value, "options", (value,)))))


def _shape(value: Any) -> tuple[int, ...] | None:
    """The dimensions of an array or a number; None of what is no such thing."""
    return value.dims if isinstance(value, Array) else () if is_number(value) else None


def _is_container(value: Any) -> bool:
    return isinstance(value, Tuple) or is_collection(value)


def _all_outside(scope: Scope) -> dict[str, Any]:
    """The cells of Python closures that are seen from a scope, by name."""
    tables = [one.outside for one in scope.chain()]
    return {name: cell for table in reversed(tables) for name, cell in table.items()}
