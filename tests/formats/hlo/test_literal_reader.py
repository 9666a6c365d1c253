"""Literals read and printed, with XLA's own parser and printer as the oracle.

What makes XLA abort (`true` for a type that is not pred, constants of type token) is never shown to it here.
"""

from __future__ import annotations

import math
import pickle
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

from hloom.formats.hlo import parse, print_module
from hloom.formats.hlo.array_reader import ArrayReader
from hloom.formats.hlo.fast_array_reader import WORTHWHILE, read_plain_array
from hloom.formats.hlo.literal_reader import read_literal, read_typed_literal
from hloom.ir import equal
from hloom.ir.dtypes import DTYPES, DType, DTypeKind, dtype
from hloom.ir.layout import Layout
from hloom.ir.literal import Literal, literal_of
from hloom.ir.literal_text import format_literal, format_typed_literal
from hloom.ir.number_conversion import PAYLOAD_BITS
from hloom.ir.types import TOKEN, UNBOUNDED, TensorType, TupleType, Type
from hloom.text import Cursor, HloomError, ParseError, Source
from tests.helpers.properties import examples
from tests.helpers.work import calls

ALL = tuple(DTYPES.values())
FLOATS = [row for row in DTYPES.values() if row.is_float]
INTEGERS = [row for row in DTYPES.values() if row.is_integer]
FIELDS = {
    "pred": 2, "u8": 3, "s32": 4, "s64": 5, "u32": 6, "u64": 7, "f32": 8, "f64": 9, "f16": 11, "c64": 12, "bf16": 13,
    "s8": 15, "u16": 16, "s16": 17, "c128": 18, "f8e5m2": 19, "f8e4m3fn": 20, "s4": 21, "u4": 22, "f8e4m3b11fnuz": 23,
    "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "s2": 26, "u2": 27, "f8e4m3": 28, "f8e3m4": 29, "s1": 30, "u1": 31,
    "f4e2m1fn": 32, "f8e8m0fnu": 33,
}  # fmt: skip
"""The field of LiteralProto that holds each type."""
VARINTS = ("s32", "u32", "s64", "u64", "pred")
EVERYTHING = _hlo.HloPrintOptions()
EVERYTHING.print_large_constants = True


def tensor(text: str) -> TensorType:
    name, dims = re.fullmatch(r"(\w+)\[([\d,]*)\]", text).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return TensorType(dtype(name), tuple(map(int, dims.split(","))) if dims else ())


def read(literal_type: str | Type, text: str) -> Literal:
    cursor = Cursor(Source(text + ")"))
    literal = read_literal(cursor, tensor(literal_type) if isinstance(literal_type, str) else literal_type)
    cursor.expect(")", "after the literal")
    return literal


def accepts(literal_type: Type, text: str) -> Literal | None:
    try:
        return read(literal_type, text)
    except ParseError:
        return None


def xla_module(literal_type: Type, text: str):
    return _hlo.hlo_module_from_text(f"HloModule m\nENTRY e {{\n ROOT c = {literal_type} constant({text})\n}}")


def xla_text(literal_type: Type, text: str) -> str:
    """How XLA prints what it reads."""
    line = xla_module(literal_type, text).to_string(EVERYTHING).split("ROOT", 1)[1].split("\n", 1)[0]
    return line.split(" constant(", 1)[1][:-1]


def as_xla_prints(text: str, element_type: DType) -> str:
    """Our text with the three spellings that XLA reads back undone."""
    text = re.sub(r"-0\.0(?![0-9])", "-0", text)
    if element_type.name == "f8e8m0fnu":
        return text.replace("5.877e-39", "5.9e-39")
    return text.replace("3.4028234663852886e+38", "3.40282347e+38") if element_type.name == "c64" else text


def xla_bits(literal_type: TensorType, text: str) -> bytes | None:
    """The bytes of the array that XLA reads, or None where it refuses."""
    try:
        module = xla_module(literal_type, text)
    except Exception:
        return None
    literal = field(field(field(module.as_serialized_hlo_module_proto(), 3), 2), 8)
    raw = field(literal, FIELDS[literal_type.dtype.name])
    if literal_type.dtype.name not in VARINTS:
        return raw
    values, position = [], 0
    while position < len(raw):
        value, position = varint(raw, position)
        values.append(value)
    return np.array(values, np.uint64).astype(literal_type.dtype.numpy).tobytes()


def field(message: bytes, number: int) -> bytes:
    """The first length-delimited field of this number in a serialized protobuf message."""
    position = 0
    while position < len(message):
        tag, position = varint(message, position)
        size, position = varint(message, position)
        if tag & 7 == 0:
            continue
        assert tag & 7 == 2, tag
        if tag >> 3 == number:
            return message[position : position + size]
        position += size
    return b""


def varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position


def bits(literal: Literal) -> bytes:
    return literal.numpy().tobytes()


