"""DOT, line by line; and with any text in it, read by Graphviz itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from hloom.inspection.viz import render, to_dot
from hloom.inspection.viz.opcode_families import COLOURS, FAMILIES, family
from hloom.ir import Module
from hloom.ops import OPS, unknown_op
from tests.helpers.properties import examples
from tests.inspection.viz.build import (
    F32_2,
    apply,
    chain,
    fused,
    module_with,
    random_modules,
    scalar,
    strange_text,
    unary_graph,
)


def lines(module: Module, **options) -> list[str]:
    """The text without its fixed head."""
    text = to_dot(module, **options).split("\n")
    return [line.strip() for line in text if not line.strip().startswith(("graph [", "node [", "edge ["))]


def test_a_small_module():
    module, main = module_with()
    x = main.add_parameter(F32_2, "x")
    main.set_output(apply("subtract", x, apply("negate", x), metadata='op_name="a/b" source_line=3'))
    assert lines(module) == [
        'digraph "m" {',
        "subgraph cluster_0 {",
        'label="main (entry)";',
        r'"main/x" [label="x\nparameter 0\nf32[2]", fillcolor="#ffcc80"];',
        r'"main/negate" [label="negate\nnegate\nf32[2]", fillcolor="#fff59d"];',
        r'"main/subtract" [label="subtract\nsubtract\nf32[2]", fillcolor="#fff59d", peripheries=2, '
        r'tooltip="op_name=a/b\nsource_line=3"];',
        "}",
        '"main/x" -> "main/negate";',
        '"main/x" -> "main/subtract" [headlabel="0"];',
        '"main/negate" -> "main/subtract" [headlabel="1"];',
        "}",
        "",
    ]


def test_calls_are_dashed_arrows_into_clusters():
    drawn = [line for line in lines(fused()) if "dashed" in line]
    assert [line.split(", style")[0] for line in drawn] == [
        '"main/fusion" -> "fused/p" [lhead=cluster_1, taillabel="calls"',
        '"main/loop" -> "condition/c" [lhead=cluster_3, taillabel="condition"',
        '"main/loop" -> "body/b" [lhead=cluster_2, taillabel="body"',
    ]


def test_a_call_of_the_callers_own_computation_is_not_clipped():
    module, main = module_with()
    apply("call", main.add_parameter(F32_2, "x"), name="again", to_apply=main)
    assert [line.split(", style")[0] for line in lines(module) if "dashed" in line] == [
        '"main/again" -> "main/x" [taillabel="to_apply"'
    ]


def test_scalar_constants_stand_in_the_labels_of_their_users():
    module, main = module_with()
    x, two = main.add_parameter(F32_2, "x"), scalar(main, 2.0, "two")
    apply("multiply", x, two, name="double")
    apply("add", two, two, name="four")
    inline = lines(module)
    assert not any(line.startswith('"main/two"') for line in inline)
    assert r'"main/double" [label="double\nmultiply\nf32[2]\noperand 1 = 2", fillcolor="#fff59d"];' in inline
    assert r'"main/four" [label="four\nadd\nf32[2]\noperand 0 = 2\noperand 1 = 2", fillcolor="#fff59d"];' in inline
    apart = lines(module, inline_constants=False)
    assert r'"main/two" [label="two\nconstant 2\nf32[]", fillcolor="#e0e0e0"];' in apart
    assert '"main/two" -> "main/four" [headlabel="1"];' in apart


def test_a_scalar_constant_that_is_more_than_an_operand_keeps_its_node():
    module, main = module_with()
    output, ordered, unused = scalar(main, 1.0, "output"), scalar(main, 2.0, "ordered"), scalar(main, 3.0, "unused")
    apply("negate", output)
    apply("negate", ordered, **{"control-predecessors": (ordered,)})  # pyright: ignore[reportArgumentType]
    main.set_output(output)
    drawn = "\n".join(lines(module))
    assert all(f'"main/{node.name}" [' in drawn for node in (output, ordered, unused))
    assert '"main/output" [' in "\n".join(lines(module, around="output"))


def test_a_called_constant_is_still_reached():
    module, main = module_with()
    zero = module.add_graph("zero")
    scalar(zero, 0.0, "nothing")
    zero.set_output(apply("negate", zero["nothing"], name="minus"))
    apply("call", main.add_parameter(F32_2, "x"), name="c", to_apply=zero)
    assert any(line.startswith('"main/c" -> "zero/minus" [lhead=cluster_1') for line in lines(module))


def test_the_neighbourhood_shows_its_center_and_its_border():
    drawn = "\n".join(lines(chain(9), around="negate", hops=1))
    assert r'label="main (entry)\n3 of 10 nodes";' in drawn
    assert '"main/negate" [label="negate\\nnegate\\nf32[2]", fillcolor="#fff59d", penwidth=3];' in drawn
    assert (
        '"main/negate.1" [label="negate.1\\nnegate\\nf32[2]", fillcolor="#fff59d", style="rounded,filled,dashed"];'
        in drawn
    )


def test_control_predecessors_and_computed_calls_have_their_own_arrows():
    module, main = module_with()
    x = main.add_parameter(F32_2, "x")
    apply("tanh", x, name="later", **{"control-predecessors": (apply("negate", x, name="first"),)})  # pyright: ignore[reportArgumentType]
    function = main.add_constant(OPS["tanh"], None, "function")
    main.add_apply(function, [x], F32_2, name="computed")
    drawn = lines(module)
    assert '"main/first" -> "main/later" [style=dotted, tooltip="control"];' in drawn
    assert '"main/function" -> "main/computed" [style=bold, headlabel="function"];' in drawn


def test_every_opcode_has_a_family_and_every_family_a_colour():
    assert set(OPS) <= set(FAMILIES)
    assert set(FAMILIES.values()) | {"other"} == set(COLOURS)
    assert family(unknown_op("frobnicate").name) == "other"


@given(random_modules())
def test_drawing_is_deterministic(module):
    assert to_dot(module) == to_dot(module) == to_dot(module.clone())


@examples(25)
@given(strange_text, strange_text, strange_text)
def test_no_text_breaks_dot(module_name, name, text):
    module, main = module_with(module_name)
    unary_graph(module, name or "g")
    x = main.add_parameter(F32_2, name)
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    called = apply("call", x, name=text, to_apply=module.graphs[-1], metadata=f'op_name="{quoted}"')
    apply("custom-call", x, called, custom_call_target=text)
    drawn = json.loads(render(to_dot(module), "json"))
    nodes = [item for item in drawn["objects"] if "nodes" not in item]
    assert len(nodes) == 5
    assert len(drawn["edges"]) == 5


@pytest.mark.parametrize("text", ["a\\nb", 'say "x"', "<b>bold</b>", "&lt;", "\\N", "é漢", "{a|b}", "trailing\\"])
def test_graphviz_shows_labels_as_they_are(text):
    module, main = module_with()
    main.add_parameter(F32_2, text)
    shown = render(to_dot(module)).decode()
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    assert f">{escaped}</text>" in shown
