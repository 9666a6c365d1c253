"""`RegisterPass`: functions that return pairs of functions become passes, traced when they are first asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from hloom.dialects.paddle.pass_reader import rules_of
from hloom.dialects.paddle.pass_tracer import AttrHelper, InputSpec, Mapped, OpHelper, Tracing, VarHelper, only_output
from hloom.dialects.paddle.protos import PADDLE, natural_type, set_attribute
from hloom.dialects.paddle.rows import attribute_type
from hloom.ir import Module
from hloom.rewrite import Report, Rule, RuleError, origin_of, rewrite

Pair = tuple[Callable[..., Any], Callable[..., Any]]

PASSES: dict[str, PaddlePass] = {}
"""The passes that were registered, by name."""


class PaddlePass:
    """A named pass: rules, each applied all over a program before the next one is."""

    def __init__(self, name: str, rules: Iterable[Rule] = ()) -> None:
        self.name = name
        self._rules = tuple(rules)

    def __repr__(self) -> str:
        return f"<pass {self.name}>"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules, in the order in which they are applied."""
        return self._rules

    def apply(self, module: Module) -> list[Report]:
        """Apply it to an imported program, in place."""
        return [rewrite(module, [rule], name=self.name) for rule in self.rules]


class TracedPass(PaddlePass):
    """A pass of pairs of functions."""

    def __init__(self, name: str, pairs: Sequence[Pair], input_specs: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.pairs = pairs
        self.input_specs = input_specs

    @cached_property
    def _traced(self) -> tuple[Rule, ...]:
        message = PADDLE["MultiPassDesc"](pass_type=self.name)
        origins = []
        for pattern, replacement in self.pairs:
            origin = origin_of(pattern)
            try:
                _trace(message.pass_descs.add(), pattern, replacement, self.input_specs)
            except RuleError as error:
                raise RuleError(f"pass {self.name} ({origin}): {error.message}", hint=error.hint) from None
            origins.append(origin)
        return tuple(rules_of(message, origins))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules; raises RuleError where the functions cannot be traced."""
        return self._traced


class RegisterPassHelper:
    """Paddle's own helper: pairs of functions and what is known of their inputs."""

    def __init__(
        self, pass_pairs: Sequence[Pair], pass_type: str = "", input_specs: Mapping[str, Any] | None = None
    ) -> None:
        self.traced = TracedPass(pass_type, pass_pairs, input_specs or {})


def RegisterPass(function: Any = None, input_specs: Mapping[str, Any] | None = None) -> Any:  # noqa: N802
    """Make a pass of a function without parameters that returns a pair, or several, of functions: pattern, replacement.

    Its name is the function's. `input_specs` gives an InputSpec by the name of an argument: its dimensions must match.
    Raises RuleError for a function with parameters, or one that returns anything else.
    """

    def decorated(python_function: Callable[[], Any]) -> Callable[[], Any]:
        name, origin = python_function.__name__, origin_of(python_function)
        if inspect.signature(python_function).parameters:
            raise RuleError(
                f"pass {name} ({origin}): a function of a pass takes no parameters",
                hint="the values that it matches are parameters of the functions that it returns",
            )
        definition = python_function()
        pairs = [definition] if _is_pair(definition) else definition
        if not isinstance(pairs, (list, tuple)) or not pairs or not all(map(_is_pair, pairs)):
            raise RuleError(
                f"pass {name} ({origin}): it must return a pair of functions (pattern, replace), or several",
            )
        PASSES[name] = TracedPass(name, pairs, input_specs or {})
        return python_function

    return decorated(function) if inspect.isfunction(function) else decorated


def get_pass(name: str | Callable[..., Any]) -> PaddlePass:
    """The registered pass of a name, or of the function that defined it; raises RuleError where there is none."""
    key = name if isinstance(name, str) else name.__name__
    if key not in PASSES:
        raise RuleError(f"no pass is called '{key}'", hint=f"registered: {', '.join(PASSES) or 'none'}")
    return PASSES[key]


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(inspect.isfunction, value))


def _trace(message: Any, pattern: Any, replacement: Any, input_specs: Mapping[str, Any]) -> None:
    """Run both functions of a pair once, and write what they said as a PassDesc."""
    matched, made = Tracing(True), Tracing(False)
    inputs, outputs = _run(matched, pattern, input_specs)
    own, results = _run(made, replacement, input_specs)
    if len(inputs) != len(own):
        raise RuleError(f"the pattern takes {len(inputs)} values, the replacement {len(own)}")
    if len(outputs) != len(results):
        raise RuleError(f"the pattern yields {len(outputs)} values, the replacement {len(results)}")
    write_ops(message.pattern, matched)
    write_ops(message.replace, made)
    for old, fresh in zip([*inputs, *outputs], [*own, *results], strict=True):
        message.var_maps.add(pattern_var=old.name, replace_var=fresh.name)
    for value in inputs:
        if hasattr(input_specs.get(value.name), "shape"):
            _write_shape(message.var_attr_conditions.add(), value)
    write_conditions(message, matched)
    variables = {fresh.name: old.name for old, fresh in zip(inputs, own, strict=True)}
    write_mappings(message, matched, made, variables)


def _run(tracing: Tracing, function: Any, input_specs: Mapping[str, Any]) -> tuple[list, list]:
    inputs = [_input(name, input_specs.get(name)) for name in inspect.getfullargspec(function).args]
    with tracing.running():
        outputs = function(*inputs)
    return inputs, list(_outputs(outputs))