def agrees_with_xla(literal_type: TensorType, text: str) -> None:
    ours, theirs = accepts(literal_type, text), xla_bits(literal_type, text)
    assert (ours is None) == (theirs is None), (text, ours, theirs)
    if ours is not None and theirs is not None and not ours.is_elided:
        assert bits(ours) == theirs, text


# Reading, by case


@pytest.mark.parametrize(
    ("literal_type", "text", "printed"),
    [
        ("f32[]", "1", "1"),
        ("f32[3]", "{1,2,3}", "{1, 2, 3}"),
        ("f32[3]", "{1 2 3}", "{1, 2, 3}"),
        ("f32[3]", "{1,,2 3,}", "{1, 2, 3}"),
        ("f32[2]", "{1-2}", "{1, -2}"),
        ("f32[2]", "{-inf1}", "{-inf, 1}"),
        ("f32[2]", "{1/*x*/2 // y\n}", "{1, 2}"),
        ("f32[2,2]", "{{1,2},{3,4}}", "{ { 1, 2 }, { 3, 4 } }"),
        ("f32[1,2,1]", "{{{1},{2}}}", "{ { {1}, {2} } }"),
        ("f32[1,2,1,1,1]", "{{{{{1}}},{{{2}}}}}", "{ { /*i0=0*/ { /*i1=0*/ { /*i2=0*/ {1} } }, { /*i1=1*/ { /*i2=0*/ {2} } } } }"),
        ("f32[0]", "{}", "{}"),
        ("f32[0]", "{...}", "{}"),
        ("f32[0,3]", "{}", "{  }"),
        ("f32[3,0]", "{{},{},{}}", "{ {}, {}, {} }"),
        ("f32[1,0,2,2]", "{{}}", "{ { /*i0=0*/ } }"),
        ("f32[4]", "3", "{3, 0, 0, 0}"),
        ("f32[2,2]", "-nan", "{ { -nan, 0 }, { 0, 0 } }"),
        ("f32[2]", ",", "{0, 0}"),
        ("f32[]", "-0", "0"),
        ("f32[]", "-0.0", "-0.0"),
        ("f32[]", "18446744073709551615", "-1"),
        ("f32[]", "-.5", "-0.5"),
        ("f32[]", "1.e3", "1000"),
        ("f64[]", "0.30000000000000004", "0.30000000000000004"),
        ("f16[]", "65519", "65504"),
        ("f16[]", "1.00048828218", "1"),
        ("f8e4m3fn[2]", "{inf,-inf}", "{nan, -nan}"),
        ("f8e4m3fnuz[2]", "{inf,-0.0}", "{-nan, 0}"),
        ("f4e2m1fn[4]", "{7,inf,nan,-nan}", "{6, 6, -0.0, 0}"),
        ("f8e8m0fnu[3]", "{1e-300,1.5,-inf}", "{5.877e-39, 2, nan}"),
        ("bf16[3]", "{nan(0x1),-nan(0x40),nan(0x8000000000000)}", "{nan(0x1), -nan, nan}"),
        ("pred[]", "2", "true"),
        ("pred[3]", "{true false -1}", "{1, 0, 1}"),
        ("pred[2]", "true", "{1, 0}"),
        ("s4[2]", "{-8,7}", "{-8, 7}"),
        ("s1[2]", "{-1,18446744073709551615}", "{-1, -1}"),
        ("s32[]", "-007", "-7"),
        ("s64[]", "9223372036854775808", "-9223372036854775808"),
        ("u64[]", "-1", "18446744073709551615"),
        ("c64[2]", "{(1,2)(-0.0,inf)}", "{(1, 2), (-0.0, inf)}"),
        ("c64[2]", "{(nan,2),(2,nan(0x5))}", "{(nan, nan), (2, nan)}"),
        ("c64[]", "(3.4028234663852886e+38,1)", "(3.4028234663852886e+38, 1)"),
        ("c128[]", "(2,nan(0x5))", "(2, nan(0x5))"),
    ],
)  # fmt: skip
def test_reads_what_xla_reads(literal_type, text, printed):
    literal = read(literal_type, text)
    assert format_literal(literal) == printed
    assert bits(literal) == xla_bits(tensor(literal_type), text)
    assert xla_text(tensor(literal_type), text) == as_xla_prints(printed, tensor(literal_type).dtype)


