"""Types for the values of a pattern that fit together, found by unification before a program is drawn.

    multiply(x, broadcast(g), dimensions={1})     x: [a, b], the broadcast: [a, b], g: [b]

Each value of the pattern has an element type and a shape, a list of sizes; all three are variables. What an op of the
pattern says of its types unifies them (`RELATIONS`); what stays open is drawn at random. So the two sides of an
addition have one shape however long the chains above them are, where drawing operation by operation would guess.

To let the types of another op be found, add a function to RELATIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

from hloom.ir import DTYPES, EMPTY, DType, Op, TensorType, TypeNotGiven, TypeProblem, dtype, infer_type
from hloom.ops import elementwise
from hloom.rewrite.pattern import Absent, OperationTerm, Pattern, Reference, Same, ValueTerm
from hloom.rewrite.random_types import Sampler
from hloom.rewrite.type_guards import as_tuple
from hloom.rewrite.type_text import type_from

MAX_SIZE_DRAWS = 200
"""How often sizes are drawn until products and sums of sizes agree, as reshapes and concatenations need them."""
FACTOR_SIZES = (1, 2, 3, 4, 6)
"""What sizes are drawn from where products of them must be equal."""
PREDICATE = frozenset(("pred",))


class Contradiction(Exception):
    """No types fit together."""


class _Variable:
    """A union-find node; `found` is the representative, which holds what is known."""

    __slots__ = ("parent",)

    def __init__(self) -> None:
        self.parent: Any = self

    def found(self) -> Any:
        node = self
        while node.parent is not node:
            node.parent = node = node.parent.parent
        return node


class _Size(_Variable):
    __slots__ = ("size",)

    def __init__(self, size: int | None = None) -> None:
        super().__init__()
        self.size = size


class _Shape(_Variable):
    """`sizes` is None while the rank is unknown, which is at least `least`.

    `is_met` says that some op relates it; `is_open`, that an op of which no relation is known makes it: it is learnt
    when that op has been drawn.
    """

    __slots__ = ("is_met", "is_open", "least", "sizes")

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[_Size] | None = None
        self.least = 0
        self.is_met = self.is_open = False


class _Element(_Variable):
    __slots__ = ("allowed",)

    def __init__(self) -> None:
        super().__init__()
        self.allowed: frozenset[str] | None = None


class _Value:
    """The variables of one value."""

    __slots__ = ("element", "shape")

    def __init__(self) -> None:
        self.shape, self.element = _Shape(), _Element()


class _Unifier:
    """What is known of the types of a pattern's values."""

    def __init__(self) -> None:
        self.checks: list[Callable[[], bool]] = []
        """What sizes must satisfy beyond being equal, asked when all are drawn."""

    def equal_sizes(self, one: _Size, other: _Size) -> None:
        one, other = one.found(), other.found()
        if one is other:
            return
        if None not in (one.size, other.size) and one.size != other.size:
            raise Contradiction
        other.size = one.size if other.size is None else other.size
        one.parent = other

    def equal_shapes(self, values: Sequence[_Value]) -> None:
        first = values[0].shape.found()
        first.is_met = True
        for value in values[1:]:
            shape = value.shape.found()
            if shape is first:
                continue
            first.least = max(first.least, shape.least)
            first.is_open |= shape.is_open
            if first.sizes is None:
                first.sizes = shape.sizes
            elif shape.sizes is not None:
                self.equal_lists(first.sizes, shape.sizes)
            shape.parent = first

    def equal_lists(self, one: Sequence[_Size], other: Sequence[_Size]) -> None:
        if len(one) != len(other):
            raise Contradiction
        for left, right in zip(one, other, strict=True):
            self.equal_sizes(left, right)

    def equal_elements(self, values: Iterable[_Value]) -> None:
        first, *others = [value.element.found() for value in values]
        for element in others:
            if element.found() is not first:
                self.allow(first, element.allowed)
                element.parent = first

    def allow(self, element: _Element, names: Collection[str] | None) -> None:
        element = element.found()
        if names is not None:
            both = frozenset(names) if element.allowed is None else element.allowed & frozenset(names)
            if not both:
                raise Contradiction
            element.allowed = both

    def set_sizes(self, value: _Value, sizes: Sequence[_Size]) -> None:
        """Give a value's shape these sizes, or unify those that it has with them."""
        shape = value.shape.found()
        shape.is_met = True
        if shape.sizes is None:
            if len(sizes) < shape.least:
                raise Contradiction
            shape.sizes = list(sizes)
        else:
            self.equal_lists(shape.sizes, sizes)

    def set_rank(self, value: _Value, rank: int) -> list[_Size]:
        shape = value.shape.found()
        if shape.sizes is None or len(shape.sizes) != rank:
            self.set_sizes(value, [_Size() for _ in range(rank)])
        return shape.found().sizes

    def at_least(self, value: _Value, dimensions: Sequence[int]) -> None:
        shape = value.shape.found()
        shape.is_met = True
        shape.least = max([shape.least, *(dimension + 1 for dimension in dimensions)])


