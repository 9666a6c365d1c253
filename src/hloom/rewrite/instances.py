"""Random programs that a pattern matches, generated from the pattern itself.

Terms are generated operands first. An operation's operands and attributes are redrawn until its type can be inferred
and all conditions on values known so far hold; if that fails, a new program is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from hloom.ir import (
    EMPTY,
    AttributeKind,
    Attributes,
    Graph,
    Literal,
    Module,
    Node,
    Op,
    TensorType,
    TupleType,
    Type,
    TypeProblem,
    dtype,
    infer_type,
    integer_range,
    literal_of,
    same_shape,
)
from hloom.ops import OPS, elementwise
from hloom.rewrite.expression_compiler import NO_VALUE, NativeFailure, compiled
from hloom.rewrite.expressions import METADATA_FEATURES, Expression
from hloom.rewrite.match import PROJECTION, Match, projections
from hloom.rewrite.pattern import (
    Absent,
    Anything,
    Bind,
    Computes,
    Holds,
    OneOf,
    OperationTerm,
    Pattern,
    Reference,
    Same,
    ValueTerm,
)
from hloom.rewrite.random_attributes import draw_attribute, draw_attributes
from hloom.rewrite.random_types import Sampler, draw_operand
from hloom.rewrite.registry import OF_USERS, RuleError, registered
from hloom.rewrite.rule import Rule
from hloom.rewrite.type_guards import as_tuple
from hloom.rewrite.type_text import type_from
from hloom.rewrite.unified_types import UnifiedTypes
from hloom.text import HloomError

MAX_REDRAWS = 24
"""The maximum number of redraws of one operation's operands and attributes."""
MAX_FAILURES = 400
"""The maximum number of failed programs in a row."""
_NUMBERS = (2, -1, 3, 1, 0, 0.5, -0.25)
"""The pool of constants; the first five, which are integers, are used for arrays with several values."""
_REDUCERS = ("add", "maximum", "minimum", "multiply")


class NoInstance(Exception):
    """No draw satisfied the pattern."""


class NoValue(Exception):
    """No value of the type that was drawn satisfies the conditions on it: a new program is started."""


def instances(rule: Rule, random: Random) -> Iterator[Module]:
    """Random programs that a declared rule's pattern matches, or nearly; stops when none can be generated."""
    failures = 0
    while failures < MAX_FAILURES:
        module = instance(rule, random)
        failures = failures + 1 if module is None else 0
        if module is not None:
            yield module


def instance(rule: Rule, random: Random, redraws: int = MAX_REDRAWS) -> Module | None:
    """One random program that a declared rule's pattern matches, or nearly; None if generation failed."""
    try:
        return _Instance(rule, random, redraws).module()
    except (NoInstance, NoValue):
        return None


def anywhere(rule: Rule) -> Rule:
    """A rule without its conditions on metadata: no value depends on them, and generated programs have no metadata."""
    if rule.pattern is None:
        return rule
    conditions = tuple(one for one in rule.pattern.conditions if not _asks_for_metadata(one.test))
    if len(conditions) == len(rule.pattern.conditions):
        return rule
    return replace(rule, pattern=replace(rule.pattern, conditions=conditions))


def _asks_for_metadata(test: Expression) -> bool:
    features = [leaf.arguments[2] for leaf in test.walk() if leaf.operator == "feature"]
    return not METADATA_FEATURES.isdisjoint(features)


def _asks_for_users(test: Expression) -> bool:
    return any(leaf.operator == "holds" and leaf.arguments[0].arguments[0] in OF_USERS for leaf in test.walk())


