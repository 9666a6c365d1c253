"""Costs added up: by opcode, computation, scope, layer and source line; and the tables that hold them.

Covers `tables.py`, `cost_groups.py`.
"""

from __future__ import annotations

import json
import sys
import types

import pytest

from hloom.analysis import BY, Table, cost
from hloom.analysis.op_names import joined, layer, parts
from hloom.formats.hlo import parse
from hloom.text import HloomError
from tests.corpus import lowered

MODULE = """
HloModule step

FileNames
1 "model.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

helper {
  a = f32[4] parameter(0)
  ROOT b = f32[4] tanh(a), metadata={op_name="tanh" source_file="layers.py" source_line=3}
}

fused {
  a = f32[4] parameter(0)
  b = f32[4] negate(a), metadata={op_name="jit(step)/jvp(layer_0)/mlp/neg" stack_frame_id=1}
  ROOT c = f32[4] add(b, a), metadata={op_name="jit(step)/transpose(jvp(layer_1))/attention/add"}
}

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] call(a), to_apply=helper, metadata={op_name="jit(step)/jvp(layer_0)/jit(helper)"}
  c = f32[4] call(b), to_apply=helper, metadata={op_name="jit(step)/jvp(layer_1)/jit(helper)"}
  ROOT d = f32[4] fusion(c), kind=kLoop, calls=fused, metadata={op_name="jit(step)/transpose(jvp(layer_1))/attention/add"}
}
"""


def column(by: str, value: str, depth: int | None = None) -> dict[str, int]:
    table = cost(parse(MODULE)).by(by, depth=depth)
    return {row[by]: row[value] for row in table if row[value]}


def test_by_opcode():
    assert column("opcode", "flops") == {"negate": 4, "add": 4}
    assert column("opcode", "transcendentals") == {"tanh": 8}
    assert column("opcode", "times")["tanh"] == 2


def test_bytes_of_a_fusion_stand_at_the_fusion_and_its_arithmetic_inside():
    assert column("opcode", "bytes_accessed") == {"tanh": 64, "fusion": 32}
    assert column("computation", "flops") == {"fused": 8}


def test_by_scope_shared_computations_stand_where_they_are_called_from():
    assert column("scope", "transcendentals") == {
        "forward/layer_0/helper": 4,
        "forward/layer_1/helper": 4,
    }
    assert column("scope", "transcendentals", depth=2) == {"forward/layer_0": 4, "forward/layer_1": 4}
    assert column("scope", "flops", depth=1) == {"forward": 4, "backward": 4}


def test_by_layer_forward_and_backward_come_together():
    assert column("layer", "flops", depth=1) == {"layer_0": 4, "layer_1": 4}
    assert column("layer", "transcendentals") == {"layer_0": 4, "layer_1": 4}
    assert column("layer", "bytes_accessed") == {"layer_0": 32, "layer_1": 32, "layer_1/attention": 32}


def test_by_source_line_from_both_kinds_of_metadata():
    assert column("source", "transcendentals") == {"layers.py:3": 8}
    assert column("source", "flops") == {"model.py:7": 4, "(unknown)": 4}


def test_by_source_line_to_a_depth_groups_are_stacks_from_the_outside():
    assert column("source", "flops", depth=1) == {"f (model.py:7)": 4, "(unknown)": 4}
    assert column("source", "transcendentals", depth=1) == {"layers.py": 8}
    assert column("source", "transcendentals", depth=2) == {"layers.py:3": 8}


NESTED = """
HloModule step
helper {
  a = f32[4] parameter(0)
  b = f32[4] fusion(a), kind=kLoop, calls=fused, metadata={op_name="jit(step)/layer_0/jit(helper)/inner/tanh"}
  ROOT c = f32[4] negate(b)
}
fused {
  a = f32[4] parameter(0)
  b = f32[4] exponential(a), metadata={op_name="jit(step)/layer_0/jit(helper)/other/exp"}
  ROOT c = f32[4] tanh(b), metadata={op_name="jit(step)/layer_0/jit(helper)/inner/tanh"}
}
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] call(a), to_apply=helper, metadata={op_name="jit(step)/layer_0/jit(helper)"}
  c = f32[4] call(b), to_apply=helper, metadata={op_name="jit(step)/layer_1/jit(helper)"}
  ROOT d = f32[4] call(c), to_apply=helper
}
"""


def test_names_of_one_caller_inside_a_shared_computation_give_way_to_those_of_each():
    rows = {row["scope"]: row["transcendentals"] for row in cost(parse(NESTED)).by("scope")}
    assert sum(rows.values()) == 24
    assert {scope: rows[scope] for scope in rows if rows[scope]} == {
        "layer_0/helper/inner": 4, "layer_0/helper/other": 4,
        "layer_1/helper/inner": 8, "layer_1/helper/other": 8,  # the call without a name is where its operand is
    }


