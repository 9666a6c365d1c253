"""Powers with Python's and NumPy's rules: by multiplication, by XLA's power, and for integers in a loop over bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.autodiff import Emitter
from hloom.functions.integer_bounds import check_bounds
from hloom.functions.values import PREDICATE, AbstractValue, Array, Const
from hloom.ir import DType, Node, TensorType, TupleType, dtype
from hloom.ops import OPS

if TYPE_CHECKING:
    from hloom.functions.numbers import Numbers

MAX_MULTIPLICATIONS = 64
"""The largest constant exponent that is written out as multiplications; NumPy calls pow beyond the square."""
SIX = 6
"""The number of bits of an exponent that XLA's integer powers use."""


class Powers:
    """The powers of one program's numbers."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers

    @property
    def emitter(self) -> Any:
        return self.numbers.emitter

    def power(self, base: AbstractValue, exponent: AbstractValue) -> AbstractValue:
        """Powers: whole constant exponents by multiplication."""
        interpreter, emitter = self.numbers.interpreter, self.emitter
        element, weak = self.numbers.promoted([self.numbers.known(base), self.numbers.known(exponent)])
        if element is PREDICATE:
            element = self.numbers.of_python[int] if weak else dtype("s8")
        if element.is_integer and not weak:
            check_bounds(interpreter, [base, exponent], element)
        known = exponent.value if isinstance(exponent, Const) else None
        if isinstance(known, (int, np.integer)) and not isinstance(known, bool):
            count = int(known)
            if element.is_integer and count < 0:
                if not weak:
                    interpreter.refuse("NumPy raises integers to no negative powers", ValueError)
                element = self.numbers.of_python[float]
            if element.is_integer or (abs(count) <= MAX_MULTIPLICATIONS and (abs(count) <= 2 or weak)):
                (node,), _ = self.numbers.operands([base], element)
                if isinstance(exponent, Const) and isinstance(base, Array) and not base.weak:
                    node = self.numbers.as_type(base, TensorType(element, base.dims))
                if count < 0:
                    if weak:
                        message = "0.0 to a negative or complex power" if element.is_complex else (
                            "0.0 cannot be raised to a negative power"
                        )  # fmt: skip
                        self.numbers.check_divisor(node, message)
                    return Array(emitter.div(emitter.like(1, node), self._multiplied(node, -count)), weak)
                made = self._multiplied(node, count)
                if weak and not element.is_integer and count > 1:
                    self._check_range(made, node)
                return Array(made, weak)
        (a, b), _ = self.numbers.operands([base, exponent], element)
        if element.is_integer:
            return Array(self._whole_power(a, b, weak), weak)
        if weak and element.is_complex:
            self._check_complex_power(a, b)
        elif weak:
            zero = emitter.like(0, a)
            is_to_negative = self.numbers.both(emitter.compare("LT", b, zero), emitter.op("is-finite", b))
            to_negative = self.numbers.both(emitter.compare("EQ", a, zero), is_to_negative)
            interpreter.check(
                emitter.elementwise("not", to_negative), ZeroDivisionError, "0.0 cannot be raised to a negative power"
            )
            is_fraction = self.numbers.both(
                emitter.compare("NE", emitter.elementwise("floor", b), b), emitter.op("is-finite", b)
            )
            is_negative = self.numbers.both(emitter.compare("LT", a, zero), emitter.op("is-finite", a))
            interpreter.check(
                emitter.elementwise("not", self.numbers.both(is_negative, is_fraction)), ValueError,
                "a negative number to a power that is not whole is complex: write complex(x) ** y",
            )  # fmt: skip
        made = emitter.elementwise("power", a, b)
        if weak:
            self._check_range(made, a, b)
        return Array(made, weak)

    def _check_complex_power(self, a: Node, b: Node) -> None:
        """Raise ZeroDivisionError, as Python does, for zero to a power that is negative or not real."""
        emitter = self.emitter
        real, imaginary = emitter.op("real", b), emitter.op("imag", b)
        zero = emitter.like(0, real)
        wrong = emitter.elementwise("or", emitter.compare("NE", imaginary, zero), emitter.compare("LT", real, zero))
        is_zero = emitter.compare("EQ", a, emitter.like(0, a))
        self.numbers.interpreter.check(
            emitter.elementwise("not", self.numbers.both(is_zero, wrong)),
            ZeroDivisionError, "0.0 to a negative or complex power",
        )  # fmt: skip

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
            is_positive = emitter.compare("GE", smallest, emitter.like(0, smallest))
            self.numbers.interpreter.check(is_positive, ValueError, message)
        exponent = emitter.elementwise("maximum", exponent, emitter.like(0, exponent))
        if weak:
            self._check_whole_power(base, exponent, given.dtype)
        low = emitter.elementwise("power", base, _lowest_bits(emitter, exponent))
        if given.dtype.bits <= SIX:
            return low
        graph, module = emitter.graph, self.numbers.interpreter.module
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

    def _check_whole_power(self, base: Node, exponent: Node, element: DType) -> None:
        """Whether a power fits, by its size in f64: no power is so near to the limit that rounding decides."""
        emitter = self.emitter
        wide = dtype("f64")
        wide_base = emitter.op("abs", emitter.convert(base, wide))
        size = emitter.elementwise("power", wide_base, emitter.convert(exponent, wide))
        limit = emitter.like(2.0 ** (element.bits - 1), size)
        fits = emitter.compare("LT", size, limit)
        lowest = emitter.elementwise("and", exponent, emitter.like(1, exponent))
        is_odd = emitter.compare("NE", lowest, emitter.like(0, exponent))
        is_negative = emitter.compare("LT", base, emitter.like(0, base))
        is_least = self.numbers.both(emitter.compare("EQ", size, limit), self.numbers.both(is_negative, is_odd))
        self.numbers.interpreter.check(emitter.elementwise("or", fits, is_least), OverflowError, does_not_fit(element))

    def _check_range(self, result: Node, *operands: Node) -> None:
        """Raise OverflowError, as Python does, if a power of finite numbers is not finite."""
        emitter = self.emitter
        assert isinstance(result.type, TensorType)
        is_complex = result.type.dtype.is_complex
        fine = self.numbers.is_finite(result)
        for operand in operands:
            fine = emitter.elementwise("or", fine, emitter.elementwise("not", self.numbers.is_finite(operand)))
        message = "complex exponentiation" if is_complex else "(34, 'Numerical result out of range')"
        self.numbers.interpreter.check(fine, OverflowError, message)

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


def does_not_fit(element: DType) -> str:
    """The message for a number that fits Python's integers but not the type."""
    return f"the number does not fit {element}"


def _lowest_bits(emitter: Emitter, node: Node) -> Node:
    return emitter.elementwise("and", node, emitter.like((1 << SIX) - 1, node))


def _without_lowest_bits(emitter: Emitter, node: Node) -> Node:
    return emitter.elementwise("shift-right-logical", node, emitter.like(SIX, node))