class _Instance:
    """One program being generated: the bindings of the pattern's terms and variables so far."""

    def __init__(self, rule: Rule, random: Random, redraws: int) -> None:
        assert rule.pattern is not None, f"rule {rule} has no pattern"
        self.rule = rule
        self.pattern: Pattern = rule.pattern
        self.random = random
        self.redraws = redraws
        self.sampler = Sampler(random, rule.domain)
        self.match = Match(len(self.pattern.terms))
        self.made = Module("instance")
        self.entry = self.made.add_graph("entry")
        self.made.entry = self.entry
        self.nodes: list[Node] = []
        self.graphs: list[Graph] = []
        self.missing: set[int] = set()
        self.bound: set[int] = set()
        self.left_out = frozenset(
            number for number, term in self.pattern.operations() if term.optional and self.sampler.likely(0.4)
        )
        hints = rule.domain.get("values", {})
        self.types = UnifiedTypes(self.pattern, self.sampler, self.left_out, hints)
        tests = [condition.test for condition in self.pattern.conditions if not _asks_for_users(condition.test)]
        self.conditions = [(_needs(test), test) for test in tests]
        self.asked = _asked_of_values(self.pattern, self.conditions)

    def module(self) -> Module:
        for term_index, term in self.pattern.operations():
            self.operation(term_index, term, self.entry)
        outputs = [self.node(old) for old in self.used_results()]
        for term_index, term in self.pattern.operations():
            if term.shared and term_index in self.bound and term_index not in self.missing and self.sampler.likely(0.3):
                outputs.append(self.match.slots[term_index])
        outputs = list(dict.fromkeys(outputs))
        if len(outputs) == 1:
            self.entry.set_output(outputs[0])
        else:
            types = TupleType([_known(output.type) for output in outputs])
            self.entry.set_output(self.entry.add_apply(OPS["tuple"], outputs, types))
        self.made.graphs.remove(self.entry)
        self.made.graphs.append(self.entry)
        return self.made

    def used_results(self) -> list[Reference]:
        """The results to replace; at least one of an operation with several, since the others may be dead."""
        replaced = [old for old, _ in self.pattern.replaced]
        kept = [old for old in replaced if old.result < 0 or self.sampler.likely(0.6)]
        missing = {old.term for old in replaced} - {old.term for old in kept}
        return kept + [next(old for old in replaced if old.term == term) for term in sorted(missing)]

    # One operation

    def operation(self, term_index: int, term: OperationTerm, graph: Graph) -> None:
        if term_index in self.left_out:
            self.missing.add(term_index)
            self.bound.add(term_index)
            self.leave_out(term)
            return
        slots, variables, bound = list(self.match.slots), dict(self.match.variables), set(self.bound)
        missing = set(self.missing)
        for _ in range(self.redraws):
            mark = len(self.nodes), len(self.graphs)
            try:
                self.draw(term_index, term, graph)
                self.check_conditions()
                if (drawn := self.match.slots[term_index]) is not None:
                    self.types.learn(term_index, drawn.type)
                return
            except (TypeProblem, NoInstance):
                self.undo(*mark)
                self.match.slots[:] = slots
                self.match.variables = dict(variables)
                self.bound, self.missing = set(bound), set(missing)
        raise NoInstance(f"{term.name} came to nothing")

    def undo(self, nodes: int, graphs: int) -> None:
        while len(self.nodes) > nodes:
            node = self.nodes.pop()
            if not node.is_output and node.graph not in self.graphs[graphs:]:
                node.graph.erase(node)
        while len(self.graphs) > graphs:
            self.made.erase_graph(self.graphs.pop())

    def draw(self, term_index: int, term: OperationTerm, graph: Graph) -> None:
        opcode = self.random.choice(term.opcodes)
        row = self.rule.rows.get(opcode) or OPS[opcode]
        fixed = {name: self.settled(attribute) for name, attribute in term.attributes}
        fixed = {name: value for name, value in fixed.items() if value is not None}
        inputs = self.inputs(opcode, term, graph, fixed)
        types = [_known(node.type) for node in inputs]
        attributes, written = self.attributes(term, row, types, fixed)
        planned = self.types.get(term_index)
        result_type = self.inferred(row, types, attributes, planned if written and planned else written)
        if planned is not None and not same_shape(result_type, planned):
            raise NoInstance(f"{opcode} yields {result_type} where {planned} fits the pattern")
        if term.results > 1 and not (isinstance(result_type, TupleType) and len(result_type.elements) == term.results):
            raise NoInstance(f"{opcode} yields {result_type}")
        if term.commutative and len(inputs) == 2 and self.sampler.likely(0.5):
            inputs.reverse()
        given = {
            name: value for name, value in attributes.items()
            if value is not None and (row.attributes[name].required or value != row.attributes[name].default)
        }  # fmt: skip
        node = self.add(graph.add_apply(row, inputs, result_type, Attributes(given)))
        self.bind(term_index, node)

    def inputs(self, opcode: str, term: OperationTerm, graph: Graph, fixed: dict[str, Any]) -> list[Node]:
        references = list(term.operands)
        last = self.pattern.terms[references[-1].term] if references else None
        may_leave_out = isinstance(last, ValueTerm) and last.optional and references[-1].term not in self.bound
        if may_leave_out and self.sampler.likely(0.5):
            self.bound.add(references.pop().term)
        slots: list[tuple[int, Node | None]] = []
        for reference in references:
            slots += [(reference.term, node) for node in self.standing(reference)]
        types = [None if node is None else node.type for _, node in slots]
        nodes: list[Node] = []
        for number, (value, node) in enumerate(slots):
            if node is None and self.match.slots[value] is not None and not self.is_variadic(value):
                node = self.match.slots[value]  # the same value is used twice
            if node is None:
                node = self.value(value, draw_operand(self.sampler, opcode, number, types, fixed), graph)
            types[number] = node.type
            nodes.append(node)
        for reference in references:
            if self.is_variadic(reference.term) and reference.term not in self.bound:
                mine = tuple(node for (value, _), node in zip(slots, nodes, strict=True) if value == reference.term)
                self.match.slots[reference.term] = mine
                self.bound.add(reference.term)
        return nodes

    def standing(self, reference: Reference) -> list[Node | None]:
        """The nodes that an operand stands for; None for each not drawn yet."""
        while reference.term in self.missing:
            term = self.pattern.terms[reference.term]
            assert isinstance(term, OperationTerm)
            reference = term.operands[0]
        if reference.term in self.bound:
            bound = self.match.slots[reference.term]
            if bound is None:
                return []
            return [*as_tuple(bound)] if isinstance(bound, tuple) else [self.node(reference)]
        return [None] * (self.random.choice((1, 1, 2, 2, 3)) if self.is_variadic(reference.term) else 1)

    def is_variadic(self, term_index: int) -> bool:
        term = self.pattern.terms[term_index]
        return isinstance(term, ValueTerm) and term.variadic

    def leave_out(self, term: OperationTerm) -> None:
        """Leave out an optional operation: its users draw the value that stands for it, its other values are absent."""
        for operand in term.operands[1:]:
            if isinstance(self.pattern.terms[operand.term], ValueTerm) and operand.term not in self.bound:
                self.bound.add(operand.term)

    def node(self, reference: Reference) -> Node:
        """The node of a term's value; a get-tuple-element for an operation with several results."""
        node = self.match.slots[reference.term]
        if reference.result < 0:
            return node
        known = projections(node, reference.result)
        if known:
            return known[0]
        result_type = node.type.elements[reference.result]
        attributes = Attributes(index=reference.result)
        return self.add(node.graph.add_apply(OPS[PROJECTION], (node,), result_type, attributes))

    # Values

    def value(self, term_index: int, array_type: TensorType, graph: Graph) -> Node:
        """A parameter or constant for a value, of a type similar to the proposed one."""
        term = self.pattern.terms[term_index]
        if not isinstance(term, ValueTerm):
            raise NoInstance("an operation stands where a value is drawn")
        array_type = self.types.get(term_index) or self.fitted(term, array_type)
        self.note_dimensions(term, array_type)
        if term.is_constant:
            node = self.constant(term, array_type, graph)
        elif graph is not self.entry:
            raise NoInstance("a called graph has no further parameters")
        elif term_index in self.asked:
            node = self.suitable(term_index, array_type)
        else:
            node = self.add(graph.add_parameter(array_type))
        if not term.variadic:
            self.bind(term_index, node)
        return node

    def suitable(self, term_index: int, array_type: TensorType) -> Node:
        """A value of one of several kinds for which the conditions that are about nothing else hold."""
        kinds = self.random.sample(_KINDS, len(_KINDS))
        for kind in kinds:
            mark = len(self.nodes), len(self.graphs)
            try:
                node = kind(self, array_type)
            except (HloomError, TypeProblem, NoInstance):
                self.undo(*mark)
                continue
            self.match.slots[term_index] = node
            if all(_holds(compiled(test), self.match) for test in self.asked[term_index]):
                return node
            self.match.slots[term_index] = None
            self.undo(*mark)
        raise NoValue

    def parameter(self, array_type: TensorType) -> Node:
        return self.add(self.entry.add_parameter(array_type))

    def number(self, array_type: TensorType) -> Node:
        """A number in every element."""
        element, numbers = array_type.dtype, list[complex](_NUMBERS)
        if element.is_integer:
            numbers = [*_NUMBERS[:5], *(4, 8, *integer_range(element))]
        term = ValueTerm("", is_constant=True, is_splat=True, number=self.random.choice(numbers))
        return self.constant(term, array_type, self.entry)

    def array(self, array_type: TensorType) -> Node:
        """A constant of several numbers."""
        return self.constant(ValueTerm("", is_constant=True, is_splat=False), array_type, self.entry)

    def magnitude(self, array_type: TensorType) -> Node:
        """What is not negative."""
        operands = [self.parameter(array_type)]
        return self.add(self.entry.add_apply(OPS["abs"], operands, infer_type(OPS["abs"], [array_type], EMPTY)))

    def repeated(self, array_type: TensorType) -> Node:
        """A scalar that is no constant, in every element."""
        scalar = self.parameter(TensorType(array_type.dtype))
        return self.add(self.entry.add_apply(OPS["broadcast"], (scalar,), array_type, Attributes(dimensions=())))

    def count(self, array_type: TensorType) -> Node:
        """The indices along a dimension."""
        if not array_type.rank:
            raise NoInstance("a scalar has no indices")
        dim = self.random.randrange(array_type.rank)
        return self.add(self.entry.add_apply(OPS["iota"], (), array_type, Attributes(iota_dimension=dim)))

    def another(self, array_type: TensorType) -> Node:
        """A value that is there already."""
        known = [node for node in self.nodes if node.graph is self.entry and node.type is array_type]
        if not known:
            raise NoInstance("none has this type")
        return self.random.choice(known)

    def fitted(self, term: ValueTerm, array_type: TensorType) -> TensorType:
        hints = self.rule.domain.get("values", {}).get(term.name)
        if hints is not None:
            hinted = type_from(self.random.choice(as_tuple(hints)))
            if isinstance(hinted, TensorType):
                return hinted
        element, dims = array_type.dtype, array_type.dims
        if term.dtypes and element.name not in term.dtypes:
            element = dtype(self.random.choice(term.dtypes))
        if term.rank is not None and len(dims) != term.rank:
            dims = self.sampler.some_dims(term.rank)
        if term.shape is not None:
            dims = dims if len(dims) == len(term.shape) else self.sampler.some_dims(len(term.shape))
            dims = tuple(self.size(own, wanted) for own, wanted in zip(dims, term.shape, strict=True))
        return TensorType(element, dims)

    def note_dimensions(self, term: ValueTerm, array_type: TensorType) -> None:
        """Bind the pattern's names for this value's sizes."""
        for name, size in zip(term.shape or (), array_type.dims, strict=False):
            if isinstance(name, str):
                self.match.variables.setdefault(name, size)

    def size(self, own: int, wanted: int | str | None) -> int:
        if isinstance(wanted, str):
            return self.match.variables.setdefault(wanted, own)
        return own if wanted is None else wanted

    def constant(self, term: ValueTerm, array_type: TensorType, graph: Graph) -> Node:
        try:
            with np.errstate(all="ignore"):
                if not term.is_splat:
                    data = [self.random.choice(_NUMBERS[:5]) for _ in range(array_type.element_count)]
                    literal = literal_of(np.array(data, np.float64).reshape(array_type.dims), array_type.dtype)
                    return self.add(graph.add_constant(literal, array_type))
                number = self.random.choice(_NUMBERS) if term.number is None else term.number
                scalar = literal_of(np.asarray(getattr(number, "value", number)), array_type.dtype)
                if term.number is not None and scalar.numpy()[()] != number and number == number:
                    raise NoInstance(f"{number} is not a {array_type.dtype}")
        except HloomError as error:
            raise NoInstance(str(error)) from None
        if array_type.rank and (self.sampler.likely(0.5) or self.rule.rows is not OPS):
            return self.add(graph.add_constant(Literal.splat(array_type, scalar.numpy()), array_type))
        node = self.add(graph.add_constant(scalar, scalar.type))
        if not array_type.rank:
            return node
        return self.add(graph.add_apply(OPS["broadcast"], (node,), array_type, Attributes(dimensions=())))

    # Attributes

    def settled(self, term: Any) -> Any:
        """An attribute's value if the pattern or an earlier operation determines it; None if it is to be drawn."""
        if isinstance(term, Same):
            return term.value
        if isinstance(term, OneOf):
            return self.random.choice(term.values)
        return self.match.variables.get(term.name) if isinstance(term, Bind) else None

    def attributes(
        self, term: OperationTerm, row: Op, types: list[Type], fixed: dict[str, Any]
    ) -> tuple[dict[str, Any], Type | None]:
        proposed, written = draw_attributes(self.sampler, row, types, fixed)
        hints = self.rule.domain.get("attributes", {})
        chosen = dict(fixed)
        for name, attribute in term.attributes:
            if name in chosen or isinstance(attribute, Absent):
                continue
            if isinstance(attribute, Computes):
                chosen[name] = self.computed(row.name, types, attribute)
                continue
            known = hints.get(attribute.name if isinstance(attribute, Bind) else name, hints.get(name))
            chosen[name] = self.drawn(name, attribute, row, types, proposed, known)
            if isinstance(attribute, Bind):
                self.match.variables[attribute.name] = chosen[name]
        return chosen, written

    def drawn(
        self, name: str, term: Any, row: Op, types: list[Type], proposed: dict[str, Any], hints: Sequence[Any] | None
    ) -> Any:
        attribute = row.attributes[name]
        if hints:
            value = self.random.choice(hints)
        elif name in proposed:
            value = proposed[name]
        elif attribute.kind is AttributeKind.GRAPH:
            value = self.reducer(types)
        elif isinstance(term, Anything) and not attribute.required and self.sampler.likely(0.6):
            value = attribute.default
        else:
            value = draw_attribute(self.sampler, attribute, types)
        if isinstance(term, Holds) and not registered(term.predicate)(value):
            raise NoInstance(f"{term.predicate} does not hold")
        return value

    def inferred(self, row: Op, types: list[Type], attributes: dict[str, Any], written: Type | None) -> Type:
        given = {name: value for name, value in attributes.items() if value is not None}
        if row.infer is None:
            if written is None:
                raise NoInstance(f"nothing says the type of {row}")
            return written
        _check_elements(row, types)
        try:
            return infer_type(row, types, given, written)
        except TypeProblem:
            raise
        except (TypeError, ValueError, IndexError, AttributeError, KeyError, ZeroDivisionError) as error:
            raise NoInstance(f"{row}: {error}") from None

    # Called graphs

    def computed(self, opcode: str, types: list[Type], term: Computes) -> Graph:
        """A graph that computes what the pattern describes."""
        graph = self.graph(opcode)
        wanted = _parameter_types(opcode, types, len(term.parameters))
        for term_index, array_type in zip(term.parameters, wanted, strict=True):
            self.bind(term_index, self.add(graph.add_parameter(array_type)))
        for term_index in self.inside(term.output):
            inner = self.pattern.terms[term_index]
            if isinstance(inner, OperationTerm) and term_index not in self.bound:
                self.operation(term_index, inner, graph)
        output = term.output
        while output.term in self.missing:
            missing = self.pattern.terms[output.term]
            assert isinstance(missing, OperationTerm)
            output = missing.operands[0]
        if self.match.slots[output.term] is None:
            raise NoInstance("the graph yields nothing that is known")
        graph.set_output(self.node(output))
        return graph

    def inside(self, output: Reference) -> list[int]:
        """The terms below the output of a called graph, operands first."""
        inside: set[int] = set()
        pending = [output.term]
        while pending:
            term_index = pending.pop()
            if term_index not in inside and term_index in self.pattern.inner:
                inside.add(term_index)
                pending += [operand.term for operand in getattr(self.pattern.terms[term_index], "operands", ())]
        return sorted(inside)

    def reducer(self, types: list[Type]) -> Graph:
        array_type = types[-1]
        if not isinstance(array_type, TensorType):
            raise NoInstance("nothing is known to reduce")
        graph = self.graph("reducer")
        scalar = TensorType(array_type.dtype)
        operands = [self.add(graph.add_parameter(scalar)) for _ in range(2)]
        row = OPS[self.random.choice(_REDUCERS)]
        graph.set_output(self.add(graph.add_apply(row, operands, infer_type(row, (scalar, scalar), EMPTY))))
        return graph

    def graph(self, name: str) -> Graph:
        graph = self.made.add_graph(name)
        self.graphs.append(graph)
        return graph

    # Bookkeeping

    def add(self, node: Node) -> Any:
        self.nodes.append(node)
        return node

    def bind(self, term_index: int, node: Node) -> None:
        self.match.slots[term_index] = node
        self.bound.add(term_index)

    def check_conditions(self) -> None:
        """Raise NoInstance if a condition whose parts are all known does not hold."""
        for (terms, variables), test in self.conditions:
            if not (terms <= self.bound and variables <= self.match.variables.keys()):
                continue
            if not _holds(compiled(test), self.match):
                raise NoInstance(f"not {test}")