@pytest.mark.parametrize(
    ("literal_type", "text", "column", "message"),
    [
        ("f32[]", "", 1, "expected a value of f32[], found ')'"),
        ("f32[]", "{3}", 1, "too many '{' for f32[], which has rank 0"),
        ("f32[]", "...", 1, "'...' stands only directly inside the outermost braces"),
        ("f32[2]", "{1}", 3, "expected 2 elements in dimension 0 of f32[2], found 1"),
        ("f32[2]", "{1,2,3}", 6, "more than 2 elements in dimension 0 of f32[2]"),
        ("f32[2]", "{{1,2}}", 2, "too many '{' for f32[2], which has rank 1"),
        ("f32[2]", "}", 1, "expected a value of f32[2], found '}'"),
        ("f32[2]", "{1,2", 5, "expected a value of f32[2], found ')'"),
        ("f32[2]", "{1,2} 3", 7, "expected ')' after the literal, found '3'"),
        ("f32[2]", "{... 1}", 6, "more than 2 elements in dimension 0 of f32[2]"),
        ("f32[2,2]", "{{1,2},{3}}", 10, "expected 2 elements in dimension 1 of f32[2,2], found 1"),
        ("f32[2,2]", "{{1,2},{3,4},{5,6}}", 14, "more than 2 elements in dimension 0 of f32[2,2]"),
        ("f32[2,2]", "{1,{2,3},{4,5}}", 2, "expected '{': f32[2,2] has rank 2"),
        ("f32[2,2]", "{1 2 3 4 {} {}}", 2, "expected '{': f32[2,2] has rank 2"),
        ("f32[2,2]", "{{...},{1,2}}", 3, "'...' stands only directly inside the outermost braces"),
        ("f32[2,2]", "{...{1,2}}", 5, "more than 2 elements in dimension 0 of f32[2,2]"),
        ("f32[2,2]", "{1e400 ...}", 2, "1e400 is out of range even for f64"),
        ("f32[0]", "0", 1, "expected '{': f32[0] has rank 1"),
        ("f32[]", ".5", 1, "expected a value of f32[], found '.5'"),
        ("f32[]", "1.5.2", 4, "expected ')' after the literal, found '.2'"),
        ("f32[]", "Inf", 1, "expected a value of f32[], found 'Inf'"),
        ("f32[]", "infinity", 1, "expected a value of f32[], found 'infinity'"),
        ("f32[]", "+1", 1, "expected a value of f32[], found '+'"),
        ("f32[]", "- 1", 1, "expected a value of f32[], found '-'"),
        ("f32[]", "nan(0x0)", 1, "a NaN's payload is between 0x1 and 0xfffffffffffff"),
        ("f32[]", "nan(0x10000000000000)", 1, "a NaN's payload is between 0x1 and 0xfffffffffffff"),
        ("f32[]", "nan(0xfffffffffffff)", 1, "this NaN payload does not fit into f32: at most 0x7fffff"),
        ("f8e4m3fn[]", "nan(0x1)", 1, "this NaN payload does not fit into f8e4m3fn: it has none"),
        ("f32[]", "18446744073709551616", 1, "integer 18446744073709551616 does not fit into 64 bits"),
        ("f32[]", "3.4028235678e38", 1, "value 3.40282357e+38 is out of range for f32: [-3.40282347e+38, 3.40282347e+38]"),
        ("f16[2]", "{1, 65520}", 5, "value 65520 is out of range for f16: [-65504, 65504]"),
        ("f8e8m0fnu[]", "0", 1, "value 0 is out of range for f8e8m0fnu: [5.87747175e-39, 1.70141183e+38]"),
        ("u4[2]", "{1,16}", 4, "value 16 is out of range for u4: [0, 15]"),
        ("u32[]", "-1", 1, "value -1 is out of range for u32: [0, 4294967295]"),
        ("s32[]", "1.5", 1, "expected an integer for s32, found '1.5'"),
        ("s32[]", "inf", 1, "expected an integer for s32, found 'inf'"),
        ("pred[]", "1.5", 1, "expected an integer for pred, found '1.5'"),
        ("f32[]", "(1,2)", 1, "'(' begins a complex number, but the elements are f32"),
        ("c64[]", "1", 1, "expected '(', as c64 has two parts"),
        ("c64[]", "(1)", 3, "expected ',' between the parts of a complex number, found ')'"),
        ("c64[]", "(1,2,3)", 5, "expected ')' after a complex number, found ','"),
        ("c64[]", "(1,)", 4, "expected a number as a part of a complex number"),
        ("c64[2]", "(1,2)", 1, "expected '{': c64[2] has rank 1"),
        ("c64[]", "(1, 3.40282347e+38)", 5, "value 3.40282347e+38 is out of range for c64: [-3.40282347e+38, 3.40282347e+38]"),
        ("c64[]", "(nan(0xfffffffffffff),1)", 2, "this NaN payload does not fit into c64: at most 0x7fffff"),
    ],
)  # fmt: skip
def test_refuses_what_xla_refuses(literal_type, text, column, message):
    with pytest.raises(ParseError) as caught:
        read(literal_type, text)
    assert (caught.value.message, caught.value.location.column) == (message, column)  # pyright: ignore[reportOptionalMemberAccess]
    assert xla_bits(tensor(literal_type), text) is None


