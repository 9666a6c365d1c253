"""The texts of OneFlow's that were published: read, understood, and printed back byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.dialects import oneflow
from hloom.formats.mlir import TypedNumber
from hloom.ir import Apply, Effect, infer_types, verify
from hloom.ir.verify import Level

HERE = Path(__file__).parent
TEXTS = ["oneflow_bias_add_dropout.before.mlir", "oneflow_bias_add_dropout.after.mlir"]


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_printed_back_unchanged(name):
    text = (HERE / name).read_text()
    assert oneflow.to_text(oneflow.parse(text)) == text


@pytest.mark.parametrize("name", TEXTS)
def test_types_follow_from_the_rows(name):
    text = (HERE / name).read_text()
    module = oneflow.parse(text)
    assert verify(module).level is Level.HLO
    for node in module.entry.nodes:
        if isinstance(node, Apply) and node.opcode != "get-tuple-element":
            module.entry.set_type(node, None)
    infer_types(module)
    assert oneflow.to_text(module) == text


def test_the_before_text_is_a_graph_with_elements_for_used_results():
    module = oneflow.parse((HERE / TEXTS[0]).read_text())
    dropout = module.entry["dropout"]
    assert isinstance(dropout, Apply)
    assert dropout.op.effect is Effect.STATE
    assert dropout.attribute("rate") == TypedNumber(1.0, "f32")
    assert [(user.name, user.opcode) for user in dropout.users] == [("out", "get-tuple-element")]
    assert module.entry.comes_before(dropout, module.entry["out"])


def test_new_nodes_get_the_names_and_types_that_mlir_gives():
    module = oneflow.parse((HERE / TEXTS[0]).read_text())
    graph = module.entry
    old = graph["out"]
    biased = graph["0"]
    relu = graph.add_apply(oneflow.OPS["oneflow.relu"], [biased], biased.type, before=graph["dropout"])
    graph.replace_uses(old, relu)
    graph.erase(old)
    graph.erase(graph["dropout"])
    lines = oneflow.to_text(module).splitlines()
    assert lines[5] == '    %1 = "oneflow.relu"(%0) : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>'
    assert lines[6].startswith('    %output_1 = "oneflow.output"(%1) {')
