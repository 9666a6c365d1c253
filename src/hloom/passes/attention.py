"""Attention as models write it, in one form: for rules that put a kernel of one's own in its place.

    softmax(steps(q k^T)) v   ->   AttentionForm(q, k, v, terms, steps)

Models differ in the order of batches and heads, in dimensions of size 1, in where the scale, masks and biases stand, in
types between, in which shift the softmax subtracts, and in whether they divide before or after the second dot. So each
dimension of the scores is followed from the second dot back to the first, as a tuple of axes, through reshapes and
transposes; a reshape splits an axis where it must.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any, cast

import ml_dtypes

from hloom.ir import Apply, DType, Node, TensorType, dtype, literal_of
from hloom.rewrite import Builder, array_value, splat_of, used_once

MOST_VISITED = 64
"""How many nodes are looked at between the softmax and the first dot."""
MOST_TRUTHS = 1 << 24
"""How many numbers of a constant are looked at to see whether they are truth values."""
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
"""What may combine scores with a number or a term."""
UNARY = ("tanh", "negate")
"""What else may be done to scores."""

NO_SOFTMAX = "no operand is a softmax of what is contracted"

Label = tuple[int, ...]
"""The axes of one dimension, major to minor; none for a dimension of size 1."""
Value = tuple[Node, tuple[Label, ...]]


@dataclass(frozen=True, slots=True)
class ScoreStep:
    """What is done to scores: an opcode, and the number or (None) the next term that is the other operand.

    `is_second` says that the scores are the second operand. The first operand of a `select` is always a term, the mask;
    scores are what it chooses where it is true, or, if they are second, where it is false.
    """

    opcode: str
    number: float | None = None
    is_second: bool = False

    @property
    def has_term(self) -> bool:
        """Whether a binary step's other operand is a term, not a number."""
        return self.number is None and self.opcode not in UNARY

    def as_tuple(self) -> tuple[str, float | None, bool]:
        """The same as a tuple, for keywords of functions."""
        return self.opcode, self.number, self.is_second


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """softmax over keys of the scores, times values; `terms` are those of the steps, in order.

    Of `batch` batch dimensions and `rows` dimensions of queries: q is [batch, rows, d], k [batch, keys, d], v [batch,
    keys, e]; terms are [batch, rows, keys], with size 1 where they do not vary. The result has to be [batch, rows, e].
    """

    q: Node
    k: Node
    v: Node
    terms: tuple[Node, ...]
    steps: tuple[ScoreStep, ...]
    batch: int
    rows: int
    order: tuple[int, ...]
    dims: tuple[int, ...]
    kept: Node | None = None

    def finish(self, build: Builder, result: Node, like: Node) -> Node:
        """The result, [batch, rows, e], with the dimensions and the type of the node that it takes the place of."""
        assert isinstance(result.type, TensorType) and isinstance(like.type, TensorType), "they are arrays"
        whole = build.reshape(result, TensorType(result.type.dtype, self.dims))
        turned = build.transpose(whole if self.kept is None else self._zeroed(build, whole, self.kept), self.order)
        return build.convert(build.reshape(turned, TensorType(result.type.dtype, like.type.dims)), like.type.dtype)

    def _zeroed(self, build: Builder, result: Node, kept: Node) -> Node:
        """The result with zeros in the rows that keep no key."""
        assert isinstance(result.type, TensorType), "it is an array"
        truth, rows = dtype("pred"), self.batch + self.rows
        nothing = build.constant(False, truth)
        some = build.op("reduce", kept, nothing, dimensions=(rows,), to_apply=build.reducer("or", truth))
        varying = tuple(dim for dim in range(rows) if _dims(kept)[dim] != 1)
        narrow = build.reshape(some, TensorType(truth, tuple(self.dims[dim] for dim in varying)))
        whole = build.op("broadcast", narrow, type=result.type.with_dtype(truth), dimensions=varying)
        return build.op("select", whole, result, build.constant(0, result.type))