_KINDS: Sequence[Callable[[_Instance, TensorType], Node]] = (
    *(_Instance.parameter,) * 3,
    *(_Instance.number,) * 6,
    _Instance.array,
    _Instance.magnitude,
    _Instance.repeated,
    _Instance.count,
    _Instance.another,
)
"""What a value may be that a condition is asked of, as often as it is tried."""


def _asked_of_values(
    pattern: Pattern, conditions: Sequence[tuple[tuple[set[int], set[str]], Expression]]
) -> dict[int, list[Expression]]:
    """The values that conditions of a text are about, with those that are about one of them alone."""
    asked: dict[int, list[Expression]] = {}
    for (terms, variables), test in conditions:
        if not any(leaf.operator == "holds" for leaf in test.walk()):
            continue
        for term_index in terms:
            if isinstance(pattern.terms[term_index], ValueTerm):
                alone = asked.setdefault(term_index, [])
                alone += [test] if len(terms) == 1 and not variables else []
    return asked


def _holds(test: Callable[[Match], Any], match: Match) -> bool:
    try:
        value = test(match)
        return bool(getattr(value, "value", value))
    except NO_VALUE:
        return False
    except (NativeFailure, RuleError):
        return True  # it depends on values not drawn yet: it is checked when the whole program is matched


