"""Attribute values print as HLO writes them; metadata and stack tables answer when asked.

Covers `axis_map.py`, `devices.py`, `mesh.py`, `replica_groups.py`, `metadata.py`, `literal.py`,
`literal_text.py`, `number_conversion.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import (
    METADATA_FIELDS,
    BufferDonor,
    ConvolutionDimensions,
    Domain,
    FileLocation,
    InputOutputAlias,
    Metadata,
    OutputAlias,
    PaddingDimension,
    ResultAccuracy,
    SliceDimension,
    Sparsity,
    StackFrame,
    StackTables,
    Statistics,
    Verbatim,
    Window,
    WindowDimension,
    parse_metadata,
    read_metadata,
)
from hloom.text import Cursor, ParseError, Source


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Window(), "{}"),
        (Window((WindowDimension(2), WindowDimension(3, 2))), "{size=2x3 stride=1x2}"),
        (
            Window((WindowDimension(2, 1, -1, 0, 2, 3, True), WindowDimension())),
            "{size=2x1 pad=-1_0x0_0 lhs_dilate=2x1 rhs_dilate=3x1 rhs_reversal=1x0}",
        ),
        (ConvolutionDimensions("b01f", "01io", "b01f"), "b01f_01io->b01f"),
        (PaddingDimension(0, -1), "0_-1"),
        (PaddingDimension(0, 1, 2), "0_1_2"),
        (SliceDimension(0, 4), "[0:4]"),
        (SliceDimension(0, 4, 2), "[0:4:2]"),
        (OutputAlias((0,), 1, ()), "{0}: (1, {})"),
        (InputOutputAlias((), 0, (1, 2)), "{}: (0, {1,2}, may-alias)"),
        (BufferDonor(0, (1,)), "(0, {1})"),
        (Domain("sharding", "{replicated}", "{manual}"), '{kind="sharding", entry={replicated}, exit={manual}}'),
        (Statistics(1, (("a", 0.5), ("b", 1e9))), "{visualizing_index=1,a=0.5,b=1e+09}"),
        (ResultAccuracy("highest"), "{mode=highest}"),
        (ResultAccuracy("", 0.5, 1e-5, 2), "{tolerance={atol=0.5,rtol=1e-05,ulps=2}}"),
        (Sparsity("{lhs={}}"), "{lhs={}}"),
        (Verbatim("{anything}"), "{anything}"),
    ],
)
def test_values_print_as_hlo(value: object, text: str):
    assert str(value) == text
    assert hash(value) == hash(value)


def test_convolution_dimensions_find_the_spatial_ones():
    labels = ConvolutionDimensions("b10f", "0?1io", "bf01")
    assert labels.spatial_rank == 2
    assert labels.spatial(labels.lhs) == (2, 1)
    assert labels.spatial(labels.rhs) == (0, 2)


# Metadata

integers = st.integers(0, 2**63 - 1)
texts = st.text(max_size=20)
metadata = st.builds(
    Metadata,
    **{
        name: {"": texts, 0: integers, (): st.lists(integers, max_size=3).map(tuple)}[value]
        for name, value in METADATA_FIELDS.items()
    },  # type: ignore[index,arg-type]
)


@given(metadata)
def test_metadata_reads_back(value: Metadata):
    assert parse_metadata(value.text()) == value


def test_metadata_fields_stand_in_any_order_with_or_without_commas():
    text = """source_line=3, op_name='jit(f)/"x"' profile_type={1, 2} /* comment */ metadata_payload="\\101" """
    assert parse_metadata(text) == Metadata(
        op_name='jit(f)/"x"', source_line=3, profile_type=(1, 2), metadata_payload="A"
    )
    assert parse_metadata("") == Metadata()


def test_metadata_ends_at_a_brace():
    cursor = Cursor(Source('op_type="a"} rest'))
    assert read_metadata(cursor) == Metadata(op_type="a")
    assert cursor.peek() == "}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op_name", "metadata:1:1: expected a metadata field and '=', found 'op_name'"),
        ("line=3", "metadata:1:1: no metadata field is called 'line'"),
        ("source_line=3 source_line=3", "metadata:1:15: metadata field 'source_line' is given twice"),
        ("op_name=3", "metadata:1:9: expected a string, found '3'"),
        ('op_name="\\q"', "metadata:1:9: bad string: unknown escape '\\q'"),
        ("source_line=x", "metadata:1:13: expected an integer, found 'x'"),
        ("source_line=9223372036854775808", "metadata:1:13: integer 9223372036854775808 does not fit into 64 bits"),
        ("profile_type={x}", "metadata:1:14: expected '{' and integers, found '{'"),
    ],
)
def test_malformed_metadata_is_refused(text: str, message: str):
    with pytest.raises(ParseError) as caught:
        parse_metadata(text)
    assert str(caught.value).split("\n")[0] == message


def test_an_unknown_field_is_answered_with_those_there_are():
    with pytest.raises(ParseError) as caught:
        parse_metadata("line=3")
    assert str(caught.value).endswith(f"the fields are {', '.join(METADATA_FIELDS)}")


# Stack tables


def test_a_trace_goes_from_the_innermost_frame_outwards():
    tables = StackTables(
        {1: "a.py", 2: "b.py"},
        {1: "f"},
        {1: FileLocation(1, 1, 10), 2: FileLocation(2, 7, 20)},
        {1: StackFrame(2), 2: StackFrame(1, 1), 3: StackFrame(9, 3)},
    )
    assert [str(frame) for frame in tables.trace(2)] == ["a.py:10 (f)", "b.py:20 (?)"]
    assert [str(frame) for frame in tables.trace(3)] == ["?:0 (?)"]
    assert tables.trace(0) == []
