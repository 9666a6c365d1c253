"""From a MultiPassDesc to the engine's rules.

A pass of one pair has a rule of its own name; the rules of several are numbered. In a pattern an attribute that is not
given may be anything, and a slot that is not given must be empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from hloom.dialects.paddle.protos import PADDLE, attribute_value, parsed
from hloom.dialects.paddle.rows import IN_PLACE, INPUT_SLOTS, OURS, OUTPUT_SLOTS, PREFIX, ROWS, UNLISTED, type_of
from hloom.dialects.paddle.signatures import Signature, signature
from hloom.ir import OPAQUE, Node, TupleType, Type
from hloom.rewrite import (
    ANY,
    AttributeTerm,
    Condition,
    Expression,
    MakeOperation,
    OperationTerm,
    Origin,
    Pattern,
    Reference,
    Rule,
    RuleError,
    Same,
    Term,
    ValueTerm,
    check_made,
    check_operation,
    check_pattern,
    depth_of,
    register,
    text_of,
)

OPERATIONS = {"kAdd": "add", "kSub": "subtract", "kMul": "multiply", "kDiv": "floor-divide", "kMod": "remainder"}
"""The operator of each of Paddle's operations on attributes."""
COMPARISONS = {
    "kEQ": "equal", "kNE": "not-equal", "kGT": "more", "kGE": "at-least", "kLT": "less", "kLE": "at-most",
}  # fmt: skip
"""The operator of each of Paddle's conditions."""
RESULT_TYPE = "paddle.result-type"
UNLISTED_VALUE = "paddle.unlisted-attribute"
"""Native functions: the type of what an op yields, and an attribute of a node that no table has."""


def from_multi_pass_desc(data: bytes) -> list[Rule]:
    """The rules of a serialised MultiPassDesc; raises RuleError for what cannot be a rule."""
    return rules_of(parsed("MultiPassDesc", data, "this"), ())


def rules_of(message: Any, origins: Sequence[Origin]) -> list[Rule]:
    """The rules of a MultiPassDesc; where the functions stand that it was traced from, if it was."""
    rules = []
    name = message.pass_type or "pass"
    for index, description in enumerate(message.pass_descs):
        title = name if len(message.pass_descs) == 1 else f"{name}.{index}"
        origin = origins[index] if index < len(origins) else None
        try:
            rules.append(_Reader(description).rule(title, origin))
        except RuleError as error:
            where = f" ({origin})" if origin else ""
            raise RuleError(f"pass {title}{where}: {error.message}", hint=error.hint) from None
    return rules


def in_order(ops: Any, given: set[str]) -> list[int]:
    """The places of ops, each after those whose results it reads."""
    made_by = {name: index for index, op in enumerate(ops) for output in op.outputs for name in output.arguments}
    order: list[int] = []
    state: dict[int, bool] = {}
    for start in range(len(ops)):
        pending = [start]
        while pending:
            index = pending[-1]
            below = [] if index in state else _below(ops[index], made_by, given, index)
            state.setdefault(index, False)
            fresh = [output for output in below if output not in state]
            if fresh:
                pending.extend(reversed(fresh))
                continue
            pending.pop()
            if not state[index]:
                state[index] = True
                order.append(index)
    return order


def _below(op: Any, made_by: dict[str, int], given: set[str], index: int) -> list[int]:
    names = [name for operand in op.inputs for name in operand.arguments]
    return [made_by[name] for name in names if name in made_by and name not in given and made_by[name] != index]


def slots_in_order(messages: Any, names: Sequence[str], what: str) -> list[tuple[str, list[str]]]:
    """The slots of an op that have variables, in the order of its signature."""
    places = {name: index for index, name in enumerate(names)}
    for slot in messages:
        if slot.parameter not in places:
            raise RuleError(f"{what} has no slot '{slot.parameter}'", hint=f"it has {', '.join(names)}")
    listed = sorted(messages, key=lambda slot: places[slot.parameter])
    return [(slot.parameter, list(slot.arguments)) for slot in listed if slot.arguments]