Step = Callable[[], bool]
"""Says what follows from the ranks that are known; true once all is said."""
Relation = Callable[[_Unifier, Sequence[_Value], _Value, Mapping[str, Any]], Step | None]
"""What the types of an op's operands and result have to do with each other, given the attributes that are settled."""


def _sizes(value: _Value) -> list[_Size] | None:
    return value.shape.found().sizes


def _elementwise(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, *operands])
    unifier.equal_elements([result, *operands])


def _same_shape(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, *operands])


def _predicate(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, *operands])
    unifier.equal_elements(operands)
    unifier.allow(result.element, PREDICATE)


def _select(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, *operands])
    unifier.equal_elements([result, *operands[1:]])
    unifier.allow(operands[0].element, PREDICATE)


def _first_s_type(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, operands[0]])
    unifier.equal_elements([result, operands[0]])


def _broadcast(
    unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]
) -> Step | None:
    unifier.equal_elements([result, operands[0]])
    dimensions = fixed.get("dimensions")
    if dimensions is None:
        return None
    small = unifier.set_rank(operands[0], len(dimensions))
    unifier.at_least(result, dimensions)

    def step() -> bool:
        large = _sizes(result)
        if large is not None:
            unifier.equal_lists(small, [large[dimension] for dimension in dimensions])
        return large is not None

    return step


def _transpose(
    unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]
) -> Step | None:
    unifier.equal_elements([result, operands[0]])
    order = fixed.get("dimensions")
    if order is not None:
        sizes = unifier.set_rank(operands[0], len(order))
        unifier.set_sizes(result, [sizes[dimension] for dimension in order])
    return None


