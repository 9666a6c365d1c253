"""Plans as others take them: Shardy's HLO, StableHLO, what goes into programs inside `jax.jit`."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.distribute.planner import annotation
from hloom.distribute.planner.plan import OperandSpec, Plan, ValueSpec
from hloom.formats.hlo import read_proto, to_text, write_proto
from hloom.ir import ExplicitDevices
from hloom.sharding import Mesh, spec_of
from hloom.text import HloomError

MESH = Mesh.parse("data=2,model=4")
TEXT = """HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }

ENTRY e {
  x = f32[8,8] parameter(0)
  y = f32[8,8] sine(x)
  w = f32[8,6] parameter(1)
  z = f32[8,6] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[8,6] add(w, w)
  ROOT r = (f32[8,6], f32[8,6]) tuple(z, v)
}
"""


def plan(**instructions):
    parameters = {0: spec_of(["data", None]), 1: spec_of([None, "model"])}
    return Plan(MESH, parameters, {0: spec_of(["model", None])}, {k: spec_of(v) for k, v in instructions.items()})


def short(module):
    return to_text(module, "short").rstrip() + "\n"


def test_shardys_hlo():
    annotated = annotation.annotate_for_shardy(plan(y=[None, "model"]), hloom.parse(TEXT))
    assert (
        short(annotated)
        == """HloModule m, input_output_alias={ {1}: (1, {}, may-alias) }, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=4]>}}

ENTRY e {
  x = f32[8,8] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"data\\"}, {}]>"}
  y = f32[8,8] sine(x)
  w = f32[8,6] parameter(1), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"model\\"}]>"}
  y.1 = f32[8,8] custom-call(y), custom_call_target="Sharding", sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\\"model\\"}]>]>"}
  z = f32[8,6] dot(y.1, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[8,6] add(w, w)
  z.1 = f32[8,6] custom-call(z), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\\"model\\"}, {}]>]>"}
  v.1 = f32[8,6] custom-call(v), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\\"model\\"}]>]>"}
  ROOT r = (f32[8,6], f32[8,6]) tuple(z.1, v.1)
}
"""
    )


@pytest.mark.parametrize("annotate", [Plan.annotate, annotation.annotate_for_shardy])
def test_text_and_proto_say_the_same(annotate):
    annotated = annotate(plan(y=[None, "model"]), hloom.parse(TEXT))
    assert hloom.verify(annotated).level.name == "HLO"
    assert short(hloom.parse(to_text(annotated))) == short(annotated)
    again = read_proto(write_proto(annotated, "hlo_module"))
    for node in annotated.entry.nodes:
        for name in ("sharding", "frontend_attributes"):
            assert again.entry[node.name].attributes.get(name) == node.attributes.get(name)
    assert again.attributes.get("frontend_attributes") == annotated.attributes.get("frontend_attributes")


@pytest.mark.parametrize("annotate", [Plan.annotate, annotation.annotate_for_shardy])
def test_xlas_partitioners_run_it(annotate):
    annotated = annotate(plan(y=[None, "model"]), hloom.parse(TEXT.replace("f32[8,6]", "f32[8,8]")))
    x, w = (np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32) for _ in range(2))
    result = hloom.run(annotated, [x, w], devices=8)
    np.testing.assert_allclose(result.outputs[0], np.sin(x) @ w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.outputs[1], w + w, rtol=1e-6)
    assert [array.shape for array in result.per_device[0]] == [(2, 8), (8, 2)]


def test_a_single_result():
    module = hloom.parse("ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] negate(x), sharding={replicated} }")
    annotated = annotation.annotate_for_shardy(Plan(MESH, outputs={0: spec_of(["data"])}), module)
    assert annotated.entry.root.attributes["custom_call_target"] == "xla.sdy.FuncResultSharding"
    assert "sharding" not in annotated.entry["y"].attributes
    assert hloom.run(annotated, [np.ones(8, np.float32)], devices=8).per_device[0][0].shape == (4,)


def test_results_of_an_instruction_that_is_no_tuple():
    module = hloom.parse(
        """ENTRY m { x = f32[8] parameter(0) t = (f32[8], f32[8]) tuple(x, x) ROOT r = (f32[8], f32[8]) opt-barrier(t) }"""
    )
    annotated = annotation.annotate_for_shardy(Plan(MESH, {}, {1: spec_of(["data"])}), module)
    assert [node.opcode for node in annotated.entry.root.operands] == ["custom-call", "custom-call"]
    assert [node.operands[0].opcode for node in annotated.entry.root.operands] == ["get-tuple-element"] * 2
    assert hloom.verify(annotated).level.name == "HLO"


def meshes_of(module):
    return dict(module.attributes["frontend_attributes"])["xla.sdy.meshes"]


def test_meshes_that_are_there_already():
    header = "HloModule m, frontend_attributes={xla.sdy.meshes={%s = #sdy.mesh<[%s]>}}\n"
    body = "ENTRY e { ROOT x = f32[8,8] parameter(0) }"
    same = annotation.annotate_for_shardy(plan(), hloom.parse(header % ("there", '"data"=2, "model"=4') + body))
    assert meshes_of(same) == '{there = #sdy.mesh<["data"=2, "model"=4]>}'
    assert "@there" in short(same)
    other = annotation.annotate_for_shardy(plan(), hloom.parse(header % ("mesh", '"x"=8') + body))
    assert meshes_of(other) == '{mesh = #sdy.mesh<["x"=8]>, mesh_0 = #sdy.mesh<["data"=2, "model"=4]>}'
    assert "@mesh_0" in short(other)


def test_what_goes_into_a_program_of_jaxs():
    """Only instructions: jax says the shardings of arguments and results. It has no uneven arrays, so those are split inside."""
    module = hloom.parse(TEXT)
    annotation.constrain(plan(y=[None, "model"]), module)
    entry = module.entry
    assert "sharding" not in entry["x"].attributes and "sharding" not in entry.root.attributes
    assert str(entry["y"].attributes["sharding"]) == "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
    assert [node.opcode for node in entry["w"].users] == ["custom-call"]
    assert str(entry["w.1"].attributes["sharding"]) == "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
    assert hloom.verify(module).level.name == "HLO"


def test_what_goes_into_a_program_of_jaxs_for_shardy():
    module = hloom.parse(TEXT)
    annotation.constrain_for_shardy(plan(y=[None, "model"]), module)
    marked = [node.operands[0].name for node in module.entry.nodes if node.opcode == "custom-call"]
    assert sorted(marked) == ["w", "y"]
    untouched = hloom.parse(TEXT)
    annotation.constrain_for_shardy(Plan(MESH), untouched)
    assert short(untouched) == short(hloom.parse(TEXT))


LOOP = """HloModule m

