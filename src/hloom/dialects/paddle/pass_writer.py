"""From the engine's rules to a MultiPassDesc, and what Paddle's runtime would not do as a rule says.

What the format has no place for is always refused. What it can hold and the runtime does not honour (listed by
`unhonoured`) is refused too, unless forced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hloom.dialects.paddle.pass_reader import COMPARISONS, OPERATIONS, UNLISTED_VALUE
from hloom.dialects.paddle.protos import PADDLE, add_shape, natural_type, set_attribute
from hloom.dialects.paddle.register_pass import PaddlePass, RegisterPassHelper, TracedPass, get_pass
from hloom.dialects.paddle.rows import (
    IN_PLACE,
    INPUT_SLOTS,
    OURS,
    OUTPUT_SLOTS,
    PREFIX,
    ROWS,
    UNLISTED,
    attribute_type,
    type_of,
)
from hloom.rewrite import (
    Absent,
    Anything,
    Expression,
    Make,
    MakeOperation,
    OperationTerm,
    Pattern,
    Reference,
    Rule,
    RuleError,
    Same,
    ValueTerm,
    text_of,
)

Exportable = PaddlePass | Rule | RegisterPassHelper | str | Callable[..., Any] | Iterable[Rule]

_FAMILIES = {"LONG": "INT", "LONGS": "INTS", "FLOAT64": "FLOAT", "FLOAT64S": "FLOATS"}
"""Attribute types that hold the same values in another width, by the narrower one's name."""
_CONDITIONS = {operator: condition_type for condition_type, operator in COMPARISONS.items()}
_KINDS = {operator: condition_type for condition_type, operator in OPERATIONS.items()}


def to_multi_pass_desc(
    rules: Exportable, *, force: bool = False, name: str | None = None, defaults: bool = False
) -> bytes:
    """The serialised MultiPassDesc of a pass (itself, its name, its function) or of rules of Paddle's ops.

    Of a pass of functions they are the bytes that Paddle 2.6.2 itself serialises in a fresh process; attributes that
    equal their defaults are left out of them, unless `defaults` asks for all that the pass says. Raises RuleError,
    which lists the reasons, for what Paddle's runtime would not do as the rules say; with `force` only for what the
    format has no place for.
    """
    given = _pass_or_rules(rules)
    title, listed = _named(given)
    message = PADDLE["MultiPassDesc"](pass_type=name or title)
    for rule in listed:
        writer = _Writer(rule)
        try:
            writer.write(message.pass_descs.add())
        except RuleError as error:
            raise RuleError(f"rule {rule} cannot be exported to Paddle: {error.message}", hint=error.hint) from None
        if writer.problems and not force:
            reasons = "; ".join(writer.problems)
            hint = "force=True exports it all the same, without what the runtime ignores"
            raise RuleError(f"rule {rule} would not do in Paddle what it says: {reasons}", hint=hint)
    if isinstance(given, TracedPass) and not defaults:
        message = given.serialised(name)
    return message.SerializeToString()


def unhonoured(rules: Exportable) -> list[str]:
    """What of rules Paddle does not honour, in sentences; empty where all is well.

    Most of it the format can hold and the runtime ignores: the export refuses that. What Paddle's own Python leaves out
    of a pattern because it equals a default is not refused: `defaults=True` writes it.
    """
    given = _pass_or_rules(rules)
    problems: list[str] = []
    for rule in _named(given)[1]:
        writer = _Writer(rule)
        writer.write(PADDLE["PassDesc"]())
        problems += writer.problems
    return [*problems, *given.left_out()] if isinstance(given, TracedPass) else problems


def _pass_or_rules(rules: Any) -> Any:
    if isinstance(rules, RegisterPassHelper):
        return rules.traced
    if isinstance(rules, str) or (callable(rules) and not isinstance(rules, (PaddlePass, Rule))):
        return get_pass(rules)
    return rules