def _needs(test: Any) -> tuple[set[int], set[str]]:
    """The terms and variables that an expression mentions."""
    terms = {leaf.arguments[0] for leaf in test.walk() if leaf.operator in ("feature", "node")}
    return terms, set(test.names())


def _check_elements(row: Op, types: list[Type]) -> None:
    """Raise NoInstance if an elementwise op would broadcast an operand: HLO allows it, but no backend runs it."""
    if elementwise.ROWS.get(row.name) is not row:
        return
    scalars_may_stand = row.name in ("select", "clamp")
    arrays = [
        array_type
        for array_type in types
        if isinstance(array_type, TensorType) and (array_type.rank or not scalars_may_stand)
    ]
    if len({array_type.dims for array_type in arrays}) > 1:
        raise NoInstance(f"the operands of {row} have different dimensions")
    values = arrays[1:] if row.name == "select" else arrays
    if len({array_type.dtype for array_type in values}) > 1:
        raise NoInstance(f"the operands of {row} have different element types")


def _known(value_type: Type | None) -> Type:
    if value_type is None:
        raise NoInstance("a type is not known")
    return value_type


def _parameter_types(opcode: str, operand_types: list[Type], count: int) -> list[Type]:
    """The parameter types of a graph called by an op; raises NoInstance if unknown."""
    arrays = [array_type for array_type in operand_types if isinstance(array_type, TensorType)]
    scalars = [TensorType(array_type.dtype) for array_type in arrays]
    types: list[Any] = list(operand_types)
    if opcode in ("reduce", "reduce-window", "scatter", "select-and-scatter", "all-reduce", "reduce-scatter"):
        types = scalars[len(scalars) // 2 :] * 2 if opcode.startswith("reduce") else scalars[-1:] * 2
    elif opcode == "sort":
        types = [scalar for scalar in scalars for _ in range(2)]
    elif opcode == "map":
        types = scalars
    if len(types) != count:
        raise NoInstance(f"{opcode} calls a graph of {len(types)} parameters")
    return types
