"""Arithmetic of numbers and arrays with Python's and NumPy's rules: promotion, floor division, powers, comparisons.

Python's numbers are weakly typed, as in NumPy 2 (NEP 50): combined with an array they take its type. Where Python
raises, the program contains a check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.integer_bounds import (
    check_bounds,
    compared_integers,
    compared_with_float,
    compared_with_integer,
    is_beyond_exact,
)
from hloom.functions.powers import Powers, does_not_fit
from hloom.functions.symbols import DIRECTIONS, REFLECTED
from hloom.functions.values import PREDICATE, AbstractValue, Array, Const, described, is_number
from hloom.ir import DType, Node, TensorType, dtype, dtype_of, literal_of

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

BITWISE = {"&": "and", "|": "or", "^": "xor"}
OPCODES = {"+": "add", "-": "subtract", "*": "multiply", **BITWISE}
SHIFTS = {"<<": "shift-left", ">>": "shift-right-arithmetic"}


class Numbers:
    """The arithmetic of one program; `precision` is how many bits Python's own numbers have when they stand alone."""

    def __init__(self, interpreter: Interpreter, precision: int) -> None:
        self.interpreter = interpreter
        wide = precision == 64
        self.of_python = {
            bool: PREDICATE,
            int: dtype("s64" if wide else "s32"),
            float: dtype("f64" if wide else "f32"),
            complex: dtype("c128" if wide else "c64"),
        }
        self._rank = {PREDICATE: 0, self.of_python[int]: 1, self.of_python[float]: 2, self.of_python[complex]: 3}
        self._by_rank = {rank: element for element, rank in self._rank.items()}

        self.powers = Powers(self)

    @property
    def emitter(self) -> Any:
        return self.interpreter.emitter

    # Types

    def weak_dtype(self, value: Any) -> DType:
        """The type of a Python number that stands alone."""
        for cls in (bool, int, float, complex):
            if isinstance(value, cls):
                return self.of_python[cls]
        raise TypeError(f"{value!r} is not a number")

    def promoted(self, values: Sequence[Any]) -> tuple[DType, bool]:
        """The element type that holds all values, and whether it is weak."""
        strong: list[Any] = []
        weak: list[DType] = []
        for value in values:
            if isinstance(value, Array):
                (weak if value.weak else strong).append(value.dtype)
            elif isinstance(value.value, np.generic):
                strong.append(dtype_of(value.value.dtype))
            else:
                weak.append(self.weak_dtype(value.value))
        if not strong:
            return max(weak, key=self._level), True
        if len({*strong}) == 1 and (not weak or self._fits(strong[0], weak)):
            return strong[0], False
        examples = [element.numpy for element in strong]
        examples += [{0: True, 1: 1, 2: 1.0, 3: 1j}[self._level(element)] for element in weak]
        try:
            return dtype_of(np.result_type(*examples)), False
        except (TypeError, ValueError):
            return dtype_of(self.interpreter.library.result_type(examples)), False

    def _level(self, element: DType) -> int:
        if element in self._rank:
            return self._rank[element]
        return 3 if element.is_complex else 2 if element.is_float else 1 if element.is_integer else 0

    def _fits(self, strong: DType, weak: Sequence[DType]) -> bool:
        """Whether Python's numbers beside it leave an array's type as it is."""
        return self._level(strong) >= max(map(self._level, weak)) and strong is not PREDICATE

    # Conversions

    def array(self, value: AbstractValue, element: DType | None = None) -> Array:
        """A number of the source, or an array, as an array; Python's own numbers stay weak."""
        if isinstance(value, Array):
            if element is None or value.dtype is element:
                return value
            return Array(self.convert(value.node, element), value.weak)
        if not isinstance(value, Const):
            self.interpreter.refuse(f"a number or an array is needed here, not {described(value)}")
        held = value.value
        if isinstance(held, (np.generic, np.ndarray)):
            array = self.literal(np.asarray(held))
            return array if element is None else Array(self.convert(array.node, element))
        if not isinstance(held, (bool, int, float, complex)):
            self.interpreter.refuse(f"a number or an array is needed here, not {described(value)}", TypeError)
        made = element or self.weak_dtype(held)
        if made.is_integer and isinstance(held, int):
            info = np.iinfo(made.numpy) if made.numpy.kind in "iu" else None
            if info is not None and not info.min <= held <= info.max:
                self.interpreter.refuse(f"the number {held} does not fit {made}", OverflowError)
        return Array(self.emitter.constant(held, TensorType(made)), True)

    def convert(self, node: Node, element: DType) -> Node:
        """Elements of another type, as NumPy's `astype`; of a complex number the real part."""
        given = node.type
        assert isinstance(given, TensorType)
        if given.dtype is element:
            return node
        if given.dtype.is_complex and not element.is_complex:
            if element is PREDICATE:
                return self.emitter.compare("NE", node, self.emitter.like(0, node))
            node = self.emitter.op("real", node)
        elif element is PREDICATE:
            return self.emitter.compare("NE", node, self.emitter.like(0, node))
        return self.emitter.convert(node, element)

    def as_type(self, value: Any, wanted: TensorType) -> Node:
        """The node of a value that is known to fit a type."""
        made = self.array(value, None if isinstance(value, Array) else wanted.dtype)
        node = self.convert(made.node, wanted.dtype)
        return self.broadcast(node, wanted.dims)

    def broadcast(self, node: Node, dims: Sequence[int]) -> Node:
        """An array spread over further dimensions by NumPy's rules."""
        given = node.type
        assert isinstance(given, TensorType)
        if given.dims == tuple(dims):
            return node
        start = len(dims) - given.rank
        kept = [number for number, size in enumerate(given.dims) if size == dims[start + number]]
        if len(kept) != given.rank:
            node = self.emitter.reshape(node, [given.dims[number] for number in kept])
        return self.emitter.broadcast(node, dims, [start + number for number in kept])

    def common_dims(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The dimensions that arrays broadcast to; raises where there are none."""
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            texts = " and ".join(str(shape) for shape in shapes)
            self.interpreter.refuse(f"shapes {texts} do not broadcast together", ValueError)

    def operands(self, values: Sequence[AbstractValue], element: DType | None = None) -> tuple[list[Node], bool]:
        """Operands of one type and shape, and whether the type is weak."""
        given = [value if isinstance(value, (Array, Const)) else self.array(value) for value in values]
        for value in given:
            if isinstance(value, Const) and not is_number(value):
                self.array(value)
        made, weak = self.promoted(given)
        dims = self.common_dims([value.dims if isinstance(value, Array) else () for value in given])
        wanted = TensorType(element or made, dims)
        return [self.as_type(value, wanted) for value in given], weak

    # Operators

    def binary(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """A binary operator of numbers or arrays."""
        interpreter = self.interpreter
        if symbol in DIRECTIONS:
            return self.compare(symbol, left, right)
        if symbol == "@":
            return interpreter.library.call(np.matmul, [left, right], {})
        if symbol == "**":
            return self.powers.power(left, right)
        element, weak = self.promoted([self.known(left), self.known(right)])
        if element is PREDICATE and (weak or symbol in ("//", "%", "<<", ">>")) and symbol not in BITWISE:
            element = self.of_python[int] if weak else dtype("s8")
        if element is PREDICATE and symbol in ("+", "*"):  # NumPy's booleans
            symbol = "|" if symbol == "+" else "&"
        if element is PREDICATE and symbol == "-":
            interpreter.refuse("NumPy does not subtract booleans: use ^ or logical_xor", TypeError)
        if symbol == "/" and not (element.is_float or element.is_complex):
            element = self._true_division(element, weak)
        if (symbol in BITWISE or symbol in SHIFTS) and (element.is_float or element.is_complex):
            interpreter.refuse(f"{symbol} takes integers, not {described(left)} and {described(right)}", TypeError)
        if element.is_integer and not weak:
            check_bounds(interpreter, [left, right], element)
        if symbol in ("//", "%") and element.is_complex:
            interpreter.refuse(f"{symbol} is not defined for complex numbers", TypeError)
        (a, b), _ = self.operands([left, right], element)
        emitter = self.emitter
        if symbol in OPCODES:
            return Array(emitter.elementwise(OPCODES[symbol], a, b), weak)
        if symbol == "/":
            if weak:
                self.check_divisor(b, "division by zero" if element is self._by_rank[2] else "complex division by zero")
            return Array(emitter.div(a, b), weak)
        if symbol in SHIFTS:
            if weak:
                interpreter.check(emitter.compare("GE", b, emitter.like(0, b)), ValueError, "negative shift count")
            shifted = self._shift(symbol, a, b)
            if weak and symbol == "<<":
                fits = emitter.compare("EQ", self._shift(">>", shifted, b), a)
                interpreter.check(fits, OverflowError, does_not_fit(element))
            return Array(shifted, weak)
        if weak:
            name = "integer division or modulo by zero" if element.is_integer else (
                "float floor division by zero" if symbol == "//" else "float modulo"
            )  # fmt: skip
            self.check_divisor(b, name)
            if symbol == "//" and element.is_integer:
                self._check_quotient(a, b, element)
        quotient, rest = self.divmod_nodes(a, b)
        return Array(quotient if symbol == "//" else rest, weak)

    def _true_division(self, element: DType, weak: bool) -> DType:
        if weak:
            return self.of_python[float]
        return dtype_of(np.result_type(np.true_divide(np.ones((), element.numpy), np.ones((), element.numpy)).dtype))

    def known(self, value: AbstractValue) -> Any:
        return value if isinstance(value, Array) or is_number(value) else self.array(value)

    def check_divisor(self, divisor: Node, message: str) -> None:
        emitter = self.emitter
        self.interpreter.check(emitter.compare("NE", divisor, emitter.like(0, divisor)), ZeroDivisionError, message)

    def _check_quotient(self, a: Node, b: Node, element: DType) -> None:
        """Check for the one quotient that overflows: the smallest integer over -1."""
        emitter = self.emitter
        is_least = emitter.compare("EQ", a, emitter.like(int(np.iinfo(element.numpy).min), a))
        overflows = emitter.elementwise("and", is_least, emitter.compare("EQ", b, emitter.like(-1, b)))
        self.interpreter.check(emitter.elementwise("not", overflows), OverflowError, does_not_fit(element))

    def _shift(self, symbol: str, a: Node, b: Node) -> Node:
        opcode = SHIFTS[symbol]
        assert isinstance(a.type, TensorType)
        if opcode == "shift-right-arithmetic" and a.type.dtype.name.startswith("u"):
            opcode = "shift-right-logical"
        return self.emitter.elementwise(opcode, a, b)

    def divmod_nodes(self, a: Node, b: Node) -> tuple[Node, Node]:
        """The quotient rounded down and the rest with the divisor's sign, as Python defines them."""
        emitter = self.emitter
        assert isinstance(a.type, TensorType)
        zero = emitter.like(0, a)
        if a.type.dtype.is_integer:
            divisor = emitter.select(emitter.compare("EQ", b, zero), emitter.like(1, b), b)
            quotient, rest = emitter.div(a, divisor), emitter.elementwise("remainder", a, divisor)
            if a.type.dtype.name.startswith("u"):
                wrong = emitter.like(False, emitter.compare("NE", rest, zero))
            else:
                differs = emitter.compare("NE", emitter.compare("LT", rest, zero), emitter.compare("LT", b, zero))
                wrong = emitter.elementwise("and", emitter.compare("NE", rest, zero), differs)
            quotient = emitter.select(wrong, emitter.sub(quotient, emitter.like(1, a)), quotient)
            rest = emitter.select(wrong, emitter.add(rest, b), rest)
            by_zero = emitter.compare("EQ", b, zero)
            return emitter.select(by_zero, zero, quotient), emitter.select(by_zero, zero, rest)
        return self._float_divmod(a, b)

    def _float_divmod(self, a: Node, b: Node) -> tuple[Node, Node]:
        """As CPython's `float_divmod` and NumPy's `npy_divmod` compute them, in this order of roundings."""
        emitter = self.emitter
        zero, one = emitter.like(0, a), emitter.like(1, a)
        rest = emitter.elementwise("remainder", a, b)
        whole = emitter.div(emitter.sub(a, rest), b)
        differs = emitter.compare("NE", emitter.compare("LT", rest, zero), emitter.compare("LT", b, zero))
        wrong = emitter.elementwise("and", emitter.compare("NE", rest, zero), differs)
        whole = emitter.select(wrong, emitter.sub(whole, one), whole)
        rest = emitter.select(wrong, emitter.add(rest, b), rest)
        signed_zero = emitter.select(emitter.compare("LT", b, zero), emitter.like(-0.0, b), zero)
        rest = emitter.select(emitter.compare("EQ", rest, zero), signed_zero, rest)
        rounded = emitter.elementwise("floor", whole)
        off = emitter.compare("GT", emitter.sub(whole, rounded), emitter.like(0.5, whole))
        rounded = emitter.select(off, emitter.add(rounded, one), rounded)
        plain = emitter.div(a, b)
        is_below_one = emitter.compare("EQ", whole, zero)  # of whose quotient zero has the sign
        rounded = emitter.select(is_below_one, emitter.mul(plain, zero), rounded)
        is_zero = emitter.compare("EQ", b, zero)
        return emitter.select(is_zero, plain, rounded), rest

    def is_finite(self, node: Node) -> Node:
        """Whether a float is finite, or both parts of a complex number are."""
        assert isinstance(node.type, TensorType)
        if not node.type.dtype.is_complex:
            return self.emitter.op("is-finite", node)
        return self.both(*(self.emitter.op("is-finite", self.emitter.op(part, node)) for part in ("real", "imag")))

    def both(self, one: Node, other: Node) -> Node:
        return self.emitter.elementwise("and", one, other)

    def compare(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """A comparison of numbers or arrays; exact for integers of two types and floats."""
        exact = self._compared_exactly(symbol, left, right)
        if exact is None:
            exact = compared_integers(self.interpreter, symbol, left, right)
        if exact is not None:
            return exact
        (a, b), weak = self.operands([left, right])
        assert isinstance(a.type, TensorType)
        if a.type.dtype.is_complex and symbol not in ("==", "!="):
            self.interpreter.refuse(f"complex numbers have no order: {symbol}", TypeError)
        return Array(self.emitter.compare(DIRECTIONS[symbol], a, b), weak)

    def _compared_exactly(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue | None:
        """Python compares integers with floats as they are, not rounded; None where rounding changes nothing."""
        rows = ((left, right, symbol), (right, left, REFLECTED[symbol]))
        for number, other, sign in rows:
            if isinstance(number, Array) and number.weak and isinstance(other, Const) and type(other.value) is int:
                return compared_with_integer(self.emitter, sign, number, other.value)
        for integer, other, sign in rows:
            if not isinstance(integer, Array) or not integer.weak or not integer.dtype.is_integer:
                continue
            if isinstance(other, Array) and other.weak and other.dtype.is_float:
                return compared_with_float(self.emitter, sign, integer.node, other.node)
            wide = self.of_python[float]
            if isinstance(other, Const) and type(other.value) is float and is_beyond_exact(other.value, wide):
                made = self.emitter.constant(other.value, TensorType(wide))
                return compared_with_float(self.emitter, sign, integer.node, made)
        return None

    def as_number(self, value: Array) -> Array:
        """Python's bools as the integers that they are; other numbers as they are."""
        return self.array(value, self.of_python[int]) if value.dtype is PREDICATE and value.weak else value

    def unary(self, symbol: str, operand: AbstractValue) -> AbstractValue:
        """`-`, `+` and `~` of a number or an array."""
        value = self.array(operand)
        if value.dtype is PREDICATE and symbol != "~":
            if not value.weak:
                self.interpreter.refuse("NumPy does not negate booleans: use ~ or logical_not", TypeError)
            value = self.array(value, self.of_python[int])
        if symbol == "-":
            return Array(self.emitter.neg(value.node), value.weak)
        if symbol == "+":
            return value
        if value.dtype.is_float or value.dtype.is_complex:
            self.interpreter.refuse(f"~ takes integers, not {described(operand)}", TypeError)
        value = self.as_number(value)
        return Array(self.emitter.elementwise("not", value.node), value.weak)

    def absolute(self, operand: AbstractValue) -> AbstractValue:
        """`abs(operand)`"""
        value = self.as_number(self.array(operand))
        if value.dtype is PREDICATE or value.dtype.name.startswith("u"):
            return value.copied(self.emitter.graph)
        made = self.emitter.op("abs", value.node)
        if value.weak and value.dtype.is_complex:
            made = self._size_of_complex(value.node, made)
        return Array(made, value.weak)

    def _size_of_complex(self, node: Node, size: Node) -> Node:
        """The size of Python's complex numbers: infinite where a part is, beside NaN too; raises where it overflows."""
        emitter = self.emitter
        infinity = emitter.like(np.inf, size)
        parts = [emitter.op("abs", emitter.op(part, node)) for part in ("real", "imag")]
        is_infinite = [emitter.compare("EQ", part, infinity) for part in parts]
        either = emitter.elementwise("or", *is_infinite)
        fits = emitter.elementwise("or", either, emitter.compare("NE", size, infinity))
        self.interpreter.check(fits, OverflowError, "absolute value too large")
        return emitter.select(either, infinity, size)

    def truth(self, value: Array) -> Node:
        """Whether a number is not zero: a scalar of type pred."""
        node = value.node
        if value.type.rank:
            if value.type.element_count != 1:
                self.interpreter.refuse(
                    "the truth value of an array of several elements is ambiguous: use all() or any()", ValueError
                )
            node = self.emitter.reshape(node, ())
        return self.convert(node, PREDICATE)

    def to_python(self, value: AbstractValue, cls: type) -> AbstractValue:
        """`int(x)`, `float(x)`, `bool(x)`, `complex(x)` of a number or an array of one element."""
        interpreter = self.interpreter
        if isinstance(value, Const):
            with interpreter.errors_raised():
                return Const(cls(value.value))
        array = self.array(value)
        if cls is bool:
            return Array(self.truth(array), True)
        node = array.node
        if array.type.rank:
            if array.type.element_count != 1:
                interpreter.raise_error(TypeError, "only arrays of one element can be converted to Python numbers")
            node = self.emitter.reshape(node, ())
        if array.dtype.is_complex and cls is not complex:
            interpreter.raise_error(TypeError, f"{cls.__name__}() does not take a complex number")
        if cls is int:
            node = self._whole(node, array.dtype)
        if cls is complex and not array.dtype.is_complex:
            real = self.convert(node, self.of_python[float])
            return Array(self.emitter.op("complex", real, self.emitter.like(0, real)), True)
        return Array(self.convert(node, self.of_python[cls]), True)

    def _whole(self, node: Node, element: DType) -> Node:
        """A number that fits Python's integers; raises where it does not, or is not finite."""
        emitter, interpreter, wanted = self.emitter, self.interpreter, self.of_python[int]
        if element.is_float:
            is_number = emitter.compare("EQ", node, node)
            interpreter.check(is_number, ValueError, "cannot convert float NaN to integer")
            finite = emitter.op("is-finite", node)
            interpreter.check(finite, OverflowError, "cannot convert float infinity to integer")
            if element.name != "f64" and element.bits < 32:
                node, element = emitter.convert(node, dtype("f32")), dtype("f32")
            limit = 2.0 ** (wanted.bits - 1)
            fits = self.both(
                emitter.compare("GE", node, emitter.like(-limit, node)),
                emitter.compare("LT", node, emitter.like(limit, node)),
            )
            interpreter.check(
                emitter.elementwise("or", fits, emitter.elementwise("not", finite)), OverflowError, does_not_fit(wanted)
            )
            return emitter.select(fits, node, emitter.like(0, node))
        limits, own = np.iinfo(wanted.numpy), element.numpy
        if own.kind not in "iu" or (np.iinfo(own).max <= limits.max and np.iinfo(own).min >= limits.min):
            return node
        fits = emitter.compare("LE", node, emitter.like(int(limits.max), node))
        if own.kind == "i":
            fits = self.both(fits, emitter.compare("GE", node, emitter.like(int(limits.min), node)))
        interpreter.check(fits, OverflowError, does_not_fit(wanted))
        return node

    def literal(self, values: np.ndarray) -> Array:
        """An array that is known now."""
        element = dtype_of(values.dtype)
        node = self.emitter.graph.add_constant(literal_of(values, element), TensorType(element, values.shape))
        return Array(node)