class _Reader:
    """One PassDesc on its way to a pattern."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.values: dict[str, Reference] = {}
        self.terms: list[Term] = []
        self.places: dict[int, int] = {}

    @cached_property
    def made_in_pattern(self) -> set[str]:
        return {name for op in self.message.pattern for output in op.outputs for name in output.arguments}

    def rule(self, name: str, origin: Origin | None) -> Rule:
        if not self.message.pattern:
            raise RuleError("the pattern has no op")
        self.read_pattern()
        conditions = [condition for condition in self.conditions() if condition is not None]
        makes, replaced = self.read_replacement()
        pattern = Pattern(tuple(self.terms), tuple(conditions), tuple(makes), tuple(replaced))
        check_pattern(pattern, set(), ROWS, values_may_be_unused=True)
        anchor = pattern.terms[pattern.roots[0]]
        assert isinstance(anchor, OperationTerm)
        depth, statement = depth_of(pattern), statement_of(pattern)
        return Rule(name, anchor.opcodes, pattern, depth=depth, statement=statement, rows=ROWS, origin=origin)

    # The pattern

    def read_pattern(self) -> None:
        message = self.message
        inputs = [
            mapping.pattern_var for mapping in message.var_maps if mapping.pattern_var not in self.made_in_pattern
        ]
        for name in dict.fromkeys(inputs):
            self.enter(name, ValueTerm(name, shape=self.shape_of(name)))
        for index in in_order(message.pattern, set(inputs)):
            self.read_op(index, message.pattern[index])

    def enter(self, name: str, term: Term) -> None:
        self.values[name] = Reference(len(self.terms))
        self.terms.append(term)

    def shape_of(self, name: str) -> tuple[int | None, ...] | None:
        for condition in self.message.var_attr_conditions:
            if _is_shape(condition) and condition.attr.var_name == name:
                return tuple(None if size == -1 else size for size in attribute_value(condition.condition_value))
        return None

    def read_op(self, index: int, op: Any) -> None:
        known, inputs, outputs = _known_slots(op)
        results = [name for _, names in outputs for name in names]
        self.places[index] = len(self.terms)
        term = OperationTerm(
            self.title(op.type),
            (PREFIX + op.type,),
            tuple(self.operand(name, op) for _, names in inputs for name in names),
            tuple(_attribute_terms(known, op, _counts(inputs), _counts(outputs))),
            results=len(results),
            effects=ROWS[PREFIX + op.type].effect is not None,
        )
        check_operation(term, self.terms, ROWS)
        for number, name in enumerate(results):
            if name in self.values:
                raise RuleError(f"'{name}' is written twice in the pattern")
            self.values[name] = Reference(len(self.terms), number if len(results) > 1 else -1)
        self.terms.append(term)

    def title(self, type: str) -> str:
        count = sum(isinstance(term, OperationTerm) and type_of(term.opcodes[0]) == type for term in self.terms)
        return f"{type}.{count}" if count else type

    def operand(self, name: str, op: Any) -> Reference:
        if name not in self.values:
            raise RuleError(f"'{name}', which {op.type} reads, is neither an input nor a result of the pattern")
        return self.values[name]

    # Conditions and attributes

    def conditions(self) -> Iterator[Condition | None]:
        shaped = {term.name for term in self.terms if isinstance(term, ValueTerm) and term.shape is not None}
        yield from self.unlisted_values()
        for term in (*self.message.var_attr_conditions, *self.message.op_attr_conditions):
            if _is_shape(term) and term.attr.var_name in shaped:
                shaped.discard(term.attr.var_name)  # the first one became the shape of the value
                continue
            left = self.with_operation(self.attribute(term.attr), term)
            operator = COMPARISONS[PADDLE["PassDesc"].ConditionType.Name(term.type)]
            test = Expression(operator, left, self.right_side(term, "condition_attr", "condition_value"))
            yield Condition(test, text_of(test, self.name_of))

    def unlisted_values(self) -> Iterator[Condition]:
        """What the ops of the pattern say of attributes that no table has."""
        for index, number in self.places.items():
            term = self.terms[number]
            assert isinstance(term, OperationTerm)
            for attribute in self.message.pattern[index].attrs:
                if attribute.name not in ROWS[term.opcodes[0]].attributes:
                    known = Expression("known", attribute_value(attribute))
                    test = Expression("equal", attribute_of(number, term, attribute.name), known)
                    yield Condition(test, text_of(test, self.name_of))

    def attribute(self, message: Any) -> Expression:
        kinds = PADDLE["PassDesc"]
        is_size = message.HasField("operation") and kinds.OperationType.Name(message.operation) == "kSize"
        if message.role == kinds.RoleType.Value("kVariable"):
            if message.name != "shape" or message.var_name not in self.values:
                raise RuleError(f"'{message.name}' of {message.var_name} is nothing that a pass can ask for")
            reference = self.values[message.var_name]
            if is_size:
                return Expression("feature", reference.term, reference.result, "rank")
            whole = Expression("feature", reference.term, reference.result, "shape")
        else:
            if message.op_index not in self.places:
                raise RuleError(f"the pattern has no op {message.op_index}")
            term = self.terms[self.places[message.op_index]]
            assert isinstance(term, OperationTerm)
            whole = attribute_of(self.places[message.op_index], term, message.name)
            if is_size:
                return Expression("length", whole)
        if message.HasField("element_index"):
            return Expression("item", whole, Expression("known", message.element_index))
        return whole

    def with_operation(self, left: Expression, message: Any) -> Expression:
        if not message.HasField("operation"):
            return left
        operator = OPERATIONS.get(PADDLE["PassDesc"].OperationType.Name(message.operation.type))
        if operator is None:
            raise RuleError("Size is not an operation of two values")
        return Expression(operator, left, self.right_side(message.operation, "attr", "value"))

    def right_side(self, message: Any, attribute: str, value: str) -> Expression:
        if message.HasField(attribute):
            return self.attribute(getattr(message, attribute))
        if not message.HasField(value):
            raise RuleError("a condition or an operation has no right side")
        return Expression("known", attribute_value(getattr(message, value)))

    def name_of(self, term: int) -> str:
        return self.terms[term].name

    # The replacement

    def read_replacement(self) -> tuple[list[MakeOperation], list[tuple[Reference, Reference]]]:
        message = self.message
        maps = [(condition.pattern_var, condition.replace_var) for condition in message.var_maps]
        held = {fresh: self.values[old] for old, fresh in maps if old not in self.made_in_pattern}
        stands_for = {fresh: old for old, fresh in maps if old in self.made_in_pattern}
        makes: list[MakeOperation] = []
        for index in in_order(message.replace, set(held)):
            makes.append(self.make(index, message.replace[index], held, stands_for, len(makes)))
        replaced = []
        for old, fresh in maps:
            if old in self.made_in_pattern:
                if fresh not in held:
                    raise RuleError(f"'{fresh}', which the replacement yields, is made by nothing")
                replaced.append((self.values[old], held[fresh]))
        return makes, replaced

    def make(
        self, index: int, op: Any, held: dict[str, Reference], stands_for: dict[str, str], number: int
    ) -> MakeOperation:
        known, inputs, outputs = _known_slots(op)
        names = [name for _, names in inputs for name in names]
        missing = [name for name in names if name not in held]
        if missing:
            raise RuleError(f"'{missing[0]}', which {op.type} reads, is neither an input nor made by the replacement")
        results = [name for _, names in outputs for name in names]
        over = tuple(_written_over(index, name, names, held, op) for index, name in enumerate(results) if name in held)
        values: dict[str, Any] = dict(_slot_values(known, _counts(inputs), _counts(outputs)))
        if over:
            values[IN_PLACE] = over
        attributes = {name: Expression("known", value) for name, value in values.items()}
        row = ROWS[PREFIX + op.type]
        given = {attribute.name: Expression("known", attribute_value(attribute)) for attribute in op.attrs}
        given |= dict(self.mapped(index, op.type))
        attributes |= {name: given.pop(name) for name in row.attributes if name in given}
        if given:
            attributes[UNLISTED] = _pairs(op.type, given)
        made = MakeOperation(
            PREFIX + op.type,
            tuple(held[name] for name in names),
            tuple(attributes.items()),
            self.type_of([stands_for.get(name) for name in results], row.infer is not None),
            results=len(results),
        )
        check_made(made, (), ROWS)
        for result, name in enumerate(results):
            held[name] = Reference(number, result if len(results) > 1 else -1, made=True)
        return made

    def mapped(self, index: int, type: str) -> Iterator[tuple[str, Expression]]:
        for condition in self.message.op_attr_maps:
            if condition.replace_attr.op_index != index:
                continue
            if condition.replace_attr.HasField("element_index"):
                raise RuleError(f"an element of {condition.replace_attr.name} of {type} cannot be set by itself")
            yield condition.replace_attr.name, self.with_operation(self.attribute(condition.pattern_attr), condition)

    def type_of(self, olds: list[str | None], is_inferred: bool) -> Expression | None:
        """The type of what is made: of the values that it stands for; where there are none, as it is inferred."""
        if is_inferred and not any(olds):
            return None
        kinds = [Expression("known", None) if old is None else self.kind_of(old) for old in olds]
        return kinds[0] if len(kinds) == 1 and olds[0] else Expression("call", Expression("known", RESULT_TYPE), *kinds)

    def kind_of(self, name: str) -> Expression:
        reference = self.values[name]
        return Expression("feature", reference.term, reference.result, "type")


def attribute_of(index: int, term: OperationTerm, name: str) -> Expression:
    """The attribute of an op of the pattern, be it in the op's row or not."""
    row = ROWS[term.opcodes[0]]
    if name in row.attributes and name not in OURS:
        return Expression("feature", index, -1, "attribute", name)
    return Expression(
        "call", Expression("known", UNLISTED_VALUE), Expression("node", index, -1), Expression("known", name)
    )