@pytest.mark.parametrize(
    ("literal_type", "text", "column", "message"),
    [
        (tensor("f32[2]"), "{1,true}", 4, "'true' is not a value of f32"),
        (TOKEN, "1", 1, "a constant cannot be of type token[]"),
        (TupleType([TOKEN]), "(1)", 2, "a constant cannot be of type token[]"),
        (TensorType(dtype("f32"), (UNBOUNDED,), None, (True,)), "{1}", 1, "a constant cannot be of type f32[?], whose size is unbounded"),
        (TensorType(dtype("f32"), (1,) * 65), "1", 1, None),
        (tensor("f32[99999999999]"), "3", 1, "f32[99999999999] takes too much memory"),
        (tensor("s8[1000000000,2]"), "1", 1, "s8[1000000000,2] takes too much memory"),
        (tensor("f32[9999999999,9999999999]"), "0", 1, "f32[9999999999,9999999999] is larger than numpy's arrays can be"),
        (TupleType([tensor("f32[]")]), "()", 2, "expected a value of f32[], found ')'"),
        (TupleType([TupleType([])]), "(1)", 2, "expected '(' before a tuple's elements, found '1'"),
        (tensor("f32[2]"), "{" * 100_000, 2, "too many '{' for f32[2], which has rank 1"),
        (tensor("u64[]"), "9" * 100_000, 1, None),
    ],
)  # fmt: skip
def test_refuses_what_would_abort_or_exhaust_xla(literal_type, text, column, message):
    with pytest.raises(ParseError) as caught:
        read(literal_type, text)
    assert caught.value.location.column == column  # pyright: ignore[reportOptionalMemberAccess]
    assert message is None or caught.value.message == message


def test_errors_count_lines_and_columns():
    with pytest.raises(ParseError, match=re.escape("c.hlo:3:3: value 256 is out of range for u8: [0, 255]")):
        read_literal(Cursor(Source("{ 1,\n  2,\n  256 }", "c.hlo")), tensor("u8[3]"))


@pytest.mark.parametrize("text", ["{...}", "{ ... }", "{1, ...}", "{1, 2, ...}", "{... ,}", "{..., ...}", "{/*x*/...}"])
def test_elided(text):
    literal = read("f32[2]", text)
    assert literal.is_elided
    assert format_literal(literal) == "{...}"
    assert xla_bits(tensor("f32[2]"), text) is not None
    with pytest.raises(HloomError, match="left out of the text") as caught:
        literal.numpy()
    assert "print_large_constants" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["{7 ...}", "{7 ... 8 9 10}", "{{1,2} 7 ...}", "{{1,2} ...}"])
def test_elided_among_numbers_out_of_place(text):
    assert read("f32[2,2]", text).is_elided
    assert xla_bits(tensor("f32[2,2]"), text) is not None


def test_dynamic_dimensions_become_static():
    bounded = TensorType(dtype("f32"), (2, 2), None, (True, False))
    assert read(bounded, "{{1,2},{3,4}}").type is tensor("f32[2,2]")


PAIR = TupleType([tensor("f32[]"), tensor("f32[]")])


@pytest.mark.parametrize(
    ("literal_type", "text", "printed"),
    [
        (TupleType([]), "()", "(  )"),
        (PAIR, "(1, 2)", "( 1, 2 )"),
        (PAIR, "(1 2)", "( 1, 2 )"),
        (PAIR, "(,,2)", "( 0, 2 )"),
        (TupleType([tensor("pred[]"), TupleType([tensor("s32[2]"), TupleType([])])]), "(true,({3 4},()))", "( true, ( {3, 4}, (  ) ) )"),
    ],
)  # fmt: skip
def test_tuples(literal_type, text, printed):
    literal = read(literal_type, text)
    assert literal.type is literal_type
    assert format_literal(literal) == printed == xla_text(literal_type, text)
    assert read(literal_type, printed) == literal


@pytest.mark.parametrize("text", ["(1)", "(1,,2)", "(1,2,)", "(1,2,3)", "1", "((1),2)"])
def test_tuples_refused(text):
    assert accepts(PAIR, text) is None
    with pytest.raises(Exception, match="Syntax error"):
        xla_module(PAIR, text)


def test_elided_tuples():
    whole = read(TupleType([tensor("f32[20]"), tensor("s32[]")]), "{...}")
    assert whole.is_elided
    assert [element.is_elided for element in whole.elements] == [True, True]
    assert format_literal(whole) == "{...}"
    part = read(TupleType([tensor("f32[20]"), tensor("s32[]")]), "({...}, 1)")
    assert part.is_elided
    assert not part.is_left_out
    assert format_literal(part) == "( {...}, 1 )"