def test_only_what_is_known_groups():
    with pytest.raises(ValueError, match="cannot be added up by 'color', only by opcode"):
        cost(parse(MODULE)).by("color")


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("stage", ["before", "after"])
def test_groups_add_up_to_the_total(by: str, stage: str):
    for name, text in lowered(stage).items():
        if not name.startswith(("models.", "control.", "sharding.")):
            continue
        report = cost(parse(text))
        table = report.by(by, depth=2)
        for value in ("flops", "transcendentals", "bytes_accessed"):
            assert sum(row[value] for row in table) == getattr(report.total, value), name
        assert sum(row["mathematical_flops"] for row in table) == report.mathematical.flops, name


def test_names_are_cut_outside_of_parentheses():
    assert parts("jit(a/b)/c;jit(d)/e") == ("jit(a/b)", "c")


@pytest.mark.parametrize(
    ("op_name", "named"),
    [
        ("jit(f)/jvp(encoder)/mlp/dot_general", "encoder/mlp"),
        ("jit(f)/transpose(jvp(encoder))/mlp/dot_general", "encoder/mlp"),
        ("jit(f)/vmap(jvp(encoder))/add", "encoder"),
        ("jit(f)/while/body/closed_call/layer/checkpoint/rematted_computation/mlp/add", "layer/mlp"),
        ("jit(f)/cond/branch_1_fun/head/add", "head"),
        ("jit(f)/jvp()/attention/bqhd,bkhd->bhqk/dot_general", "attention"),
        ("jit(f)/add", ""),
        ("", ""),
        # flax, haiku, equinox, Keras, PyTorch/XLA, TensorFlow
        ("jit(apply)/jit(main)/Transformer/encoder_0/LayerNorm_0/rsqrt", "Transformer/encoder_0/LayerNorm_0"),
        ("jit(f)/jit(main)/transpose(jvp(mlp/~/linear_1))/dot_general", "mlp/~/linear_1"),
        ("jit(f)/jit(main)/vmap(jit(gelu))/tanh", ""),
        ("jit(predict)/jit(main)/functional_1/dense_1/add", "functional_1/dense_1"),
        ("sequential/lstm/while/body/lstm_cell/MatMul", "sequential/lstm/lstm_cell"),
        ("aten__native_layer_norm", ""),
        ("Model.layers.0.attn/aten__mm", "Model.layers.0.attn"),
        ("model/dense/BiasAdd", "model/dense"),
        ("truediv", ""),
        ("Rsqrt", ""),
    ],
)
def test_layers_are_what_python_named(op_name: str, named: str):
    assert layer(op_name) == named


def test_names_inside_calls_go_on_from_the_caller():
    assert joined("jit(f)/call", "") == "jit(f)/call"
    assert joined("", "jit(f)/add") == "jit(f)/add"


TABLE = Table(("name", "flops"), (("a", 1), ("b", 3), ("c", 2)))


def test_tables_are_cut_and_turn_into_json():
    assert [row["name"] for row in TABLE.top(2)] == ["a", "b"]
    assert json.loads(json.dumps(TABLE.to_json()))[1] == {"name": "b", "flops": 3}
    assert len(TABLE) == 3


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_without_its_library_says_what_to_install(library: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(HloomError, match=f"needs {library}") as caught:
        getattr(TABLE, f"to_{library}")()
    assert caught.value.hint == f"pip install {library}"


def test_frames_get_names_and_values(monkeypatch: pytest.MonkeyPatch):
    frames = types.SimpleNamespace(DataFrame=lambda data, **options: (data, options))
    monkeypatch.setitem(sys.modules, "pandas", frames)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "polars", frames)  # type: ignore[arg-type]
    assert TABLE.to_pandas() == ({"name": ["a", "b", "c"], "flops": [1, 3, 2]}, {})
    assert TABLE.to_polars() == (TABLE, {})  # which polars reads by the Arrow PyCapsule interface
    assert Table(("name",), ()).to_pandas() == ({"name": []}, {})


def test_the_report_is_json():
    report = cost(parse(lowered("after")["sharding.ring"]))
    record = json.loads(json.dumps(report.to_json()))
    assert record["total"]["flops"] == report.total.flops
    assert record["loops"][0]["trips"] == report.loops[0].trips if report.loops else record["loops"] == []


def test_an_operation_that_calls_a_computation_is_no_layer():
    """XLA names what stands in a reducer, or a fusion, by the operation alone."""
    module = parse("""
      adder {
        a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT c = f32[] add(a, b), metadata={op_name="reduce_sum"}
      }

      fused {
        x = f32[4,8] parameter(0)
        y = f32[4,8] rsqrt(x), metadata={op_name="rsqrt"}
        ROOT z = f32[4,8] negate(y), metadata={op_name="jit(f)/layer_1/neg"}
      }

      ENTRY e {
        x = f32[4,8] parameter(0)
        zero = f32[] constant(0)
        y = f32[4,8] fusion(x), kind=kLoop, calls=fused, metadata={op_name="jit(f)/div"}
        s = f32[4] reduce(y, zero), dimensions={1}, to_apply=adder, metadata={op_name="jit(f)/layer_0/reduce_sum"}
        ROOT t = f32[] reduce(s, zero), dimensions={0}, to_apply=adder, metadata={op_name="jit(f)/reduce_sum"}
      }
    """)
    assert {row["layer"] for row in cost(module).by("layer")} <= {"layer_0", "layer_1", "(no layer)"}
