"""A pair of functions of a pass, run once each, and its PassDesc: as our engine reads it, and as Paddle's bytes.

The two differ where Paddle's own Python says less than the functions do: it leaves out attributes that equal their
defaults and conditions on ops, and gives attributes the type of the Python value. The order of everything is Paddle's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hloom.dialects.paddle.pass_tracer import AttrHelper, InputSpec, Mapped, OpHelper, Tracing, VarHelper, only_output
from hloom.dialects.paddle.protos import PADDLE, add_shape, attribute_value, natural_type, set_attribute
from hloom.dialects.paddle.rows import attribute_type
from hloom.dialects.paddle.signatures import is_extra, is_flag, signature
from hloom.rewrite import RuleError, origin_of

_NEVER_WRITTEN = frozenset({"op_namescope", "op_callstack", "op_device"})
"""Attributes that Paddle's Python leaves out of a pass, whatever their value."""
_COMMON_DEFAULTS = {"op_role": 4096, "with_quant_attr": False}
"""The defaults of the attributes of every op; those of the others are empty or never written."""


class TracedPair:
    """What a pattern and its replacement said; raises RuleError where they do not fit each other."""

    def __init__(
        self,
        pattern: Callable[..., Any],
        replacement: Callable[..., Any],
        input_specs: Mapping[str, Any],
        counts: dict[str, int],
    ) -> None:
        self.origin = origin_of(pattern)
        self.input_specs = input_specs
        self.matched, self.made = Tracing(True, counts), Tracing(False, counts)
        self.inputs, outputs = _run(self.matched, pattern, input_specs)
        own, results = _run(self.made, replacement, input_specs)
        if len(self.inputs) != len(own):
            raise RuleError(f"the pattern takes {len(self.inputs)} values, the replacement {len(own)}")
        if len(outputs) != len(results):
            raise RuleError(f"the pattern yields {len(outputs)} values, the replacement {len(results)}")
        self.pairs = list(zip([*self.inputs, *outputs], [*own, *results], strict=True))
        self.variables = {fresh.name: old.name for old, fresh in zip(self.inputs, own, strict=True)}

    def describe(self, message: Any) -> None:
        """Write all that the functions say into a PassDesc."""
        self._write(message, _write_attributes)
        for attribute in self.matched.conditions:
            if isinstance(attribute._obj, OpHelper):
                _write_conditions(message.op_attr_conditions, attribute)
        write_mappings(message, self.matched, self.made, self.variables)

    def serialise(self, message: Any) -> None:
        """Write the PassDesc that Paddle's own Python makes of the functions."""
        self._write(message, _write_given)
        write_mappings(message, self.matched, self.made, self.variables)

    def _write(self, message: Any, write_attributes: Callable[[Any, OpHelper], None]) -> None:
        write_ops(message.pattern, self.matched, write_attributes)
        write_ops(message.replace, self.made, write_attributes)
        self._write_variables(message)

    def left_out(self) -> Iterator[str]:
        """What the pattern says of attributes and Paddle's own Python does not write, in sentences."""
        for op in self.matched.ops:
            for name, value in op._given.items():
                if _given_attribute(op, name) is None:
                    yield (
                        f"{op._type} leaves out {name}, which is to be {value!r}: Paddle's own Python does not write "
                        "what equals its default, is empty or says where an op runs; its runtime matches any value"
                    )

    def _write_variables(self, message: Any) -> None:
        """The inputs and outputs, and what is said of them: one variable's conditions after another's."""
        written: set[AttrHelper] = set()
        for old, fresh in self.pairs:
            message.var_maps.add(pattern_var=old.name, replace_var=fresh.name)
            if old in self.inputs and hasattr(self.input_specs.get(old.name), "shape"):
                add_shape(message.var_attr_conditions, old.name, old.shape)
            for attribute in old._attributes():
                written.add(attribute)
                _write_conditions(message.var_attr_conditions, attribute)
        for attribute in self.matched.conditions:
            if isinstance(attribute._obj, VarHelper) and attribute not in written:
                _write_conditions(message.var_attr_conditions, attribute)


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


def write_ops(messages: Any, tracing: Tracing, write_attributes: Callable[[Any, OpHelper], None]) -> None:
    """The ops of a function, as OpDescs; slots stand in the order of their names."""
    for op in tracing.ops:
        message = messages.add(type=op._type)
        for name, values in sorted(op._inputs.items()):
            if values:
                message.inputs.add(parameter=name, arguments=[item.name for item in values])
        for name, values in sorted(op._outputs.items()):
            over = op._over.get(name, values)
            if over is not None:
                variables = over if isinstance(over, list) else [over]
                message.outputs.add(parameter=name, arguments=[item.name for item in variables])
        write_attributes(message, op)


def _write_attributes(message: Any, op: OpHelper) -> None:
    for name, value in sorted(op._values.items()):
        set_attribute(message.attrs.add(), name, value, attribute_type(op._type, name) or natural_type(value))


def _write_given(message: Any, op: OpHelper) -> None:
    for name in sorted(op._given, key=lambda name: (not is_extra(op._type, name), name)):
        attribute = _given_attribute(op, name)
        if attribute is not None:
            message.attrs.append(attribute)


def _given_attribute(op: OpHelper, name: str) -> Any:
    """An attribute as Paddle's own Python writes it; None where it leaves it out."""
    value = op._given[name]
    if name in _NEVER_WRITTEN or (isinstance(value, (list, tuple)) and not value):
        return None
    message = PADDLE["OpDesc"].Attr()
    set_attribute(message, name, *_as_given(value, name == "with_quant_attr" or is_flag(op._type, name)))
    return None if attribute_value(message) == _default(op._type, name) else message


def _as_given(value: Any, is_flag: bool) -> tuple[Any, str]:
    """A value and its type as Paddle takes them from Python: of the op's declaration it heeds BOOLEAN alone."""
    if isinstance(value, (list, tuple)):
        value = [int(item) if isinstance(item, int) else item for item in value]
    elif isinstance(value, int):
        value = bool(value) if is_flag else int(value)
    return value, natural_type(value)


def _default(type: str, name: str) -> Any:
    known = signature(type)
    if known is not None and name in known.attributes:
        return known.attributes[name][1]
    return _COMMON_DEFAULTS.get(name)


def _write_conditions(listed: Any, attribute: AttrHelper) -> None:
    """What is stated of an attribute, as AttrConditions."""
    for condition_type, value in attribute._stated:
        condition = listed.add(type=condition_type)
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
    """Where the replacement's attributes come from; `variables` gives a variable of the pattern for each of its own.

    Paddle's own Python names the replacement's variable, and its runtime crashes where the pattern calls it otherwise.
    """
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
                raise RuleError(f"{source._name} of {source._obj._type} is not an attribute of the pattern")
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
        raise RuleError(f"the pattern has {len(candidates)} ops '{mapped.op}': none has index {mapped.index}")
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