def _input(name: str, spec: Any) -> Any:
    """A stand-in for an input; the specification may be Paddle's own object."""
    if hasattr(spec, "shape"):
        known = InputSpec(spec.shape, str(spec.dtype))
        return VarHelper(name, known.shape, known.dtype)
    return VarHelper(name)


def _outputs(outputs: Any) -> Any:
    for value in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
        if isinstance(value, (list, tuple)):
            yield from _outputs(value)
        elif isinstance(value, OpHelper):
            yield only_output(value)
        elif isinstance(value, VarHelper):
            yield value
        else:
            raise RuleError(f"a function of a pass returned {value!r}", hint="it returns ops or variables")


def _write_shape(condition: Any, variable: VarHelper) -> None:
    kinds = PADDLE["PassDesc"]
    condition.attr.role = kinds.RoleType.Value("kVariable")
    condition.attr.var_name = variable.name
    condition.attr.name = "shape"
    condition.type = kinds.ConditionType.Value("kEQ")
    condition.condition_value.name = ""
    condition.condition_value.type = PADDLE["AttrType"].Value("LONGS")
    condition.condition_value.longs.extend(variable.shape)


def write_ops(messages: Any, tracing: Tracing) -> None:
    """The ops of a function, as OpDescs."""
    for op in tracing.ops:
        message = messages.add(type=op._type)
        for name, values in op._inputs.items():
            if values:
                message.inputs.add(parameter=name, arguments=[item.name for item in values])
        for name, values in op._outputs.items():
            over = op._over.get(name, values)
            if over is not None:
                variables = over if isinstance(over, list) else [over]
                message.outputs.add(parameter=name, arguments=[item.name for item in variables])
        for name, value in op._values.items():
            set_attribute(message.attrs.add(), name, value, attribute_type(op._type, name) or natural_type(value))


def write_conditions(message: Any, tracing: Tracing) -> None:
    """The conditions of a pattern, as AttrConditions: those on variables, and those on ops."""
    for attribute, condition_type, value in tracing.conditions:
        of_variable = isinstance(attribute._obj, VarHelper)
        listed = message.var_attr_conditions if of_variable else message.op_attr_conditions
        condition = listed.add()
        condition.type = PADDLE["PassDesc"].ConditionType.Value(condition_type)
        write_attribute(condition.attr, attribute)
        if attribute._operation is not None:
            _write_operation(condition.operation, attribute)
        if isinstance(value, AttrHelper):
            if value._operation is not None:
                raise RuleError("the right side of a condition is a value or an attribute, without an operation")
            write_attribute(condition.condition_attr, value)
        else:
            _write_value(condition.condition_value, value, attribute)


def write_mappings(message: Any, pattern: Tracing, replacement: Tracing, variables: Mapping[str, str]) -> None:
    """Where the replacement's attributes come from; `variables` gives a variable of the pattern for each of its own."""
    for op in replacement.ops:
        for attribute in op._attrs.values():
            source = attribute._mapped
            if source is None:
                raise RuleError(
                    f"{attribute._name} of {op._type} is asked for in the replacement", hint="map it or set it"
                )
            if isinstance(source, Mapped):
                source = _mapped_attribute(source, pattern)
            elif isinstance(source._obj, OpHelper) and source._obj not in pattern.ops:
                raise RuleError(f"{source._name} of {source._obj._type} is no attribute of the pattern")
            mapping = message.op_attr_maps.add()
            write_attribute(mapping.pattern_attr, source, variables)
            write_attribute(mapping.replace_attr, attribute)
            if source._operation is not None:
                _write_operation(mapping.operation, source, variables)


def _mapped_attribute(mapped: Mapped, pattern: Tracing) -> AttrHelper:
    if mapped.var is not None:
        variable = mapped.var if isinstance(mapped.var, VarHelper) else VarHelper(str(mapped.var))
        return AttrHelper(variable, mapped.name, mapped.element_index)
    candidates = [op for op in pattern.ops if op._type == mapped.op]
    if len(candidates) <= mapped.index:
        raise RuleError(f"the pattern has {len(candidates)} ops '{mapped.op}': there is none of index {mapped.index}")
    return AttrHelper(candidates[mapped.index], mapped.name, mapped.element_index)


def write_attribute(message: Any, attribute: AttrHelper, variables: Mapping[str, str] | None = None) -> None:
    """A PassDesc.Attr."""
    roles = PADDLE["PassDesc"].RoleType
    if isinstance(attribute._obj, VarHelper):
        name = attribute._obj.name
        message.role = roles.Value("kVariable")
        message.var_name = (variables or {}).get(name, name)
    else:
        message.role = roles.Value("kOperator")
        message.op_index = attribute._obj._index
    message.name = attribute._name
    if attribute._is_size:
        message.operation = PADDLE["PassDesc"].OperationType.Value("kSize")
    if attribute._element_index is not None:
        message.element_index = attribute._element_index


def _write_operation(message: Any, attribute: AttrHelper, variables: Mapping[str, str] | None = None) -> None:
    operation, value = attribute._operation
    message.type = PADDLE["PassDesc"].OperationType.Value(operation)
    if isinstance(value, AttrHelper):
        write_attribute(message.attr, value, variables)
    else:
        _write_value(message.value, value, attribute)


def _write_value(message: Any, value: Any, attribute: AttrHelper) -> None:
    attribute_type = "LONGS" if attribute._name == "shape" and isinstance(value, (list, tuple)) else natural_type(value)
    set_attribute(message, "", tuple(value) if isinstance(value, list) else value, attribute_type)
