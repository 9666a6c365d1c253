"""Names that protos may give to instructions and texts may not: each becomes one that reads back."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse, print_module
from hloom.formats.hlo.proto import module_from_proto, module_to_proto
from hloom.ir import DTYPES, Module
from tests.formats.hlo.xla import xla

TEXT = "HloModule m\n\nENTRY e {\n  a = f32[] parameter(0)\n  b = f32[] negate(a)\n  ROOT c = f32[] add(b, a)\n}\n"


def renamed(*names: str) -> Module:
    """The module of a proto whose instructions have these names."""
    proto = module_to_proto(parse(TEXT))
    for instruction, name in zip(proto.computations[0].instructions, names, strict=False):
        instruction.name = name
    return module_from_proto(proto)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        *(("__x", "_x"), ("__", "_"), ("___a.1", "_a.1"), ("f32", "f32_"), ("token", "token_"), ("opaque", "opaque_")),
        *(("__xla_x", "__xla_x"), ("nan", "nan"), ("ENTRY", "ENTRY"), ("a b", "a_b"), ("", "parameter")),
    ],
)
def test_names_that_no_text_gives_to_an_instruction_are_changed(name: str, made: str):
    module = renamed(name)
    assert module.entry.parameters[0].name == made
    text = print_module(module)
    assert print_module(parse(text, strict=True)) == text
    assert xla(text).verdict == "accepted"


def test_a_changed_name_is_not_one_that_another_has():
    assert [node.name for node in renamed("__b", "_b", "___b").entry.nodes] == ["_b.1", "_b", "_b.2"]


def test_no_element_type_is_the_name_of_an_instruction():
    for name in DTYPES:
        parse(print_module(renamed(name)), strict=True)
