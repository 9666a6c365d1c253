"""The gradient of max-pooling, which XLA's CPU compiler computes with an index array for each dimension."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.targets.cpu.select_and_scatter_expander import expand_select_and_scatter

POOLING = """HloModule m
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[16,8] parameter(0)
  source = f32[4,4] parameter(1)
  z = f32[] constant(0)
  ROOT r = f32[16,8] select-and-scatter(x, source, z), window={size=4x2 stride=4x2}, select=ge, scatter=add }
"""


def test_select_and_scatter_becomes_a_scatter_of_the_selected_indices():
    module = parse(POOLING)
    expand_select_and_scatter(module.entry)
    made = [(node.opcode, str(node.type).split("{")[0]) for node in module.entry.nodes if node.opcode != "parameter"]
    assert made == [
        ("constant", "f32[]"),
        ("iota", "s32[16,8]"),
        ("iota", "s32[16,8]"),
        ("reduce-window", "(f32[4,4], s32[4,4], s32[4,4])"),
        ("get-tuple-element", "s32[4,4]"),
        ("get-tuple-element", "s32[4,4]"),
        ("reshape", "s32[16,1]"),
        ("reshape", "s32[16,1]"),
        ("concatenate", "s32[16,2]"),
        ("reshape", "f32[16,1,1]"),
        ("broadcast", "f32[16,8]"),
        ("scatter", "f32[16,8]"),
    ]
    assert module.entry.root.opcode == "scatter"


def test_scalars_have_no_window():
    module = parse(
        POOLING.replace("f32[16,8]", "f32[]").replace("f32[4,4]", "f32[]").replace("window={size=4x2 stride=4x2}, ", "")
    )
    expand_select_and_scatter(module.entry)
    assert module.entry.root.opcode == "scatter"
