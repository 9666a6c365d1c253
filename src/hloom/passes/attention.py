"""Recognises attention in the many forms that models write, for rules that replace it by a kernel.

    softmax(steps(q k^T)) v   ->   AttentionForm(q, k, v, terms, steps)

Models differ in the order of batches and heads, in dimensions of size 1, in where the scale, masks and biases are
applied, in intermediate types, in the shift that the softmax subtracts, and in whether they divide before or after the
second dot. So each dimension of the scores is followed from the second dot back to the first, as a tuple of axes,
through reshapes and transposes; a reshape splits an axis where it must.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from hloom.ir import Node, TensorType
from hloom.passes.attention_form import STEPS, UNARY, AttentionForm, ScoreStep, repeated
from hloom.passes.axis_labels import AxisLabels, Label, Value, is_float, least_of, sides_of
from hloom.passes.masked_rows import with_finite_scores
from hloom.passes.softmax import Softmax, SoftmaxSearch, WeightMask
from hloom.rewrite import Builder, splat_of, used_once

MOST_VISITED = 64
"""The maximum number of nodes to visit between the softmax and the first dot."""

NO_SOFTMAX = "no operand is a softmax of what is contracted"

Step = tuple[ScoreStep, tuple[Value, ...]]
"""A step applied to scores, and the terms it uses."""


def attention_at(build: Builder, node: Node) -> AttentionForm | None:
    """Match attention whose result is a dot, a divided dot, or a dot times a reciprocal; None, with the reason in the
    builder.
    """
    search = _Search(build)
    match = search.attention(node)
    if match is None:
        others = [reason for reason in search.reasons if reason != NO_SOFTMAX]
        build.decline((others or search.reasons)[0])
    return match


class _Search:
    def __init__(self, build: Builder) -> None:
        self.build = build
        self.axes = AxisLabels()
        self.softmaxes = SoftmaxSearch(build, self.axes)
        self.last: Node | None = None
        self.left = MOST_VISITED
        self.reasons: list[str] = []

    def _none(self, reason: str) -> None:
        self.reasons.append(reason)

    def attention(self, node: Node) -> AttentionForm | None:
        """Match either form: the weights are divided by their sums, or the result is."""
        if node.opcode == "dot":
            return self._of_dot(node, None, None, None)
        labels = tuple(self.axes.fresh(size) for size in node.dims)
        quotient = self.softmaxes.quotient(node, labels)
        if quotient is None:
            return self._none("it is neither a dot nor a division")
        (dot, inner), total = quotient
        if dot.opcode != "dot" or len(dot.dims) != len(inner):
            return self._none("what is divided is not a dot")
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
        weights, values = ((dot.operands[this], tuple(operands[this])) for this in (side, 1 - side))
        batch_dims, free, contracted = sides_of(dot)[side]
        self.softmaxes.given_keys = axes.whole(operands[side][dim] for dim in contracted)
        if not self.softmaxes.given_keys:
            return self._none("nothing is contracted")
        if total is None and not used_once(weights[0]):
            return self._none("the weights are used elsewhere")
        softmax = self.softmaxes.softmax(self.axes.stripped(weights), total)
        if softmax is None:
            return self._none(NO_SOFTMAX)
        self.last = softmax.scores[0]
        steps: list[Step] = []
        first = self._scores(softmax.scores, steps)
        if first is None:
            return self._none("the scores are not of a dot of queries and keys")
        if not self._masked_steps(softmax, steps):
            return self._none("weights are left out that their sum holds, or the other way round")
        q, k = first
        batch = axes.whole(operands[side][dim] for dim in batch_dims)
        rows = axes.whole(operands[side][dim] for dim in free)
        keys = self.softmaxes.keys
        depth = [axis for axis in axes.whole(k[1]) if axis not in (*batch, *keys)]
        if (
            set(depth) & set(rows)
            or set(axes.whole(q[1])) | set(batch) != {*batch, *rows, *depth}
            or set(axes.whole(k[1])) | set(batch) != {*batch, *keys, *depth}
        ):
            return self._none("the dots have other batches than each other")
        width = [axis for axis in axes.whole(values[1]) if axis not in (*batch, *keys)]
        terms = [term for _, given in steps for term in given]
        order = axes.whole(result)
        made = (*batch, *rows, *width)
        if set(order) != set(made) or len(order) != len(made):
            return self._none("the result has other dimensions than queries and values")
        arranged = tuple(self._term_of_rows(term, [*batch, *rows], keys) for term in terms)
        own_steps, kept = tuple(step for step, _ in steps), None
        if softmax.quotients is not None:
            kept = self._kept(softmax.quotients, [*batch, *rows], keys)
        elif softmax.are_nans_zero:
            finite = with_finite_scores(self.build, own_steps, arranged, least_of(softmax.scores[0]))
            if finite is None:
                return self._none("NaNs are replaced, and which rows have only scores of -inf is not known")
            own_steps, arranged, kept = finite
        return AttentionForm(
            self._repeated(self._arranged(q, [*batch, *rows], [depth]), batch),
            self._repeated(self._arranged(k, batch, [keys, depth]), batch),
            self._arranged(values, batch, [keys, width]),
            arranged,
            own_steps,
            len(batch),
            len(rows),
            tuple(made.index(axis) for axis in order),
            tuple(axes.sizes[axis] for axis in made),
            kept,
        )

    def _repeated(self, node: Node, batch: Sequence[int]) -> Node:
        """A value for each element of the batch, of one that has size 1 in some of its dimensions."""
        return repeated(self.build, node, (*[self.axes.sizes[axis] for axis in batch], *node.dims[len(batch) :]))

    def _term_of_rows(self, term: Value, single: Sequence[int], keys: Label) -> Node:
        """A term, [batch, rows, keys]; for all keys, if it varies over some of the axes that the keys consist of."""
        node, held = self._arranged(term, [*single, *keys], []), [axis in self.axes.whole(term[1]) for axis in keys]
        if any(held) and not all(held):
            node = repeated(self.build, node, (*node.dims[: len(single)], *(self.axes.sizes[a] for a in keys)))
        dims = (*node.dims[: len(single)], prod(node.dims[len(single) :]))
        assert isinstance(node.type, TensorType), "it is an array"
        return self.build.reshape(node, TensorType(node.type.dtype, dims))

    def _dot_labels(
        self, dot: Node, result: tuple[Label, ...] | None
    ) -> tuple[tuple[list[Label], list[Label]], tuple[Label, ...]]:
        """The labels of a dot's operands, and of its result, where these are not given."""
        (lhs, lhs_free, lhs_contracted), (rhs, rhs_free, rhs_contracted) = sides_of(dot)
        sizes = dot.dims
        result = tuple(self.axes.fresh(size) for size in sizes) if result is None else result
        left: list[Label] = [()] * len(dot.operands[0].dims)
        right: list[Label] = [()] * len(dot.operands[1].dims)
        labels: tuple[list[Label], list[Label]] = (left, right)
        for number, (a, b) in enumerate(zip(lhs, rhs, strict=True)):
            left[a] = right[b] = result[number]
        for a, b in zip(lhs_contracted, rhs_contracted, strict=True):
            left[a] = right[b] = self.axes.fresh(dot.operands[0].dims[a])
        for number, dim in enumerate((*lhs_free, *rhs_free), len(lhs)):
            (left if number < len(lhs) + len(lhs_free) else right)[dim] = result[number]
        return labels, result

    def _masked_steps(self, softmax: Softmax, steps: list[Step]) -> bool:
        """Whether all masks of a softmax are the same one, which is then the last step, with the smallest value of
        their type.

        A row that keeps no key gives 0/0 unless the quotients are masked, so the mask's value may be -inf or finite.
        """
        masks = [mask for mask in (softmax.summed, softmax.exponentials, softmax.quotients) if mask is not None]
        if not masks:
            return True
        if not is_float(softmax.scores[0]):
            return False
        least = least_of(softmax.scores[0])
        is_chosen = bool(steps) and self._is_choice(steps[-1], masks[0], least)
        if not all(self.same_mask(mask, masks[0]) for mask in masks[1:]):
            return False
        if not is_chosen and (softmax.summed is None or len(masks) == 1):
            return False
        number = -inf if softmax.quotients is None else least
        if is_chosen:
            steps.pop()
        steps.append((ScoreStep("select", number, masks[0].is_inverse), (masks[0].value,)))
        return True

    def _is_choice(self, step: Step, mask: WeightMask, least: float) -> bool:
        """Whether a step makes scores the least of numbers where the mask keeps nothing."""
        done, given = step
        is_least = done.opcode == "select" and done.number is not None and done.number <= least
        return is_least and self.same_mask(WeightMask(given[0], done.is_second), mask)

    def same_mask(self, left: WeightMask, right: WeightMask) -> bool:
        return left.is_inverse == right.is_inverse and self.axes.same(left.value, right.value)

    def _kept(self, mask: WeightMask, single: Sequence[int], keys: Label) -> Node:
        node = self._term_of_rows(mask.value, single, keys)
        return self.build.op("not", node) if mask.is_inverse else node

    def _scores(self, value: Value, steps: list[Step]) -> tuple[Value, Value] | None:
        """The queries and keys of scores, and the steps applied to their dot in order; visits a limited number of
        nodes.
        """
        node, labels = self.axes.stripped(value)
        self.left -= 1
        if self.left < 0:
            return None
        if node.opcode == "dot":
            return self._queries_and_keys(node, labels)
        if node.opcode in UNARY:
            first = self._scores((node.operands[0], labels), steps)
            steps.append((ScoreStep(node.opcode), ()))
            return first
        if node.opcode == "select":
            return self._selected(node, labels, steps)
        if node.opcode == "clamp":
            first = self._scores((node.operands[1], labels), steps)
            for opcode, bound in (("maximum", node.operands[0]), ("minimum", node.operands[2])):
                number, given = self._number_or_term(bound, labels)
                steps.append((ScoreStep(opcode, number), given))
            return first
        if node.opcode not in STEPS:
            return None
        for position in (0, 1):
            scores, other = node.operands[position], node.operands[1 - position]
            if splat_of(scores) is not None:
                continue
            taken = list[Step]()
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
        """Whether it is the shift of a softmax, which cancels: the last step, of a value that is constant over keys."""
        is_last = node is self.last
        return (
            is_last and node.opcode == "subtract" and position == 0 and bool(given)
            and not set(self.softmaxes.keys) & set(self.axes.whole(given[0][1]))
        )  # fmt: skip

    def _selected(self, node: Node, labels: tuple[Label, ...], steps: list[Step]) -> tuple[Value, Value] | None:
        mask = self.axes.term(node.operands[0], labels)
        for position in (1, 2):
            scores, other = node.operands[position], node.operands[3 - position]
            if splat_of(scores) is not None:
                continue
            taken = list[Step]()
            first = self._scores((scores, labels), taken)
            if first is None:
                continue
            steps += taken
            number, given = self._number_or_term(other, labels)
            steps.append((ScoreStep("select", number, position == 2), (mask, *given)))
            return first
        return None

    def _number_or_term(self, node: Node, labels: tuple[Label, ...]) -> tuple[float | None, tuple[Value, ...]]:
        number = self.axes.number(node, labels)
        return (None, (self.axes.term(node, labels),)) if number is None else (number, ())

    def _queries_and_keys(self, dot: Node, labels: tuple[Label, ...]) -> tuple[Value, Value] | None:
        operands, _ = self._dot_labels(dot, labels)
        left, right = zip(dot.operands, map(tuple, operands), strict=True)
        keys = set(self.softmaxes.keys)
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