def read_type(cursor: Cursor) -> Type:
    match = cursor.read(re.compile(r"(\w+\[[\d,]*\])(?:\{[\d,]*\})?"), "a type")
    return tensor(match[1])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("s32[] 1", "s32[] 1"),
        ("f32[2]{0}{1,2}", "f32[2]{0} {1, 2}"),
        ("(s32[] 1 s32[] 2,)", "( s32[] 1, s32[] 2 )"),
        ("((), (f32[2]{0} {1,2}))", "( (  ), ( f32[2]{0} {1, 2} ) )"),
    ],
)
def test_typed_literals(text, printed):
    assert format_typed_literal(read_typed_literal(Cursor(Source(text)), read_type)) == printed
    module = f'HloModule m\nENTRY e {{\n ROOT c = f32[2] custom-call(), custom_call_target="x", literal={text}\n}}'
    assert f"literal={printed}\n" in _hlo.hlo_module_from_text(module).to_string(EVERYTHING)


@pytest.mark.parametrize("text", ["(,)", "(s32[] 1,, s32[] 2)", "(s32[] 1", "(" * 100_000])
def test_typed_literals_refused(text):
    with pytest.raises(ParseError):
        read_typed_literal(Cursor(Source(text)), read_type)


# Every value


def every_value(element_type: DType) -> np.ndarray:
    words = np.arange(2 ** min(element_type.bits, 16), dtype=f"u{element_type.byte_count}")
    return words.view(element_type.numpy) if element_type.kind is not DTypeKind.BOOLEAN else np.array([False, True])


@pytest.mark.parametrize("element_type", [row for row in DTYPES.values() if row.bits <= 16], ids=str)
def test_every_value_of_a_narrow_type(element_type):
    literal = literal_of(every_value(element_type))
    text = format_literal(literal)
    assert isinstance(literal.type, TensorType)
    assert bits(read(literal.type, text)) == bits(literal) == xla_bits(literal.type, text)
    assert as_xla_prints(text, literal.type.dtype) == xla_text(literal.type, text)


@pytest.mark.parametrize("element_type", [row for row in FLOATS if row.bits <= 16], ids=str)
def test_rounding_between_every_two_values(element_type):
    with np.errstate(all="ignore"):
        values = np.unique(every_value(element_type).astype(np.float64))
    values = values[np.isfinite(values)][:: 1 if element_type.bits < 16 else 23]
    half_step = 2.0 ** -(11 if element_type.name == "f16" else 8)
    middles = (values[1:] + values[:-1]) / 2 if element_type.bits < 16 else values + np.abs(values) * half_step
    near = [
        middles,
        np.nextafter(middles, -np.inf),
        np.nextafter(middles, np.inf),
        middles * (1 + 1e-8),
        middles * (1 - 1e-8),
    ]
    texts = [repr(value) for value in np.concatenate(near).tolist() if abs(value) <= np.abs(values).max()]
    shape = TensorType(element_type, (len(texts),))
    text = "{" + ",".join(texts) + "}"
    assert bits(read(shape, text)) == xla_bits(shape, text)


@pytest.mark.parametrize("element_type", FLOATS, ids=str)
def test_range_ends_where_rounding_does(element_type):
    ends = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "bf16": 3.3895313892515355e38}
    with np.errstate(all="ignore"):
        values = (
            every_value(element_type).astype(np.float64)
            if element_type.bits <= 16
            else np.array([ends[element_type.name]])
        )
    end = float(values[np.isfinite(values)].max())
    for factor in (
        1,
        1 + 2**-30,
        1 + 2**-24,
        1.0001,
        1.0019,
        1.002,
        1.01,
        1.03,
        1.0357,
        1.036,
        1.05,
        1.0714,
        1.072,
        1.125,
        1.3,
        1.5,
        2,
        4,
    ):
        for sign in (1, -1):
            if math.isfinite(value := sign * end * factor):
                agrees_with_xla(TensorType(element_type), repr(value))


@pytest.mark.parametrize("element_type", INTEGERS, ids=str)
def test_range_of_integers(element_type):
    ends = (0, 2 ** (element_type.bits - 1), 2**element_type.bits, 2**63, 2**64)
    for value in {sign * end + step for end in ends for step in (-1, 0, 1) for sign in (1, -1)}:
        agrees_with_xla(TensorType(element_type), str(value))


# Properties


shapes = st.lists(st.integers(0, 3), max_size=5).map(tuple)


@st.composite
def literals(draw, kinds=ALL):
    element_type = draw(st.sampled_from(kinds))
    shape = draw(shapes)
    size = math.prod(shape) * element_type.byte_count
    words = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8).copy()
    if element_type.kind is DTypeKind.BOOLEAN:
        words &= 1
    data = words.view(element_type.numpy).reshape(shape)
    if element_type.is_complex:
        data = np.where(np.isnan(data.real) | np.isnan(data.imag), 0, data).astype(element_type.numpy)
    return Literal.array(TensorType(element_type, shape), data)


@given(literals())
@example(literal_of(np.array([-0.0, np.inf, -np.inf, np.nan, -np.nan], np.float32)))
@example(
    literal_of(np.array([complex(-0.0, 3.4028234663852886e38), complex(-3.4028234663852886e38, -0.0)], np.complex64))
)
@examples(100)
def test_text_round_trips_through_us_and_xla(literal):
    text = format_literal(literal)
    again = read(literal.type, text)
    assert again == literal
    assert hash(again) == hash(literal)
    assert format_literal(again) == text
    assert bits(literal) == xla_bits(literal.type, text)
    assert as_xla_prints(text, literal.type.dtype) == xla_text(literal.type, text)