@dataclass(slots=True)
class _Axes:
    """The axes that dimensions consist of."""

    sizes: list[int] = field(default_factory=list[int])
    halves: dict[int, Label] = field(default_factory=dict[int, Label])

    def fresh(self, size: int) -> Label:
        if size == 1:
            return ()
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def whole(self, labels: Iterable[Label]) -> Label:
        """The axes of several dimensions, those that were split as their parts."""
        pending, result = [axis for label in reversed(tuple(labels)) for axis in reversed(label)], list[int]()
        while pending:
            axis = pending.pop()
            if axis in self.halves:
                pending += reversed(self.halves[axis])
            else:
                result.append(axis)
        return tuple(result)

    def reshaped(self, labels: Sequence[Label], dims: Sequence[int]) -> tuple[Label, ...] | None:
        """The labels of dimensions of these sizes that hold the same elements in the same order; None where none do."""
        pending, result = list(reversed(self.whole(labels))), list[Label]()
        for size in dims:
            label, left = list[int](), size
            while left > 1:
                if not pending:
                    return None
                axis = pending.pop()
                held = self.sizes[axis]
                if left % held:
                    if held % left:
                        return None
                    self.halves[axis] = (*self.fresh(left), *self.fresh(held // left))
                    axis, rest = self.halves[axis]
                    pending.append(rest)
                    held = left
                label.append(axis)
                left //= held
            result.append(tuple(label))
        return None if pending else tuple(result)

    def size(self, label: Label) -> int:
        return prod(self.sizes[axis] for axis in self.whole([label]))

    def same(self, left: Sequence[Label], right: Sequence[Label]) -> bool:
        return len(left) == len(right) and all(
            self.whole([a]) == self.whole([b]) for a, b in zip(left, right, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _Mask:
    """Where weights are kept; `is_inverse` says that they are where the value is false."""

    value: Value
    is_inverse: bool


@dataclass(frozen=True, slots=True)
class _Softmax:
    """The scores, the mask of the sum, the masks of the exponentials, and that of their quotients by the sum."""

    scores: Value
    summed: _Mask | None = None
    exponentials: _Mask | None = None
    quotients: _Mask | None = None


def attention_at(build: Builder, node: Node) -> AttentionForm | None:
    """The attention that a dot is, or a dot divided or times a reciprocal; None, with the reason in the builder."""
    search = _Search(build)
    match = search.attention(node)
    if match is None:
        others = [reason for reason in search.reasons if reason != NO_SOFTMAX]
        build.decline((others or search.reasons)[0])
    return match


class _Search:
    def __init__(self, build: Builder) -> None:
        self.build = build
        self.axes = _Axes()
        self.given_keys: Label = ()
        self.last: Node | None = None
        self.left = MOST_VISITED
        self.truths: dict[Node, Node] = {}
        self.reasons: list[str] = []

    def _none(self, reason: str) -> None:
        self.reasons.append(reason)

    @property
    def keys(self) -> Label:
        """The axes that the softmax is over."""
        return self.axes.whole([self.given_keys])

    def attention(self, node: Node) -> AttentionForm | None:
        """Both forms: the weights are divided by their sums, or the result is."""
        if node.opcode == "dot":
            return self._of_dot(node, None, None, None)
        labels = tuple(self.axes.fresh(size) for size in _dims(node))
        quotient = self._quotient(node, labels)
        if quotient is None:
            return self._none("it is neither a dot nor a division")
        (dot, inner), total = quotient
        if dot.opcode != "dot" or len(_dims(dot)) != len(inner):
            return self._none("what is divided is no dot")
        return self._of_dot(dot, inner, total, labels)

    def _of_dot(
        self, dot: Node, labels: tuple[Label, ...] | None, total: Value | None, result: tuple[Label, ...] | None
    ) -> AttentionForm | None:
        """Of a dot with these labels, divided by a total where that has the labels of the result."""
        for side in (0, 1):
            operands, own = self._dot_labels(dot, labels)
            made = self._with_weights(dot, side, operands, total, own if result is None else result)
            if made is not None:
                return made
            self.left = MOST_VISITED
        return None

    def _with_weights(
        self,
        dot: Node,
        side: int,
        operands: tuple[list[Label], list[Label]],
        total: Value | None,
        result: tuple[Label, ...],
    ) -> AttentionForm | None:
        """The attention whose weights are a dot's operand on this side."""
        axes = self.axes
        weights, values = ((dot.inputs[this], tuple(operands[this])) for this in (side, 1 - side))
        batch_dims, free, contracted = _sides(dot)[side]
        self.given_keys = axes.whole(operands[side][dim] for dim in contracted)
        if not self.given_keys:
            return self._none("nothing is contracted")
        if total is None and not used_once(weights[0]):
            return self._none("the weights are used elsewhere")
        softmax = self._softmax(self._stripped(weights), total)
        if softmax is None:
            return self._none(NO_SOFTMAX)
        self.last = softmax.scores[0]
        steps: list[tuple[ScoreStep, tuple[Value, ...]]] = []
        first = self._scores(softmax.scores, steps)
        if first is None:
            return self._none("the scores are not of a dot of queries and keys")
        if not self._masked_steps(softmax, steps):
            return self._none("weights are left out that their sum holds, or the other way round")
        q, k = first
        batch = axes.whole(operands[side][dim] for dim in batch_dims)
        rows = axes.whole(operands[side][dim] for dim in free)
        keys = self.keys
        depth = [axis for axis in axes.whole(k[1]) if axis not in (*batch, *keys)]
        if (
            set(depth) & set(rows)
            or set(axes.whole(q[1])) | set(batch) != {*batch, *rows, *depth}
            or set(axes.whole(k[1])) | set(batch) != {*batch, *keys, *depth}
        ):
            return self._none("the dots have other batches than each other")
        width = [axis for axis in axes.whole(values[1]) if axis not in (*batch, *keys)]
        terms = [term for _, given in steps for term in given]
        if any(0 < len(set(keys) & set(axes.whole(labels))) < len(keys) for _, labels in terms):
            return self._none("a term varies over a part of the keys")
        order = axes.whole(result)
        made = (*batch, *rows, *width)
        if set(order) != set(made) or len(order) != len(made):
            return self._none("the result has other dimensions than queries and values")
        return AttentionForm(
            self._repeated(self._arranged(q, [*batch, *rows], [depth]), batch),
            self._repeated(self._arranged(k, batch, [keys, depth]), batch),
            self._arranged(values, batch, [keys, width]),
            tuple(self._arranged(term, [*batch, *rows], [keys]) for term in terms),
            tuple(step for step, _ in steps),
            len(batch),
            len(rows),
            tuple(made.index(axis) for axis in order),
            tuple(axes.sizes[axis] for axis in made),
            None if softmax.quotients is None else self._kept(softmax.quotients, [*batch, *rows], keys),
        )

    def _dot_labels(
        self, dot: Node, result: tuple[Label, ...] | None
    ) -> tuple[tuple[list[Label], list[Label]], tuple[Label, ...]]:
        """The labels of a dot's operands, and of its result, where these are not given."""
        (lhs, lhs_free, lhs_contracted), (rhs, rhs_free, rhs_contracted) = _sides(dot)
        sizes = _dims(dot)
        result = tuple(self.axes.fresh(size) for size in sizes) if result is None else result
        left: list[Label] = [()] * len(_dims(dot.inputs[0]))
        right: list[Label] = [()] * len(_dims(dot.inputs[1]))
        labels: tuple[list[Label], list[Label]] = (left, right)
        for number, (a, b) in enumerate(zip(lhs, rhs, strict=True)):
            left[a] = right[b] = result[number]
        for a, b in zip(lhs_contracted, rhs_contracted, strict=True):
            left[a] = right[b] = self.axes.fresh(_dims(dot.inputs[0])[a])
        for number, dim in enumerate((*lhs_free, *rhs_free), len(lhs)):
            (left if number < len(lhs) + len(lhs_free) else right)[dim] = result[number]
        return labels, result

    def _stripped(self, value: Value, *, through_broadcasts: bool = False, converts: bool = True) -> Value:
        """What a value is before reshapes, transposes and changes of its type."""
        node, labels = value
        while True:
            if node.opcode == "reshape":
                inner = self.axes.reshaped(labels, _dims(node.inputs[0]))
                if inner is None:
                    return node, labels
            elif node.opcode == "transpose":
                order: Sequence[int] = _attribute(node, "dimensions")
                inner = tuple(label for _, label in sorted(zip(order, labels, strict=True)))
            elif node.opcode == "convert" and converts and _is_float(node) and _is_float(node.inputs[0]):
                inner = labels
            elif node.opcode == "broadcast" and through_broadcasts:
                inner = tuple(labels[dim] for dim in _attribute(node, "dimensions"))
            else:
                return node, labels
            node, labels = node.inputs[0], inner

    def _quotient(self, node: Node, labels: tuple[Label, ...]) -> tuple[Value, Value] | None:
        """What is divided, and by what: by a division, or by a product with a reciprocal."""
        if node.opcode == "divide":
            divisor = self._stripped((node.inputs[1], labels), through_broadcasts=True)
            return self._stripped((node.inputs[0], labels)), divisor
        if node.opcode != "multiply":
            return None
        for dividend, factor in (node.inputs, node.inputs[::-1]):
            inverse, inner = self._stripped((factor, labels), through_broadcasts=True)
            if inverse.opcode == "divide" and self._number(inverse.inputs[0], inner) == 1:
                divisor = self._stripped((inverse.inputs[1], inner), through_broadcasts=True)
                return self._stripped((dividend, labels)), divisor
        return None

    def _softmax(self, weights: Value, total: Value | None) -> _Softmax | None:
        """What weights are the softmax of; `total` is what the result is divided by, where they are not."""
        if not used_once(weights[0]) and total is None:
            return None
        quotients = None
        if total is None:
            weights, quotients = self._unmasked(weights)
            node, labels = weights
            if node.opcode == "exponential" and quotients is None:
                scores = self._exponential_of_log_softmax(node, labels)
                return None if scores is None else _Softmax(scores)
            quotient = self._quotient(node, labels)
            if quotient is None:
                return None
            weights, total = quotient
        exponential, own = self._unmasked(weights)
        summed = self._summed(total)
        if summed is None or exponential[0].opcode != "exponential":
            return None
        summed, mask = self._unmasked(summed)
        if not self._same(summed, exponential):
            return None
        scores = self._stripped((exponential[0].inputs[0], exponential[1]))
        return _Softmax(scores, mask, own, quotients)

    def _unmasked(self, weights: Value) -> tuple[Value, _Mask | None]:
        """Weights before some of them were made zero, and which are not: by a select, or by a product with truths."""
        node, labels = weights
        if node.opcode == "select":
            for position in (1, 2):
                if self._number(node.inputs[3 - position], labels) == 0:
                    mask = _Mask(self._term(node.inputs[0], labels), position == 2)
                    return self._stripped((node.inputs[position], labels)), mask
        if node.opcode == "multiply":
            for position in (0, 1):
                truths = self._truths(node.inputs[1 - position], labels)
                if truths is not None:
                    return self._stripped((node.inputs[position], labels)), _Mask(truths, False)
        return weights, None

    def _truths(self, node: Node, labels: tuple[Label, ...]) -> Value | None:
        """The truth values that these numbers are, 1 for true and 0 for false; None for others."""
        node, labels = self._stripped((node, labels), through_broadcasts=True)
        if node.opcode == "select" and [self._number(operand, labels) for operand in node.inputs[1:]] == [1, 0]:
            return self._term(node.inputs[0], labels)
        if node.opcode == "convert" and _element(node.inputs[0]) is dtype("pred"):
            return self._term(node.inputs[0], labels)
        if not isinstance(node.type, TensorType) or node.type.element_count > MOST_TRUTHS:
            return None
        numbers = array_value(node)
        if numbers is None or not ((numbers == 0) | (numbers == 1)).all():
            return None
        if node not in self.truths:
            self.truths[node] = self.build.constant(literal_of(numbers == 1, dtype("pred")))
        return self.truths[node], labels

    def _masked_steps(self, softmax: _Softmax, steps: list[tuple[ScoreStep, tuple[Value, ...]]]) -> bool:
        """Whether all masks of a softmax are one, which then is the scores' last step, as the least of their numbers.

        Rows that keep no key are zeros divided by zero, unless the quotients are masked: so -inf or a finite number.
        """
        masks = [mask for mask in (softmax.summed, softmax.exponentials, softmax.quotients) if mask is not None]
        if not masks:
            return True
        if not _is_float(softmax.scores[0]):
            return False
        least = _least(softmax.scores[0])
        is_chosen = bool(steps) and self._is_choice(steps[-1], masks[0], least)
        if not all(self._same_mask(mask, masks[0]) for mask in masks[1:]):
            return False
        if not is_chosen and (softmax.summed is None or len(masks) == 1):
            return False
        number = -inf if softmax.quotients is None else least
        if is_chosen:
            steps.pop()
        steps.append((ScoreStep("select", number, masks[0].is_inverse), (masks[0].value,)))
        return True

    def _is_choice(self, step: tuple[ScoreStep, tuple[Value, ...]], mask: _Mask, least: float) -> bool:
        """Whether a step makes scores the least of numbers where the mask keeps nothing."""
        done, given = step
        is_least = done.opcode == "select" and done.number is not None and done.number <= least
        return is_least and self._same_mask(_Mask(given[0], done.is_second), mask)

    def _same_mask(self, left: _Mask, right: _Mask) -> bool:
        return left.is_inverse == right.is_inverse and self._same(left.value, right.value)

    def _kept(self, mask: _Mask, single: Sequence[int], keys: Sequence[int]) -> Node:
        node = self._arranged(mask.value, single, [keys])
        return self.build.op("not", node) if mask.is_inverse else node

    def _exponential_of_log_softmax(self, node: Node, labels: tuple[Label, ...]) -> Value | None:
        """exp(x - log(sum(exp(x)))), and exp(x - (log(sum(exp(x - m))) + m))."""
        difference, inner = self._stripped((node.inputs[0], labels))
        if difference.opcode != "subtract":
            return None
        scores = self._stripped((difference.inputs[0], inner))
        logarithm = self._stripped((difference.inputs[1], inner), through_broadcasts=True)
        shifted, shift = logarithm, None
        if logarithm[0].opcode == "add":
            operands = [
                self._stripped((operand, logarithm[1]), through_broadcasts=True) for operand in logarithm[0].inputs
            ]
            for this, other in (operands, operands[::-1]):
                if this[0].opcode == "log":
                    shifted, shift = this, other
        if shifted[0].opcode != "log":
            return None
        total = self._stripped((shifted[0].inputs[0], shifted[1]))
        if total[0].opcode == "abs":
            total = self._stripped((total[0].inputs[0], total[1]))
        exponential = self._summed(total)
        if exponential is None or exponential[0].opcode != "exponential":
            return None
        summed = self._stripped((exponential[0].inputs[0], exponential[1]))
        if shift is not None:
            if summed[0].opcode != "subtract":
                return None
            taken = self._stripped((summed[0].inputs[1], summed[1]), through_broadcasts=True)
            if not self._same(taken, shift):
                return None
            summed = self._stripped((summed[0].inputs[0], summed[1]))
        return scores if self._same(summed, scores) else None

    def _summed(self, total: Value) -> Value | None:
        """What a value is the sum of over all keys."""
        node, labels = total
        if node.opcode != "reduce" or len(node.inputs) != 2 or next(iter(node.called_graphs)).root.opcode != "add":
            return None
        reduced: Sequence[int] = _attribute(node, "dimensions")
        sizes = [_dims(node.inputs[0])[dim] for dim in reduced]
        keys = self.keys
        over = self.axes.reshaped([keys], sizes) if prod(sizes) == self.axes.size(keys) else None
        if over is None or splat_of(node.inputs[1]) != 0:
            return None
        given, taken = iter(labels), dict(zip(reduced, over, strict=True))
        inner = tuple(taken[dim] if dim in taken else next(given) for dim in range(len(_dims(node.inputs[0]))))
        return self._stripped((node.inputs[0], inner))

    def _same(self, left: Value, right: Value) -> bool:
        return left[0] is right[0] and self.axes.same(left[1], right[1])

    def _scores(self, value: Value, steps: list[tuple[ScoreStep, tuple[Value, ...]]]) -> tuple[Value, Value] | None:
        """The queries and keys of scores, what is done to their dot, first to last; no more than so many nodes deep."""
        node, labels = self._stripped(value)
        self.left -= 1
        if self.left < 0:
            return None
        if node.opcode == "dot":
            return self._queries_and_keys(node, labels)
        if node.opcode in UNARY:
            first = self._scores((node.inputs[0], labels), steps)
            steps.append((ScoreStep(node.opcode), ()))
            return first
        if node.opcode == "select":
            return self._selected(node, labels, steps)
        if node.opcode == "clamp":
            first = self._scores((node.inputs[1], labels), steps)
            for opcode, bound in (("maximum", node.inputs[0]), ("minimum", node.inputs[2])):
                number, given = self._number_or_term(bound, labels)
                steps.append((ScoreStep(opcode, number), given))
            return first
        if node.opcode not in BINARY:
            return None
        for position in (0, 1):
            scores, other = node.inputs[position], node.inputs[1 - position]
            if splat_of(scores) is not None:
                continue
            taken = list[tuple[ScoreStep, tuple[Value, ...]]]()
            first = self._scores((scores, labels), taken)
            if first is None:
                continue
            steps += taken
            number, given = self._number_or_term(other, labels)
            if not self._is_shift(node, position, given):
                steps.append((ScoreStep(node.opcode, number, position == 1), given))
            return first
        return None

    def _is_shift(self, node: Node, position: int, given: tuple[Value, ...]) -> bool:
        """Whether it is what a softmax subtracts, which cancels out: the last step, of what does not vary over keys."""
        is_last = node is self.last
        return (
            is_last and node.opcode == "subtract" and position == 0 and bool(given)
            and not set(self.keys) & set(self.axes.whole(given[0][1]))
        )  # fmt: skip

    def _selected(
        self, node: Node, labels: tuple[Label, ...], steps: list[tuple[ScoreStep, tuple[Value, ...]]]
    ) -> tuple[Value, Value] | None:
        mask = self._term(node.inputs[0], labels)
        for position in (1, 2):
            scores, other = node.inputs[position], node.inputs[3 - position]
            if splat_of(scores) is not None:
                continue
            taken = list[tuple[ScoreStep, tuple[Value, ...]]]()
            first = self._scores((scores, labels), taken)
            if first is None:
                continue
            steps += taken
            number, given = self._number_or_term(other, labels)
            steps.append((ScoreStep("select", number, position == 2), (mask, *given)))
            return first
        return None

    def _number_or_term(self, node: Node, labels: tuple[Label, ...]) -> tuple[float | None, tuple[Value, ...]]:
        number = self._number(node, labels)
        return (None, (self._term(node, labels),)) if number is None else (number, ())

    def _number(self, node: Node, labels: tuple[Label, ...]) -> float | None:
        """The number that all elements are; None where they are not."""
        splat = splat_of(self._stripped((node, labels), through_broadcasts=True)[0])
        return float(splat) if splat is not None and splat.ndim == 0 else None

    def _term(self, node: Node, labels: tuple[Label, ...]) -> Value:
        if not node.type or len(_dims(node)) != len(labels):  # the predicate of a select may be a scalar
            return node, ()
        return self._stripped((node, labels), through_broadcasts=True, converts=False)

    def _queries_and_keys(self, dot: Node, labels: tuple[Label, ...]) -> tuple[Value, Value] | None:
        operands, _ = self._dot_labels(dot, labels)
        left, right = zip(dot.inputs, map(tuple, operands), strict=True)
        keys = set(self.keys)
        for q, k in ((left, right), (right, left)):
            if keys <= set(self.axes.whole(k[1])) and not keys & set(self.axes.whole(q[1])):
                return q, k
        return None

    def _arranged(self, value: Value, single: Sequence[int], merged: Sequence[Sequence[int]]) -> Node:
        """A value with a dimension for each of these axes, and then one for each group; of size 1 where it has none."""
        build, sizes = self.build, self.axes.sizes
        node, labels = value
        assert isinstance(node.type, TensorType), "it is an array"
        own = self.axes.whole(labels)
        wanted = [*single, *(axis for group in merged for axis in group)]
        held = build.reshape(node, TensorType(node.type.dtype, tuple(sizes[axis] for axis in own)))
        turned = build.transpose(held, [own.index(axis) for axis in wanted if axis in own])
        groups = [*([axis] for axis in single), *merged]
        dims = tuple(prod(sizes[axis] for axis in group if axis in own) for group in groups)
        return build.reshape(turned, TensorType(node.type.dtype, dims))

    def _repeated(self, node: Node, batch: Sequence[int]) -> Node:
        """A value for each element of the batch, of one that has size 1 in some of its dimensions."""
        dims = (*[self.axes.sizes[axis] for axis in batch], *_dims(node)[len(batch) :])
        if dims == _dims(node):
            return node
        assert isinstance(node.type, TensorType), "it is an array"
        kept = tuple(dim for dim, size in enumerate(_dims(node)) if size == dims[dim])
        narrow = self.build.reshape(node, TensorType(node.type.dtype, tuple(dims[dim] for dim in kept)))
        return self.build.op("broadcast", narrow, type=TensorType(node.type.dtype, dims), dimensions=kept)


def _attribute(node: Node, name: str) -> Any:
    assert isinstance(node, Apply), "it has an opcode"
    return node.attribute(name)


def _dims(node: Node) -> tuple[int, ...]:
    return node.type.dims if isinstance(node.type, TensorType) else ()


def _element(node: Node) -> DType | None:
    return node.type.dtype if isinstance(node.type, TensorType) else None


def _is_float(node: Node) -> bool:
    element = _element(node)
    return element is not None and element.is_float


def _least(scores: Node) -> float:
    """The least finite number of the scores' type."""
    element = _element(scores)
    assert element is not None and element.is_float, "exponentials are of floating-point numbers"
    return float(cast("Any", ml_dtypes.finfo(element.numpy)).min)


def _sides(dot: Node) -> list[tuple[Sequence[int], Sequence[int], Sequence[int]]]:
    """Batch, free and contracted dimensions of a dot's operands."""
    result: list[tuple[Sequence[int], Sequence[int], Sequence[int]]] = []
    for side, operand in zip(("lhs", "rhs"), dot.inputs, strict=True):
        batch, contracted = (_attribute(dot, f"{side}_{name}_dims") for name in ("batch", "contracting"))
        free = [dim for dim in range(len(_dims(operand))) if dim not in (*batch, *contracted)]
        result.append((batch, free, contracted))
    return result