def _reduce(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> Step | None:
    if len(operands) != 2:
        return None
    array, initial = operands
    unifier.equal_elements([result, *operands])
    unifier.set_rank(initial, 0)
    dimensions = fixed.get("dimensions")
    if dimensions is None:
        return None
    unifier.at_least(array, dimensions)

    def step() -> bool:
        sizes, kept = _sizes(array), _sizes(result)
        if sizes is None and kept is not None:
            sizes = unifier.set_rank(array, len(kept) + len(dimensions))
        if sizes is None or not all(dimension < len(sizes) for dimension in dimensions):
            return False
        unifier.set_sizes(result, [size for axis, size in enumerate(sizes) if axis not in dimensions])
        return True

    return step


def _dot(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> Step | None:
    unifier.equal_elements([result, *operands])
    names = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    left_batch, right_batch, left_summed, right_summed = (fixed.get(name, ()) for name in names)
    if None in (left_batch, right_batch, left_summed, right_summed):
        return None
    unifier.at_least(operands[0], [*left_batch, *left_summed])
    unifier.at_least(operands[1], [*right_batch, *right_summed])

    def step() -> bool:
        left, right = map(_sizes, operands)
        if left is None or right is None:
            return False
        pairs = [*zip(left_batch, right_batch, strict=False), *zip(left_summed, right_summed, strict=False)]
        for one, other in pairs:
            unifier.equal_sizes(left[one], right[other])
        free = [
            size
            for sizes, used in ((left, {*left_batch, *left_summed}), (right, {*right_batch, *right_summed}))
            for axis, size in enumerate(sizes)
            if axis not in used
        ]
        unifier.set_sizes(result, [*(left[axis] for axis in left_batch), *free])
        return True

    return step


def _reshape(unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]) -> None:
    unifier.equal_elements([result, operands[0]])

    def is_possible() -> bool:
        one, other = _sizes(operands[0]), _sizes(result)
        known = one is not None and other is not None and all(size.found().size is not None for size in (*one, *other))
        return not known or prod(map(_drawn, one)) == prod(map(_drawn, other))

    unifier.checks.append(is_possible)


def _concatenate(
    unifier: _Unifier, operands: Sequence[_Value], result: _Value, fixed: Mapping[str, Any]
) -> Step | None:
    unifier.equal_elements([result, *operands])
    if not fixed.get("dimensions"):
        return None
    (axis,) = fixed["dimensions"]
    values = [result, *operands]
    unifier.at_least(result, [axis])

    def step() -> bool:
        known = next((sizes for value in values if (sizes := _sizes(value)) is not None), None)
        if known is None:
            return False
        lists = [unifier.set_rank(value, len(known)) for value in values]
        for sizes in lists[1:]:
            for at, (one, other) in enumerate(zip(lists[0], sizes, strict=True)):
                if at != axis:
                    unifier.equal_sizes(one, other)
        unifier.checks.append(lambda: _drawn(lists[0][axis]) == sum(_drawn(sizes[axis]) for sizes in lists[1:]))
        return True

    return step


def _is_to_draw(shape: _Shape) -> bool:
    return shape.is_met and not shape.is_open


def _drawn(size: _Size) -> int:
    drawn = size.found().size
    assert drawn is not None, "checks are asked when all sizes are drawn"
    return drawn


RELATIONS: dict[str, Relation] = {
    **dict.fromkeys(elementwise.ROWS.keys() - {"bitcast-convert", "tuple-select", "add-dependency"}, _elementwise),
    **dict.fromkeys(("convert", "real", "imag", "complex", "abs"), _same_shape),
    **dict.fromkeys(("compare", "is-finite"), _predicate),
    **dict.fromkeys(("reverse", "copy", "dynamic-update-slice", "reduce-precision"), _first_s_type),
    "select": _select,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reduce": _reduce,
    "dot": _dot,
    "reshape": _reshape,
    "concatenate": _concatenate,
}


NEEDS_DIMENSIONS = frozenset(("transpose", "reduce", "concatenate"))
"""Ops whose result's type follows only once their dimensions are drawn."""


class UnifiedTypes:
    """Types, drawn at random, that fit together for the terms of a pattern that its ops relate.

    `missing` are the optional operations left out, for which their first operands stand; `hints` are types by the names
    of values. No term has a type where none were found that fit together.
    """

    def __init__(
        self, pattern: Pattern, sampler: Sampler, missing: Collection[int], hints: Mapping[str, Any]
    ) -> None:
        self.pattern, self.sampler, self.missing = pattern, sampler, missing
        self.found: dict[int, TensorType] = {}
        self.unifier = _Unifier()
        self.values: dict[tuple[int, int], _Value] = {}
        self.dimensions: dict[str, _Size] = {}
        self.steps: list[Step] = []
        self.is_contradictory = False
        try:
            self._say(hints)
            self._draw_types()
        except Contradiction:
            self.found, self.is_contradictory = {}, True

    def get(self, term: int) -> TensorType | None:
        """The type of a term; None where the pattern leaves it open."""
        return self.found.get(term)

    def learn(self, term: int, drawn: Any) -> None:
        """Take in the type of an operation that was drawn without one, and what follows for the others."""
        value = self.values.get((term, -1))
        if self.is_contradictory or value is None or term in self.found or not isinstance(drawn, TensorType):
            return
        try:
            self.unifier.set_sizes(value, [_Size(size) for size in drawn.dims])
            self.unifier.allow(value.element, (drawn.dtype.name,))
            value.shape.found().is_open = False
            self._draw_types()
        except Contradiction:
            self.found, self.is_contradictory = {}, True

    def _say(self, hints: Mapping[str, Any]) -> None:
        for number, term in enumerate(self.pattern.terms):
            if isinstance(term, ValueTerm) and not term.variadic and number not in self.pattern.inner:
                self._say_value(self._value(Reference(number)), term, hints.get(term.name))
        for number, term in self.pattern.operations():
            if number not in self.missing:
                self._say_operation(number, term)

    def _draw_types(self) -> None:
        self._settle_ranks()
        self._draw_sizes()
        for (term, result), value in self.values.items():
            shape = value.shape.found()
            if result < 0 and shape.is_met and not shape.is_open and shape.sizes is not None:
                element = self._draw_element(value.element.found())
                self.found[term] = TensorType(element, tuple(map(_drawn, shape.sizes)))

    def _value(self, reference: Reference) -> _Value:
        while reference.term in self.missing:
            term = self.pattern.terms[reference.term]
            assert isinstance(term, OperationTerm)
            reference = term.operands[0]
        return self.values.setdefault((reference.term, reference.result), _Value())

    def _say_value(self, value: _Value, term: ValueTerm, hints: Any) -> None:
        hinted = None if hints is None else type_from(self.sampler.random.choice(as_tuple(hints)))
        if isinstance(hinted, TensorType):
            self.unifier.set_sizes(value, [_Size(size) for size in hinted.dims])
            self.unifier.allow(value.element, (hinted.dtype.name,))
            return
        self.unifier.allow(value.element, term.dtypes or None)
        if term.rank is not None:
            self.unifier.set_rank(value, term.rank)
        if term.shape is not None:
            self.unifier.set_sizes(value, [self._size(size) for size in term.shape])

    def _size(self, size: int | str | None) -> _Size:
        return self.dimensions.setdefault(size, _Size()) if isinstance(size, str) else _Size(size)

    def _say_operation(self, number: int, term: OperationTerm) -> None:
        relations = {RELATIONS.get(opcode) for opcode in term.opcodes}
        is_whole = not any(self._is_variadic(operand) for operand in term.operands)
        relation = relations.pop()
        if relations or relation is None or term.results != 1 or not is_whole:
            self._value(Reference(number)).shape.found().is_open = True
            return
        operands = [self._value(operand) for operand in term.operands]
        if term.opcodes[0] in elementwise.ROWS:
            self.unifier.allow(operands[-1].element, _elements(term.opcodes))
        result = self._value(Reference(number))
        settled = _settled(term)
        is_settled = settled.get("dimensions") is not None
        step = relation(self.unifier, operands, result, settled)
        result.shape.found().is_open |= step is None and term.opcodes[0] in NEEDS_DIMENSIONS and not is_settled
        if step is not None:
            self.steps.append(step)

    def _is_variadic(self, reference: Reference) -> bool:
        term = self.pattern.terms[reference.term]
        return isinstance(term, ValueTerm) and (term.variadic or term.optional)

    def _settle_ranks(self) -> None:
        """Follow what ranks say until nothing follows, then choose one, and so on; each choice settles a shape."""
        pending = self.steps
        shapes = [value.shape for value in self.values.values()]
        for _ in range(len(shapes) + len(pending) + 1):
            before = len(pending)
            pending = [step for step in pending if not step()]
            if len(pending) < before:
                continue
            shape = next((s for shape in shapes if _is_to_draw(s := shape.found()) and s.sizes is None), None)
            if shape is None:
                break
            common, other = len(self.sampler.dims), self.sampler.random.choice(self.sampler.ranks)
            rank = common if self.sampler.likely(0.5) else other
            shape.sizes = [_Size() for _ in range(max(rank, shape.least))]
        self.steps = pending

    def _draw_sizes(self) -> None:
        """Draw what sizes are open; raise Contradiction where products and sums agree in none of many draws."""
        lists = [shape.sizes or () for value in self.values.values() if (shape := value.shape.found()).is_met]
        open_sizes = list(dict.fromkeys(s for sizes in lists for size in sizes if (s := size.found()).size is None))
        random, choices = self.sampler.random, self.sampler.sizes
        for _ in range(MAX_SIZE_DRAWS):
            for size in open_sizes:
                size.size = random.choice(choices)
            if all(check() for check in self.unifier.checks):
                return
            choices = FACTOR_SIZES
        raise Contradiction

    def _draw_element(self, element: _Element) -> Any:
        if element.allowed is None:
            element.allowed = frozenset((self.sampler.element.name,))
        elif len(element.allowed) > 1:
            common = [name for name in self.sampler.dtypes if name in element.allowed]
            name = self.sampler.random.choice(common or sorted(element.allowed))
            element.allowed = frozenset((self.sampler.element.name if self.sampler.element.name in common else name,))
        (name,) = element.allowed
        return dtype(name)


def _elements(opcodes: Sequence[str]) -> frozenset[str] | None:
    """The element types of the last operand that elementwise ops all take; None where only more would say it."""
    return frozenset.intersection(*map(_elements_of, opcodes)) or None


@cache
def _elements_of(opcode: str) -> frozenset[str]:
    row = elementwise.ROWS[opcode]
    count = row.arity[0]
    return frozenset(name for name in DTYPES if _takes(row, opcode, dtype(name), count))


def _takes(row: Op, opcode: str, element: DType, count: int) -> bool:
    operands = [TensorType(element)] * count
    if opcode == "select":
        operands[0] = TensorType(dtype("pred"))
    try:
        infer_type(row, operands, {"direction": "EQ"} if opcode == "compare" else EMPTY)
    except TypeNotGiven:
        return True
    except TypeProblem:
        return False
    return True


def _settled(term: OperationTerm) -> dict[str, Any]:
    """The attributes that the pattern settles; None stands for one that is still open."""
    return {
        name: attribute.value if isinstance(attribute, Same) else None
        for name, attribute in term.attributes
        if not isinstance(attribute, Absent)
    }