def _named(rules: Any) -> tuple[str, list[Rule]]:
    if isinstance(rules, PaddlePass):
        return rules.name, list(rules.rules)
    listed = [rules] if isinstance(rules, Rule) else list(rules)
    if not listed:
        raise RuleError("a pass of no rules cannot be exported: Paddle refuses one")
    first = listed[0].name
    return (first if len(listed) == 1 else first.rpartition(".")[0] or first), listed


class _Writer:
    """One rule on its way to a PassDesc."""

    def __init__(self, rule: Rule) -> None:
        if rule.pattern is None:
            raise RuleError(f"rule {rule} is a native function, which Paddle has no place for")
        self.pattern: Pattern = rule.pattern
        self.problems: list[str] = []
        self.names: dict[Reference, str] = {}
        self.indices: dict[int, int] = {}
        self.message: Any = None

    def problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def write(self, message: Any) -> None:
        self.message = message
        if self.pattern.inner:
            raise RuleError("it looks inside called graphs")
        self.write_values()
        for index, term in self.pattern.operations():
            self.write_term(index, term)
        for number, make in enumerate(self.pattern.makes):
            self.write_make(number, make)
        for index, term in enumerate(self.pattern.terms):
            if isinstance(term, ValueTerm):
                name = self.names[Reference(index)]
                message.var_maps.add(pattern_var=name, replace_var=name)
        for old, fresh in self.pattern.replaced:
            message.var_maps.add(pattern_var=self.names[old], replace_var=self.names[fresh])
        for condition in self.pattern.conditions:
            self.write_condition(condition.test)

    # The pattern

    def write_values(self) -> None:
        taken: set[str] = set()
        for index, term in enumerate(self.pattern.terms):
            if not isinstance(term, ValueTerm):
                continue
            name = term.name or f"value_{index}"
            if name in taken:
                raise RuleError(f"two values are called '{name}'")
            taken.add(name)
            self.names[Reference(index)] = name
            if term.is_constant or term.variadic or term.optional or term.dtypes:
                what = "a constant" if term.is_constant else "optional, variadic, or of given element types"
                raise RuleError(f"'{name}' is {what}, which a MultiPassDesc cannot say")
            if term.rank is not None:
                raise RuleError(
                    f"'{name}' has a given rank", hint="p.where(x.rank == 2) says the same and can be exported"
                )
            if term.shape is not None:
                self.write_shape(name, term.shape)

    def write_shape(self, name: str, shape: tuple[Any, ...]) -> None:
        if any(isinstance(size, str) for size in shape):
            raise RuleError(f"'{name}' has dimensions with names, which a MultiPassDesc cannot say")
        sizes = [-1 if size is None else size for size in shape]
        if None in shape:
            self.problem(
                f"{name} may have any size where its shape {sizes} says -1: to Paddle's runtime -1 is not a wildcard, "
                "it matches only a size of -1"
            )
        add_shape(self.message.var_attr_conditions, name, sizes)

    def write_term(self, index: int, term: OperationTerm) -> None:
        opcode, *others = term.opcodes
        if others or not opcode.startswith(PREFIX):
            raise RuleError(f"{' or '.join(term.opcodes)} is not an op of Paddle's")
        flags = [name for name in ("shared", "commutative", "optional") if getattr(term, name)]
        if flags:
            raise RuleError(f"{term.name} is {flags[0]}, which a MultiPassDesc cannot say")
        type, row = type_of(opcode), ROWS[opcode]
        self.indices[index] = len(self.message.pattern)
        message = self.message.pattern.add(type=type)
        given = dict(term.attributes)
        inputs = self.slots(given.pop(INPUT_SLOTS, None), row.attributes[INPUT_SLOTS].default, type)
        outputs = self.slots(given.pop(OUTPUT_SLOTS, None), row.attributes[OUTPUT_SLOTS].default, type)
        for name, count in inputs:
            if count > 1:
                self.problem(
                    f"{type} reads {count} variables in its slot {name}: Paddle's runtime matches them in any order, "
                    "and beside others"
                )
        self.name_results(Reference(index), f"{type}_{self.indices[index]}", outputs, term.results)
        self.write_slots(message, inputs, outputs, term.operands, Reference(index), term.results)
        for name, expression in given.items():
            if isinstance(expression, Same):
                written_type = attribute_type(type, name) or natural_type(expression.value)
                set_attribute(message.attrs.add(), name, expression.value, written_type)
            elif not isinstance(expression, (Anything, Absent)):
                raise RuleError(f"what {type} says of {name} is more than a value")
        for name, expression in row.attributes.items():
            if name not in OURS and not expression.carried and isinstance(given.get(name, Absent()), Absent):
                self.problem(
                    f"{type} leaves out {name}, which is to be {expression.default!r} then: to Paddle's runtime an "
                    f"attribute "
                    f"that is left out may be anything (give it, or write {name}=ANY)"
                )

    def slots(self, term: Any, usual: Any, type: str) -> tuple[tuple[str, int], ...]:
        if term is None or isinstance(term, Absent):
            return usual
        if not isinstance(term, Same):
            raise RuleError(f"what {type} says of its slots is more than a value")
        return term.value

    def name_results(self, whole: Reference, stem: str, outputs: Any, count: int) -> None:
        if sum(count for _, count in outputs) != count:
            raise RuleError(f"{stem} has {count} results, its slots have space for {sum(c for _, c in outputs)}")
        taken = set(self.names.values())
        while any(name.startswith(stem) for name in taken):
            stem += "_"
        if count == 1:
            self.names[whole] = stem
            return
        slots = [f"{slot}.{number}" if several > 1 else slot for slot, several in outputs for number in range(several)]
        for result, slot in enumerate(slots):
            self.names[Reference(whole.term, result, whole.made)] = f"{stem}.{slot}"

    def write_slots(self, message: Any, inputs: Any, outputs: Any, operands: Any, whole: Reference, count: int) -> None:
        arguments = iter([self.names[operand] for operand in operands])
        results = [whole] if count == 1 else [Reference(whole.term, operand, whole.made) for operand in range(count)]
        made = iter([self.names[operand] for operand in results])
        for name, several in inputs:
            message.inputs.add(parameter=name, arguments=[next(arguments) for _ in range(several)])
        for name, several in outputs:
            message.outputs.add(parameter=name, arguments=[next(made) for _ in range(several)])

    # The replacement

    def write_make(self, number: int, make: Make) -> None:
        if not isinstance(make, MakeOperation) or not make.opcode.startswith(PREFIX):
            raise RuleError("it makes something else than ops of Paddle's")
        if make.carry is not None:
            raise RuleError(f"{make.opcode} takes over attributes, which a MultiPassDesc cannot say")
        type, row = type_of(make.opcode), ROWS[make.opcode]
        message = self.message.replace.add(type=type)
        given = dict(make.attributes)
        inputs = _known(given.pop(INPUT_SLOTS, None), row.attributes[INPUT_SLOTS].default)
        outputs = _known(given.pop(OUTPUT_SLOTS, None), row.attributes[OUTPUT_SLOTS].default)
        over = _known(given.pop(IN_PLACE, None), ())
        whole = Reference(number, made=True)
        self.name_results(whole, f"made_{type}_{number}", outputs, make.results)
        for result, operand in over:
            reference = whole if make.results == 1 else Reference(number, result, True)
            self.names[reference] = self.names[make.operands[operand]]
        self.write_slots(message, inputs, outputs, make.operands, whole, make.results)
        unlisted = given.pop(UNLISTED, None)
        if unlisted is not None:
            given |= {pair.arguments[0].arguments[0]: pair.arguments[1] for pair in unlisted.arguments[1:]}
        for name, value in given.items():
            if value.operator == "known":
                argument = value.arguments[0]
                set_attribute(message.attrs.add(), name, argument, attribute_type(type, name) or natural_type(argument))
            else:
                self.write_mapping(number, type, name, value)

    def write_mapping(self, number: int, type: str, name: str, value: Expression) -> None:
        self.check_mapping(type, name, value)
        attribute = {"role": "kOperator", "op_index": number, "name": name}
        mapping = self.message.op_attr_maps.add(replace_attr=attribute)
        if value.operator in _KINDS:
            self.write_operation(mapping.operation, value, f"{name} = {self.shown(value)}")
            value = value.arguments[0]
        self.write_attribute(mapping.pattern_attr, value)

    def check_mapping(self, type: str, name: str, value: Expression) -> None:
        """Raise RuleError where an attribute's value is not of the family of the one that it is mapped to.

        Paddle's runtime gives the op the attribute as it is (paddle/fluid/framework/ir/generate_pass.cc): an op that
        wants an int and is given a bool fails when it reads its attribute.
        """
        source = value.arguments[0] if value.operator in _KINDS else value
        if source.operator != "feature" or source.arguments[2] != "attribute":
            return
        given, wanted = self.attribute_type(source), attribute_type(type, name)
        if given is None or wanted is None or _FAMILIES.get(given, given) == _FAMILIES.get(wanted, wanted):
            return
        raise RuleError(f"{name} of {type} is {wanted}, but '{self.shown(value)}' is {given}: Paddle converts neither")

    # Conditions and attributes

    def write_condition(self, test: Expression) -> None:
        text = self.shown(test)
        if test.operator not in _CONDITIONS:
            raise RuleError(f"the condition '{text}' is not a comparison, which is all that a MultiPassDesc can hold")
        left, right = test.arguments
        if self.write_unlisted(test):
            return
        main = left.arguments[0] if left.operator in _KINDS else left
        of_variable = self.reads_variable(main)
        conditions = self.message.var_attr_conditions if of_variable else self.message.op_attr_conditions
        message = conditions.add(type=_CONDITIONS[test.operator])
        self.write_attribute(message.attr, main)
        if left is not main:
            self.write_operation(message.operation, left, text)
        if right.operator == "known":
            value = right.arguments[0]
            attribute_type = "LONGS" if isinstance(value, (tuple, list)) and of_variable else natural_type(value)
            set_attribute(message.condition_value, "", value, attribute_type)
        else:
            self.write_attribute(message.condition_attr, right)
        for reason in self.condition_problems(message, of_variable):
            self.problem(f"'{text}' {reason}")

    def write_unlisted(self, test: Expression) -> bool:
        """Whether a condition is that an attribute that no table has has a value, which the op itself says then."""
        left, right = test.arguments
        if test.operator != "equal" or right.operator != "known" or not _is_unlisted(left):
            return False
        op = self.message.pattern[self.indices[left.arguments[1].arguments[0]]]
        value = right.arguments[0]
        set_attribute(op.attrs.add(), left.arguments[2].arguments[0], value, natural_type(value))
        return True

    def condition_problems(self, message: Any, of_variable: bool) -> Iterator[str]:
        if not of_variable:
            yield "is a condition on an op's attribute, which Paddle's runtime ignores (SetAttr is honoured)"
            return
        condition_type = PADDLE["PassDesc"].ConditionType.Name(message.type)
        if condition_type != "kEQ":
            yield f"is a condition other than EQ ({condition_type[1:]}), which Paddle's runtime does not implement"
        if not message.HasField("condition_attr"):
            if message.condition_value.type not in _honoured_values():
                yield "compares with something else than whole numbers, which Paddle's runtime finds never equal"
            return
        if message.condition_attr.role != message.attr.role:
            yield "compares a variable with an op, which Paddle's runtime does not implement"
        elif message.condition_attr.var_name != message.attr.var_name:
            yield "compares two variables, where Paddle's runtime compares the first with itself"
        if message.HasField("operation"):
            yield "has an operation beside an attribute, which Paddle's runtime ignores"
        if not self.message.replace:
            yield "compares attributes in a pass that makes nothing, where Paddle's runtime does not look"

    def write_operation(self, message: Any, value: Expression, text: str) -> None:
        operation = _KINDS[value.operator]
        message.type = PADDLE["PassDesc"].OperationType.Value(operation)
        right = value.arguments[1]
        if right.operator == "known":
            argument = right.arguments[0]
            set_attribute(message.value, "", argument, natural_type(argument))
        else:
            self.write_attribute(message.attr, right)
            self.problem(f"'{text}' takes its second number from an attribute, which Paddle's runtime ignores")
        if operation not in ("kSub", "kMod"):
            self.problem(f"'{text}' has another operation than - and Mod, which Paddle's runtime does not implement")
        if right.operator == "known" and natural_type(right.arguments[0]) != "INT":
            self.problem(f"'{text}' computes with other than whole numbers, which Paddle's runtime does not implement")
        elif not self.is_whole_attribute(value.arguments[0]):
            self.problem(
                f"'{text}' computes with no whole number of 32 bits, which Paddle's runtime does not implement"
            )

    def is_whole_attribute(self, expression: Expression) -> bool:
        """Whether Paddle's runtime finds one whole number: an element or the size of a shape, or an INT."""
        if expression.operator == "item":
            attribute_type = self.attribute_type(expression.arguments[0])
            return attribute_type in ("shape", "INTS")
        return expression.operator == "feature" and (
            expression.arguments[2] == "rank" or self.attribute_type(expression) == "INT"
        )

    def attribute_type(self, expression: Expression) -> str | None:
        if expression.operator != "feature" or expression.arguments[2] != "attribute":
            return "shape" if expression.operator == "feature" else None
        term = self.pattern.terms[expression.arguments[0]]
        assert isinstance(term, OperationTerm)
        return attribute_type(type_of(term.opcodes[0]), expression.arguments[3])

    def reads_variable(self, expression: Expression) -> bool:
        while expression.operator in ("item", "length"):
            expression = expression.arguments[0]
        return expression.operator == "feature" and expression.arguments[2] != "attribute"

    def write_attribute(self, message: Any, expression: Expression) -> None:
        text = self.shown(expression)
        if expression.operator == "item" and expression.arguments[1].operator == "known":
            message.element_index = expression.arguments[1].arguments[0]
            expression = expression.arguments[0]
        elif expression.operator == "length":
            message.operation = PADDLE["PassDesc"].OperationType.Value("kSize")
            expression = expression.arguments[0]
            if not self.reads_variable(expression):
                self.problem(f"'{text}' asks for the size of an op's attribute, which Paddle's runtime ignores")
        if _is_unlisted(expression):
            _, node, name = expression.arguments
            self.write_op_attribute(message, node.arguments[0], name.arguments[0])
        elif expression.operator == "feature" and expression.arguments[2] == "attribute":
            self.write_op_attribute(message, expression.arguments[0], expression.arguments[3])
        elif expression.operator == "feature" and expression.arguments[2] in ("shape", "rank"):
            message.role = PADDLE["PassDesc"].RoleType.Value("kVariable")
            message.var_name = self.names[Reference(expression.arguments[0], expression.arguments[1])]
            message.name = "shape"
            if expression.arguments[2] == "rank":
                message.operation = PADDLE["PassDesc"].OperationType.Value("kSize")
        else:
            raise RuleError(f"'{text}' is more than an attribute, an element or a size, and one operation")

    def write_op_attribute(self, message: Any, index: int, name: str) -> None:
        message.role = PADDLE["PassDesc"].RoleType.Value("kOperator")
        message.op_index = self.indices[index]
        message.name = name

    def shown(self, expression: Expression) -> str:
        return text_of(expression, self.pattern.name_of)


def _known(value: Expression | None, usual: Any) -> Any:
    if value is None:
        return usual
    if value.operator != "known":
        raise RuleError("the slots of an op that is made must be known")
    return value.arguments[0]


def _is_unlisted(expression: Expression) -> bool:
    return expression.operator == "call" and expression.arguments[0].arguments[0] == UNLISTED_VALUE


def _honoured_values() -> tuple[int, ...]:
    kinds = PADDLE["AttrType"]
    return kinds.Value("INT"), kinds.Value("LONGS")
