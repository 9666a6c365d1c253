"""`query.py`, `expression.py` and `instructions.py`: what queries select, and where what is wrong with them is shown."""

from __future__ import annotations

import pytest

import hloom
from hloom.inspection.query import COLUMNS, FIELDS, Instructions, parse_query
from hloom.inspection.query.expression import KEYWORDS
from hloom.text import ParseError

MODULE = hloom.parse("""HloModule step

sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }

fused {
  p = f32[64,128] parameter(0)
  ROOT t = f32[64,128] tanh(p)
}

ENTRY main {
  x = f32[64,256] parameter(0)
  w = f32[256,128] parameter(1), sharding={devices=[1,2]<=[2]}
  d = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/jvp(layer_0)/attention/dot" source_file="/src/model.py" source_line=12}
  f = f32[64,128] fusion(d), kind=kLoop, calls=fused, metadata={op_name="jit(f)/jvp(layer_0)/mlp/tanh" source_file="/src/model.py" source_line=13}
  z = f32[] constant(0)
  r = f32[64] reduce(f, z), dimensions={1}, to_apply=sum
  ROOT out = (f32[64], f32[64,128]) tuple(r, d)
}
""")


def names(text: str) -> list[str]:
    return [node.name for node in hloom.grep(MODULE, text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dot", "d"),
        ("dot where bytes > 16KiB and scope ~ 'attention'", "d"),
        ("bytes >= 32KiB and not (parameter or tuple)", "t d f"),
        ("flops > 1MF", "d"),
        ("dot or tanh", "t d"),
        ("re*", "r"),
        ("shape = [...,128] and entry and rank = 2", "w d f"),
        ("shape = [64,*]", "p t x d f"),
        ("shape = []", "a b s z"),
        ("fusion where scope = 'forward/layer_0/mlp'", "f"),
        ("file = model.py and line > 12", "f"),
        ("source = 'model.py:12'", "d"),
        ("dtype = f32 and opcode = constant", "z"),
        ("opcode != parameter and computation = sum", "s"),
        ("name !~ '^[a-z]$'", "out"),
        ("sharded", "w"),
        ("uses(dot)", "f out"),
        ("uses(dot, 2)", "f r out"),
        ("used_by(reduce)", "f z"),
        ("near(reduce)", "f z r out"),
        ("inside(fusion)", "p t"),
        ("fused and root", "t"),
        ("users = 0", "s t out"),
        ("live and parameter", "x w"),
        ("not not dot", "d"),
        ("seconds > 1ns and dot", "d"),
        ("time > 1s", ""),
    ],
)
def test_what_a_query_selects(text: str, expected: str):
    assert names(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected a field, an opcode or '(', found the end of the text"),
        ("dott", 1, "'dott' is not an opcode"),
        ("dot and", 8, "expected a field, an opcode or '(', found the end of the text"),
        ("dot and or", 9, "expected a field, an opcode or '(', found 'or'"),
        ("dot dot", 5, "expected 'and', 'or', 'where' or the end, found 'dot'"),
        ("(dot", 5, "expected ')', found the end of the text"),
        ("byte > 3", 1, "no field is called 'byte'"),
        ("bytes", 6, "expected a comparison after 'bytes', found the end of the text"),
        ("bytes ~ 3", 7, "'bytes' is a number: compare it by = != < <= > >="),
        ("root = 1", 6, "'root' is a flag: compare it by its name"),
        ("bytes > 3us", 10, "'us' is not a unit of bytes"),
        ("bytes > x", 9, "expected a number, found 'x'"),
        ("scope ~ '(a'", 12, "expected ')'"),
        ("scope ~ 'a**'", 12, "a repetition of a repetition: put the first into brackets"),
        ("shape = [1,x]", 9, "expected dimensions such as [8,128] or [*,128], found '['"),
        ("shape = [...,...]", 9, "'...' stands once at most"),
        ("shape = [.]", 9, "'.' is not a dimension: a number, * or ..."),
        ("near(dot, 0)", 11, "a number of hops is 1 to 1,000, not 0"),
        ("near dot", 6, "expected '(' after 'near', found 'dot'"),
        ("(" * 100 + "dot", 66, "brackets nest deeper than 64"),
        ("dot " * 3000, 1, "a query has at most 10,000 characters, not 12,000"),
    ],
)
def test_errors_point(text: str, column: int, message: str):
    with pytest.raises(ParseError) as error:
        names(text)
    assert error.value.message == message
    assert error.value.location is not None
    assert error.value.location.column == column


def test_near_misses_are_named():
    with pytest.raises(ParseError, match="near: bytes"):
        names("byte > 3")


def test_no_field_is_an_opcode_or_a_word_of_the_language():
    assert not FIELDS.keys() & (hloom.OPS.keys() | KEYWORDS | {"parameter", "constant"})


def test_a_query_is_read_without_a_module():
    assert parse_query("dot and not root")[-2:] == ["not", "and"]


def test_columns_add_up_to_the_module():
    table = hloom.table(MODULE)
    assert len(table) == MODULE.node_count
    assert sum(row["own_flops"] for row in table) == hloom.cost(MODULE).total.flops
    assert table.columns == COLUMNS


def test_every_field_has_a_value_for_every_instruction():
    rows = Instructions(MODULE)
    assert {name: len(rows.column(name)) for name in FIELDS} == dict.fromkeys(FIELDS, MODULE.node_count)


def test_a_fragment_without_entry():
    fragment = hloom.parse("x = f32[2] negate(y)\n")
    assert [node.name for node in hloom.grep(fragment, "negate and bytes = 8")] == ["x"]
