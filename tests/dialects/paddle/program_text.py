"""Small programs in a line per op, as ProgramDescs: `Out=h: matmul_v2(X=x, Y=w) trans_x=True`."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hloom.dialects import paddle
from hloom.dialects.paddle.protos import PADDLE, attribute_value, converted, natural_type, set_attribute
from hloom.dialects.paddle.rows import CARRIED, attribute_type
from hloom.ir import Module

PROGRAMS = Path(__file__).parent / "programs"
_LINE = re.compile(r"(.*): (\w+)\((.*)\)(.*)")
_SLOT = re.compile(r"(\w+)=(\[[^]]*\]|[^, ]+)")


def program(variables: Mapping[str, Sequence[int]], text: str, lasting: Sequence[str] = ()) -> bytes:
    """A ProgramDesc of f32 variables and ops; those that `lasting` names are persistable."""
    message = PADDLE["ProgramDesc"]()
    message.version.version = 0
    block = message.blocks.add(idx=0, parent_idx=-1)
    for name, dims in variables.items():
        variable = block.vars.add(name=name, persistable=name in lasting)
        variable.type.type = 7
        variable.type.lod_tensor.tensor.data_type = 5
        variable.type.lod_tensor.tensor.dims.extend(dims)
    for line in text.strip().splitlines():
        outputs, type, inputs, attributes = _LINE.fullmatch(line.strip()).groups()  # pyright: ignore
        op = block.ops.add(type=type)
        for slots, messages in ((inputs, op.inputs), (outputs, op.outputs)):
            for slot, names in _SLOT.findall(slots):
                messages.add(parameter=slot, arguments=names.strip("[]").replace(" ", "").split(","))
        for name, value in _SLOT.findall(attributes):
            literal = ast.literal_eval(value)
            attribute_kind = attribute_type(type, name) or natural_type(literal)
            set_attribute(op.attrs.add(), name, converted(literal, attribute_kind), attribute_kind)
    return message.SerializeToString()


def module(variables: Mapping[str, Sequence[int]], text: str, lasting: Sequence[str] = ()) -> Module:
    """The same, read."""
    return paddle.read_program(program(variables, text, lasting))


def text_of(given: Module | bytes) -> str:
    """The ops of a program, a line each, without those hints that every op may have."""
    data = given if isinstance(given, bytes) else paddle.write_program(given)
    lines = []
    for op in PADDLE["ProgramDesc"].FromString(data).blocks[0].ops:
        inputs, outputs = (", ".join(map(_shown, slots)) for slots in (op.inputs, op.outputs))
        attributes = [
            f" {attribute.name}={attribute_value(attribute)!r}"
            for attribute in op.attrs
            if attribute.name not in CARRIED
        ]
        lines.append(f"{outputs}: {op.type}({inputs}){''.join(attributes)}")
    return "\n".join(lines)


def _shown(slot) -> str:
    names = ", ".join(slot.arguments)
    return f"{slot.parameter}={names}" if len(slot.arguments) == 1 else f"{slot.parameter}=[{names}]"