@pytest.mark.parametrize("name", ["f32", "f64", "s32", "u64", "s64", "c64", "c128"])
def test_many_random_bits(name):
    element_type = dtype(name)
    data = np.frombuffer(np.random.default_rng(7).bytes(4000 * element_type.byte_count), element_type.numpy)
    data = data[np.isfinite(data)] if element_type.is_complex else data
    literal = literal_of(data.reshape(-1, 5) if len(data) % 5 == 0 else data)
    text = format_literal(literal)
    assert bits(read(literal.type, text)) == bits(literal) == xla_bits(literal.type, text)  # pyright: ignore[reportArgumentType]
    assert as_xla_prints(text, literal.type.dtype) == xla_text(literal.type, text)  # pyright: ignore[reportAttributeAccessIssue]


numbers = st.one_of(
    st.integers(-20, 300).map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False).map(repr),
    st.floats(-500, 500).map(lambda value: f"{value:.3g}"),
    st.sampled_from(
        [
            "inf",
            "-inf",
            "nan",
            "-nan",
            "nan(0x1)",
            "-nan(0x7)",
            "nan(0x200)",
            "nan(0x80000)",
            "-0",
            "-0.0",
            "007",
            "1.",
            "-.5",
            "1e5",
            "1e-400",
            "1.e2",
            "2E3",
        ]
    ),
)


@given(st.sampled_from([*FLOATS, *INTEGERS, dtype("pred")]), numbers)
@examples(200)
def test_numbers_agree_with_xla(element_type, text):
    agrees_with_xla(TensorType(element_type), text)


@given(numbers, numbers, st.sampled_from(["c64", "c128"]))
@examples(50)
def test_complex_numbers_agree_with_xla(real, imaginary, name):
    agrees_with_xla(TensorType(dtype(name)), f"({real},{imaginary})")


pieces = st.one_of(
    st.sampled_from(["{", "}", "{", "}", ",", " ", "...", "/*}*/", "//{\n", "(", ")", "1", "2", "-3"]), numbers
)


@given(
    st.sampled_from(["f32", "s8", "c64", "bf16"]),
    st.lists(st.integers(0, 2), max_size=3),
    st.lists(pieces, max_size=12),
)
@example("f32", [2, 2], ["{", "7", "...", "8", "9", "10", "11", "}"])
@example("f32", [2, 0], ["{", "{", "}", "{", "}", "}"])
@examples(150)
def test_soup_agrees_with_xla(name, dims, soup):
    text = "".join(soup)
    if ")" in text and name != "c64":
        text = text.replace(")", "")
    agrees_with_xla(TensorType(dtype(name), tuple(dims)), text + " ")


@st.composite
def nearly_right(draw):
    """A literal's text with a few places changed."""
    dims = tuple(draw(st.lists(st.integers(1, 3), max_size=4)))
    literal_type = tensor(draw(st.sampled_from(["f32", "s32", "c64", "pred"])) + f"[{','.join(map(str, dims))}]")
    count = literal_type.element_count
    values = [draw(numbers if draw(st.integers(0, 9)) == 0 else st.just(str(index % 7))) for index in range(count)]
    values = [f"({value}, {index})" if literal_type.dtype.is_complex else value for index, value in enumerate(values)]
    text = nest(values, dims)
    for _ in range(draw(st.integers(0, 2))):
        position = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 2))
        text = (
            text[:position]
            + draw(st.sampled_from([" ", ",", "{", "}", "1", "-", ".", "e", "...", "(", "", "+"]))
            + text[position + cut :]
        )
    return literal_type, text


def nest(values: list[str], dims: tuple[int, ...]) -> str:
    if not dims:
        return values[0]
    size = len(values) // dims[0]
    return "{" + ", ".join(nest(values[index * size : (index + 1) * size], dims[1:]) for index in range(dims[0])) + "}"


@given(nearly_right())
@examples(100)
def test_nearly_right_texts_agree_with_xla(case):
    agrees_with_xla(*case)


@pytest.fixture(scope="module")
def always_worthwhile():
    patch = pytest.MonkeyPatch()
    patch.setattr("hloom.formats.hlo.fast_array_reader.WORTHWHILE", 1)
    yield
    patch.undo()


@given(nearly_right())
@examples(250)
def test_both_readers_agree(always_worthwhile, case):
    literal_type, text = case
    fast, careful = Cursor(Source(text + ", {1}}")), Cursor(Source(text + ", {1}}"))
    plain = read_plain_array(fast, literal_type)
    if plain is None:
        assert fast.skip() == careful.skip()
        return
    assert Literal.adopt(literal_type, plain) == ArrayReader(careful, literal_type).read()
    assert fast.position == careful.position


