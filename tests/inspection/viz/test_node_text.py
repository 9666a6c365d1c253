"""What is read from metadata in one pass is what the careful reader reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.inspection.viz import DrawnNode, drawing_of
from hloom.inspection.viz.node_text import clean, metadata_fields
from hloom.ir import Metadata, StackTables, TensorType, dtype, literal_of, parse_metadata
from hloom.ir.metadata import FileLocation, StackFrame
from tests.inspection.viz.build import F32_2, apply, module_with, strange_text

metadatas = st.builds(
    Metadata,
    op_type=strange_text.map(clean),
    op_name=strange_text.map(clean),
    source_file=strange_text.map(clean),
    source_line=st.integers(0, 99),
    profile_type=st.lists(st.integers(0, 3)).map(tuple),
    stack_frame_id=st.integers(0, 9),
)


def drawn_with(metadata: str | None, tables: StackTables | None = None) -> DrawnNode:
    module, main = module_with()
    module.stack_tables = tables
    apply("negate", main.add_parameter(F32_2, "x"), metadata=metadata)
    return next(node for node in drawing_of(module).nodes if node.name == "negate")


@given(metadatas)
def test_metadata_is_read_as_the_careful_reader_reads_it(metadata):
    careful = parse_metadata(metadata.text())
    read = metadata_fields(metadata.text())
    expected = {name: getattr(careful, name) for name in read}
    profile = expected.get("profile_type")
    if profile is not None:
        expected["profile_type"] = "{" + ",".join(map(str, profile)) + "}"
    assert read == expected
    assert Metadata(**{**read, **({"profile_type": profile} if profile else {})}) == careful


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ("", {}),
        ("nonsense", {}),
        ('op_name="open', {}),
        ('op_name="a" ??? source_line=3', {"op_name": "a"}),
        ("op_name='a' source_file=\"op_name=1\"", {"op_name": "a", "source_file": "op_name=1"}),
        (r'op_name="bad \q escape"', {"op_name": r"bad \q escape"}),
    ],
)
def test_malformed_metadata_is_read_as_far_as_it_goes(raw, fields):
    assert metadata_fields(raw) == fields


def test_scope_and_location():
    node = drawn_with('op_name="a/b" source_file="x.py" source_line=3')
    assert (node.scope, node.location) == ("a/b", "x.py:3")
    assert (drawn_with(None).scope, drawn_with(None).location) == ("", "")
    assert drawn_with('source_file="x.py"').location == "x.py"


def test_the_location_is_looked_up_in_the_stack_tables():
    tables = StackTables({1: "deep.py"}, {}, {1: FileLocation(1, 0, line=7)}, {2: StackFrame(1)})
    assert drawn_with("stack_frame_id=2", tables).location == "deep.py:7"
    assert drawn_with("stack_frame_id=9", tables).location == ""


def test_constants_show_their_values_when_they_are_small():
    module, main = module_with()
    f32 = dtype("f32")
    for name, value in {"one": 2.5, "few": [1.0, 2.0], "same": [3.0] * 99, "many": list(range(99))}.items():
        literal = literal_of(value, f32)
        main.add_constant(literal, literal.type, name)
    values = {node.name: node.value for node in drawing_of(module).nodes}
    assert values == {"one": "2.5", "few": "{1, 2}", "same": "{3, ...}", "many": "{...}"}


def test_types_are_whole_and_labels_leave_the_layout_out():
    module, main = module_with()
    main.add_parameter(TensorType(dtype("bf16"), (4, 8)), "x")
    main.add_parameter(None, "untyped")
    assert [node.type for node in drawing_of(module).nodes] == ["bf16[4,8]", "?"]


def test_long_texts_are_cut_in_labels():
    module, main = module_with()
    apply("custom-call", main.add_parameter(F32_2, "x"), name="y" * 500, custom_call_target="t" * 5000)
    drawn = list(drawing_of(module).nodes)[1]
    assert max(map(len, drawn.label.split("\n"))) == 80
    assert drawn.name == "y" * 500
    assert len(drawn.attributes["custom_call_target"]) == 1000