def _unlisted(node: Node, name: str) -> Any:
    return dict(node.attributes.get(UNLISTED, ("",))[1:]).get(name)


def _result_type(*kinds: Type | None) -> Type:
    """The types of an op's results together; `opaque[]` for those that are not known."""
    known = [type_ or OPAQUE for type_ in kinds]
    return known[0] if len(known) == 1 else TupleType(known)


register(UNLISTED_VALUE, _unlisted)
register(RESULT_TYPE, _result_type)


def known_op(type: str) -> Signature:
    """What is known of an op; raises RuleError where nothing is."""
    known = signature(type)
    if known is None:
        raise RuleError(f"paddle has no op '{type}'", hint="declare_op(...) makes a custom op known")
    return known


def statement_of(pattern: Pattern) -> str:
    """What a rule does, in a line: `elementwise_add(matmul_v2(x, w), b) -> fc(x, w, b)`."""

    def shown(reference: Reference) -> str:
        if reference.made:
            make = pattern.makes[reference.term]
            assert isinstance(make, MakeOperation)
            return called(make.opcode, make.operands, reference.result)
        term = pattern.terms[reference.term]
        return term.name if isinstance(term, ValueTerm) else called(term.opcodes[0], term.operands, reference.result)

    def called(opcode: str, operands: Sequence[Reference], result: int) -> str:
        text = f"{type_of(opcode)}({', '.join(map(shown, operands))})"
        return text if result < 0 else f"{text}[{result}]"

    olds, fresh = zip(*pattern.replaced, strict=True) if pattern.replaced else ((), ())
    return f"{', '.join(map(shown, olds))} -> {', '.join(map(shown, fresh))}"