step {
  state = (s32[], f32[8,8], f32[8,8]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(index, one)
  x = f32[8,8] get-tuple-element(state), index=1
  w = f32[8,8] get-tuple-element(state), index=2
  y = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT result = (s32[], f32[8,8], f32[8,8]) tuple(next, y, w)
}

test {
  state = (s32[], f32[8,8], f32[8,8]) parameter(0)
  index = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(7)
  ROOT is_less = pred[] compare(index, limit), direction=LT
}

ENTRY e {
  zero = s32[] constant(0)
  a = f32[8,8] parameter(0)
  b = f32[8,8] parameter(1)
  start = (s32[], f32[8,8], f32[8,8]) tuple(zero, a, b)
  loop = (s32[], f32[8,8], f32[8,8]) while(start), condition=test, body=step
  end = f32[8,8] get-tuple-element(loop), index=1
  ROOT z = f32[8,8] negate(end)
}
"""


def loop_plan():
    row, column = spec_of(["data", None]), spec_of([None, "model"])
    inner: dict[str, dict[str, ValueSpec]] = {"step": {"x": row, "w": column, "y": column}}
    operands = (OperandSpec("step", "result", 1, row),)
    return Plan(MESH, {0: row}, {0: row}, {"end": row}, computations=inner, operand_specs=operands)


def test_loops_inside_jaxs_programs_are_constrained_as_those_of_modules():
    annotated, module = loop_plan().annotate(hloom.parse(LOOP)), hloom.parse(LOOP)
    annotation.constrain(loop_plan(), module)
    assert [node.name for node in module["step"].nodes if node.opcode == "custom-call"] == ["x.1", "w.1", "y.1"]
    for node in (*annotated.entry.parameters, annotated.entry.root):
        node.graph.set_attributes(node, node.attributes.changed(sharding=None))
    assert short(module) == short(annotated)


def test_loops_inside_jaxs_programs_are_constrained_for_shardy():
    module = hloom.parse(LOOP)
    annotation.constrain_for_shardy(loop_plan(), module)
    marked = [node for node in module["step"].nodes if node.opcode == "custom-call"]
    assert [node.operands[0].opcode for node in marked].count("get-tuple-element") == 2
    assert str(marked[-1].attributes["sharding"]).startswith("{devices=[2,1,4]")
    assert module["step"].root.operands[1] is marked[-1]
    assert hloom.verify(module).level.name == "HLO"


def test_devices_are_places_inside_jaxs_programs():
    backwards = Mesh(MESH.names, MESH.sizes, ExplicitDevices(tuple(reversed(range(8)))))
    module = hloom.parse(TEXT)
    annotation.constrain(Plan(backwards, instructions={"y": spec_of(["data", None])}), module)
    assert str(module.entry["y"].attributes["sharding"]) == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"


def test_shardings_for_jax():
    module = hloom.parse(TEXT)
    mesh = "{mesh['data'=2,'model'=4]"
    placed = [str(sharding).removeprefix(mesh) for sharding in annotation.parameter_shardings(plan(), module)]
    assert placed == [", [{'data'}, {}]}", ", [{}, {}]}"]  # 6 columns do not divide by 4
    results = [str(sharding).removeprefix(mesh) for sharding in annotation.result_shardings(plan(), module)]
    assert results == [", [{'model'}, {}]}", ", [{}, {}]}"]
    assert [str(spec) for spec in annotation.result_specs(plan(), module)] == ["[model,-]", "[-,model]"]


def test_a_plan_of_another_module():
    for write in (annotation.annotate_for_shardy, annotation.constrain, annotation.constrain_for_shardy):
        with pytest.raises(HloomError, match="the plan names cosine, which e has not") as caught:
            write(plan(cosine=["data", None]), hloom.parse(TEXT))
        assert caught.value.hint == "is it another module's plan?"


def test_a_plan_of_other_ranks():
    with pytest.raises(HloomError, match=r"the plan has \[data\] for an array of rank 2"):
        annotation.parameter_shardings(Plan(MESH, {0: spec_of(["data"])}), hloom.parse(TEXT))
    with pytest.raises(HloomError, match=r"the plan has \[data\] for y, which is f32\[8,8\]"):
        annotation.constrain(plan(y=["data"]), hloom.parse(TEXT))


def test_stablehlo_with_shardys_own_words():
    pytest.importorskip("jax")
    text = hloom.shardy_stablehlo(plan(y=[None, "model"]), hloom.parse(TEXT))
    assert 'sdy.mesh @mesh = <["data"=2, "model"=4]>' in text
    assert '%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}' in text
    assert 'sdy.sharding_constraint %0 <@mesh, [{}, {"model"}]> : tensor<8x8xf32>' in text
    assert '(tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}' in text
    assert "custom_call" not in text and "frontend_attributes" not in text
