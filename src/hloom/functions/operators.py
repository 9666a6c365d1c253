"""Operators on values other than numbers: sequences, strings, user classes, and compile-time constants."""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from hloom.functions.container_classes import (
    is_container,
    is_dict,
    is_list,
    is_mapping,
    is_object,
    is_row,
    is_sequence,
    plain_class,
)
from hloom.functions.equality import same
from hloom.functions.iterators import is_iterator, is_view
from hloom.functions.prelude import is_among
from hloom.functions.symbols import (
    BINARY,
    BINARY_METHODS,
    COMPARISON_METHODS,
    COMPARISONS,
    REFLECTED,
    UNARY,
    UNARY_METHODS,
)
from hloom.functions.values import (
    FALSE,
    PREDICATE,
    TRUE,
    AbstractValue,
    Array,
    Const,
    MessageText,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    described,
    is_number,
)
from hloom.functions.views import is_row_major
from hloom.ir import Node, TensorType

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

LARGEST_KNOWN = 1 << 20
"""The maximum number of bits or items of a value computed while compiling."""


class Operators:
    """The operators of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    # Binary

    def binary(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """`left symbol right`"""
        interpreter = self.interpreter
        if isinstance(left, ValueChoice):
            return interpreter.control.choices(left, lambda value: self.binary(symbol, value, right))
        if isinstance(right, ValueChoice):
            return interpreter.control.choices(right, lambda value: self.binary(symbol, left, value))
        if isinstance(left, Const) and isinstance(right, Const):
            return self._known(BINARY[symbol], symbol, left.value, right.value)
        left, right = interpreter.current(left), interpreter.current(right)
        if symbol == "%" and isinstance(left, Const) and isinstance(left.value, str):
            return self._formatted(left.value, right)
        if is_view(left) or is_view(right):
            return self._known(BINARY[symbol], symbol, self._set(left), self._set(right))
        made = self._of_class(symbol, left, right)
        if made is not None:
            return made
        if isinstance(left, (Tuple, Ref)) or isinstance(right, (Tuple, Ref)):
            return self._of_sequences(symbol, left, right)
        if symbol == "*" and (_is_text(left) or _is_text(right)):
            interpreter.static(right if _is_text(left) else left, "how often a text is repeated")
        if symbol == "@" and not any(isinstance(value, Array) and value.dims for value in (left, right)):
            self._unsupported(symbol, left, right)
        for value in (left, right):
            if not isinstance(value, Array) and not is_number(value):
                self._unsupported(symbol, left, right)
        return _laid_out(interpreter.numbers.binary(symbol, left, right), left, right)

    def _unsupported(self, symbol: str, left: AbstractValue, right: AbstractValue) -> NoReturn:
        message = f"unsupported operand types for {symbol}: {described(left)} and {described(right)}"
        self.interpreter.raise_error(TypeError, message)

    def augmented(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """`left symbol= right`: lists are changed where they are."""
        interpreter = self.interpreter
        if is_list(left) and symbol == "+":
            interpreter.calls.call(interpreter.members.attribute(left, "extend"), [right], {})
            return left
        if (is_dict(left) and is_dict(right) and symbol == "|") or (is_list(left) and symbol == "*"):
            assert isinstance(left, Ref)
            made = self.binary(symbol, left, right)
            assert isinstance(made, Ref)
            interpreter.change(left, interpreter.contents(made))
            return left
        if is_object(left):
            method = interpreter.members.class_attribute(left, f"__i{BINARY_METHODS[symbol]}__")
            if method is not None:
                return interpreter.calls.call(method, [right], {})
        value = self.binary(symbol, left, right)
        if isinstance(left, Array) and isinstance(value, Array) and left.has_elements and not left.identity.is_fixed:
            return self._replaced(left, value)
        return value

    def _replaced(self, left: Array, value: Array) -> Array:
        """An array whose elements were changed where they are."""
        interpreter = self.interpreter
        if value.dims != left.dims:
            interpreter.raise_error(
                ValueError, f"an array of shape {list(left.dims)} cannot take one of shape {list(value.dims)} in place"
            )
        element = left.dtype
        if element is not value.dtype:
            kinds = np.can_cast(value.dtype.numpy, element.numpy, "same_kind")
            if not kinds:
                interpreter.raise_error(TypeError, f"cannot cast {value.dtype} to {element} in place")
            value = Array(interpreter.numbers.convert(value.node, element))
        interpreter.views.check_changeable(left, "this array cannot be changed in place")
        interpreter.change_array(left, value)
        return value

    def _known(self, function: Callable[..., Any], symbol: str, *operands: Any) -> AbstractValue:
        """An operator of Python objects, computed now; what it raises is raised where the program runs."""
        interpreter = self.interpreter
        if any(isinstance(operand, MessageText) for operand in operands):
            if symbol == "+":
                return Const(MessageText("".join(map(str, operands))))
            interpreter.refuse("a text that holds numbers of the run is only fit for a message")
        if symbol == "**" and all(isinstance(operand, int) for operand in operands):
            base, exponent = operands
            if exponent > 0 and abs(base).bit_length() * exponent > LARGEST_KNOWN:
                interpreter.raise_error(OverflowError, "the power is too large")
        if symbol == "<<" and all(isinstance(operand, int) for operand in operands) and operands[1] > LARGEST_KNOWN:
            interpreter.raise_error(OverflowError, "the number is too large")
        if symbol == "*" and any(isinstance(operand, (str, bytes)) for operand in operands):
            sizes = [len(operand) if isinstance(operand, (str, bytes)) else operand for operand in operands]
            if sizes[0] * sizes[1] > LARGEST_KNOWN:
                interpreter.raise_error(MemoryError, "the string is too long")
        if symbol == "%" and isinstance(operands[0], (str, bytes)) and len(operands[0]) > 4096:
            interpreter.refuse("this format is too long")
        with interpreter.errors_raised(), np.errstate(all="ignore"):
            return interpreter.embed(function(*operands))

    def _of_class(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue | None:
        """An operator that a class of the user's defines."""
        members, calls = self.interpreter.members, self.interpreter.calls
        name = BINARY_METHODS[symbol]
        for owner, other, method_name in ((left, right, f"__{name}__"), (right, left, f"__r{name}__")):
            if is_object(owner):
                method = members.class_attribute(owner, method_name)
                if method is not None:
                    result = calls.call(method, [other], {})
                    if not (isinstance(result, Const) and result.value is NotImplemented):
                        return result
            elif isinstance(owner, Tuple) and owner.cls not in (tuple, slice):
                function = vars(owner.cls).get(method_name)
                if function is not None:
                    return calls.call(self.interpreter.embed(function), [owner, other], {})
        return None

    def _of_sequences(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        interpreter = self.interpreter
        if symbol == "+":
            if isinstance(left, Tuple) and isinstance(right, Tuple):
                return Tuple((*left.items, *right.items))
            if is_list(left) and is_list(right):
                return interpreter.new_list([*interpreter.contents(left).items, *interpreter.contents(right).items])
        if symbol == "*":
            sequence, count = (left, right) if isinstance(left, (Tuple, Ref)) else (right, left)
            if is_row(sequence):
                times = interpreter.static(count, "how often a sequence is repeated")
                items = list(interpreter.iterators.items(sequence))
                if not isinstance(times, int) or len(items) * times > LARGEST_KNOWN:
                    interpreter.raise_error(TypeError, "a sequence is repeated a whole and moderate number of times")
                return (
                    Tuple(tuple(items * times)) if isinstance(sequence, Tuple) else interpreter.new_list(items * times)
                )
        if symbol == "|" and is_dict(left) and is_dict(right):
            fields = interpreter.contents(left)
            other = interpreter.contents(right)
            for key, item in other.pairs:
                fields = fields.changed(key, item)
            return interpreter.new_object(dict, fields)
        if isinstance(left, Array) or isinstance(right, Array):
            sequence = right if isinstance(left, Array) else left
            array = left if isinstance(left, Array) else right
            if isinstance(array, Array) and not array.weak and (is_row(sequence)):
                made = interpreter.library.as_array(sequence)
                pair = (left, made) if sequence is right else (made, right)
                return self.binary(symbol, *pair)
        self._unsupported(symbol, left, right)

    def _set(self, value: AbstractValue) -> Any:
        """The set that a view of a dict is to an operator of sets, which must be known now; else what it is."""
        if isinstance(value, Series) and value.rule == "keys":
            return frozenset(item.value for item in self.interpreter.iterators.items(value))  # type: ignore[attr-defined]
        if isinstance(value, Series) and value.rule == "items":
            return frozenset(self.interpreter.static(value, "what a set of items holds"))
        return self.interpreter.static(value, "what a set is combined with")

    def _formatted(self, text: str, right: AbstractValue) -> AbstractValue:
        """`text % right`: a message's text where it holds numbers that only the run knows."""
        given = right.items if isinstance(right, Tuple) else (right,)
        for item in given:
            self.interpreter.iterators.refuse_text(item)
        if any(isinstance(item, Array) for item in given):
            return Const(MessageText(text))
        return self._known(operator.mod, "%", text, self.interpreter.static(right, "what is formatted"))

    # Unary

    def unary(self, symbol: str, operand: AbstractValue) -> AbstractValue:
        """`symbol operand`"""
        interpreter = self.interpreter
        if isinstance(operand, ValueChoice):
            return interpreter.control.choices(operand, lambda value: self.unary(symbol, value))
        operand = interpreter.current(operand)
        if isinstance(operand, Const):
            return self._known(UNARY[symbol], symbol, operand.value)
        if isinstance(operand, Ref):
            method = interpreter.members.class_attribute(operand, UNARY_METHODS[symbol])
            if method is not None:
                return interpreter.calls.call(method, [], {})
        if not isinstance(operand, Array):
            interpreter.raise_error(TypeError, f"bad operand type for unary {symbol}: {described(operand)}")
        if symbol == "+" and operand.dims:
            return operand.copied(interpreter.emitter.graph)
        return _laid_out(interpreter.numbers.unary(symbol, operand), operand)

    # Truth

    def truth_value(self, value: AbstractValue) -> AbstractValue:
        """`bool(value)`"""
        truth = self.truth(value)
        return Const(truth) if isinstance(truth, bool) else Array(truth, True)

    def truth(self, value: AbstractValue) -> bool | Node:
        """Whether a value counts as true: known now, or a node of type pred."""
        interpreter = self.interpreter
        value = interpreter.current(value)
        if isinstance(value, Array):
            known = value.literal
            if known is not None and known.size == 1:
                return bool(known)
            return interpreter.numbers.truth(value)
        if isinstance(value, Const):
            with interpreter.errors_raised():
                return bool(value.value)
        if isinstance(value, Tuple):
            return bool(value.items)
        if isinstance(value, Ref):
            if is_container(value.cell.cls):
                return bool(interpreter.contents(value).items)
            for name in ("__bool__", "__len__"):
                method = interpreter.members.class_attribute(value, name)
                if method is not None:
                    return self.truth(interpreter.calls.call(method, [], {}))
            return True
        if isinstance(value, ValueChoice):
            return self.truth(interpreter.control.choices(value, self.truth_value))
        if isinstance(value, Series):
            length = interpreter.members.length(value)
            return bool(length) if isinstance(length, int) else interpreter.numbers.truth(length)
        return True

    # Comparisons

    def compare(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """`left symbol right`, with `is` and `in`."""
        interpreter = self.interpreter
        if isinstance(left, ValueChoice):
            return interpreter.control.choices(left, lambda value: self.compare(symbol, value, right))
        if isinstance(right, ValueChoice):
            return interpreter.control.choices(right, lambda value: self.compare(symbol, left, value))
        left, right = interpreter.current(left), interpreter.current(right)
        if symbol in ("is", "is not"):
            return self._identity(symbol == "is", left, right)
        if symbol in ("in", "not in"):
            held = self._contains(right, left)
            return self.truth_value(held) if symbol == "in" else self.inverted(held)
        if isinstance(left, Const) and isinstance(right, Const):
            return self._known(COMPARISONS[symbol], symbol, left.value, right.value)
        if is_view(left) or is_view(right):
            return self._compared_views(symbol, left, right)
        made = self._compared_by_methods(symbol, left, right)
        if made is not None:
            return made
        numbers = [isinstance(value, Array) or is_number(value) for value in (left, right)]
        if all(numbers):
            return interpreter.numbers.compare(symbol, left, right)
        if isinstance(left, Array) and not left.weak and is_row(right):
            return interpreter.numbers.compare(symbol, left, interpreter.library.as_array(right))
        if isinstance(right, Array) and not right.weak and is_row(left):
            return interpreter.numbers.compare(symbol, interpreter.library.as_array(left), right)
        if symbol in ("==", "!="):
            for value, other in ((left, right), (right, left)):
                if isinstance(value, Array) and value.dims and isinstance(other, Const):  # each element, as NumPy does
                    dims = value.dims
                    return Array(interpreter.emitter.constant(symbol == "!=", TensorType(PREDICATE, dims)))
            return self._equality(symbol == "==", left, right)
        if isinstance(left, Tuple) and isinstance(right, Tuple):
            return self._ordered(symbol, left.items, right.items)
        if is_list(left) and is_list(right):
            return self._ordered(symbol, interpreter.contents(left).items, interpreter.contents(right).items)
        rows = [self._ordered_fields(value) for value in (left, right)]
        if rows[0] is not None and rows[1] is not None and same_class(left, right):
            return self._ordered(symbol, rows[0], rows[1])
        interpreter.raise_error(
            TypeError, f"{symbol} is not supported between {described(left)} and {described(right)}"
        )

    def _compared_views(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """A comparison of views of dicts: those of keys and of items are sets."""
        are_items = all(isinstance(value, Series) and value.rule == "items" for value in (left, right))
        if are_items and symbol in ("==", "!="):
            return self._equality(symbol == "==", left.parts[0], right.parts[0])  # type: ignore[attr-defined]
        views = [value for value in (left, right) if isinstance(value, Series) and value.rule != "values"]
        sets = [value for value in (left, right) if isinstance(value, Const) and isinstance(value.value, frozenset)]
        if len(views) + len(sets) == 2:
            return self._known(COMPARISONS[symbol], symbol, self._set(left), self._set(right))
        if symbol in ("==", "!="):
            return Const((left is right) is (symbol == "=="))
        self.interpreter.raise_error(
            TypeError, f"{symbol} is not supported between {described(left)} and {described(right)}"
        )

    def _compared_by_methods(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue | None:
        """A comparison by a method of the user's classes, a subclass's first; None where no method makes it."""
        interpreter = self.interpreter
        rows = [(left, right, symbol), (right, left, REFLECTED[symbol])]
        cls, other = (interpreter.classes.class_of(value) for value in (left, right))
        if cls is not other and issubclass(other, cls):
            rows.reverse()
        for owner, given, sign in rows:
            if not isinstance(owner, Ref) or is_container(owner.cell.cls):
                continue
            method = interpreter.members.class_attribute(owner, COMPARISON_METHODS[sign])
            is_inverted = method is None and sign == "!="
            if is_inverted:
                method = interpreter.members.class_attribute(owner, "__eq__")
            if method is None:
                continue
            made = interpreter.calls.call(method, [given], {})
            if isinstance(made, Const) and made.value is NotImplemented:
                continue
            return self.inverted(made) if is_inverted else made
        return None

    def inverted(self, value: AbstractValue) -> AbstractValue:
        """`not value`"""
        truth = self.truth(value)
        if isinstance(truth, bool):
            return Const(not truth)
        return Array(self.interpreter.emitter.elementwise("not", truth), True)

    def _ordered_fields(self, value: AbstractValue) -> tuple[AbstractValue, ...] | None:
        """The fields that decide the order of an instance of a dataclass that has one."""
        cls = value.cell.cls if isinstance(value, Ref) else None
        parameters = getattr(cls, "__dataclass_params__", None)
        if not isinstance(value, Ref) or parameters is None or not parameters.order:
            return None
        fields = self.interpreter.contents(value)
        names = [field.name for field in dataclasses.fields(value.cell.cls) if field.compare]
        return tuple(item for name in names if (item := fields.get(name)) is not None)

    def _identity(self, wanted: bool, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        if isinstance(left, Const) and isinstance(right, Const):
            is_same = left.value is right.value or (
                isinstance(left.value, (int, str, bool))
                and type(left.value) is type(right.value)
                and left.value == right.value
            )
            return Const(is_same is wanted)
        if left is right or (isinstance(left, Array) and left.has_elements and same(left, right)):
            return Const(wanted)
        values = (left, right)
        if any(isinstance(value, Array) and value.weak for value in values):
            if all(self.interpreter.classes.class_of(value) is bool for value in values):
                return self.compare("==" if wanted else "!=", left, right)
            classes = {self.interpreter.classes.class_of(value) for value in values}
            if len(classes) == 1:
                self.interpreter.refuse("numbers have no identity in a compiled function", hint="compare them by ==")
        reasons = [self._origin(value) for value in values]
        if None not in reasons and any(str(reason).startswith("it is an argument") for reason in reasons):
            self.interpreter.refuse(
                "whether two arguments are one object is not known when the program is compiled",
                hint="compare them by ==, or compare with None",
            )
        if all(isinstance(value, Array) for value in values):
            return Const(not wanted)
        return Const(same(left, right) is wanted)

    def _origin(self, value: AbstractValue) -> str | None:
        """Why an object from outside the program may not be changed; None for one that the program made."""
        if isinstance(value, Array):
            return self.interpreter.protected.get(value.identity)
        return value.cell.frozen if isinstance(value, Ref) else None

    def _equality(self, wanted: bool, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        rows: tuple[Any, Any] | None = None
        if isinstance(left, Tuple) and isinstance(right, Tuple):
            rows = left.items, right.items
        elif isinstance(left, Ref) and isinstance(right, Ref) and _may_equal(left.cell.cls, right.cell.cls):
            if left.cell is right.cell:
                return Const(wanted)
            a, b = self.interpreter.contents(left), self.interpreter.contents(right)
            is_plain = is_container(left.cell.cls) or hasattr(left.cell.cls, "__dataclass_fields__")
            if not is_plain:
                return Const(not wanted)
            if a.keys is not None:
                if set(a.keys) != set(b.keys or ()):
                    return Const(not wanted)
                if left.cell.cls is right.cell.cls is OrderedDict and a.keys != b.keys:
                    return Const(not wanted)
                rows = a.items, tuple(b.get(key) for key in a.keys)
            else:
                rows = a.items, b.items
        ranges = [known_range(value) for value in (left, right)]
        if None not in ranges:
            return Const((ranges[0] == ranges[1]) is wanted)
        if rows is None:
            return Const(same(left, right) is wanted)
        if len(rows[0]) != len(rows[1]):
            return Const(not wanted)
        result: AbstractValue = TRUE
        for a, b in zip(*rows, strict=True):
            truth = self.truth(self.compare("==", a, b))
            if truth is False:
                return Const(not wanted)
            if truth is not True:
                result = self._both(result, Array(truth, True))
        if wanted:
            return result
        return self.inverted(result)

    def _both(self, left: AbstractValue, right: Array) -> AbstractValue:
        if isinstance(left, Const):
            return right if left.value else FALSE
        assert isinstance(left, Array)
        return Array(self.interpreter.emitter.elementwise("and", left.node, right.node), True)

    def _ordered(self, symbol: str, left: tuple[AbstractValue, ...], right: tuple[AbstractValue, ...]) -> AbstractValue:
        """The order of sequences: that of the first items that differ."""
        if not left or not right:
            return Const(COMPARISONS[symbol](len(left), len(right)))
        truth = self.truth(self.compare("==", left[0], right[0]))
        if truth is True:
            return self._ordered(symbol, left[1:], right[1:])
        if truth is False:
            return self.compare(symbol, left[0], right[0])
        return self.interpreter.control.choose(
            truth,
            lambda: self._ordered(symbol, left[1:], right[1:]),
            lambda: self.compare(symbol, left[0], right[0]),
        )

    def _contains(self, container: AbstractValue, item: AbstractValue) -> AbstractValue:
        interpreter = self.interpreter
        if isinstance(container, Const) and isinstance(item, Const):
            return self._known(lambda a, b: b in a, "in", container.value, item.value)
        if is_dict(container):
            keys = interpreter.contents(container).keys or ()
            if isinstance(item, Array) and not item.dims and item.literal is None:
                return self._contains(Tuple(tuple(map(Const, keys))), item)
            key = interpreter.static(item, "a key of a dict")
            return Const(any(key == name for name in keys))
        if isinstance(container, Series) and container.rule == "keys":
            return self._contains(container.parts[0], item)
        if is_iterator(container):  # it is used up as far as the item
            return interpreter.calls.call(interpreter.embed(is_among), [container, item], {})
        if isinstance(container, Const) and isinstance(container.value, (str, bytes)):
            cls = type(container.value).__name__
            interpreter.raise_error(TypeError, f"'in <{cls}>' requires a {cls} as left operand, not {described(item)}")
        if isinstance(container, Array):
            if not container.dims:
                interpreter.raise_error(TypeError, f"{described(container)} is not iterable")
            equal = interpreter.numbers.compare("==", container, item)
            return interpreter.library.call(np.any, [equal], {})
        if isinstance(container, Ref) and not is_sequence(container.cell.cls):
            method = interpreter.members.class_attribute(container, "__contains__")
            if method is not None:
                return interpreter.calls.call(method, [item], {})
        if isinstance(container, Series) and container.rule == "range":
            return self._in_range(container, item)
        result: AbstractValue = FALSE
        for member in interpreter.iterators.items(container):
            truth = self.truth(self.compare("==", member, item))
            if truth is True:
                return TRUE
            if truth is not False:
                node = Array(truth, True)
                if isinstance(result, Const):
                    result = node
                else:
                    assert isinstance(result, Array)
                    result = Array(interpreter.emitter.elementwise("or", result.node, node.node), True)
        return result

    def _in_range(self, container: Series, item: AbstractValue) -> AbstractValue:
        start, stop, step = container.parts
        stride = self.interpreter.static(step, "the step of a range")
        bounds = ("<=", "<") if stride > 0 else (">=", ">")
        inside = self.binary("&", self.compare(bounds[0], start, item), self.compare(bounds[1], item, stop))
        is_integer = isinstance(item, Array) and not item.dtype.is_float
        if abs(stride) == 1 and is_integer:
            return inside
        on_step = self.compare("==", self.binary("%", self.binary("-", item, start), step), Const(0))
        return self.binary("&", inside, on_step)


def _laid_out(made: AbstractValue, *operands: AbstractValue) -> AbstractValue:
    """A new array that NumPy lays out as its operands, and that is jax's where one of them is."""
    if isinstance(made, Array):
        arrays = [value for value in operands if isinstance(value, Array)]
        made.is_fixed = any(array.identity.is_fixed for array in arrays)
        made.is_row_major = all(map(is_row_major, arrays))
    return made


def _is_text(value: AbstractValue) -> bool:
    return isinstance(value, Const) and isinstance(value.value, (str, bytes))


def known_range(value: AbstractValue) -> range | None:
    """A range whose bounds are known."""
    if isinstance(value, Series) and value.rule == "range" and all(isinstance(part, Const) for part in value.parts):
        return range(*(part.value for part in value.parts))  # type: ignore[attr-defined]
    return value.value if isinstance(value, Const) and isinstance(value.value, range) else None


def _may_equal(left: type, right: type) -> bool:
    """Whether objects of two classes are equal where what they hold is."""
    if is_mapping(left) and is_mapping(right):
        return Counter not in (left, right) or left is right
    return plain_class(left) is plain_class(right)


def same_class(left: AbstractValue, right: AbstractValue) -> bool:
    """Whether two values are objects of one class."""
    return isinstance(left, Ref) and isinstance(right, Ref) and left.cell.cls is right.cell.cls
