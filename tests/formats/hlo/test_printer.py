"""Modules in, HLO text out, in XLA's own style.

Covers `attribute_printer.py`, `async_sugar_printer.py`.
"""

from __future__ import annotations

import re

import pytest

from hloom.formats.hlo import PrintOptions, parse, print_graph, print_module, print_node, print_parts
from hloom.formats.hlo.printer import ordered_graphs
from hloom.ir import Attributes, Graph, Module, TensorType, dtype
from hloom.ops import OPS
from hloom.text import HloomError
from tests.corpus import handwritten, lowered
from tests.formats.hlo.xla import FOREIGN, full, without_elisions

TEXT = """HloModule m, is_scheduled=true

%f (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %e (x: f32[12]) -> f32[] {
  %x = f32[12]{0} parameter(0), sharding={replicated}
  %w = f32[12]{0} constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
  %y = f32[12]{0} multiply(%x, %w), metadata={op_name="mul"}, backend_config={"k":1}
  %zero = f32[] constant(0)
  ROOT %sum = f32[] reduce(%y, %zero), dimensions={0}, to_apply=%f
}

"""
F32 = TensorType(dtype("f32"))


def printed(**options: object) -> str:
    return print_module(parse(TEXT), PrintOptions(**options))  # type: ignore[arg-type]


def without(*parts: str) -> str:
    """The text with every match of these patterns taken out."""
    text = TEXT
    for part in parts:
        text = re.sub(part, "", text)
    return text


# Options


def test_the_default_shows_everything():
    assert print_module(parse(TEXT)) == TEXT
    assert print_module(parse(TEXT), PrintOptions()) == TEXT


def test_the_parts_are_the_header_and_the_computations():
    header, first, entry = print_parts(parse(TEXT))
    assert (header, header + first + entry) == ("HloModule m, is_scheduled=true\n\n", TEXT)
    assert first.startswith("%f (") and entry.startswith("ENTRY %e (")


def test_without_percent():
    assert printed(percent=False) == without("%")


def test_without_percent_reserved_words_keep_theirs():
    text = "HloModule m\n\nENTRY %e {\n  %nan = f32[] parameter(0)\n  ROOT %ROOT = f32[] add(%nan, %nan)\n}\n\n"
    bare = print_module(parse(text), PrintOptions.short_parsable())
    assert bare == text.replace("%e", "e")
    parse(bare, strict=True)


def test_without_metadata():
    assert printed(metadata=False) == without(r", metadata=\{.*?\}")


def test_without_metadata_there_are_no_stack_tables():
    module = parse(handwritten()["module_stack_tables"])
    assert "StackFrames" in print_module(module)
    assert "StackFrames" not in print_module(module, PrintOptions(metadata=False))


def test_without_backend_configuration():
    assert printed(backend_config=False) == without(r", backend_config=\{.*?\}")


def test_without_sharding():
    assert printed(sharding=False) == without(", sharding={replicated}")


def test_without_layouts():
    assert printed(layouts=False) == without(r"(?<=f32\[12\])\{0\}")


def test_without_signatures():
    assert printed(signatures=False) == without(r"\(.*\) -> f32\[\] (?=\{)")


def test_without_result_types():
    assert printed(result_types=False) == without(r"(?<== )f32\S* ")


def test_without_operand_names():
    assert "%y = f32[12]{0} multiply(f32[12]{0}, f32[12]{0})" in printed(operand_names=False, operand_types=True)


def test_with_operand_types():
    text = printed(operand_types=True)
    assert "  %y = f32[12]{0} multiply(f32[12]{0} %x, f32[12]{0} %w), metadata" in text
    assert "  ROOT %sum = f32[] reduce(f32[12]{0} %y, f32[] %zero), dimensions={0}, to_apply=%f" in text


def test_with_numbers_for_names():
    assert (
        printed(canonical_names=True)
        == """HloModule m, is_scheduled=true

%computation_0 (tmp_0: f32[], tmp_1: f32[]) -> f32[] {
  %tmp_0 = f32[] parameter(0)
  %tmp_1 = f32[] parameter(1)
  ROOT %tmp_2 = f32[] add(%tmp_0, %tmp_1)
}

ENTRY %computation_1 (tmp_0: f32[12]) -> f32[] {
  %tmp_0 = f32[12]{0} parameter(0), sharding={replicated}
  %tmp_1 = f32[12]{0} constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
  %tmp_2 = f32[12]{0} multiply(%tmp_0, %tmp_1), metadata={op_name="mul"}, backend_config={"k":1}
  %tmp_3 = f32[] constant(0)
  ROOT %tmp_4 = f32[] reduce(%tmp_2, %tmp_3), dimensions={0}, to_apply=%computation_0
}

"""
    )


