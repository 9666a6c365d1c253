"""HLO text in, the module's parts out: every section of the grammar, by name.

Covers `header_reader.py`, `instruction_reader.py`, `attribute_reader.py`, `type_reader.py`,
`async_sugar_reader.py`, `reader_state.py`, `tokens.py`, `value_reader.py`.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from hloom.formats.hlo import PrintOptions, parse, print_module, print_node
from hloom.ir import (
    COMBINED,
    EMPTY_TUPLE,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    Apply,
    BufferDonor,
    BufferType,
    Constant,
    ConvolutionDimensions,
    FileLocation,
    Graph,
    InputOutputAlias,
    Literal,
    Missing,
    Module,
    Node,
    OutputAlias,
    PaddingDimension,
    Parameter,
    SliceDimension,
    StackFrame,
    TensorType,
    TupleType,
    Unresolved,
    Verbatim,
    WindowDimension,
    difference,
    dtype,
)
from hloom.text import HloomError, HloomWarning, ParseError
from tests.corpus import handwritten


def body(*instructions: str) -> Graph:
    """The entry of a module with these instructions."""
    return parse("HloModule m\n\nENTRY e {\n" + "".join(f"  {line}\n" for line in instructions) + "}\n").entry


def one(instruction: str, *before: str) -> Node:
    """The last instruction, read behind parameters x and y of f32[4]."""
    return body("x = f32[4] parameter(0)", "y = f32[4] parameter(1)", *before, f"ROOT {instruction}").root


def same(left: str, right: str) -> None:
    """Two texts mean the same module, names included."""
    assert difference(parse(left), parse(right)) is None
    bare = PrintOptions(metadata=False)
    assert print_module(parse(left), bare) == print_module(parse(right), bare)


def value(node: Node) -> np.ndarray:
    assert isinstance(node, Constant) and isinstance(node.value, Literal)
    return node.value.numpy()


# What people paste: three computations out of a TensorFlow program of 2020


@pytest.fixture(scope="module")
def reduction() -> Module:
    return parse(handwritten()["fragments/fused_computation.19.clone"])


def test_a_pasted_computation_is_a_module_of_its_own(reduction: Module):
    assert reduction.name == "module_fused_computation.19.clone"
    assert reduction.entry.name == "fused_computation.19.clone"
    assert [graph.name for graph in reduction] == ["fused_computation.19.clone"]


def test_its_parameters_stand_by_number_not_by_line(reduction: Module):
    names = [(parameter.name, parameter.number) for parameter in reduction.entry.parameters]
    assert names == [("param_0.16672", 0), ("param_1.23221", 1)]
    assert [str(parameter.type) for parameter in reduction.entry.parameters] == [
        "f32[4,49,1024]{2,1,0}",
        "f32[196,1024]{1,0}",
    ]


def test_its_instructions_keep_their_order(reduction: Module):
    opcodes = [node.opcode for node in reduction.entry.nodes]
    assert opcodes == ["parameter", "reshape", "parameter", "multiply", "constant", "reduce"]


def test_a_layout_is_no_part_of_the_dimensions(reduction: Module):
    node_type = reduction.entry["multiply.14985"].type
    assert isinstance(node_type, TensorType) and node_type.layout is not None
    assert (node_type.dtype, node_type.dims, node_type.layout.minor_to_major) == (
        dtype("f32"),
        (4, 49, 1024),
        (2, 1, 0),
    )


def test_its_root_reduces_with_a_computation_that_is_nowhere(reduction: Module):
    root = reduction.entry.root
    assert (root.name, root.opcode, root.attributes["dimensions"]) == ("reduce.1954", "reduce", (0, 1))
    reducer = root.attributes["to_apply"]
    assert isinstance(reducer, Graph) and reducer.is_declared
    assert reduction.unresolved == [Unresolved(reducer.name, "computation")]
    assert reducer.name.endswith("mul_1_grad_Sum_1-reduction.48850")


def test_typed_operands_are_the_nodes_themselves(reduction: Module):
    graph = reduction.entry
    assert graph["multiply.14985"].operands == (graph["reshape.13330"], graph["param_0.16672"])
    assert graph.root.operands == (graph["multiply.14985"], graph["constant.11228"])


def test_metadata_gives_op_type_and_op_name(reduction: Module):
    metadata = reduction.entry["reshape.13330"].metadata
    assert metadata is not None
    assert metadata.op_type == "Reshape"
    assert metadata.op_name.startswith("training/gradients/transformer/parallel_0_5/")
    assert metadata.op_name.endswith("conv1/Tensordot/Reshape_grad/Reshape")
    assert reduction.entry["param_1.23221"].metadata is None


def test_a_large_pasted_computation():
    graph = parse(handwritten()["fragments/fused_computation.3461.clone"]).entry
    assert (len(graph.parameters), len(graph.nodes)) == (15, 46)
    assert [parameter.number for parameter in graph.parameters] == list(range(15))
    assert graph.root.name == "add.9075"
    assert graph["broadcast.18365"].attributes == {"dimensions": ()}
    assert value(graph["constant.8355"]) == np.False_


def test_a_pasted_instruction_makes_its_operands_parameters():
    module = parse(handwritten()["fragments/fusion.8228"])
    assert (module.name, module.is_scheduled) == ("_", True)
    root = module.entry.root
    assert (root.name, root.opcode, str(root.type)) == ("fusion.8228", "fusion", "f32[4,32,48,32]{3,2,1,0}")
    assert [(p.name, str(p.type)) for p in module.entry.parameters] == [
        ("dot.2067", "f32[192,1024]{1,0}"),
        ("arg217.0", "f32[]"),
    ]
    assert root.attributes["kind"] == "kLoop"
    assert [str(name) for name in module.unresolved] == ["computation fused_computation.4684.clone"]


# What defeats string matching


def test_an_instruction_without_operands():
    assert one("a = s32[4] iota(), iota_dimension=0").operands == ()
    assert one("a = u32[] replica-id()").operands == ()
    assert one("a = () tuple()").type is EMPTY_TUPLE


def test_an_operand_that_is_a_plain_number():
    parameter, constant = body("p = f32[2] parameter(0)", "c = s32[] constant(7)").nodes
    assert isinstance(parameter, Parameter) and parameter.number == 0
    assert value(constant) == 7


def test_several_results():
    node = one('a = (f32[4]{0}, (s32[], pred[2]), token[]) custom-call(x, y), custom_call_target="f"')
    assert isinstance(node.type, TupleType)
    assert [str(element) for element in node.type.elements] == ["f32[4]{0}", "(s32[], pred[2])", "token[]"]


def test_a_tuple_with_an_index_at_every_fifth_element():
    node = one("a = (f32[4], f32[4], f32[4], f32[4], f32[4], /*index=5*/f32[4]) tuple(x, y, x, y, x, /*index=5*/y)")
    assert isinstance(node.type, TupleType) and len(node.type.elements) == 6
    assert [operand.name for operand in node.operands] == ["x", "y", "x", "y", "x", "y"]


def test_an_attribute_that_is_a_dict():
    node = one('a = f32[4] negate(x), frontend_attributes={b="1, {2}",a={"k":[1,{"l":"}"}]}}')
    assert node.attributes["frontend_attributes"] == (("a", '{"k":[1,{"l":"}"}]}'), ("b", "1, {2}"))


def test_an_attribute_that_is_a_list_of_numbers():
    assert one("a = f32[4,3] broadcast(x), dimensions={0}").attributes["dimensions"] == (0,)


def test_an_attribute_that_is_slices():
    node = one("a = f32[2] slice(x), slice={[1:3]}")
    assert node.attributes["slice"] == (SliceDimension(1, 3),)
    node = one("a = f32[2,1] slice(z), slice={[0:4:2], [2:3]}", "z = f32[4,3] parameter(2)")
    assert node.attributes["slice"] == (SliceDimension(0, 4, 2), SliceDimension(2, 3))


def test_an_attribute_that_is_a_string_with_anything_inside():
    node = one(r'a = f32[4] custom-call(x), custom_call_target="a, b={c} \"d\" \\ (e) /*f*/ \303\251 \n"')
    assert node.attributes["custom_call_target"] == 'a, b={c} "d" \\ (e) /*f*/ é \n'
    node = one("a = f32[4] custom-call(x), custom_call_target='say \"é\"'")
    assert node.attributes["custom_call_target"] == 'say "é"'


def test_an_attribute_that_is_a_computation():
    module = parse(
        "f { ROOT a = f32[] parameter(0) } ENTRY e { x = f32[] parameter(0) ROOT c = f32[] call(x), to_apply=%f }"
    )
    assert module.entry.root.attributes["to_apply"] is module["f"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-5", 1e-5),
        ("-1.5E+3", -1500),
        ("2.", 2),
        ("-.5", -0.5),
        ("inf", np.inf),
        ("-inf", -np.inf),
        ("3", 3),
        ("-0.0", -0.0),
    ],
)
def test_scientific_numbers_and_infinities(text: str, expected: float):
    number = value(one(f"a = f32[] constant({text})"))
    assert number == np.float32(expected) and np.signbit(number) == np.signbit(expected)


@pytest.mark.parametrize(("text", "bits"), [("nan", 0x7FC00000), ("-nan", 0xFFC00000), ("nan(0x1)", 0x7F800001)])
def test_nans_keep_their_bits(text: str, bits: int):
    assert value(one(f"a = f32[] constant({text})")).view(np.uint32) == bits


# Modules


def test_names_and_header_attributes():
    module = parse(handwritten()["module_header_every_attribute"])
    known = set(module.attributes)
    assert {"is_scheduled", "input_output_alias", "buffer_donor", "entry_computation_layout", "replica_count"} <= known


def test_header_values():
    module = parse(
        "HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}), {1}: (1, {0}, must-alias) }, "
        "buffer_donor={ (2, {0,1}) }, entry_computation_layout={(f32[2]{0})->s32[]}, "
        "allow_spmd_sharding_propagation_to_parameters={true,false}, "
        "allow_spmd_sharding_propagation_to_output=true, replica_count=2, num_partitions=4, "
        'frontend_attributes={a="b"}\n\nENTRY e {\n  x = f32[2] parameter(0)\n}\n'
    )
    attributes = module.attributes
    assert attributes["input_output_alias"] == (
        InputOutputAlias((), 0, (), "may-alias"),
        InputOutputAlias((1,), 1, (0,), "must-alias"),
    )
    assert attributes["buffer_donor"] == (BufferDonor(2, (0, 1)),)
    assert str(attributes["entry_computation_layout"]) == "(f32[2]{0}) -> s32[]"
    assert attributes["allow_spmd_sharding_propagation_to_parameters"] == (True, False)
    assert attributes["allow_spmd_sharding_propagation_to_output"] is True
    assert (attributes["replica_count"], attributes["num_partitions"]) == (2, 4)
    assert attributes["frontend_attributes"] == (("a", "b"),)
    assert module.is_scheduled


def test_stack_tables():
    tables = parse(handwritten()["module_stack_tables"]).stack_tables
    assert tables is not None
    assert tables.file_names[2] == '/home/me/a "quoted" name.py'
    assert tables.function_names[1] == "train_step"
    assert tables.file_locations[1] == FileLocation(1, 1, 10, 10, 4, 20)
    assert tables.stack_frames[2] == StackFrame(2, 0)


PLAIN = """HloModule m

