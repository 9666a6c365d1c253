"""Softmax as models write it: which scores weights are the softmax of, and which of them are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf, prod

from hloom.ir import Node, TensorType, dtype, literal_of
from hloom.passes.axis_labels import AxisLabels, Label, Value, attribute_of
from hloom.rewrite import Builder, array_value, splat_of, used_once

MOST_PERMUTED = 4
"""Up to how many axes of keys all orders are tried."""
MOST_TRUTHS = 1 << 24
"""How many numbers of a constant are looked at to see whether they are truth values."""


@dataclass(frozen=True, slots=True)
class WeightMask:
    """Where weights are kept; `is_inverse` says that they are where the value is false."""

    value: Value
    is_inverse: bool


@dataclass(frozen=True, slots=True)
class Softmax:
    """The scores, the mask of the sum, the masks of the exponentials, and that of their quotients by the sum.

    `are_nans_zero` says that quotients are zeros where they would be NaNs: in rows whose scores all are -inf.
    """

    scores: Value
    summed: WeightMask | None = None
    exponentials: WeightMask | None = None
    quotients: WeightMask | None = None
    are_nans_zero: bool = False


class SoftmaxSearch:
    """Softmaxes over the axes `keys`."""

    def __init__(self, build: Builder, axes: AxisLabels) -> None:
        self.build = build
        self.axes = axes
        self.given_keys: Label = ()
        self.made_truths: dict[Node, Node] = {}

    @property
    def keys(self) -> Label:
        """The axes that the softmax is over."""
        return self.axes.whole([self.given_keys])

    def quotient(self, node: Node, labels: tuple[Label, ...]) -> tuple[Value, Value] | None:
        """What is divided, and by what: by a division, or by a product with a reciprocal."""
        if node.opcode == "divide":
            divisor = self.axes.stripped((node.operands[1], labels), through_broadcasts=True)
            return self.axes.stripped((node.operands[0], labels)), divisor
        if node.opcode != "multiply":
            return None
        for dividend, factor in (node.operands, node.operands[::-1]):
            inverse, inner = self.axes.stripped((factor, labels), through_broadcasts=True)
            if inverse.opcode == "divide" and self.axes.number(inverse.operands[0], inner) == 1:
                divisor = self.axes.stripped((inverse.operands[1], inner), through_broadcasts=True)
                return self.axes.stripped((dividend, labels)), divisor
        return None

    def softmax(self, weights: Value, total: Value | None) -> Softmax | None:
        """What weights are the softmax of; `total` is what the result is divided by, where they are not."""
        if total is not None:
            return self._of_exponentials(weights, total, None, are_nans_zero=False)
        if not used_once(weights[0]):
            return None
        inner = self._with_nans(weights)
        unmasked, quotients = self._unmasked(inner)
        own = self._with_nans(unmasked)
        are_nans_zero = inner[0] is not weights[0] or own[0] is not unmasked[0]
        node, labels = own
        if node.opcode == "exponential" and quotients is None:
            scores = self._exponential_of_log_softmax(node, labels)
            return None if scores is None else Softmax(scores, are_nans_zero=are_nans_zero)
        quotient = self.quotient(node, labels)
        return None if quotient is None else self._of_exponentials(*quotient, quotients, are_nans_zero=are_nans_zero)

    def _of_exponentials(
        self, weights: Value, total: Value, quotients: WeightMask | None, *, are_nans_zero: bool
    ) -> Softmax | None:
        """The softmax that weights are when a total divides them."""
        exponential, own = self._unmasked(weights)
        if exponential[0].opcode != "exponential":
            return None
        for candidate in self._summed(total):
            summed, mask = self._unmasked(candidate)
            if self.axes.same(summed, exponential):
                scores = self.axes.stripped((exponential[0].operands[0], exponential[1]))
                return Softmax(scores, mask, own, quotients, are_nans_zero)
        return None

    def _with_nans(self, weights: Value) -> Value:
        """Weights before zeros took the place of NaNs; quotients by a sum of exponentials are never infinite.

        select(compare(p, p, NE), 0, p), and what `jax.numpy.nan_to_num` makes of infinities besides.
        """
        seen = weights
        while seen[0].opcode == "select":
            node, labels = seen
            for position in (1, 2):
                value = self.axes.stripped((node.operands[position], labels))
                replaced = self._replaced(node.operands[0], labels, value, is_chosen=position == 1)
                number = self.axes.number(node.operands[3 - position], labels)
                if replaced == "infinite" or (replaced == "NaN" and number == 0):
                    seen = value
                    weights = value if replaced == "NaN" else weights
                    break
            else:
                return weights
        return weights

    def _replaced(self, test: Node, labels: tuple[Label, ...], value: Value, *, is_chosen: bool) -> str | None:
        """Which numbers of a value a select replaces, that takes it where the test is true (`is_chosen`), or false."""
        while test.opcode == "not":
            test, is_chosen = test.operands[0], not is_chosen
        if len(test.dims) != len(labels):
            return None
        if test.opcode == "is-finite" and is_chosen:
            return "NaN" if self.axes.same(self.axes.stripped((test.operands[0], labels)), value) else None
        if test.opcode != "compare" or attribute_of(test, "direction") != ("EQ" if is_chosen else "NE"):
            return self._replaced_infinity(test, labels, value, is_chosen=is_chosen)
        operands = [self.axes.stripped((operand, labels)) for operand in test.operands]
        return "NaN" if all(self.axes.same(operand, value) for operand in operands) else None

    def _replaced_infinity(self, test: Node, labels: tuple[Label, ...], value: Value, *, is_chosen: bool) -> str | None:
        if test.opcode != "compare" or attribute_of(test, "direction") != ("NE" if is_chosen else "EQ"):
            return None
        for this, other in (test.operands, test.operands[::-1]):
            if self.axes.number(other, labels) in (inf, -inf):
                return "infinite" if self.axes.same(self.axes.stripped((this, labels)), value) else None
        return None

    def _unmasked(self, weights: Value) -> tuple[Value, WeightMask | None]:
        """Weights before some of them were made zero, and which are not: by a select, or by a product with truths."""
        node, labels = weights
        if node.opcode == "select":
            for position in (1, 2):
                if self.axes.number(node.operands[3 - position], labels) == 0:
                    mask = WeightMask(self.axes.term(node.operands[0], labels), position == 2)
                    return self.axes.stripped((node.operands[position], labels)), mask
        if node.opcode == "multiply":
            for position in (0, 1):
                truths = self._truths(node.operands[1 - position], labels)
                if truths is not None:
                    return self.axes.stripped((node.operands[position], labels)), WeightMask(truths, False)
        return weights, None

    def _truths(self, node: Node, labels: tuple[Label, ...]) -> Value | None:
        """The truth values that these numbers are, 1 for true and 0 for false; None for others."""
        node, labels = self.axes.stripped((node, labels), through_broadcasts=True)
        if node.opcode == "select" and [self.axes.number(operand, labels) for operand in node.operands[1:]] == [1, 0]:
            return self.axes.term(node.operands[0], labels)
        if node.opcode == "convert" and node.operands[0].dtype is dtype("pred"):
            return self.axes.term(node.operands[0], labels)
        if not isinstance(node.type, TensorType) or node.type.element_count > MOST_TRUTHS:
            return None
        numbers = array_value(node)
        if numbers is None or not ((numbers == 0) | (numbers == 1)).all():
            return None
        if node not in self.made_truths:
            self.made_truths[node] = self.build.constant(literal_of(numbers == 1, dtype("pred")))
        return self.made_truths[node], labels

    def _exponential_of_log_softmax(self, node: Node, labels: tuple[Label, ...]) -> Value | None:
        """exp(x - log(sum(exp(x)))), and exp(x - (log(sum(exp(x - m))) + m))."""
        difference, inner = self.axes.stripped((node.operands[0], labels))
        if difference.opcode != "subtract":
            return None
        scores = self.axes.stripped((difference.operands[0], inner))
        logarithm = self.axes.stripped((difference.operands[1], inner), through_broadcasts=True)
        shifted, shift = logarithm, None
        if logarithm[0].opcode == "add":
            operands = [
                self.axes.stripped((operand, logarithm[1]), through_broadcasts=True)
                for operand in logarithm[0].operands
            ]
            for this, other in (operands, operands[::-1]):
                if this[0].opcode == "log":
                    shifted, shift = this, other
        if shifted[0].opcode != "log":
            return None
        total = self.axes.stripped((shifted[0].operands[0], shifted[1]))
        if total[0].opcode == "abs":
            total = self.axes.stripped((total[0].operands[0], total[1]))
        is_summed = any(self._is_sum_of(candidate, scores, shift) for candidate in self._summed(total))
        return scores if is_summed else None

    def _is_sum_of(self, exponential: Value, scores: Value, shift: Value | None) -> bool:
        """Whether exponentials are those of scores, less a shift."""
        if exponential[0].opcode != "exponential":
            return False
        summed = self.axes.stripped((exponential[0].operands[0], exponential[1]))
        if shift is None:
            return self.axes.same(summed, scores)
        if summed[0].opcode != "subtract":
            return False
        taken = self.axes.stripped((summed[0].operands[1], summed[1]), through_broadcasts=True)
        unshifted = self.axes.stripped((summed[0].operands[0], summed[1]))
        return self.axes.same(taken, shift) and self.axes.same(unshifted, scores)

    def _summed(self, total: Value) -> Iterator[Value]:
        """What a value may be the sum of over all keys, which may be in any order, and summed one after another."""
        keys = self.keys
        orders = permutations(keys) if len(keys) <= MOST_PERMUTED else iter([keys])
        for order in orders:
            value, left = total, self.axes.whole([order])
            while left and (step := self._summed_once(value, left)) is not None:
                value, left = step
            if not left:
                yield value

    def _summed_once(self, total: Value, keys: Label) -> tuple[Value, Label] | None:
        """What a value is the sum of over the first of these keys, and the other keys."""
        node, labels = total
        if node.opcode != "reduce" or len(node.operands) != 2 or next(iter(node.called_graphs)).root.opcode != "add":
            return None
        reduced: Sequence[int] = attribute_of(node, "dimensions")
        sizes = [node.operands[0].dims[dim] for dim in reduced]
        count = next((n for n in range(len(keys) + 1) if self.axes.size(keys[:n]) == prod(sizes)), None)
        over = None if count is None else self.axes.reshaped([keys[:count]], sizes)
        if over is None or splat_of(node.operands[1]) != 0:
            return None
        given, taken = iter(labels), dict(zip(reduced, over, strict=True))
        inner = tuple(taken[dim] if dim in taken else next(given) for dim in range(len(node.operands[0].dims)))
        return self.axes.stripped((node.operands[0], inner)), keys[count:]