@given(nearly_right())
@examples(250)
def test_scalars_and_a_few_numbers_are_read_as_token_by_token(case):
    literal_type, text = case
    fast, careful = Cursor(Source(f"{text})")), Cursor(Source(f"{text})"))
    try:
        literal = ArrayReader(careful, literal_type).read()
    except ParseError:
        with pytest.raises(ParseError):
            read_literal(fast, literal_type)
        return
    read_fast = read_literal(fast, literal_type)
    assert read_fast == literal or (read_fast.is_elided and literal.is_elided)
    assert fast.position == careful.position


@given(literals(tuple(row for row in DTYPES.values() if not PAYLOAD_BITS.get(row.name))))
@examples(40)
def test_the_fast_reader_reads_what_we_print(always_worthwhile, literal):
    cursor = Cursor(Source(format_literal(literal)))
    plain = read_plain_array(cursor, literal.type)
    if not literal.type.rank or not literal.type.element_count:
        assert plain is None
    else:
        assert plain is not None
        assert Literal.adopt(literal.type, plain) == literal


# Size and speed


def test_elements_of_large_literals_are_not_read_one_by_one():
    literal = literal_of(np.random.default_rng(0).standard_normal((50, 1000)).astype(np.float32))
    text = format_literal(literal)
    assert read(literal.type, text) == literal
    assert calls(lambda: read(literal.type, text)) < literal.type.element_count / 10  # pyright: ignore[reportAttributeAccessIssue]
    assert calls(lambda: format_literal(literal)) < literal.type.element_count / 10  # pyright: ignore[reportAttributeAccessIssue]


def test_the_fast_reader_never_looks_far_beyond_a_literal():
    rows = "{" + ",".join(["1"] * WORTHWHILE) + "} "
    cursor = Cursor(Source("{" + rows + "/**/ }, x" + rows * 20_000))
    assert read_plain_array(cursor, tensor(f"f32[1,{WORTHWHILE}]")) is None
    assert read_literal(cursor, tensor(f"f32[1,{WORTHWHILE}]")).is_splat


def test_splats_take_no_memory():
    one = np.ones((), np.float32)
    huge = Literal.splat(tensor("f32[1000000,1000000]"), one)
    assert huge.is_splat
    assert huge.splat_value() == 1
    assert huge == literal_of(np.broadcast_to(one, (10**6, 10**6)))
    assert hash(huge) == hash(literal_of(np.broadcast_to(one, (10**6, 10**6))))
    assert pickle.loads(pickle.dumps(huge)) == huge
    assert read("f32[1000000,1000000]", ",").is_splat


# The object


def test_equality_is_of_bits():
    assert literal_of(np.float32(0)) != literal_of(np.float32(-0.0))
    assert literal_of(np.float32(np.nan)) == literal_of(np.float32(np.nan))
    assert literal_of(np.float32(1)) != literal_of(np.int32(1))
    assert literal_of(np.zeros(2, np.float32)) != literal_of(np.zeros(3, np.float32))
    signalling = np.array([0x7F800001, 0x7FC00000], np.uint32).view(np.float32)
    assert literal_of(signalling[:1]) != literal_of(signalling[1:])
    assert literal_of(1) != 1


def test_layouts_do_not_matter_to_equality():
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    plain, other = tensor("f32[2,3]"), TensorType(dtype("f32"), (2, 3), Layout((0, 1)))
    assert Literal.array(plain, data) == Literal.array(other, data)
    assert hash(Literal.array(plain, data)) == hash(Literal.array(other, data))


def test_elided_literals_equal_only_themselves():
    first, second = read("f32[2]", "{...}"), read("f32[2]", "{...}")
    assert first == first
    assert first != second
    assert Literal.tuple([first]) != Literal.tuple([second])
    assert Literal.tuple([first]) == Literal.tuple([first])


def test_literals_are_immutable():
    data = np.arange(4, dtype=np.float32)
    literal = literal_of(data)
    data[0] = 9
    assert literal.numpy()[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        literal.numpy()[0] = 9
    with pytest.raises(AttributeError, match="immutable"):
        literal.type = None  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="immutable"):
        del literal.type
    with pytest.raises(TypeError, match="literal_of"):
        Literal()


def test_unused_bits_do_not_count():
    element_type = dtype("s4")
    loose, tight = (np.array([word, 1], np.uint8).view(element_type.numpy) for word in (0xFF, 0x0F))
    assert literal_of(loose) == literal_of(tight)


@given(literals())
@examples(25)
def test_pickle(literal):
    assert pickle.loads(pickle.dumps(Literal.tuple([literal]))) == Literal.tuple([literal])


def test_deep_tuples():
    literal = literal_of(1)
    for _ in range(1500):
        literal = Literal.tuple([literal])
    again = read(literal.type, format_literal(literal))
    assert again == literal
    assert hash(again) == hash(literal)