@pytest.mark.parametrize(("limit", "elided"), [(None, False), (12, False), (11, True), (0, True)])
def test_large_constants_are_left_out_where_a_limit_is_set(limit: int | None, elided: bool):
    expected = re.sub(r"\{0, 1.*11\}", "{...}", TEXT) if elided else TEXT
    assert printed(constant_limit=limit) == expected


def test_what_is_left_out_stays_left_out():
    text = printed(constant_limit=5)
    assert print_module(parse(text)) == text


def test_short():
    assert (
        print_module(parse(TEXT), PrintOptions.short_parsable())
        == """HloModule m, is_scheduled=true

f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[12]{0} parameter(0), sharding={replicated}
  w = f32[12]{0} constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
  y = f32[12]{0} multiply(x, w)
  zero = f32[] constant(0)
  ROOT sum = f32[] reduce(y, zero), dimensions={0}, to_apply=f
}

"""
    )


def test_canonical():
    text = print_module(parse(TEXT), PrintOptions.canonical())
    assert "ENTRY computation_1 {" in text
    assert "  ROOT tmp_4 = f32[] reduce(f32[12] tmp_2, f32[] tmp_3), dimensions={0}, to_apply=computation_0" in text


def test_options_leave_the_module_as_it_is():
    module = parse(TEXT)
    for options in (PrintOptions.canonical(), PrintOptions(sharding=False), PrintOptions.short_parsable()):
        print_module(module, options)
        assert print_module(module) == TEXT


# Parts


def test_one_graph():
    module = parse(TEXT)
    assert print_graph(module["f"]) == TEXT[TEXT.index("%f (") : TEXT.index("ENTRY")]
    assert print_graph(module["f"], PrintOptions.short_parsable()).startswith("f {\n  a = f32[] parameter(0)\n")


def test_one_node():
    graph = parse(TEXT).entry
    assert print_node(graph.root) == "%sum = f32[] reduce(%y, %zero), dimensions={0}, to_apply=%f"
    assert print_node(graph["zero"], PrintOptions(percent=False)) == "zero = f32[] constant(0)"
    assert print_node(graph["y"], PrintOptions(metadata=False)).endswith('multiply(%x, %w), backend_config={"k":1}')


def test_every_fifth_operand_is_numbered():
    text = "ENTRY e { a = f32[] parameter(0) ROOT t = (f32[], f32[], f32[], f32[], f32[], f32[]) tuple(a,a,a,a,a,a) }"
    assert print_node(parse(text).entry.root) == (
        "%t = (f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[]) tuple(%a, %a, %a, %a, %a, /*index=5*/%a)"
    )


def test_missing_operands_bring_their_type():
    line = "%a = f32[2] add(f32[2] %lost, %gone)"
    assert print_node(parse(f"HloModule m\n\nENTRY %e {{\n  ROOT {line}\n}}\n").entry.root) == line


def test_a_type_that_the_text_leaves_out_and_that_cannot_be_told_stays_left_out():
    text = "HloModule m\n\nENTRY %e {\n  ROOT %a = negate(%lost)\n}\n\n"
    assert print_module(parse(text)) == text


def test_a_computation_with_a_thread():
    text = 'HloModule m\n\n%f (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}, execution_thread="side"\n\n'
    text += "ENTRY %e (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}\n\n"
    assert print_module(parse(text)) == text


@pytest.mark.parametrize("config", ['{"a":{"b":"}"}}', '"quoted"', '"{\\"a\\""', '"{\\303\\251}"', '"a\\nb"'])
def test_configurations_stand_in_braces_where_those_match_and_else_in_quotes(config: str):
    line = f"%a = f32[] parameter(0), backend_config={config}"
    assert print_node(parse(f"ENTRY e {{ ROOT {line} }}").entry.root) == line


