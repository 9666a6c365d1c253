"""Finds consistent types for the values of a pattern by unification, before a program is drawn.

    multiply(x, broadcast(g), dimensions={1})     x: [a, b], the broadcast: [a, b], g: [b]

Each value of the pattern has an element type and a shape, a list of sizes; all are variables. The ops of the pattern
unify them (`type_relations.py`); whatever stays open is drawn at random. So both sides of an addition get one shape
however long the chains above them are, which drawing operation by operation would have to guess.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from hloom.ir import DTYPES, EMPTY, DType, Op, TensorType, TypeNotGiven, TypeProblem, dtype, infer_type
from hloom.ops import elementwise
from hloom.rewrite.pattern import Absent, OperationTerm, Pattern, Reference, Same, ValueTerm
from hloom.rewrite.random_types import Sampler
from hloom.rewrite.type_guards import as_tuple
from hloom.rewrite.type_relations import RELATIONS, Element, NoTypesFit, Shape, Size, Step, TypedValue, Unifier, drawn
from hloom.rewrite.type_text import type_from

MAX_SIZE_DRAWS = 200
"""The maximum number of draws of sizes until products and sums agree, as reshapes and concatenations require."""
FACTOR_SIZES = (1, 2, 3, 4, 6)
"""The pool of sizes whose products must be equal."""
NEEDS_DIMENSIONS = frozenset(("transpose", "reduce", "concatenate"))
"""Ops whose result type is known only once their dimensions are drawn."""


class UnifiedTypes:
    """Random, consistent types for the terms that a pattern's ops relate.

    `missing` are omitted optional operations, replaced by their first operands; `hints` are types by the names of
    values. If no consistent types were found, no term has a type.
    """

    def __init__(
        self, pattern: Pattern, sampler: Sampler, missing: Collection[int], hints: Mapping[str, Any]
    ) -> None:
        self.pattern, self.sampler, self.missing = pattern, sampler, missing
        self.drawn_types: dict[int, TensorType] = {}
        self.unifier = Unifier()
        self.values: dict[tuple[int, int], TypedValue] = {}
        self.dimensions: dict[str, Size] = {}
        self.steps: list[Step] = []
        self.is_contradictory = False
        try:
            self._say(hints)
            self._draw_types()
        except NoTypesFit:
            self.drawn_types, self.is_contradictory = {}, True

    def get(self, term: int) -> TensorType | None:
        """The type of a term; None if the pattern leaves it open."""
        return self.drawn_types.get(term)

    def learn(self, term: int, drawn: Any) -> None:
        """Record the type of an operation that was drawn without one, and its consequences for the others."""
        value = self.values.get((term, -1))
        if self.is_contradictory or value is None or term in self.drawn_types or not isinstance(drawn, TensorType):
            return
        try:
            self.unifier.set_sizes(value, [Size(size) for size in drawn.dims])
            self.unifier.allow(value.element, (drawn.dtype.name,))
            value.shape.representative().is_open = False
            self._draw_types()
        except NoTypesFit:
            self.drawn_types, self.is_contradictory = {}, True

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
            shape = value.shape.representative()
            if result < 0 and shape.is_met and not shape.is_open and shape.sizes is not None:
                element = self._draw_element(value.element.representative())
                self.drawn_types[term] = TensorType(element, tuple(map(drawn, shape.sizes)))

    def _value(self, reference: Reference) -> TypedValue:
        while reference.term in self.missing:
            term = self.pattern.terms[reference.term]
            assert isinstance(term, OperationTerm)
            reference = term.operands[0]
        return self.values.setdefault((reference.term, reference.result), TypedValue())

    def _say_value(self, value: TypedValue, term: ValueTerm, hints: Any) -> None:
        hinted = None if hints is None else type_from(self.sampler.random.choice(as_tuple(hints)))
        if isinstance(hinted, TensorType):
            self.unifier.set_sizes(value, [Size(size) for size in hinted.dims])
            self.unifier.allow(value.element, (hinted.dtype.name,))
            return
        self.unifier.allow(value.element, term.dtypes or None)
        if term.rank is not None:
            self.unifier.set_rank(value, term.rank)
        if term.shape is not None:
            self.unifier.set_sizes(value, [self._size(size) for size in term.shape])

    def _size(self, size: int | str | None) -> Size:
        return self.dimensions.setdefault(size, Size()) if isinstance(size, str) else Size(size)

    def _say_operation(self, number: int, term: OperationTerm) -> None:
        relations = {RELATIONS.get(opcode) for opcode in term.opcodes}
        takes_all = not any(self._is_variadic(operand) for operand in term.operands)
        relation = relations.pop()
        if relations or relation is None or term.results != 1 or not takes_all:
            self._value(Reference(number)).shape.representative().is_open = True
            return
        operands = [self._value(operand) for operand in term.operands]
        if term.opcodes[0] in elementwise.ROWS:
            self.unifier.allow(operands[-1].element, _elements(term.opcodes))
        result = self._value(Reference(number))
        settled = _settled(term)
        is_settled = settled.get("dimensions") is not None
        step = relation(self.unifier, operands, result, settled)
        result.shape.representative().is_open |= step is None and term.opcodes[0] in NEEDS_DIMENSIONS and not is_settled
        if step is not None:
            self.steps.append(step)

    def _is_variadic(self, reference: Reference) -> bool:
        term = self.pattern.terms[reference.term]
        return isinstance(term, ValueTerm) and (term.variadic or term.optional)

    def _settle_ranks(self) -> None:
        """Propagate ranks until nothing follows, then choose one, and repeat; each choice determines a shape."""
        pending = self.steps
        shapes = [value.shape for value in self.values.values()]
        for _ in range(len(shapes) + len(pending) + 1):
            before = len(pending)
            pending = [step for step in pending if not step()]
            if len(pending) < before:
                continue
            shape = next((s for shape in shapes if _is_to_draw(s := shape.representative()) and s.sizes is None), None)
            if shape is None:
                break
            common, other = len(self.sampler.dims), self.sampler.random.choice(self.sampler.ranks)
            rank = common if self.sampler.likely(0.5) else other
            shape.sizes = [Size() for _ in range(max(rank, shape.least))]
        self.steps = pending

    def _draw_sizes(self) -> None:
        """Draw the open sizes; raise NoTypesFit if products and sums agree in none of many draws."""
        lists = [shape.sizes or () for value in self.values.values() if (shape := value.shape.representative()).is_met]
        drawn_sizes = dict.fromkeys(size.representative() for sizes in lists for size in sizes)
        open_sizes = [size for size in drawn_sizes if size.size is None]
        random, choices = self.sampler.random, self.sampler.sizes
        for _ in range(MAX_SIZE_DRAWS):
            for size in open_sizes:
                size.size = random.choice(choices)
            if all(check() for check in self.unifier.checks):
                return
            choices = FACTOR_SIZES
        raise NoTypesFit

    def _draw_element(self, element: Element) -> Any:
        if element.allowed is None:
            element.allowed = frozenset((self.sampler.element.name,))
        elif len(element.allowed) > 1:
            common = [name for name in self.sampler.dtypes if name in element.allowed]
            name = self.sampler.random.choice(common or sorted(element.allowed))
            element.allowed = frozenset((self.sampler.element.name if self.sampler.element.name in common else name,))
        (name,) = element.allowed
        return dtype(name)


def _is_to_draw(shape: Shape) -> bool:
    return shape.is_met and not shape.is_open


def _elements(opcodes: Sequence[str]) -> frozenset[str] | None:
    """The element types of the last operand that these elementwise ops all accept; None if that is not enough to tell.
    """
    first, *others = (_elements_of(opcode) for opcode in opcodes)
    return first.intersection(*others) or None


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
    """The attributes that the pattern determines; None stands for one that is open."""
    return {
        name: attribute.value if isinstance(attribute, Same) else None
        for name, attribute in term.attributes
        if not isinstance(attribute, Absent)
    }