@pytest.mark.parametrize(
    ("value", "element_type", "text"),
    [
        (True, None, "pred[] true"),
        (3, None, "s32[] 3"),
        (0.1, None, "f32[] 0.1"),
        (1 + 2j, None, "c64[] (1, 2)"),
        ([[1, 2], [3, 4]], None, "s32[2,2]{1,0} { { 1, 2 }, { 3, 4 } }"),
        ([], None, "f32[0]{0} {}"),
        (np.arange(2), None, "s64[2]{0} {0, 1}"),
        (np.arange(2, dtype=">i4"), None, "s32[2]{0} {0, 1}"),
        (np.asfortranarray(np.arange(4, dtype=np.int8).reshape(2, 2)), None, "s8[2,2]{1,0} { { 0, 1 }, { 2, 3 } }"),
        (1.00048828218, "f16", "f16[] 1"),
        ([1, 0], "pred", "pred[2]{0} {1, 0}"),
        (7, "u4", "u4[] 7"),
        (2.0, "s32", "s32[] 2"),
        ([1.5, -2], "c64", "c64[2]{0} {(1.5, 0), (-2, 0)}"),
    ],
)
def test_literal_of(value, element_type, text):
    assert format_typed_literal(literal_of(value, dtype(element_type) if element_type else None)) == text


@pytest.mark.parametrize(
    ("value", "element_type", "message"),
    [
        (2**31, None, "2147483648 does not fit into s32"),
        (300, "u8", "300 does not fit into u8"),
        (1.5, "s32", "1.5 does not fit into s32"),
        (1e6, "f16", "1000000.0 does not fit into f16"),
        (2, "pred", "2 does not fit into pred"),
        (1j, "f32", "complex numbers do not convert to f32"),
        ("a", "f32", "no element type holds numpy's <U1"),
        (2**70, None, "no element type holds numpy's object"),
    ],
)
def test_literal_of_refuses(value, element_type, message):
    with pytest.raises(HloomError, match=re.escape(message)):
        literal_of(value, dtype(element_type) if element_type else None)


def test_misuse():
    with pytest.raises(HloomError, match=r"a literal of type f32\[2\] cannot hold float64\[2\]"):
        Literal.array(tensor("f32[2]"), np.zeros(2))
    with pytest.raises(HloomError, match=r"a literal of type f32\[\] has no elements"):
        _ = literal_of(1.0).elements
    with pytest.raises(HloomError, match="is a tuple"):
        Literal.tuple([]).numpy()
    with pytest.raises(HloomError, match="not known to be one value"):
        literal_of([1, 2]).splat_value()
    with pytest.raises(HloomError, match="this is a literal already"):
        literal_of(literal_of(1))
    with pytest.raises(HloomError, match="larger than numpy's arrays can be"):
        Literal.splat(tensor("f32[9999999999,9999999999]"), np.float32(1))


def test_limit():
    literal = Literal.tuple([literal_of(np.arange(11)), literal_of(np.arange(10)), literal_of(1)])
    assert format_literal(literal, limit=10) == "( {...}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 1 )"
    assert format_literal(literal_of(1), limit=0) == "1"


@pytest.mark.parametrize("array", ["f32[1000000000]", "pred[65536,65536]", "s4[1000000000]", "u8[16777217]"])
def test_zeros_take_no_memory_and_little_text(array: str):
    tracemalloc.start()
    try:
        module = parse(f"ENTRY e {{ ROOT c = {array} constant(0) }}")
        text = print_module(module)
        assert equal(parse(text), module)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert f"{array} constant(0)" in text


def test_fewer_zeros_are_written_one_by_one():
    assert "constant({0, 0, 0})" in print_module(parse("ENTRY e { ROOT c = f32[3] constant(0) }"))


SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, 3.4028234663852886e38, -3.4028234663852886e38, 0.1)


@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128", "s8", "u8", "s32", "u32", "s64", "u64", "pred", "bf16"])
def test_a_few_numbers_are_written_as_many_are(name: str, monkeypatch: pytest.MonkeyPatch):
    """One after another, or all together: the same texts."""
    type_, random = dtype(name), np.random.default_rng(0)
    bits = random.integers(0, 256, 600 * type_.byte_count, dtype=np.uint8)
    numbers = [(bits & 1).view(np.bool_) if name == "pred" else bits.view(type_.numpy)]
    if type_.is_float or type_.is_complex:
        with np.errstate(all="ignore"):
            numbers.append(np.array([*SPECIAL, *random.normal(size=100)]).astype(type_.numpy))
    literals = [
        literal_of(value, type_) for flat in numbers for value in (*flat[:300], flat[:7], flat[:32].reshape(4, -1))
    ]
    few = [format_literal(literal) for literal in literals if literal.numpy().size]
    monkeypatch.setattr("hloom.ir.literal_text._PLAIN_TEXTS", {})
    assert few == [format_literal(literal) for literal in literals]