@pytest.mark.parametrize(
    ("value", "text"), [(1e-5, "1e-05"), (1.0, "1"), (0.001, "0.001"), (0.0, "0"), (2.5e20, "2.5e+20")]
)
def test_floats_are_short_and_read_back(value: float, text: str):
    graph = parse(
        f"ENTRY e {{ x = f32[4] parameter(0) ROOT b = f32[4] batch-norm-inference(x, x, x, x, x), epsilon={value}, feature_index=0 }}"
    ).entry
    assert f"epsilon={text}, " in print_node(graph.root)


# Order and what text cannot say


def test_computations_stand_after_those_they_call():
    text = "ENTRY e { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=f } f { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=g } g { a = f32[] parameter(0) }"
    module = parse(text)
    assert [graph.name for graph in module] == ["e", "f", "g"]
    assert [graph.name for graph in ordered_graphs(module)] == ["g", "f", "e"]
    parse(print_module(module), strict=True)


def test_an_order_that_is_right_is_kept():
    module = parse(TEXT)
    assert ordered_graphs(module) == list(module)
    assert [graph.name for graph in ordered_graphs(parse(handwritten()["module_entry_not_last"]))] == [
        graph.name for graph in parse(handwritten()["module_entry_not_last"])
    ]


def test_computations_that_call_each_other_are_refused():
    module = parse(
        "e { ROOT a = f32[] parameter(0) } f { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=e } "
        "g { a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=f }"
    )
    module["f"].root.attributes = Attributes(to_apply=module["g"])
    with pytest.raises(HloomError, match="computations call each other in a circle, through f: HLO has no recursion"):
        print_module(module)


def closure() -> tuple[Module, Graph]:
    module = Module("m")
    main = module.add_graph("main")
    module.entry = main
    x = main.add_parameter(F32, "x")
    inner = module.add_graph("inner", parent=main)
    inner.set_output(inner.add_apply(OPS["add"], (inner.add_parameter(F32, "y"), x), F32))
    main.set_output(main.add_apply(OPS["call"], (x,), F32, Attributes(to_apply=inner)))
    return module, main


def test_closures_are_refused():
    module, _ = closure()
    with pytest.raises(HloomError, match="graph inner uses x of graph main: HLO text needs closed graphs") as caught:
        print_module(module)
    assert caught.value.hint == "convert closures first"


def test_functions_as_values_are_refused():
    module = Module("m")
    main = module.add_graph("main")
    module.entry = main
    x = main.add_parameter(F32, "x")
    inner = module.add_graph("inner")
    inner.set_output(inner.add_parameter(F32, "y"))
    held = main.add_constant(inner, inner.type, "held")
    with pytest.raises(HloomError, match="holds a function as a value: HLO text cannot say that"):
        print_node(held)
    with pytest.raises(HloomError, match="calls a computed function: HLO text cannot say that"):
        print_node(main.add_apply(held, (x,), F32))


def test_an_edit_shows_in_the_next_print():
    module = parse(TEXT)
    print_module(module)
    module.entry.rename(module.entry["y"], "product")
    module.rename_graph(module["f"], "sum_of_two")
    module.entry.set_attributes(module.entry["x"], {})
    expected = without(", sharding={replicated}").replace("%y", "%product").replace("%f", "%sum_of_two")
    assert print_module(module) == expected


# XLA's own print, read and printed again

DIFFERENCES = {
    "-0": "XLA prints -0, which reads as the integer 0",
}
"""Why some texts differ from XLA's."""

DIFFERENT = {
    "literal_complex": "-0",
    "literal_float_spellings": "-0",
    "quirk_literal_specials_without_a_code": "-0",
}


UNREADABLE = (
    "layout_parts",  # the two that XLA does not read back
    "quirk_layout_pointer_type_float",
    "quirk_element_bits_negative",  # those that hloom refuses
    "quirk_layout_dimension",
    "quirk_layout_tile_unclosed",
    "quirk_shape_size_overflow",
)


def xla_prints() -> dict[str, str]:
    """What XLA prints of every text that it reads."""
    texts = {name: text for name, text in handwritten().items() if not name.startswith((*FOREIGN, *UNREADABLE))}
    texts |= {f"{stage}/{name}": text for stage in ("before", "after") for name, text in lowered(stage).items()}
    return {name: full(without_elisions(text)) for name, text in texts.items()}


def test_xlas_own_print_is_printed_byte_for_byte():
    different = {name for name, text in xla_prints().items() if print_module(parse(text)) != text}
    assert different == set(DIFFERENT)
    assert set(DIFFERENT.values()) == set(DIFFERENCES)