def _is_shape(condition: Any) -> bool:
    """Whether a condition says the whole shape of a variable in numbers."""
    attribute = condition.attr
    return (
        attribute.name == "shape"
        and condition.type == PADDLE["PassDesc"].ConditionType.Value("kEQ")
        and condition.HasField("condition_value")
        and not condition.HasField("operation")
        and not attribute.HasField("operation")
        and not attribute.HasField("element_index")
    )


def _known_slots(op: Any) -> tuple[Signature, list[tuple[str, list[str]]], list[tuple[str, list[str]]]]:
    """What is known of an op, and its slots in the order of its signature."""
    known = known_op(op.type)
    inputs = slots_in_order(op.inputs, [slot.name for slot in known.inputs], op.type)
    return known, inputs, slots_in_order(op.outputs, [slot.name for slot in known.outputs], op.type)


def _counts(slots: Sequence[tuple[str, list[str]]]) -> tuple[tuple[str, int], ...]:
    return tuple((name, len(names)) for name, names in slots)


def _slot_values(known: Signature, inputs: Any, outputs: Any) -> Iterator[tuple[str, Any]]:
    """The slots of an op as attributes, where they are not the usual ones."""
    if inputs != known.usual_inputs:
        yield INPUT_SLOTS, inputs
    if outputs != known.usual_outputs:
        yield OUTPUT_SLOTS, outputs


def _attribute_terms(known: Signature, op: Any, inputs: Any, outputs: Any) -> Iterator[tuple[str, AttributeTerm]]:
    for name, value in _slot_values(known, inputs, outputs):
        yield name, Same(value)
    given = {attribute.name: attribute_value(attribute) for attribute in op.attrs}
    for name, row in ROWS[PREFIX + op.type].attributes.items():
        if name in given:
            yield name, Same(given.pop(name))
        elif name not in OURS and not row.carried:
            yield name, ANY


def _pairs(type: str, values: dict[str, Expression]) -> Expression:
    """Attributes that no table has, with the op that they belong to."""
    pairs = [Expression("tuple", Expression("known", name), value) for name, value in values.items()]
    return Expression("tuple", Expression("known", type), *pairs)


def _written_over(index: int, name: str, names: Sequence[str], held: dict[str, Reference], op: Any) -> tuple[int, int]:
    if name not in names:
        raise RuleError(f"{op.type} is to write '{name}', which it does not read", hint="only its own inputs can be")
    return index, list(names).index(name)
