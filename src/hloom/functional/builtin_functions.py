"""Python's own functions, and the methods of its containers, strings and numbers, on abstract values.

To add a function, add a row to `BUILTINS`: the Python object and what makes its value.
"""

from __future__ import annotations

import cmath
import copy
import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functional import gradients
from hloom.functional.values import (
    FALSE,
    NONE,
    TRUE,
    AbstractValue,
    Array,
    Const,
    Derived,
    Fields,
    FunctionClosure,
    Method,
    PartialCall,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    described,
)
from hloom.ir import dtype

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter

Handler = Callable[["Interpreter", Sequence[AbstractValue], dict[str, AbstractValue]], AbstractValue]
BUILTINS: dict[Any, Handler] = {}
PREDICATE = dtype("pred")


def row(*names: Any) -> Callable[[Handler], Handler]:
    """Enter a handler under Python objects."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            BUILTINS[name] = handler
        return handler

    return enter


def _count(interpreter: Interpreter, arguments: Sequence[AbstractValue], low: int, high: int, name: str) -> None:
    if not low <= len(arguments) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        interpreter.raise_error(TypeError, f"{name}() takes {wanted} arguments, {len(arguments)} are given")


# Numbers


@row(abs)
def absolute(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    _count(interpreter, arguments, 1, 1, "abs")
    (value,) = arguments
    if isinstance(value, Const):
        return Const(abs(value.value))
    if isinstance(value, Ref):
        method = interpreter.members.class_attribute(value, "__abs__")
        if method is not None:
            return interpreter.calls.call(method, [], {})
    return interpreter.numbers.absolute(value)


def _conversion(cls: type) -> Handler:
    def convert(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        if not arguments:
            return Const(cls())
        (value, *rest) = arguments
        if isinstance(value, ValueChoice):
            return interpreter.control.choices(value, lambda option: convert(interpreter, [option, *rest], keywords))
        if cls is bool:
            truth = interpreter.operators.truth(value)
            return Const(truth) if isinstance(truth, bool) else Array(truth, True)
        if cls is complex and rest:
            return interpreter.operators.binary("+", value, interpreter.operators.binary("*", rest[0], Const(1j)))
        if isinstance(value, Const) and rest:
            try:
                return Const(cls(value.value, *(interpreter.static(item, "an argument") for item in rest)))
            except (TypeError, ValueError) as error:
                interpreter.raise_error(type(error), str(error))
        if isinstance(value, Ref):
            method = interpreter.members.class_attribute(value, f"__{cls.__name__}__")
            if method is not None:
                return interpreter.calls.call(method, [], {})
        if not isinstance(value, (Array, Const)):
            interpreter.raise_error(TypeError, f"{cls.__name__}() takes a number, not {described(value)}")
        return interpreter.numbers.to_python(value, cls)

    return convert


for _cls in (bool, int, float, complex):
    BUILTINS[_cls] = _conversion(_cls)


@row(round)
def rounded(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    value, digits = arguments[0], [*arguments[1:], *keywords.values()]
    if isinstance(value, Const) and all(isinstance(item, Const) for item in digits):
        return Const(round(value.value, *(item.value for item in digits)))  # type: ignore[attr-defined]
    array = interpreter.numbers.array(value)
    emitter = interpreter.emitter
    if not array.weak:
        return interpreter.library.call(np.round, [array, *digits], {})
    if array.dtype.is_integer or array.dtype is PREDICATE:
        whole = interpreter.numbers.array(array, interpreter.numbers.of_python[int])
        if (
            not digits
            or not isinstance(digits[0], Const)
            or not isinstance(digits[0].value, int)
            or digits[0].value >= 0
        ):
            return whole
        return interpreter.calls.call(interpreter.embed(_round_integer), [whole, Const(10 ** -digits[0].value)], {})
    if not digits or (isinstance(digits[0], Const) and digits[0].value is None):
        node = emitter.elementwise("round-nearest-even", array.node)
        return interpreter.numbers.to_python(Array(node, True), int)
    count = interpreter.static(digits[0], "the digits of round()")
    if not isinstance(count, int) or not -15 <= count <= 15:
        interpreter.refuse("round() takes -15 to 15 digits here")
    return Array(_rounded_decimal(interpreter, array, count), True)


def _rounded_decimal(interpreter: Interpreter, array: Array, digits: int) -> Any:
    """The nearest decimal number of so many digits: ties are decided by an exact product, in two parts."""
    emitter = interpreter.emitter
    node = array.node
    scale = emitter.like(10.0 ** abs(digits), node)
    if digits < 0:
        whole = emitter.elementwise("round-nearest-even", emitter.div(node, scale))
        return emitter.mul(whole, scale)
    product = emitter.mul(node, scale)
    split = emitter.like(134217729.0 if array.dtype.name == "f64" else 4097.0, node)

    def halves(value: Any) -> tuple[Any, Any]:
        large = emitter.mul(split, value)
        high = emitter.sub(large, emitter.sub(large, value))
        return high, emitter.sub(value, high)

    a_high, a_low = halves(node)
    b_high, b_low = halves(scale)
    error = emitter.sub(emitter.mul(a_high, b_high), product)
    for a, b in ((a_high, b_low), (a_low, b_high), (a_low, b_low)):
        error = emitter.add(error, emitter.mul(a, b))
    down = emitter.elementwise("floor", product)
    fraction = emitter.sub(product, down)
    half = emitter.like(0.5, node)
    exact_half = emitter.compare("EQ", fraction, half)
    nearest = emitter.elementwise("round-nearest-even", product)
    up = emitter.add(down, emitter.like(1.0, node))
    zero = emitter.like(0.0, node)
    above, below = emitter.compare("GT", error, zero), emitter.compare("LT", error, zero)
    decided = emitter.select(above, up, emitter.select(below, down, nearest))
    whole = emitter.select(exact_half, decided, nearest)
    result = emitter.div(whole, scale)
    is_small = emitter.compare("LT", emitter.op("abs", product), emitter.like(4503599627370496.0, node))
    return emitter.select(is_small, result, node)


@row(pow)
def power(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    _count(interpreter, arguments, 2, 3, "pow")
    if len(arguments) == 3:
        if all(isinstance(value, Const) for value in arguments):
            return Const(pow(*(value.value for value in arguments)))  # type: ignore[attr-defined]
        interpreter.refuse("pow() with a modulus takes numbers that are known when the program is compiled")
    return interpreter.operators.binary("**", *arguments)


@row(divmod)
def divided(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    _count(interpreter, arguments, 2, 2, "divmod")
    binary = interpreter.operators.binary
    return Tuple((binary("//", *arguments), binary("%", *arguments)))


def _spread(interpreter: Interpreter, arguments: Sequence[AbstractValue]) -> list[AbstractValue]:
    return list(interpreter.members.items(arguments[0])) if len(arguments) == 1 else list(arguments)


def _extreme(name: str, symbol: str) -> Handler:
    def extreme(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        key, default = keywords.get("key"), keywords.get("default")
        if len(arguments) == 1 and isinstance(arguments[0], Array) and arguments[0].type.rank == 1 and key is None:
            array = arguments[0]
            if not array.dims[0] and default is None:
                interpreter.raise_error(ValueError, f"{name}() arg is an empty sequence")
            if array.dims[0]:
                return interpreter.library.call(np.max if name == "max" else np.min, [array], {})
        items = _spread(interpreter, arguments)
        if not items:
            if default is not None:
                return default
            interpreter.raise_error(ValueError, f"{name}() arg is an empty sequence")
        best = items[0]
        rank = interpreter.calls.call(key, [best], {}) if key is not None else best
        for item in items[1:]:
            other = interpreter.calls.call(key, [item], {}) if key is not None else item
            truth = interpreter.operators.truth(interpreter.operators.compare(symbol, other, rank))
            if isinstance(truth, bool):
                best, rank = (item, other) if truth else (best, rank)
            else:
                pair = interpreter.control.choose(
                    truth,
                    lambda item=item, other=other: Tuple((item, other)),
                    lambda best=best, rank=rank: Tuple((best, rank)),
                )
                best, rank = pair.items
        return best

    return extreme


BUILTINS[min], BUILTINS[max] = _extreme("min", "<"), _extreme("max", ">")


@row(sum)
def total(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    source, *rest = arguments
    start = rest[0] if rest else keywords.get("start", Const(0))
    if isinstance(source, Array) and source.dims:
        made = interpreter.library.call(np.sum, [source], {"axis": Const(0)})
        return made if isinstance(start, Const) and start.value == 0 else interpreter.operators.binary("+", start, made)
    result = start
    for item in interpreter.members.items(source):
        result = interpreter.operators.binary("+", result, item)
    return result


def _quantified(is_all: bool) -> Handler:
    def quantified(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        source = arguments[0]
        if isinstance(source, Array) and source.type.rank == 1:
            made = interpreter.library.call(np.all if is_all else np.any, [source], {})
            return Array(made.node, True) if isinstance(made, Array) else made
        nodes: list[Any] = []
        for item in interpreter.members.items(source):
            truth = interpreter.operators.truth(item)
            if isinstance(truth, bool):
                if truth is not is_all and not nodes:
                    return FALSE if is_all else TRUE
                if truth is not is_all:
                    nodes.append(interpreter.emitter.constant(truth, PREDICATE))
            else:
                nodes.append(truth)
        if not nodes:
            return TRUE if is_all else FALSE
        result = nodes[0]
        for node in nodes[1:]:
            result = interpreter.emitter.elementwise("and" if is_all else "or", result, node)
        return Array(result, True)

    return quantified


BUILTINS[all], BUILTINS[any] = _quantified(True), _quantified(False)


# Containers and series


@row(len)
def length(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    _count(interpreter, arguments, 1, 1, "len")
    if isinstance(arguments[0], ValueChoice):
        return interpreter.control.choices(arguments[0], lambda option: length(interpreter, [option], {}))
    if isinstance(arguments[0], Array) and not arguments[0].dims:
        interpreter.raise_error(TypeError, "len() of unsized object")
    made = interpreter.members.length(arguments[0])
    return made if isinstance(made, Array) else Const(made)


@row(range)
def number_range(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    _count(interpreter, arguments, 1, 3, "range")
    parts: list[AbstractValue] = []
    for value in arguments:
        if isinstance(value, Const) and isinstance(value.value, np.integer):
            value = Const(int(value.value))
        if isinstance(value, Array):
            if not (value.dtype.is_integer or value.dtype is PREDICATE) or value.dims:
                interpreter.raise_error(TypeError, f"{described(value)} cannot be interpreted as an integer")
            value = Array(interpreter.numbers.convert(value.node, interpreter.numbers.of_python[int]), True)
        elif not (isinstance(value, Const) and isinstance(value.value, int)):
            interpreter.raise_error(TypeError, f"{described(value)} cannot be interpreted as an integer")
        parts.append(value)
    start, stop, step = {1: [Const(0), *parts, Const(1)], 2: [*parts, Const(1)], 3: parts}[len(parts)]
    if isinstance(step, Const) and step.value == 0:
        interpreter.raise_error(ValueError, "range() arg 3 must not be zero")
    return Series("range", (start, stop, step))


@row(enumerate)
def enumerated(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    start = arguments[1] if len(arguments) > 1 else keywords.get("start", Const(0))
    return Series("enumerate", (arguments[0], start))


@row(zip)
def zipped(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    strict = interpreter.static(keywords.get("strict", FALSE), "strict")
    if strict:
        lengths = [interpreter.members.length(value) for value in arguments]
        if all(isinstance(item, int) for item in lengths) and len(set(lengths)) > 1:
            interpreter.raise_error(ValueError, "zip() arguments have unequal lengths")
    return Series("zip", tuple(arguments))


@row(reversed)
def backwards(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return Series("reversed", tuple(arguments))


@row(map)
def mapped(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    lengths = [interpreter.members.length(source) for source in arguments[1:]]
    if all(isinstance(item, int) for item in lengths):
        rows = zip(*(list(interpreter.members.items(source)) for source in arguments[1:]), strict=False)
        return Tuple(tuple(interpreter.calls.call(arguments[0], list(items), {}) for items in rows))
    return Series("map", tuple(arguments))


@row(filter)
def filtered(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    function, source = arguments
    kept: list[AbstractValue] = []
    for item in interpreter.members.items(source):
        tested = (
            item
            if isinstance(function, Const) and function.value is None
            else interpreter.calls.call(function, [item], {})
        )
        truth = interpreter.operators.truth(tested)
        if not isinstance(truth, bool):
            interpreter.refuse(
                "which items filter() keeps must be known when the program is compiled",
                hint="the length of the result would depend on data",
            )
        if truth:
            kept.append(item)
    return Tuple(tuple(kept))


@row(tuple)
def make_tuple(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return Tuple(tuple(interpreter.members.items(arguments[0])) if arguments else ())


@row(iter)
def iterate(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return Tuple(tuple(interpreter.members.items(arguments[0])))


@row(dataclasses.replace)
def replace(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    owner = arguments[0]
    if not isinstance(owner, Ref) or not dataclasses.is_dataclass(owner.cell.cls):
        interpreter.raise_error(TypeError, "replace() should be called on dataclass instances")
    fields = interpreter.contents(owner)
    names = [field.name for field in dataclasses.fields(owner.cell.cls) if field.init]
    values = {name: item for name in names if (item := fields.get(name)) is not None}
    return interpreter.calls.call(Const(owner.cell.cls), [], {**values, **keywords})


@row(dataclasses.fields)
def fields_of(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    owner = arguments[0]
    cls = owner.cell.cls if isinstance(owner, Ref) else interpreter.static(owner, "a dataclass")
    return Tuple(tuple(map(Const, dataclasses.fields(cls))))


def _as_plain(interpreter: Interpreter, value: AbstractValue, as_dict: bool) -> AbstractValue:
    if isinstance(value, Ref) and dataclasses.is_dataclass(value.cell.cls):
        fields = interpreter.contents(value)
        items = tuple(_as_plain(interpreter, item, as_dict) for item in fields.items)
        return interpreter.new_object(dict, Fields(fields.keys, items)) if as_dict else Tuple(items)
    if isinstance(value, Ref):
        fields = interpreter.contents(value)
        items = tuple(_as_plain(interpreter, item, as_dict) for item in fields.items)
        return interpreter.new_object(value.cell.cls, Fields(fields.keys, items))
    if isinstance(value, Tuple):
        return Tuple(tuple(_as_plain(interpreter, item, as_dict) for item in value.items), value.cls)
    return value


@row(dataclasses.asdict)
def as_dict(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return _as_plain(interpreter, arguments[0], True)


@row(dataclasses.astuple)
def as_tuple(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return _as_plain(interpreter, arguments[0], False)


@row(list)
def make_list(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return interpreter.new_list(list(interpreter.members.items(arguments[0])) if arguments else ())


@row(set, frozenset)
def make_set(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    items = list(interpreter.members.items(arguments[0])) if arguments else []
    return Const(frozenset(interpreter.static(item, "an element of a set") for item in items))


@row(dict)
def make_dict(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    fields = Fields((), ())
    if arguments:
        source = arguments[0]
        if isinstance(source, Ref) and source.cell.cls is dict:
            fields = interpreter.contents(source)
        else:
            for pair in interpreter.members.items(source):
                key, item = interpreter.members.items(pair)
                fields = fields.changed(interpreter.static(key, "the key of a dict"), item)
    for name, value in keywords.items():
        fields = fields.changed(name, value)
    return interpreter.new_object(dict, fields)


@row(sorted)
def sort(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    source = arguments[0]
    key = keywords.get("key")
    if isinstance(key, Const) and key.value is None:
        key = None
    is_reversed = interpreter.operators.truth(keywords.get("reverse", FALSE))
    if not isinstance(is_reversed, bool):
        interpreter.refuse("whether sorted() reverses must be known when the program is compiled")
    items = list(interpreter.members.items(source))
    keys = [interpreter.calls.call(key, [item], {}) for item in items] if key is not None else list(items)
    if all(isinstance(value, Const) for value in keys):
        order = sorted(range(len(items)), key=lambda n: keys[n].value, reverse=is_reversed)  # type: ignore[attr-defined]
        return interpreter.new_list([items[number] for number in order])
    pairs = [Tuple((rank, item)) for rank, item in zip(keys, items, strict=True)]
    for last in range(len(pairs) - 1, 0, -1):  # a network of comparisons, stable as Python's sort is
        for number in range(last):
            a, b = pairs[number], pairs[number + 1]
            symbol, left, right = ("<", a.items[0], b.items[0]) if is_reversed else ("<", b.items[0], a.items[0])
            truth = interpreter.operators.truth(interpreter.operators.compare(symbol, left, right))
            if isinstance(truth, bool):
                if truth:
                    pairs[number], pairs[number + 1] = b, a
                continue
            made = interpreter.control.choose(truth, lambda a=a, b=b: Tuple((b, a)), lambda a=a, b=b: Tuple((a, b)))
            pairs[number], pairs[number + 1] = made.items
    return interpreter.new_list([pair.items[1] for pair in pairs])


@row(functools.reduce)
def reduce(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    function, source, *rest = arguments
    items = list(interpreter.members.items(source))
    if not rest and not items:
        interpreter.raise_error(TypeError, "reduce() of empty iterable with no initial value")
    result = rest[0] if rest else items.pop(0)
    for item in items:
        result = interpreter.calls.call(function, [result, item], {})
    return result


@row(functools.partial)
def partial(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return PartialCall(arguments[0], tuple(arguments[1:]), keywords)


@row(functools.wraps)
def wraps(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return Const(_same)


def _same(value: Any) -> Any:
    return value


@row(_same)
def same_value(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return arguments[0]


@row(itertools.chain)
def chain(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return Tuple(tuple(item for source in arguments for item in interpreter.members.items(source)))


@row(itertools.product)
def product(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    times = interpreter.static(keywords.get("repeat", Const(1)), "repeat")
    rows = [list(interpreter.members.items(source)) for source in arguments] * times
    return Tuple(tuple(Tuple(items) for items in itertools.product(*rows)))


@row(itertools.accumulate)
def accumulate(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    collected: list[AbstractValue] = []
    function = arguments[1] if len(arguments) > 1 else keywords.get("func")
    items = list(interpreter.members.items(arguments[0]))
    if "initial" in keywords:
        items.insert(0, keywords["initial"])
    for item in items:
        if not collected:
            collected.append(item)
        elif function is None:
            collected.append(interpreter.operators.binary("+", collected[-1], item))
        else:
            collected.append(interpreter.calls.call(function, [collected[-1], item], {}))
    return Tuple(tuple(collected))


@row(copy.copy)
def shallow_copy(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Ref):
        return interpreter.new_object(value.cell.cls, interpreter.contents(value))
    return Array(value.node, value.weak) if isinstance(value, Array) else value


@row(copy.deepcopy)
def deep_copy(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Ref):
        fields = interpreter.contents(value)
        items = tuple(deep_copy(interpreter, [item], {}) for item in fields.items)
        return interpreter.new_object(value.cell.cls, Fields(fields.keys, items))
    if isinstance(value, Tuple):
        return Tuple(tuple(deep_copy(interpreter, [item], {}) for item in value.items), value.cls)
    return Array(value.node, value.weak) if isinstance(value, Array) else value


# Types and attributes


@row(isinstance)
def is_instance(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return interpreter.calls.is_instance(*arguments)


@row(type)
def type_of(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    _count(interpreter, arguments, 1, 1, "type")
    return Const(interpreter.calls.class_of(arguments[0]))


@row(callable)
def is_callable(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Const):
        return Const(callable(value.value))
    if isinstance(value, Ref):
        return Const(interpreter.members.class_attribute(value, "__call__") is not None)
    return Const(isinstance(value, (FunctionClosure, PartialCall, Method, Derived, ValueChoice)))


def _has(interpreter: Interpreter, owner: AbstractValue, name: str) -> bool:
    if isinstance(owner, Const):
        return hasattr(owner.value, name)
    if isinstance(owner, Ref):
        held = interpreter.contents(owner)
        if held.keys is not None and owner.cell.cls is not dict and held.get(name) is not None:
            return True
        return hasattr(owner.cell.cls, name)
    if isinstance(owner, Tuple):
        return hasattr(owner.cls, name)
    return hasattr(interpreter.calls.class_of(owner), name)


@row(hasattr)
def has_attribute(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return Const(_has(interpreter, arguments[0], interpreter.static(arguments[1], "the name of an attribute")))


@row(getattr)
def get_attribute(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    name = interpreter.static(arguments[1], "the name of an attribute")
    if len(arguments) > 2 and not _has(interpreter, arguments[0], name):
        return arguments[2]
    return interpreter.members.attribute(arguments[0], name)


@row(setattr)
def set_attribute(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    name = interpreter.static(arguments[1], "the name of an attribute")
    interpreter.members.set_attribute(arguments[0], name, arguments[2])
    return NONE


@row(object.__setattr__)
def set_plainly(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    owner, name, value = arguments
    assert isinstance(owner, Ref)
    interpreter.change(owner, interpreter.contents(owner).changed(interpreter.static(name, "a name"), value))
    return NONE


@row(print)
def refuse_print(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    interpreter.refuse("print() runs when the program is compiled, not when it runs", hint="use hloom.print_value(x)")


def _refused(name: str, hint: str) -> Handler:
    def refuse(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        interpreter.refuse(f"{name}() cannot be compiled", hint=hint)

    return refuse


for _function in (eval, exec, open, input, id, next, globals, locals, vars, compile, __import__):
    BUILTINS[_function] = _refused(_function.__name__, "call it outside the function and pass its result")


@row(str, repr)
def text(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    if not arguments:
        return Const("")
    (value,) = arguments
    if isinstance(value, Array):
        interpreter.refuse("the text of a number must be known when the program is compiled")
    return Const(str(interpreter.static(value, "what becomes a text")))


# math


def _math(name: str, opcode: str | None, check: Callable[[Interpreter, Any], None] | None = None) -> Handler:
    plain = getattr(math, name)

    def apply(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        if all(isinstance(value, Const) for value in arguments):
            try:
                return Const(plain(*(value.value for value in arguments)))  # type: ignore[attr-defined]
            except Exception as error:
                interpreter.raise_error(type(error), str(error))
        nodes: list[Any] = []
        for value in arguments:
            array = interpreter.numbers.array(value) if isinstance(value, (Array, Const)) else None
            if array is None or array.type.element_count != 1 or array.dtype.is_complex:
                interpreter.raise_error(TypeError, f"math.{name} takes real numbers, not {described(value)}")
            node = interpreter.emitter.reshape(array.node, ()) if array.dims else array.node
            nodes.append(interpreter.numbers.convert(node, interpreter.numbers.of_python[float]))
        if check is not None:
            check(interpreter, nodes)
        if opcode is not None:
            return Array(interpreter.emitter.elementwise(opcode, *nodes), True)
        made = interpreter.library.call(getattr(np, _NUMPY_NAMES.get(name, name)), [Array(node) for node in nodes], {})
        assert isinstance(made, Array)
        return Array(interpreter.numbers.convert(made.node, interpreter.numbers.of_python[float]), True)

    return apply


_NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
                "atanh": "arctanh", "pow": "float_power"}  # fmt: skip


def _domain(test: Callable[[Any, Any], Any]) -> Callable[[Interpreter, Any], None]:
    def check(interpreter: Interpreter, nodes: Any) -> None:
        emitter = interpreter.emitter
        inside = test(emitter, nodes[0])
        is_nan = emitter.compare("NE", nodes[0], nodes[0])
        interpreter.check(emitter.elementwise("or", inside, is_nan), ValueError, "math domain error")

    return check


def _range_check(name: str) -> Callable[[Interpreter, Any], None]:
    """Where a finite argument gives an infinite result, Python raises OverflowError."""
    largest = {"exp": 709.782712893384, "expm1": 709.782712893384, "cosh": 710.4758600739439, "sinh": 710.4758600739439}

    def check(interpreter: Interpreter, nodes: Any) -> None:
        emitter = interpreter.emitter
        (node,) = nodes
        size = emitter.op("abs", node) if name in ("sinh", "cosh") else node
        bound = largest[name] if interpreter.numbers.of_python[float].name == "f64" else 88.72283
        fits = emitter.compare("LE", size, emitter.like(bound, node))
        other = emitter.elementwise("not", emitter.op("is-finite", node))
        interpreter.check(emitter.elementwise("or", fits, other), OverflowError, "math range error")

    return check


_POSITIVE = _domain(lambda emitter, x: emitter.compare("GT", x, emitter.like(0.0, x)))
_NOT_NEGATIVE = _domain(lambda emitter, x: emitter.compare("GE", x, emitter.like(0.0, x)))
_UNIT = _domain(lambda emitter, x: emitter.compare("LE", emitter.op("abs", x), emitter.like(1.0, x)))
_INSIDE_UNIT = _domain(lambda emitter, x: emitter.compare("LT", emitter.op("abs", x), emitter.like(1.0, x)))
_FROM_ONE = _domain(lambda emitter, x: emitter.compare("GE", x, emitter.like(1.0, x)))
_ABOVE_MINUS_ONE = _domain(lambda emitter, x: emitter.compare("GT", x, emitter.like(-1.0, x)))
_FINITE = _domain(lambda emitter, x: emitter.op("is-finite", x))
for _name, _opcode, _check in (
    ("sqrt", "sqrt", _NOT_NEGATIVE), ("exp", "exponential", _range_check("exp")), ("sin", "sine", _FINITE),
    ("cos", "cosine", _FINITE), ("tan", "tan", _FINITE), ("tanh", "tanh", None),
    ("log1p", "log-plus-one", _ABOVE_MINUS_ONE),
    ("expm1", "exponential-minus-one", _range_check("expm1")), ("atan2", "atan2", None), ("cbrt", "cbrt", None),
    ("fabs", "abs", None), ("log2", None, _POSITIVE), ("log10", None, _POSITIVE), ("asin", None, _UNIT),
    ("acos", None, _UNIT), ("atan", None, None), ("sinh", None, _range_check("sinh")),
    ("cosh", None, _range_check("cosh")),
    ("asinh", None, None), ("acosh", None, _FROM_ONE), ("atanh", None, _INSIDE_UNIT), ("copysign", None, None),
    ("hypot", None, None), ("degrees", None, None), ("radians", None, None), ("fmod", "remainder", None),
    ("remainder", None, None),
):  # fmt: skip
    if hasattr(math, _name) and _name != "remainder":
        BUILTINS[getattr(math, _name)] = _math(_name, _opcode, _check)
for _name in ("erf", "erfc", "gamma", "lgamma"):

    def _special(
        interpreter: Interpreter,
        arguments: Sequence[AbstractValue],
        keywords: dict[str, AbstractValue],
        name: str = _name,
    ) -> AbstractValue:
        (value,) = arguments
        if isinstance(value, Const):
            return interpreter.calls._builtin(getattr(math, name), arguments, keywords)  # pyright: ignore[reportPrivateUsage]
        whole = interpreter.numbers.array(value, interpreter.numbers.of_python[float])
        made = interpreter.library.call(getattr(math, name), [Array(whole.node)], {})
        assert isinstance(made, Array)
        return Array(made.node, True)

    BUILTINS[getattr(math, _name)] = _special
_LOG = _math("log", "log", _POSITIVE)


@row(math.log)
def logarithm(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    if len(arguments) == 1 or all(isinstance(value, Const) for value in arguments):
        return _LOG(interpreter, arguments, keywords)
    value, base = arguments
    return interpreter.operators.binary("/", _LOG(interpreter, [value], {}), _LOG(interpreter, [base], {}))


@row(math.pow)
def float_power(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    if all(isinstance(value, Const) for value in arguments):
        return interpreter.calls._builtin(math.pow, arguments, keywords)  # pyright: ignore[reportPrivateUsage]
    convert = BUILTINS[float]
    return interpreter.operators.binary("**", *(convert(interpreter, [value], {}) for value in arguments))


def _to_integer(name: str, opcode: str | None) -> Handler:
    plain = getattr(math, name)

    def apply(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        (value,) = arguments
        if isinstance(value, Const):
            return interpreter.calls._builtin(plain, arguments, keywords)  # pyright: ignore[reportPrivateUsage]
        array = interpreter.numbers.array(value)
        if array.dtype.is_float and opcode is not None:
            array = Array(interpreter.emitter.elementwise(opcode, array.node), True)
        return interpreter.numbers.to_python(array, int)

    return apply


for _name, _opcode in (("floor", "floor"), ("ceil", "ceil"), ("trunc", None)):
    BUILTINS[getattr(math, _name)] = _to_integer(_name, _opcode)


def _test(name: str) -> Handler:
    plain = getattr(math, name)

    def apply(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        (value,) = arguments
        if isinstance(value, Const):
            return interpreter.calls._builtin(plain, arguments, keywords)  # pyright: ignore[reportPrivateUsage]
        emitter = interpreter.emitter
        node = interpreter.numbers.convert(interpreter.numbers.array(value).node, interpreter.numbers.of_python[float])
        if name == "isfinite":
            return Array(emitter.op("is-finite", node), True)
        is_nan = emitter.compare("NE", node, node)
        if name == "isnan":
            return Array(is_nan, True)
        other = emitter.elementwise("or", emitter.op("is-finite", node), is_nan)
        return Array(emitter.elementwise("not", other), True)

    return apply


for _name in ("isfinite", "isnan", "isinf"):
    BUILTINS[getattr(math, _name)] = _test(_name)


@row(math.prod)
def math_product(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    result: AbstractValue = keywords.get("start", Const(1))
    for item in interpreter.members.items(arguments[0]):
        result = interpreter.operators.binary("*", result, item)
    return result


@row(math.fsum)
def math_sum(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return interpreter.operators.binary("+", Const(0.0), total(interpreter, arguments, {}))


@row(math.hypot)
def hypotenuse(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    squares: AbstractValue = Const(0.0)
    for value in arguments:
        squares = interpreter.operators.binary("+", squares, interpreter.operators.binary("*", value, value))
    return BUILTINS[math.sqrt](interpreter, [squares], {})


def _whole(name: str) -> Handler:
    plain = getattr(math, name)

    def apply(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        if all(isinstance(value, Const) for value in arguments):
            return interpreter.calls._builtin(plain, arguments, keywords)  # pyright: ignore[reportPrivateUsage]
        return interpreter.calls.call(interpreter.embed(_PRELUDE[name]), arguments, keywords)

    return apply


def _gcd(a, b):  # type: ignore[no-untyped-def]
    while b != 0:
        a, b = b, a % b
    return abs(a)


def _factorial(n):  # type: ignore[no-untyped-def]
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    result = 1
    for k in range(2, n + 1):
        result = result * k
    return result


def _isqrt(n):  # type: ignore[no-untyped-def]
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    low = int(math.sqrt(n))
    while low * low > n:
        low = low - 1
    while (low + 1) * (low + 1) <= n:
        low = low + 1
    return low


def _round_integer(n, scale):  # type: ignore[no-untyped-def]
    rest = n % scale
    down = n - rest
    if 2 * rest > scale or (2 * rest == scale and (down // scale) % 2 == 1):
        return down + scale
    return down


def _isclose(a, b, rel_tol=1e-09, abs_tol=0.0):  # type: ignore[no-untyped-def]
    return a == b or abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


_PRELUDE: dict[str, Any] = {"gcd": _gcd, "factorial": _factorial, "isqrt": _isqrt, "isclose": _isclose}
for _name in _PRELUDE:
    BUILTINS[getattr(math, _name)] = _whole(_name)
for _name in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "phase", "asin", "acos", "atan"):

    def _complex(
        interpreter: Interpreter,
        arguments: Sequence[AbstractValue],
        keywords: dict[str, AbstractValue],
        name: str = _name,
    ) -> AbstractValue:
        if all(isinstance(value, Const) for value in arguments):
            return interpreter.calls._builtin(getattr(cmath, name), arguments, keywords)  # pyright: ignore[reportPrivateUsage]
        whole = interpreter.numbers.array(arguments[0], interpreter.numbers.of_python[complex])
        names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "phase": "angle"}
        made = interpreter.library.call(getattr(np, names.get(name, name)), [Array(whole.node)], {})
        assert isinstance(made, Array)
        return Array(made.node, True)

    BUILTINS[getattr(cmath, _name)] = _complex

# operator

for _name, _symbol in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("pow", "**"),
    ("matmul", "@"), ("lshift", "<<"), ("rshift", ">>"), ("and_", "&"), ("or_", "|"), ("xor", "^"),
    ("concat", "+"),
):  # fmt: skip

    def _operator(
        interpreter: Interpreter,
        arguments: Sequence[AbstractValue],
        keywords: dict[str, AbstractValue],
        symbol: str = _symbol,
    ) -> AbstractValue:
        return interpreter.operators.binary(symbol, *arguments)

    BUILTINS[getattr(operator, _name)] = _operator
for _name, _symbol in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("is_", "is"),
                       ("is_not", "is not")):  # fmt: skip

    def _comparison(
        interpreter: Interpreter,
        arguments: Sequence[AbstractValue],
        keywords: dict[str, AbstractValue],
        symbol: str = _symbol,
    ) -> AbstractValue:
        return interpreter.operators.compare(symbol, *arguments)

    BUILTINS[getattr(operator, _name)] = _comparison
for _name, _symbol in (("neg", "-"), ("pos", "+"), ("invert", "~")):

    def _unary(
        interpreter: Interpreter,
        arguments: Sequence[AbstractValue],
        keywords: dict[str, AbstractValue],
        symbol: str = _symbol,
    ) -> AbstractValue:
        return interpreter.operators.unary(symbol, *arguments)

    BUILTINS[getattr(operator, _name)] = _unary
BUILTINS[operator.abs] = absolute


@row(operator.getitem)
def get_item(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return interpreter.indexing.get(*arguments)


@row(operator.not_)
def negated(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    truth = interpreter.operators.truth(arguments[0])
    if isinstance(truth, bool):
        return Const(not truth)
    return Array(interpreter.emitter.elementwise("not", truth), True)


@row(operator.truth)
def truth_value(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return BUILTINS[bool](interpreter, arguments, keywords)


@row(slice)
def make_slice(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    bounds = [NONE, *arguments, NONE] if len(arguments) == 1 else [*arguments, NONE][:3]
    return Tuple(tuple(bounds), slice)


# Transformations


def _derivative(name: str) -> Handler:
    def derive(
        interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
    ) -> AbstractValue:
        if not arguments:
            interpreter.raise_error(TypeError, f"{name}() needs a function")
        wrt = arguments[1] if len(arguments) > 1 else keywords.get("wrt", keywords.get("argnums", Const(0)))
        numbers = interpreter.static(wrt, "wrt")
        if isinstance(numbers, list):
            numbers = tuple(numbers)
        options = {"wrt": numbers, "has_aux": bool(interpreter.static(keywords.get("has_aux", FALSE), "has_aux"))}
        return Derived(name, arguments[0], options)

    return derive


BUILTINS["grad"], BUILTINS["value_and_grad"] = _derivative("grad"), _derivative("value_and_grad")


def call_derived_outside(
    interpreter: Interpreter,
    derived: tuple[str, Any, dict[str, Any]],
    given: Sequence[AbstractValue],
    named: dict[str, AbstractValue],
) -> AbstractValue:
    """A call of what `hloom.grad` and the like made outside of the program."""
    name, original, options = derived
    if name in ("jacobian", "hessian"):
        made = BUILTINS[name](interpreter, [interpreter.embed(original), Const(options["wrt"])], {})
    else:
        made = Derived(name, interpreter.embed(original), options)
    return interpreter.calls.call(made, given, named)


@row("jvp")
def forward_mode(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return gradients.jvp(interpreter, arguments, keywords)


@row("vjp")
def reverse_mode(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    return gradients.vjp(interpreter, arguments, keywords)


@row("jacobian")
def jacobian(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    wrt = arguments[1] if len(arguments) > 1 else keywords.get("wrt", Const(0))
    return Derived("jacobian", arguments[0], {"wrt": interpreter.static(wrt, "wrt")})


@row("hessian")
def hessian(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    wrt = arguments[1] if len(arguments) > 1 else keywords.get("wrt", Const(0))
    inner = Derived("grad", arguments[0], {"wrt": interpreter.static(wrt, "wrt"), "has_aux": False})
    return Derived("jacobian", inner, {"wrt": interpreter.static(wrt, "wrt")})


@row("print_value")
def print_value(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    label = interpreter.static([*arguments[1:], *keywords.values(), Const("")][0], "a label")
    interpreter.printing.print(arguments[0], label)
    return arguments[0]


@row("function")
def function(
    interpreter: Interpreter, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    if arguments:
        return arguments[0]
    return Const(_same)


# Methods


def call_method(
    interpreter: Interpreter, method: Method, arguments: Sequence[AbstractValue], keywords: dict[str, AbstractValue]
) -> AbstractValue:
    """A method of an array, a container, a string or a number."""
    owner, name = method.owner, method.name
    if isinstance(owner, Method) and owner.name == "at[]":
        assert isinstance(owner.owner, Tuple)
        array, index = owner.owner.items
        assert isinstance(array, Array)
        return interpreter.library.update_at(array, index, name, list(arguments))
    if isinstance(owner, Array):
        if owner.weak:
            return _number_method(interpreter, owner, name, arguments)
        return interpreter.library.method(owner, name, arguments, keywords)
    if isinstance(owner, Const):
        return _known_method(interpreter, owner, name, arguments, keywords)
    if isinstance(owner, Tuple):
        return _tuple_method(interpreter, owner, name, arguments, keywords)
    if isinstance(owner, Ref) and owner.cell.cls is list:
        return _list_method(interpreter, owner, name, arguments, keywords)
    if isinstance(owner, Ref) and owner.cell.cls is dict:
        return _dict_method(interpreter, owner, name, arguments, keywords)
    interpreter.refuse(f"method {name} cannot be compiled")


def _number_method(
    interpreter: Interpreter, owner: Array, name: str, arguments: Sequence[AbstractValue]
) -> AbstractValue:
    emitter = interpreter.emitter
    if name == "conjugate":
        return Array(emitter.conjugate(owner.node), True)
    if name == "is_integer":
        if not owner.dtype.is_float:
            return TRUE
        return Array(emitter.compare("EQ", emitter.elementwise("floor", owner.node), owner.node), True)
    if name == "bit_length":
        size = interpreter.numbers.absolute(owner)
        assert isinstance(size, Array)
        zeros = emitter.elementwise("count-leading-zeros", size.node)
        return Array(emitter.sub(emitter.like(owner.dtype.bits, zeros), zeros), True)
    if name == "item":
        return owner
    interpreter.refuse(f"method {name} of a number cannot be compiled")


def _known_method(
    interpreter: Interpreter,
    owner: Const,
    name: str,
    arguments: Sequence[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue:
    if name == "format" and isinstance(owner.value, str):
        plain: list[Any] = [
            "<value>" if isinstance(item, Array) else interpreter.static(item, "what is formatted")
            for item in arguments
        ]
    else:
        plain = [interpreter.static(item, "an argument") for item in arguments]
    named = {key: interpreter.static(item, key) for key, item in keywords.items()}
    try:
        return interpreter.embed(getattr(owner.value, name)(*plain, **named))
    except Exception as error:
        interpreter.raise_error(type(error), str(error))


def _position(interpreter: Interpreter, items: Sequence[AbstractValue], wanted: AbstractValue) -> AbstractValue:
    for number, item in enumerate(items):
        truth = interpreter.operators.truth(interpreter.operators.compare("==", item, wanted))
        if truth is True:
            return Const(number)
        if truth is not False:
            interpreter.refuse("where an item is must be known when the program is compiled")
    interpreter.raise_error(ValueError, "the item is not in the sequence")


def _occurrences(interpreter: Interpreter, items: Sequence[AbstractValue], wanted: AbstractValue) -> AbstractValue:
    result: AbstractValue = Const(0)
    for item in items:
        truth = interpreter.operators.truth(interpreter.operators.compare("==", item, wanted))
        one = Const(int(truth)) if isinstance(truth, bool) else Array(truth, True)
        result = interpreter.operators.binary("+", result, one)
    return result


def _tuple_method(
    interpreter: Interpreter,
    owner: Tuple,
    name: str,
    arguments: Sequence[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue:
    if name == "_replace":
        names = owner.cls._fields  # type: ignore[attr-defined]
        unknown = [key for key in keywords if key not in names]
        if unknown:
            interpreter.raise_error(ValueError, f"Got unexpected field names: {unknown!r}")
        return Tuple(tuple(keywords.get(key, item) for key, item in zip(names, owner.items, strict=True)), owner.cls)
    if name == "_asdict":
        return interpreter.new_object(dict, Fields(tuple(owner.cls._fields), owner.items))  # type: ignore[attr-defined]
    return (_position if name == "index" else _occurrences)(interpreter, owner.items, arguments[0])


def _list_method(
    interpreter: Interpreter,
    owner: Ref,
    name: str,
    arguments: Sequence[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue:
    items = list(interpreter.contents(owner).items)
    if name == "copy":
        return interpreter.new_list(items)
    if name == "index":
        return _position(interpreter, items, arguments[0])
    if name == "count":
        return _occurrences(interpreter, items, arguments[0])
    result: AbstractValue = NONE
    if name == "append":
        items.append(arguments[0])
    elif name == "extend":
        items.extend(interpreter.members.items(arguments[0]))
    elif name == "insert":
        items.insert(interpreter.static(arguments[0], "the position of insert()"), arguments[1])
    elif name == "pop":
        number = interpreter.static(arguments[0], "the position of pop()") if arguments else -1
        try:
            result = items.pop(number)
        except IndexError as error:
            interpreter.raise_error(IndexError, str(error))
    elif name == "remove":
        position = _position(interpreter, items, arguments[0])
        assert isinstance(position, Const)
        del items[position.value]
    elif name == "reverse":
        items.reverse()
    elif name == "clear":
        items.clear()
    elif name == "sort":
        made = sort(interpreter, [Tuple(tuple(items))], keywords)
        items = list(interpreter.members.items(made))
    interpreter.change(owner, Fields(None, tuple(items)))
    return result


def _dict_method(
    interpreter: Interpreter,
    owner: Ref,
    name: str,
    arguments: Sequence[AbstractValue],
    keywords: dict[str, AbstractValue],
) -> AbstractValue:
    fields = interpreter.contents(owner)
    keys = fields.keys or ()
    if name == "keys":
        return Tuple(tuple(map(interpreter.embed, keys)))
    if name == "values":
        return Tuple(fields.items)
    if name == "items":
        return Tuple(tuple(Tuple((interpreter.embed(key), item)) for key, item in zip(keys, fields.items, strict=True)))
    if name == "copy":
        return interpreter.new_object(dict, fields)
    if name == "update":
        for source in arguments:
            made = make_dict(interpreter, [source], {})
            assert isinstance(made, Ref)
            other = interpreter.contents(made)
            for key, item in zip(other.keys or (), other.items, strict=True):
                fields = fields.changed(key, item)
        for key, item in keywords.items():
            fields = fields.changed(key, item)
        interpreter.change(owner, fields)
        return NONE
    key = interpreter.static(arguments[0], "the key of a dict")
    held = fields.get(key)
    if name == "get":
        return held if held is not None else arguments[1] if len(arguments) > 1 else NONE
    if name == "setdefault":
        if held is None:
            held = arguments[1] if len(arguments) > 1 else NONE
            interpreter.change(owner, fields.changed(key, held))
        return held
    if held is None:
        if len(arguments) > 1:
            return arguments[1]
        interpreter.raise_error(KeyError, repr(key))
    kept = [(other, item) for other, item in zip(keys, fields.items, strict=True) if other != key]
    interpreter.change(owner, Fields(tuple(other for other, _ in kept), tuple(item for _, item in kept)))
    return held
