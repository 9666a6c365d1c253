"""What was traced, written as a PassDesc."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hloom.dialects.paddle.pass_tracer import AttrHelper, Mapped, OpHelper, Tracing, VarHelper
from hloom.dialects.paddle.protos import PADDLE, natural_type, set_attribute
from hloom.dialects.paddle.rows import attribute_type
from hloom.rewrite import RuleError


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
