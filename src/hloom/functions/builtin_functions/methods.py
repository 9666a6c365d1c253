"""Methods of arrays, containers, strings and numbers: a table for each class of owner."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hloom.functions.builtin_functions.containers import counts_of, pairs_of, sort
from hloom.functions.builtin_functions.table import check_count, check_method
from hloom.functions.container_classes import option_of, plain_class
from hloom.functions.iterators import is_iterator
from hloom.functions.symbols import BINARY_METHODS, COMPARISON_METHODS, UNARY_METHODS
from hloom.functions.values import (
    NONE,
    TRUE,
    AbstractValue,
    Arguments,
    Array,
    Const,
    Fields,
    Keywords,
    MessageText,
    Method,
    Ref,
    Series,
    Tuple,
    fields_of,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

MethodTable = dict[str, Callable[["Interpreter", Any, Arguments, Keywords], AbstractValue]]
NUMBER_METHODS: MethodTable = {}
TUPLE_METHODS: MethodTable = {}
LIST_METHODS: MethodTable = {}
DICT_METHODS: MethodTable = {}
DEQUE_METHODS: MethodTable = {}
ORDERED_DICT_METHODS: MethodTable = {}
COUNTER_METHODS: MethodTable = {}
RANGE_METHODS: MethodTable = {}
VIEW_METHODS: MethodTable = {}


def call_method(interpreter: Interpreter, method: Method, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """A method of an array, a container, a string or a number."""
    owner, name = method.owner, method.name
    if isinstance(owner, Method) and owner.name == "at[]":
        assert isinstance(owner.owner, Tuple)
        array, index = owner.owner.items
        assert isinstance(array, Array)
        return interpreter.library.update_at(array, index, name, list(arguments))
    operated = _operator_method(interpreter, owner, name, arguments) if isinstance(owner, (Array, Const)) else None
    if operated is not None:
        return operated
    if isinstance(owner, Array) and not owner.weak:
        return interpreter.library.method(owner, name, arguments, keywords)
    if isinstance(owner, Const):
        return _known_method(interpreter, owner, name, arguments, keywords)
    table = _table_of(owner)
    handler = table.get(name) if table is not None else None
    if handler is None:
        interpreter.refuse(f"method {name} of {_owner_name(owner)} cannot be compiled")
    check_method(interpreter, interpreter.classes.class_of(owner), name, arguments, keywords)
    return handler(interpreter, owner, arguments, keywords)


def _operator_method(
    interpreter: Interpreter, owner: Array | Const, name: str, arguments: Arguments
) -> AbstractValue | None:
    """`x.__add__(y)` and the like of numbers; None for other methods."""
    operators = interpreter.operators
    if isinstance(owner, Const) and not (isinstance(owner.value, PYTHON_NUMBERS) and len(arguments) == 1):
        return None
    if name in UNARY_OPERATORS and not arguments:
        return operators.unary(UNARY_OPERATORS[name], owner)
    stem = name[3:] if name.startswith("__r") and name[3:] in BINARY_OPERATORS else name[2:]
    symbol = BINARY_OPERATORS.get(stem) or COMPARISON_OPERATORS.get(stem)
    if symbol is None or not name.startswith("__") or len(arguments) != 1:
        return None
    (other,) = arguments
    if not isinstance(owner, Array) or owner.weak:
        classes = [interpreter.classes.class_of(value) for value in (owner, other)]
        order = [PYTHON_NUMBERS.index(cls) if cls in PYTHON_NUMBERS else len(PYTHON_NUMBERS) for cls in classes]
        if order[1] > max(order[0], 1):  # an int knows ints and bools only, a float also ints
            return Const(NotImplemented)
    if stem in COMPARISON_OPERATORS:
        return operators.compare(symbol, owner, other)
    return operators.binary(symbol, other, owner) if stem != name[2:] else operators.binary(symbol, owner, other)


PYTHON_NUMBERS = (bool, int, float, complex)
BINARY_OPERATORS = {f"{name}__": symbol for symbol, name in BINARY_METHODS.items()}
COMPARISON_OPERATORS = {name[2:]: symbol for symbol, name in COMPARISON_METHODS.items()}
UNARY_OPERATORS = {name: symbol for symbol, name in UNARY_METHODS.items()}
SPECIAL_METHODS: dict[str, Callable[..., Any]] = {
    "__len__": len, "__getitem__": operator.getitem, "__setitem__": operator.setitem, "__delitem__": operator.delitem,
    "__contains__": operator.contains, "__iter__": iter, "__next__": next, "__reversed__": reversed, "__abs__": abs,
    "__int__": int, "__float__": float, "__complex__": complex, "__bool__": bool, "__index__": operator.index,
    "__round__": round, "__floor__": math.floor, "__ceil__": math.ceil, "__trunc__": math.trunc,
    "__divmod__": divmod, "__str__": str, "__repr__": repr,
}  # fmt: skip
"""The functions that call a method of a built-in class, by its name."""
SEQUENCE_OPERATORS: dict[str, Callable[..., Any]] = {
    "__add__": operator.add, "__mul__": operator.mul, "__rmul__": operator.mul, "__or__": operator.or_,
    "__eq__": operator.eq, "__ne__": operator.ne, "__lt__": operator.lt, "__le__": operator.le, "__gt__": operator.gt,
    "__ge__": operator.ge,
}  # fmt: skip


def _table_of(owner: AbstractValue) -> MethodTable | None:
    if isinstance(owner, Array):
        return NUMBER_METHODS
    if isinstance(owner, Tuple):
        return TUPLE_METHODS
    if isinstance(owner, Ref):
        return methods_of(owner.cell.cls)
    if isinstance(owner, Series):
        return RANGE_METHODS if owner.rule == "range" else VIEW_METHODS
    return None


def methods_of(cls: type) -> MethodTable | None:
    """The methods of a class of containers; None where it is no such class."""
    plain = plain_class(cls)
    if plain is deque:
        return {**{name: LIST_METHODS[name] for name in DEQUE_AND_LIST}, **DEQUE_METHODS}
    if plain is OrderedDict:
        return {**DICT_METHODS, **ORDERED_DICT_METHODS}
    if plain is Counter:
        return {**DICT_METHODS, **COUNTER_METHODS}
    return {list: LIST_METHODS, dict: DICT_METHODS, defaultdict: DICT_METHODS}.get(plain)


def _owner_name(owner: AbstractValue) -> str:
    return "a number" if isinstance(owner, Array) else repr(owner)


def _known_method(
    interpreter: Interpreter, owner: Const, name: str, arguments: Arguments, keywords: Keywords
) -> AbstractValue:
    """A method of a Python object that is known now: called now."""
    if isinstance(owner.value, MessageText):
        interpreter.refuse("a text that holds numbers of the run is only fit for a message")
    if name == "format" and any(isinstance(item, Array) for item in (*arguments, *keywords.values())):
        return Const(MessageText(owner.value))
    if name == "format":
        for item in (*arguments, *keywords.values()):
            interpreter.iterators.refuse_text(item)
    plain = [interpreter.static(item, "an argument") for item in arguments]
    named = {key: interpreter.static(item, key) for key, item in keywords.items()}
    with interpreter.errors_raised():
        return interpreter.embed(getattr(owner.value, name)(*plain, **named))


def _method(table: MethodTable, *names: str) -> Callable[[Any], Any]:
    """Enter a handler of the interpreter, the owner, arguments and keywords."""

    def enter(handler: Any) -> Any:
        for name in names:
            table[name] = handler
        return handler

    return enter


# Numbers


@_method(NUMBER_METHODS, "conjugate")
def _conjugate(interpreter: Interpreter, owner: Array, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Array(interpreter.emitter.conjugate(interpreter.numbers.as_number(owner).node), True)


@_method(NUMBER_METHODS, "is_integer")
def _is_integer(interpreter: Interpreter, owner: Array, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    if not owner.dtype.is_float:
        return TRUE
    emitter = interpreter.emitter
    is_integral = emitter.compare("EQ", emitter.elementwise("floor", owner.node), owner.node)
    return Array(emitter.elementwise("and", is_integral, emitter.op("is-finite", owner.node)), True)


@_method(NUMBER_METHODS, "bit_length")
def _bit_length(interpreter: Interpreter, owner: Array, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    emitter = interpreter.emitter
    size = interpreter.numbers.absolute(interpreter.numbers.as_number(owner))
    assert isinstance(size, Array)
    zeros = emitter.elementwise("count-leading-zeros", size.node)
    return Array(emitter.sub(emitter.like(size.dtype.bits, zeros), zeros), True)


@_method(NUMBER_METHODS, "bit_count")
def _bit_count(interpreter: Interpreter, owner: Array, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    size = interpreter.numbers.absolute(interpreter.numbers.as_number(owner))
    assert isinstance(size, Array)
    return Array(interpreter.emitter.elementwise("popcnt", size.node), True)


# Sequences


def _items(interpreter: Interpreter, owner: Tuple | Ref) -> list[AbstractValue]:
    return list(owner.items if isinstance(owner, Tuple) else interpreter.contents(owner).items)


@_method(TUPLE_METHODS, "index")
@_method(LIST_METHODS, "index")
def _index(interpreter: Interpreter, owner: Tuple | Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "index")
    operators = interpreter.operators
    truths = [operators.truth(operators.compare("==", item, arguments[0])) for item in _items(interpreter, owner)]
    if True in truths:
        del truths[truths.index(True) + 1 :]
    nodes = [(number, truth) for number, truth in enumerate(truths) if truth is not False]
    if not nodes:
        interpreter.raise_error(ValueError, "the item is not in the sequence")
    position, is_there = nodes.pop()
    result: AbstractValue = Const(position)
    if not isinstance(is_there, bool):
        met = is_there
        for _, truth in nodes:
            assert not isinstance(truth, bool)
            met = interpreter.emitter.elementwise("or", met, truth)
        interpreter.check(met, ValueError, "the item is not in the sequence")
    for number, truth in reversed(nodes):
        assert not isinstance(truth, bool)
        result = interpreter.control.choose(truth, lambda number=number: Const(number), lambda last=result: last)
    return result


def _position(interpreter: Interpreter, items: Sequence[AbstractValue], wanted: AbstractValue) -> int:
    for number, item in enumerate(items):
        truth = interpreter.operators.truth(interpreter.operators.compare("==", item, wanted))
        if truth is True:
            return number
        if truth is not False:
            interpreter.refuse("where an item is must be known when the program is compiled")
    interpreter.raise_error(ValueError, "the item is not in the sequence")


@_method(TUPLE_METHODS, "count")
@_method(LIST_METHODS, "count")
def _occurrences(
    interpreter: Interpreter, owner: Tuple | Ref, arguments: Arguments, keywords: Keywords
) -> AbstractValue:
    result: AbstractValue = Const(0)
    for item in _items(interpreter, owner):
        truth = interpreter.operators.truth(interpreter.operators.compare("==", item, arguments[0]))
        one = Const(int(truth)) if isinstance(truth, bool) else Array(truth, True)
        result = interpreter.operators.binary("+", result, one)
    return result


@_method(TUPLE_METHODS, "_replace")
def _replace(interpreter: Interpreter, owner: Tuple, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    names = owner.cls._fields  # type: ignore[attr-defined]
    unknown = [key for key in keywords if key not in names]
    if unknown:
        interpreter.raise_error(ValueError, f"Got unexpected field names: {unknown!r}")
    return Tuple(tuple(keywords.get(key, item) for key, item in zip(names, owner.items, strict=True)), owner.cls)


@_method(TUPLE_METHODS, "_asdict")
def _as_dict(interpreter: Interpreter, owner: Tuple, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.new_object(dict, Fields(tuple(owner.cls._fields), owner.items))  # type: ignore[attr-defined]


# Lists


@_method(LIST_METHODS, "copy")
def _copy_list(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.new_object(owner.cell.cls, Fields(None, tuple(_items(interpreter, owner))))


def _list_change(
    name: str, table: MethodTable = LIST_METHODS
) -> Callable[[Callable[[Interpreter, list[AbstractValue], Arguments, Keywords], AbstractValue | None]], Any]:
    """Enter a method that changes a list: its handler changes the items and gives the method's result, if any."""

    def enter(change: Any) -> Any:
        def method(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
            items = _items(interpreter, owner)
            result = change(interpreter, items, arguments, keywords)
            if name == "insert" and len(items) > (option_of(owner.cell.cls) or len(items)):
                interpreter.raise_error(IndexError, "deque already at its maximum size")
            _set_items(interpreter, owner, items, is_left=name.endswith("left"))
            return NONE if result is None else result

        table[name] = method
        return change

    return enter


def _set_items(interpreter: Interpreter, owner: Ref, items: Sequence[AbstractValue], *, is_left: bool) -> None:
    """Change the items of a list, or of a deque, which lets go of items at the other end than the one that grew."""
    most = option_of(owner.cell.cls)
    if most is not None and len(items) > most:
        items = items[:most] if is_left else items[len(items) - most :]
    interpreter.change(owner, Fields(None, tuple(items)))


_list_change("append")(lambda interpreter, items, arguments, keywords: items.append(arguments[0]))
_list_change("appendleft", DEQUE_METHODS)(lambda interpreter, items, arguments, keywords: items.insert(0, arguments[0]))
_list_change("reverse")(lambda interpreter, items, arguments, keywords: items.reverse())
_list_change("clear")(lambda interpreter, items, arguments, keywords: items.clear())


def _extension(name: str, table: MethodTable) -> None:
    @_method(table, name)
    def extend(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        is_left = name == "extendleft"
        items = interpreter.iterators.items(arguments[0])
        if not is_iterator(arguments[0]):
            further = list(items)
            held = interpreter.contents(owner).items
            made = (*reversed(further), *held) if is_left else (*held, *further)
            _set_items(interpreter, owner, made, is_left=is_left)
            return NONE
        for item in items:  # what makes the items may read the list meanwhile
            held = interpreter.contents(owner).items
            _set_items(interpreter, owner, (item, *held) if is_left else (*held, item), is_left=is_left)
        return NONE


_extension("extend", LIST_METHODS)
_extension("extendleft", DEQUE_METHODS)


@_list_change("insert")
def _insert(interpreter: Interpreter, items: list[AbstractValue], arguments: Arguments, keywords: Keywords) -> None:
    items.insert(interpreter.static(arguments[0], "the position of insert()"), arguments[1])


@_list_change("pop")
def _pop_item(
    interpreter: Interpreter, items: list[AbstractValue], arguments: Arguments, keywords: Keywords
) -> AbstractValue:
    number = interpreter.static(arguments[0], "the position of pop()") if arguments else -1
    with interpreter.errors_raised():
        return items.pop(number)


@_list_change("remove")
def _remove(interpreter: Interpreter, items: list[AbstractValue], arguments: Arguments, keywords: Keywords) -> None:
    del items[_position(interpreter, items, arguments[0])]


@_list_change("sort")
def _sort(interpreter: Interpreter, items: list[AbstractValue], arguments: Arguments, keywords: Keywords) -> None:
    items[:] = interpreter.iterators.items(sort(interpreter, [Tuple(tuple(items))], keywords))


DEQUE_AND_LIST = (
    "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse",
)  # fmt: skip
"""The methods that deques share with lists."""


@_list_change("popleft", DEQUE_METHODS)
def _pop_left(
    interpreter: Interpreter, items: list[AbstractValue], arguments: Arguments, keywords: Keywords
) -> AbstractValue:
    if not items:
        interpreter.raise_error(IndexError, "pop from an empty deque")
    return items.pop(0)


@_list_change("rotate", DEQUE_METHODS)
def _rotate(interpreter: Interpreter, items: list[AbstractValue], arguments: Arguments, keywords: Keywords) -> None:
    count = interpreter.static(arguments[0], "how far rotate() goes") if arguments else 1
    if items:
        first = -count % len(items)
        items[:] = items[first:] + items[:first]


# Dicts


def _dict_view(name: str) -> None:
    @_method(DICT_METHODS, name)
    def view(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        return Series(name, (owner,))


for _name in ("keys", "values", "items"):
    _dict_view(_name)


@_method(VIEW_METHODS, "isdisjoint")
def _is_disjoint(interpreter: Interpreter, owner: Series, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    known = set_of_view(interpreter, owner).isdisjoint(interpreter.static(arguments[0], "what is compared"))
    return Const(known)


def set_of_view(interpreter: Interpreter, view: Series) -> frozenset[Any]:
    """The set that the keys or the items of a dict are, which must be known now."""
    if view.rule == "values":
        interpreter.raise_error(TypeError, "the values of a dict are not set")
    return frozenset(interpreter.static(view, "what a set of keys and items holds"))


@_method(DICT_METHODS, "copy")
def _copy_dict(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.new_object(owner.cell.cls, interpreter.contents(owner))


@_method(DICT_METHODS, "update")
def _update(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    for source in arguments:
        for key, item in pairs_of(interpreter, source):
            interpreter.change(owner, interpreter.contents(owner).changed(key, item))
    fields = interpreter.contents(owner)
    for key, item in keywords.items():
        fields = fields.changed(key, item)
    interpreter.change(owner, fields)
    return NONE


def _key_and_item(interpreter: Interpreter, owner: Ref, arguments: Arguments) -> tuple[Any, AbstractValue | None]:
    key = interpreter.static(arguments[0], "the key of a dict")
    return key, interpreter.contents(owner).get(key)


@_method(DICT_METHODS, "get")
def _get(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    _, item = _key_and_item(interpreter, owner, arguments)
    return item if item is not None else arguments[1] if len(arguments) > 1 else NONE


@_method(DICT_METHODS, "setdefault")
def _set_default(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    key, item = _key_and_item(interpreter, owner, arguments)
    if item is None:
        item = arguments[1] if len(arguments) > 1 else NONE
        interpreter.change(owner, interpreter.contents(owner).changed(key, item))
    return item


@_method(DICT_METHODS, "pop")
def _pop_key(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    key, item = _key_and_item(interpreter, owner, arguments)
    if item is None:
        if len(arguments) > 1:
            return arguments[1]
        interpreter.raise_error(KeyError, repr(key))
    interpreter.change(owner, interpreter.contents(owner).without(key))
    return item


@_method(ORDERED_DICT_METHODS, "move_to_end")
def _move_to_end(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    key, item = _key_and_item(interpreter, owner, arguments)
    if item is None:
        interpreter.raise_error(KeyError, repr(key))
    last = interpreter.static(arguments[1] if len(arguments) > 1 else keywords.get("last", TRUE), "last")
    pairs = interpreter.contents(owner).without(key).pairs
    pairs.insert(len(pairs) if last else 0, (key, item))
    interpreter.change(owner, fields_of(pairs))
    return NONE


def _counter_change(name: str, symbol: str) -> None:
    @_method(COUNTER_METHODS, name)
    def changed(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        fields = interpreter.contents(owner)
        other = counts_of(interpreter, arguments, keywords)
        for key, item in other.pairs:
            former = fields.get(key) or Const(0)
            fields = fields.changed(key, interpreter.operators.binary(symbol, former, item))
        interpreter.change(owner, fields)
        return NONE


_counter_change("update", "+")
_counter_change("subtract", "-")


@_method(COUNTER_METHODS, "total")
def _total(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    result: AbstractValue = Const(0)
    for item in interpreter.contents(owner).items:
        result = interpreter.operators.binary("+", result, item)
    return result


@_method(COUNTER_METHODS, "most_common")
def _most_common(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    fields = interpreter.contents(owner)
    counts = [interpreter.static(item, "a count that most_common() orders by") for item in fields.items]
    number = interpreter.static(arguments[0], "how many are wanted") if arguments else None
    pairs = Counter(dict(zip(fields.keys or (), counts, strict=True))).most_common(number)
    return interpreter.new_list([Tuple((interpreter.embed(key), Const(count))) for key, count in pairs])


@_method(COUNTER_METHODS, "elements")
def _elements(interpreter: Interpreter, owner: Ref, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    fields = interpreter.contents(owner)
    counts = [interpreter.static(item, "how often elements() yields a key") for item in fields.items]
    pairs = zip(fields.keys or (), counts, strict=True)
    items = [interpreter.embed(key) for key, count in pairs for _ in range(count)]
    return interpreter.iterators.new(itertools.chain, "series", Const(0), Tuple(tuple(items)))


# Ranges


@_method(RANGE_METHODS, "index")
def _range_index(interpreter: Interpreter, owner: Series, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "index")
    operators = interpreter.operators
    is_there = operators.truth(operators.compare("in", arguments[0], owner))
    if is_there is False:
        interpreter.raise_error(ValueError, "the number is not in the range")
    if is_there is not True:
        interpreter.check(is_there, ValueError, "the number is not in the range")
    start, _, step = owner.parts
    return operators.binary("//", operators.binary("-", arguments[0], start), step)


@_method(RANGE_METHODS, "count")
def _range_count(interpreter: Interpreter, owner: Series, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "count")
    is_there = interpreter.operators.compare("in", arguments[0], owner)
    return interpreter.operators.binary("+", is_there, Const(0))
