"""Arithmetic of numbers and arrays with Python's and NumPy's rules: promotion, floor division, powers, comparisons.

Python's numbers are weak, as in NumPy 2 (NEP 50): beside an array they take its type. Where Python raises, a check is
left in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.autodiff import Emitter
from hloom.functional.values import AbstractValue, Array, Const, described
from hloom.ir import DType, Node, TensorType, TupleType, dtype, dtype_of, literal_of
from hloom.ops import OPS

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter

PREDICATE = dtype("pred")
S64 = dtype("s64")
MAX_MULTIPLICATIONS = 64
"""The largest constant exponent that is written out as multiplications; NumPy calls pow beyond the square."""
SIX = 6
"""How many bits of an exponent XLA's powers of integers take."""
COMPARISONS = {"==": "EQ", "!=": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}
BITWISE = {"&": "and", "|": "or", "^": "xor"}
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

    @property
    def emitter(self) -> Any:
        return self.interpreter.emitter

    # Types

    def weak_dtype(self, value: Any) -> DType:
        """The type of a Python number that stands alone."""
        for cls in (bool, int, float, complex):
            if isinstance(value, cls):
                return self.of_python[cls]
        raise TypeError(f"{value!r} is no number")

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
            if isinstance(value, Const) and not isinstance(value.value, (bool, int, float, complex, np.generic)):
                self.array(value)
        made, weak = self.promoted(given)
        dims = self.common_dims([value.dims if isinstance(value, Array) else () for value in given])
        wanted = TensorType(element or made, dims)
        return [self.as_type(value, wanted) for value in given], weak

    # Operators

    def binary(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """A binary operator of numbers or arrays."""
        interpreter = self.interpreter
        if symbol in COMPARISONS:
            return self.compare(symbol, left, right)
        if symbol == "@":
            return interpreter.library.call(np.matmul, [left, right], {})
        if symbol == "**":
            return self.power(left, right)
        element, weak = self.promoted([self._known(left), self._known(right)])
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
        if symbol in ("//", "%") and element.is_complex:
            interpreter.refuse(f"{symbol} is not defined for complex numbers", TypeError)
        (a, b), _ = self.operands([left, right], element)
        emitter = self.emitter
        if symbol == "+":
            return Array(emitter.add(a, b), weak)
        if symbol == "-":
            return Array(emitter.sub(a, b), weak)
        if symbol == "*":
            return Array(emitter.mul(a, b), weak)
        if symbol == "/":
            if weak:
                self._check_divisor(
                    b, "division by zero" if element is self._by_rank[2] else "complex division by zero"
                )
            return Array(emitter.div(a, b), weak)
        if symbol in BITWISE:
            return Array(emitter.elementwise(BITWISE[symbol], a, b), weak)
        if symbol in SHIFTS:
            if weak:
                interpreter.check(emitter.compare("GE", b, emitter.like(0, b)), ValueError, "negative shift count")
            shifted = self._shift(symbol, a, b)
            if weak and symbol == "<<":
                fits = emitter.compare("EQ", self._shift(">>", shifted, b), a)
                interpreter.check(fits, OverflowError, f"the number does not fit {element}")
            return Array(shifted, weak)
        if weak:
            name = "integer division or modulo by zero" if element.is_integer else (
                "float floor division by zero" if symbol == "//" else "float modulo"
            )  # fmt: skip
            self._check_divisor(b, name)
        quotient, rest = self.divmod_nodes(a, b)
        return Array(quotient if symbol == "//" else rest, weak)

    def _true_division(self, element: DType, weak: bool) -> DType:
        if weak:
            return self.of_python[float]
        return dtype_of(np.result_type(np.true_divide(np.ones((), element.numpy), np.ones((), element.numpy)).dtype))

    def _known(self, value: AbstractValue) -> Any:
        return value if isinstance(value, Array) else self._number(value)

    def _number(self, value: AbstractValue) -> Any:
        if isinstance(value, Const) and isinstance(value.value, (bool, int, float, complex, np.generic)):
            return value
        return self.array(value)

    def _check_divisor(self, divisor: Node, message: str) -> None:
        emitter = self.emitter
        self.interpreter.check(emitter.compare("NE", divisor, emitter.like(0, divisor)), ZeroDivisionError, message)

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
        rest = emitter.elementwise("remainder", a, b)
        differs = emitter.compare("NE", emitter.compare("LT", rest, zero), emitter.compare("LT", b, zero))
        wrong = emitter.elementwise("and", emitter.compare("NE", rest, zero), differs)
        rest = emitter.select(wrong, emitter.add(rest, b), rest)
        signed_zero = emitter.select(emitter.compare("LT", b, zero), emitter.like(-0.0, b), zero)
        rest = emitter.select(emitter.compare("EQ", rest, zero), signed_zero, rest)
        whole = emitter.div(emitter.sub(a, rest), b)
        rounded = emitter.elementwise("floor", whole)
        off = emitter.compare("GT", emitter.sub(whole, rounded), emitter.like(0.5, whole))
        rounded = emitter.select(off, emitter.add(rounded, emitter.like(1, rounded)), rounded)
        plain = emitter.div(a, b)
        is_below_one = emitter.compare("EQ", rounded, zero)  # of whose quotient zero has the sign
        rounded = emitter.select(is_below_one, emitter.mul(plain, emitter.like(0, plain)), rounded)
        is_zero = emitter.compare("EQ", b, zero)
        return emitter.select(is_zero, plain, rounded), rest

    def power(self, base: AbstractValue, exponent: AbstractValue) -> AbstractValue:
        """Powers: whole constant exponents by multiplication."""
        interpreter, emitter = self.interpreter, self.emitter
        element, weak = self.promoted([self._known(base), self._known(exponent)])
        if element is PREDICATE:
            element = self.of_python[int] if weak else dtype("s8")
        known = exponent.value if isinstance(exponent, Const) else None
        if isinstance(known, (int, np.integer)) and not isinstance(known, bool):
            count = int(known)
            if element.is_integer and count < 0:
                if not weak:
                    interpreter.refuse("NumPy raises integers to no negative powers", ValueError)
                element = self.of_python[float]
            if element.is_integer or (abs(count) <= MAX_MULTIPLICATIONS and (abs(count) <= 2 or weak)):
                (node,), _ = self.operands([base], element)
                if isinstance(exponent, Const) and isinstance(base, Array) and not base.weak:
                    node = self.as_type(base, TensorType(element, base.dims))
                if count < 0:
                    if weak:
                        self._check_divisor(node, "0.0 cannot be raised to a negative power")
                    return Array(emitter.div(emitter.like(1, node), self._multiplied(node, -count)), weak)
                made = self._multiplied(node, count)
                if weak and element.is_float and count > 1:
                    self._check_range(made, node)
                return Array(made, weak)
        (a, b), _ = self.operands([base, exponent], element)
        if element.is_integer:
            return Array(self._whole_power(a, b, weak), weak)
        if weak and not element.is_complex:
            zero = emitter.like(0, a)
            to_negative = emitter.elementwise("and", emitter.compare("EQ", a, zero), emitter.compare("LT", b, zero))
            interpreter.check(
                emitter.elementwise("not", to_negative), ZeroDivisionError, "0.0 cannot be raised to a negative power"
            )
            fraction = emitter.compare("NE", emitter.elementwise("floor", b), b)
            is_complex = emitter.elementwise("and", emitter.compare("LT", a, zero), fraction)
            interpreter.check(
                emitter.elementwise("not", is_complex), ValueError,
                "a negative number to a power that is not whole is complex: write complex(x) ** y",
            )  # fmt: skip
        made = emitter.elementwise("power", a, b)
        if weak and element.is_float:
            self._check_range(made, a, b)
        return Array(made, weak)

    def _whole_power(self, base: Node, exponent: Node, weak: bool) -> Node:
        """Powers of integers, which wrap around; raises ValueError for a negative exponent.

        XLA's own take the lowest six bits of the exponent alone (xla/service/elemental_ir_emitter.cc, EmitIntegerPow):
        a loop goes over the others, six at a time, where there are any.
        """
        emitter = self.emitter
        given = exponent.type
        assert isinstance(given, TensorType)
        dimensions = range(given.rank)
        smallest = emitter.reduce("minimum", exponent, dimensions)
        if given.dtype.numpy.kind == "i" and given.element_count:
            message = (
                "a negative exponent of an integer gives a float in Python: write float(x) ** n"
                if weak
                else "Integers to negative integer powers are not allowed."
            )
            self.interpreter.check(emitter.compare("GE", smallest, emitter.like(0, smallest)), ValueError, message)
        exponent = emitter.elementwise("maximum", exponent, emitter.like(0, exponent))
        low = emitter.elementwise("power", base, _lowest_bits(emitter, exponent))
        if given.dtype.bits <= SIX:
            return low
        graph, module = emitter.graph, self.interpreter.module
        state = TupleType([given, given, given])
        condition = Emitter(module.add_graph(module.unique_graph_name("power_goes_on"), parent=graph))
        rest = condition.element(condition.graph.add_parameter(state, "state"), 2)
        largest = condition.reduce("maximum", rest, dimensions)
        condition.graph.set_output(condition.compare("GT", largest, condition.like(0, largest)))
        body = Emitter(module.add_graph(module.unique_graph_name("power_of_six_bits"), parent=graph))
        parameter = body.graph.add_parameter(state, "state")
        made, square, rest = (body.element(parameter, number) for number in range(3))
        for _ in range(SIX):
            square = body.mul(square, square)
        made = body.mul(made, body.elementwise("power", square, _lowest_bits(body, rest)))
        body.graph.set_output(body.tuple([made, square, _without_lowest_bits(body, rest)]))
        initial = emitter.tuple([low, base, _without_lowest_bits(emitter, exponent)])
        loop = graph.add_apply(OPS["while"], [initial], state, {"condition": condition.graph, "body": body.graph})
        return emitter.element(loop, 0)

    def _check_range(self, result: Node, *operands: Node) -> None:
        """A power of finite numbers that is not finite: Python raises."""
        emitter = self.emitter
        fine = emitter.op("is-finite", result)
        for operand in operands:
            other = emitter.elementwise("not", emitter.op("is-finite", operand))
            fine = emitter.elementwise("or", fine, other)
        self.interpreter.check(fine, OverflowError, "(34, 'Numerical result out of range')")

    def _multiplied(self, node: Node, count: int) -> Node:
        if count == 0:
            return self.emitter.like(1, node)
        result: Node | None = None
        square = node
        while True:
            if count & 1:
                result = square if result is None else self.emitter.mul(result, square)
            count >>= 1
            if not count:
                assert result is not None
                return result
            square = self.emitter.mul(square, square)

    def compare(self, symbol: str, left: AbstractValue, right: AbstractValue) -> AbstractValue:
        """A comparison of numbers or arrays."""
        (a, b), weak = self.operands([left, right])
        assert isinstance(a.type, TensorType)
        if a.type.dtype.is_complex and symbol not in ("==", "!="):
            self.interpreter.refuse(f"complex numbers have no order: {symbol}", TypeError)
        return Array(self.emitter.compare(COMPARISONS[symbol], a, b), weak)

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
        if value.dtype is PREDICATE and value.weak:
            value = self.array(value, self.of_python[int])
        return Array(self.emitter.elementwise("not", value.node), value.weak)

    def absolute(self, operand: AbstractValue) -> AbstractValue:
        """The size of a number."""
        value = self.array(operand)
        if value.dtype is PREDICATE:
            value = self.array(value, self.of_python[int]) if value.weak else value
            if not value.weak:
                return value
        if value.dtype.name.startswith("u"):
            return value
        return Array(self.emitter.op("abs", value.node), value.weak)

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
            try:
                return Const(cls(value.value))
            except (TypeError, ValueError, OverflowError) as error:
                interpreter.raise_error(type(error), str(error))
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
        if cls is int and array.dtype.is_float:
            is_number = self.emitter.compare("EQ", node, node)
            interpreter.check(is_number, ValueError, "cannot convert float NaN to integer")
            finite = self.emitter.op("is-finite", node)
            interpreter.check(finite, OverflowError, "cannot convert float infinity to integer")
            node = self.emitter.select(finite, node, self.emitter.like(0, node))
        return Array(self.convert(node, self.of_python[cls]), True)

    def literal(self, values: np.ndarray) -> Array:
        """An array that is known now."""
        element = dtype_of(values.dtype)
        node = self.emitter.graph.add_constant(literal_of(values, element), TensorType(element, values.shape))
        return Array(node)


def _lowest_bits(emitter: Emitter, node: Node) -> Node:
    return emitter.elementwise("and", node, emitter.like((1 << SIX) - 1, node))


def _without_lowest_bits(emitter: Emitter, node: Node) -> Node:
    return emitter.elementwise("shift-right-logical", node, emitter.like(SIX, node))