%f (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %e (x: f32[4]) -> f32[] {
  %x = f32[4]{0} parameter(0)
  %zero = f32[] constant(0)
  ROOT %sum = f32[] reduce(%x, %zero), dimensions={0}, to_apply=%f, metadata={op_type="Sum" op_name="a/b"}
}
"""


def test_line_ends_of_every_system():
    same(PLAIN.replace("\n", "\r\n"), PLAIN)
    same(PLAIN.replace("\n", "\r"), PLAIN)


def test_tabs_and_blank_lines():
    same(PLAIN.replace("  ", "\t").replace("\n", "\n\n \t\n"), PLAIN)


def test_a_module_on_one_line():
    same(PLAIN.replace("\n", " "), PLAIN)


def test_a_module_broken_at_every_space():
    same(PLAIN.replace(" ", "\n"), PLAIN)


def test_comments_anywhere():
    same(re.sub(r" (?=[%(=])", " /* , } * */ ", PLAIN).replace("\n", " // to the end )\n"), PLAIN)


def test_lines_that_are_only_comments():
    same(PLAIN.replace("\n  %", "\n  // a line of its own\n\n  %"), PLAIN)


def test_percent_signs_mean_nothing():
    same(PLAIN.replace("%", ""), PLAIN)


def test_signatures_mean_nothing():
    same(re.sub(r" \(.*\) -> \S+ \{", " {", PLAIN), PLAIN)


def test_a_byte_order_mark_is_skipped_but_not_in_strict_mode():
    same("\ufeff" + PLAIN, PLAIN)
    with pytest.raises(ParseError):
        parse("\ufeff" + PLAIN, strict=True)


def test_the_entry_is_the_marked_computation_else_the_last():
    assert parse("ENTRY a { x = f32[] parameter(0) } b { x = f32[] parameter(0) }").entry.name == "a"
    assert parse("a { x = f32[] parameter(0) } b { x = f32[] parameter(0) }").entry.name == "b"


def test_the_root_is_the_marked_instruction_else_the_last():
    assert body("a = f32[] parameter(0)", "ROOT b = f32[] negate(a)", "c = f32[] abs(a)").root.name == "b"
    assert body("a = f32[] parameter(0)", "b = f32[] negate(a)", "c = f32[] abs(a)").root.name == "c"


def test_one_instruction_without_a_name():
    module = parse("add(f32[2], f32[2])")
    assert [(node.name, node.opcode) for node in module.entry.nodes] == [
        ("_0", "parameter"),
        ("_1", "parameter"),
        ("_", "add"),
    ]


def test_several_instructions_share_what_they_do_not_define():
    graph = parse("b = f32[2] negate(a)\nc = f32[2] add(b, f32[2] a)").entry
    assert [node.name for node in graph.nodes] == ["a", "b", "c"]
    assert graph["c"].operands == (graph["b"], graph["a"])


def test_the_same_name_in_two_computations():
    module = parse("f { x = f32[] parameter(0) } ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f }")
    assert module["f"]["x"] is not module["e"]["x"]


def test_an_execution_thread():
    module = parse(
        'HloModule m\n\nf {\n  a = f32[] parameter(0)\n}, execution_thread="side"\n\nENTRY e {\n  a = f32[] parameter(0)\n}\n'
    )
    assert (module["f"].execution_thread, module.entry.execution_thread) == ("side", None)


def test_a_computation_nested_in_an_attribute():
    module = parse(
        "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
        "  r = f32[] reduce(x, z), dimensions={0}, to_apply={\n    a = f32[] parameter(0)\n"
        "    b = f32[] parameter(1)\n    ROOT c = f32[] add(a, b)\n  }\n"
        "  ROOT s = f32[] reduce(x, z), dimensions={0}, to_apply={ a = f32[] parameter(0) b = f32[] parameter(1) "
        "ROOT c = f32[] add(a, b) }\n}\n"
    )
    assert [graph.name for graph in module] == ["_", "_.1", "e"]
    assert module.entry["r"].attributes["to_apply"] is module["_"]
    assert module.entry.root.attributes["to_apply"] is module["_.1"]


# Instructions


def test_attributes_come_in_the_order_of_the_row_whatever_the_texts():
    node = one("a = f32[] dot(x, y), metadata={}, rhs_contracting_dims={0}, lhs_contracting_dims={0}")
    assert list(node.attributes) == ["lhs_contracting_dims", "rhs_contracting_dims"]


def test_a_value_that_is_the_default_is_left_out():
    assert dict(
        one('a = f32[4] custom-call(x), custom_call_target="f", custom_call_has_side_effect=false').attributes
    ) == {"custom_call_target": "f"}


def test_a_trailing_comma_among_operands():
    assert [operand.name for operand in one("a = f32[4] add(x, y,)").operands] == ["x", "y"]


def test_nested_operands_get_names_of_their_opcodes():
    graph = one("a = f32[4] add(f32[4] negate(f32[4] abs(x)), f32[4] negate(y))").graph
    assert [node.name for node in graph.nodes[2:]] == ["abs.anon", "negate.anon", "negate.anon.1", "a"]
    assert graph.root.operands == (graph["negate.anon"], graph["negate.anon.1"])


def test_constants_and_parameters_as_operands():
    graph = body("ROOT a = f32[] add(f32[] parameter(0), f32[] constant(2))")
    assert [node.opcode for node in graph.root.operands] == ["parameter", "constant"]


def test_compact_elements_of_tuples():
    graph = body("t = (f32[2], (s32[], f32[3])) parameter(0)", "ROOT a = f32[3] negate(f32[3] t#1#1)")
    (element,) = graph.root.operands
    assert (element.opcode, element.attributes["index"], str(element.type)) == ("get-tuple-element", 1, "f32[3]")
    (outer,) = element.operands
    assert (outer.attributes["index"], str(outer.type), outer.operands) == (1, "(s32[], f32[3])", (graph["t"],))


def test_an_instruction_continued_on_the_next_line():
    graph = body(
        "x = f32[4] parameter(0)", "y = f32[4] negate(x)", '  , metadata={op_name="late"}', "z = f32[4] abs(y)"
    )
    assert [node.name for node in graph.nodes] == ["x", "y", "z"]
    assert graph["y"].raw_metadata == 'op_name="late"'


def test_async_sugar_becomes_a_computation_of_its_own():
    graph = body(
        "x = f32[32] parameter(0)",
        's = ((f32[32]), f32[8], u32[]) slice-start(x), slice={[0:8]}, async_execution_thread="side"',
        "u = ((f32[32]), f32[8], u32[]) slice-update(s)",
        "ROOT d = f32[8] slice-done(u)",
    )
    start, update, done = graph.nodes[1:]
    assert [node.opcode for node in (start, update, done)] == ["async-start", "async-update", "async-done"]
    assert (update.operands, done.operands) == ((start,), (update,))
    assert start.attributes["async_execution_thread"] == "side"
    wrapped = start.attributes["calls"]
    assert isinstance(wrapped, Graph) and wrapped.name == "async_wrapped"
    assert [print_node(node) for node in wrapped.nodes] == [
        "%param_0 = f32[32] parameter(0)",
        "%slice = f32[8] slice(%param_0), slice={[0:8]}",
    ]


def test_every_kind_of_attribute():
    def attribute(name: str, instruction: str, *before: str) -> object:
        return one(instruction, *before).attributes[name]

    assert attribute(
        "window", "a = f32[2] reduce-window(x, y), window={size=3 stride=2 pad=1_0 rhs_reversal=1}, to_apply=f"
    ).dimensions == (WindowDimension(size=3, stride=2, padding_low=1, padding_high=0, reversal=True),)  # type: ignore[attr-defined]
    labels = attribute("dim_labels", "a = f32[4] convolution(x, y), dim_labels=b01f_01io->b01f")
    assert labels == ConvolutionDimensions("b01f", "01io", "b01f")
    assert attribute("padding", "a = f32[9] pad(x, y), padding=-1_2_1") == (PaddingDimension(-1, 2, 1),)
    assert attribute("operand_precision", "a = f32[] dot(x, y), operand_precision={HIGH,default}") == (
        "high",
        "default",
    )
    assert attribute("algorithm", "a = f32[] dot(x, y), algorithm=dot_bf16_bf16_f32_x3") == "dot_bf16_bf16_f32_x3"
    assert attribute("direction", "a = pred[4] compare(x, y), direction=NE") == "NE"
    assert attribute("source_target_pairs", "a = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}") == (
        (0, 1),
        (1, 0),
    )
    assert attribute(
        "output_to_operand_aliasing",
        "a = f32[4] fusion(x), kind=kLoop, calls=f, output_to_operand_aliasing={{}: (0, {})}",
    ) == (OutputAlias((), 0, ()),)
    assert attribute("outfeed_shape", "a = token[] outfeed(x, y), outfeed_shape=f32[4]{0}") is attribute(
        "outfeed_shape", "a = token[] outfeed(x, y), outfeed_shape=f32[4]{0}"
    )
    assert attribute("epsilon", "a = f32[4] batch-norm-inference(x,x,x,x,x), epsilon=1e-05, feature_index=0") == 1e-5
    assert attribute(
        "literal", 'a = f32[] custom-call(), custom_call_target="f", literal=(s32[] 1, f32[2]{0} {1,2})'
    ).is_tuple  # type: ignore[attr-defined]
    assert attribute(
        "parameter_replication", "a = (f32[], f32[]) parameter(2), parameter_replication={true,false}"
    ) == (
        True,
        False,
    )
    statistics = attribute("statistics", "a = f32[4] negate(x), statistics={visualizing_index=0,cycles=1.5}")
    assert (statistics.visualizing_index, statistics.values) == (0, (("cycles", 1.5),))  # type: ignore[attr-defined]
    odd = attribute("statistics", "a = f32[4] negate(x), statistics={visualizing_index=0,a=nan(0x7fffff),b=-inf}")
    assert str(odd.values) == "(('a', nan), ('b', -inf))"  # type: ignore[attr-defined]
    assert str(attribute("result_accuracy", "a = f32[4] tanh(x), result_accuracy={mode=highest}")) == "{mode=highest}"
    assert attribute("backend_config", 'a = f32[4] negate(x), backend_config={"a":{"b":"}"}}') == '{"a":{"b":"}"}}'
    assert attribute("backend_config", 'a = f32[4] negate(x), backend_config="a\\nb"') == "a\nb"
    assert attribute("origin", 'a = f32[4] negate(x), origin={{"x" {0}}}') == '{{"x" {0}}}'
    branches = attribute(
        "branch_computations", "a = f32[4] conditional(i, x, y), branch_computations={f, %g}", "i = s32[] constant(0)"
    )
    assert [branch.name for branch in branches] == ["f", "g"]  # type: ignore[attr-defined]
    first = one("a = f32[4] negate(x), control-predecessors={x, %y}")
    assert first.attributes["control-predecessors"] == (first.graph["x"], first.graph["y"])


# Types


@pytest.mark.parametrize(
    ("text", "dims", "dynamic"),
    [
        ("f32[]", (), None),
        ("f32[2,3]", (2, 3), None),
        ("f32[0]", (0,), None),
        ("f32[<=5,2]", (5, 2), (True, False)),
        ("f32[?,2]", (UNBOUNDED, 2), (True, False)),
    ],
)
def test_arrays(text: str, dims: tuple[int, ...], dynamic: tuple[bool, ...] | None):
    node_type = one(f'a = {text} custom-call(), custom_call_target="f"').type
    assert isinstance(node_type, TensorType)
    assert (node_type.dims, node_type.dynamic, node_type.layout, str(node_type)) == (dims, dynamic, None, text)


def test_a_layout_may_stand_apart_from_its_type():
    assert (
        one('a = f32[2,3] {0,1} custom-call(), custom_call_target="f"').type
        is one('a = f32[2,3]{0,1} custom-call(), custom_call_target="f"').type
    )


def test_every_part_of_a_layout():
    node_type = one(
        'a = f32[8,8]{0,1:D(D,C+~)T(8,*)(2,1)L(64)#(u32)*(u64)E(32)S(5)SC(0:2,4)M(8)} custom-call(), custom_call_target="f"'
    ).type
    assert isinstance(node_type, TensorType) and node_type.layout is not None
    layout = node_type.layout
    assert (layout.minor_to_major, layout.tiles, layout.tail_padding) == ((0, 1), ((8, COMBINED), (2, 1)), 64)
    assert (layout.index_type, layout.pointer_type, layout.element_bits, layout.memory_space) == ("u32", "u64", 32, 5)
    assert (layout.split_configs[0].dimension, layout.split_configs[0].indices) == (0, (2, 4))
    assert layout.metadata_prefix_bytes == 8


def test_types_that_are_no_arrays():
    assert one("a = token[] after-all()").type is TOKEN
    assert one('a = opaque[] custom-call(), custom_call_target="f"').type is OPAQUE
    assert one('a = b(f32[2]) custom-call(), custom_call_target="f"').type is BufferType(TensorType(dtype("f32"), (2,)))


# What is not there


def test_a_name_that_nothing_defines_is_marked_and_listed():
    module = parse("HloModule m\n\nENTRY e {\n  a = f32[2] negate(f32[2] lost)\n  ROOT b = f32[2] add(a, gone)\n}\n")
    lost, gone = module.entry.missing
    assert isinstance(lost, Missing) and str(lost.type) == "f32[2]" and gone.type is None
    assert module.entry.root.operands == (module.entry["a"], gone)
    assert [str(name) for name in module.unresolved] == ["operand lost in e", "operand gone in e"]


def test_a_missing_name_used_twice_is_one_node():
    graph = parse("HloModule m\n\nENTRY e {\n  a = f32[2] negate(lost)\n  ROOT b = f32[2] add(a, lost)\n}\n").entry
    assert len(graph.missing) == 1 and graph["a"].operands[0] is graph.root.operands[1]


def test_a_parameter_whose_line_is_lost_comes_back_from_the_signature():
    graph = parse(
        'HloModule m\n\nENTRY e (a: f32[2], b: s32[]) -> f32[2] {\n  ROOT c = f32[2] custom-call(b, a), custom_call_target="f"\n}\n'
    ).entry
    assert [(p.name, p.number, str(p.type)) for p in graph.parameters] == [("a", 0, "f32[2]"), ("b", 1, "s32[]")]


def test_a_computation_may_be_defined_after_its_caller():
    module = parse("ENTRY e { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=f } f { a = f32[] parameter(0) }")
    assert module.entry.root.attributes["to_apply"] is module["f"]
    assert module.unresolved == []


@pytest.mark.parametrize("name", ["dangling_calls_of_every_kind", "dangling_to_apply"])
def test_computations_that_nothing_defines_are_listed(name: str):
    module = parse(handwritten()[f"fragments/{name}"])
    assert module.unresolved and all(unresolved.referent == "computation" for unresolved in module.unresolved)


def test_an_unknown_opcode_is_kept_with_a_warning():
    with pytest.warns(HloomWarning, match=r"<text>:5:14: no opcode is called 'frobnicate': kept as it is"):
        module = parse(
            'HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  a = f32[4] frobnicate(x), depth={1, {2}}, name="q"\n}\n'
        )
    node = module.entry.root
    assert isinstance(node, Apply) and not node.op.is_known
    assert node.attributes == {"depth": Verbatim("{1, {2}}"), "name": Verbatim('"q"')}
    assert print_node(node) == '%a = f32[4] frobnicate(%x), depth={1, {2}}, name="q"'


def test_an_unknown_attribute_is_kept_with_a_warning():
    with pytest.warns(HloomWarning, match=r"<text>:5:25: negate has no attribute 'speed': kept as it is"):
        module = parse(
            "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  a = f32[4] negate(x), speed=[a:b](c), sharding={replicated}\n}\n"
        )
    assert module.entry.root.attributes["speed"] == Verbatim("[a:b](c)")
    assert print_node(module.entry.root) == "%a = f32[4] negate(%x), sharding={replicated}, speed=[a:b](c)"


def test_an_unknown_header_attribute_is_kept_with_a_warning():
    with pytest.warns(HloomWarning, match="no header attribute is called 'colour': kept as it is"):
        module = parse("HloModule m, colour={red}\n\nENTRY e {\n  x = f32[4] parameter(0)\n}\n")
    assert module.attributes["colour"] == Verbatim("{red}")


def test_every_unknown_thing_is_noted_at_its_own_place():
    text = (
        "HloModule m\n\nENTRY e {\n  x = f32[] foo()\n\n  y = f32[] bar()\n  z = f32[] negate(y), odd=1, strange=2\n}\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = parse(text, name="m.hlo").notes
    assert notes == [
        "m.hlo:4:13: no opcode is called 'foo': kept as it is",
        "m.hlo:6:13: no opcode is called 'bar': kept as it is",
        "m.hlo:7:24: negate has no attribute 'odd': kept as it is",
        "m.hlo:7:31: negate has no attribute 'strange': kept as it is",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  a = f32[4] frobnicate(x)\n}\n",
        "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  a = f32[4] negate(x), speed=1\n}\n",
        "HloModule m, colour=red\n\nENTRY e {\n  x = f32[4] parameter(0)\n}\n",
        "HloModule m\n\nENTRY e {\n  a = f32[4] negate(lost)\n}\n",
    ],
)
def test_strict_mode_keeps_nothing_unknown(text: str):
    with pytest.raises(ParseError):
        parse(text, strict=True)


def test_malformed_metadata_is_an_error_when_it_is_asked_for():
    text = 'HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0), metadata={op_nmae="a"}\n}\n'
    for spelling in (text, text.replace("\n", " ")):
        node = parse(spelling).entry.root
        assert node.raw_metadata == 'op_nmae="a"'
        with pytest.raises(HloomError, match="no metadata field is called 'op_nmae'"):
            _ = node.metadata
        with pytest.raises(ParseError):
            parse(spelling, strict=True)


# The years


@pytest.mark.parametrize(
    "name", [name for name in handwritten() if name.startswith(("year_2026/", "tensorflow_2020/"))]
)
def test_texts_of_other_years_read_without_a_warning(name: str):
    module = parse(handwritten()[name])
    assert module.notes == [] and module.unresolved == []


@pytest.mark.parametrize(
    "name", [name for name in handwritten() if name.startswith(("year_2026/", "tensorflow_2020/"))]
)
def test_texts_of_other_years_are_refused_in_strict_mode(name: str):
    with pytest.raises(ParseError):
        parse(handwritten()[name], strict=True)


def test_what_2020_had():
    graph = parse(handwritten()["tensorflow_2020/tuple_select"]).entry
    assert graph.root.opcode == "tuple-select"
    graph = parse(handwritten()["tensorflow_2020/outer_dimension_partitions"]).entry
    assert graph.nodes[1].attributes["outer_dimension_partitions"] == (0, 2, 4)


def test_what_2026_has():
    texts = handwritten()
    assert parse(texts["year_2026/topk_is_stable"]).entry.root.attributes["is_stable"] is True
    assert parse(texts["year_2026/collective_broadcast_dynamic_root"]).entry.root.attributes["has_dynamic_root"] is True
    assert parse(texts["year_2026/header_debug_attributes"]).attributes["debug_attributes"]
    assert [len(node.operands) for node in parse(texts["year_2026/async_update_more_operands"]).entry.nodes[1:]] == [
        1,
        2,
        1,
    ]
    first = parse(texts["year_2026/sharding_unreduced_by"]).entry.nodes[0]
    assert first.attributes["sharding"].reduction == "max"


UNREADABLE = {
    "cut_off_at_the_end": "expected an operand, found the end of the text",
    "cut_off_at_the_start": "expected an opcode and '\\(', found '}'",
    "ellipsis_line": "expected an instruction's name, found '\\.\\.\\.'",
    "empty": "expected HLO, found an empty text",
    "header_only": "expected a computation, found the end of the text",
    "log_prefixes": "expected an opcode and '\\(', found 'I0801'",
    "markdown_fence": "expected an opcode and '\\(', found '`'",
    "only_a_comment": "expected HLO, found an empty text",
    "two_modules": "expected '{' to open the computation HloModule, found 'second'",
    "users_before_definitions": "'b' is used in main before it is defined here",
}


@pytest.mark.parametrize("name", [name for name in handwritten() if name.startswith("fragments/")])
def test_fragments_read_or_say_what_is_wrong(name: str):
    problem = UNREADABLE.get(name.removeprefix("fragments/"))
    if problem is None:
        assert parse(handwritten()[name]).entry.nodes
        return
    with pytest.raises(ParseError, match=problem):
        parse(handwritten()[name])
