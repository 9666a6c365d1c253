"""Types of collectives, transfers and control flow: XLA checks little of them, so the cases are written by hand.

Covers `collective.py`, `control_flow.py`, `custom.py`, `side_effects.py`.
"""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Apply, Node, TypeProblem, infer_type, node_axes, without_layout

COMPUTATIONS = """
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
scale { x = f32[8,4] parameter(0) ROOT y = f32[8,4] add(x, x) }
narrow { x = f32[8,4] parameter(0) ROOT y = f32[8] reduce(x, zero), dimensions={1}, to_apply=sum }
go { x = f32[8,4] parameter(0) ROOT p = pred[] constant(true) }
count { x = f32[8,4] parameter(0) ROOT n = s32[] constant(1) }
""".replace("reduce(x, zero)", "reduce(x, f32[] constant(0))")

OPERANDS = """
  x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  v = f32[8] parameter(2)
  n = s32[] parameter(3)
  p = pred[] parameter(4)
  t = token[] after-all()
  offsets = s32[2] parameter(5)
  pair = (f32[8,4], f32[8]) tuple(x, v)
  started = ((f32[8,4]), f32[8,4], u32[]) async-start(x), calls=scale
  sent = (f32[8], u32[], token[]) send(v, t)
  copied = (f32[8], f32[8], u32[]) copy-start(v)
"""


def node(line: str) -> Apply:
    """The instruction of this line, after the operands above; its type as written stays with it."""
    text = f"HloModule cases\n{COMPUTATIONS}\nENTRY main {{\n{OPERANDS}  ROOT r = {line}\n}}\n"
    instruction: Node = parse(text).entry.root
    assert isinstance(instruction, Apply)
    return instruction


def inferred(line: str) -> str:
    instruction = node(line)
    types = [operand.type for operand in instruction.operands]
    operand_types = [operand_type for operand_type in types if operand_type]
    return str(infer_type(instruction.op, operand_types, instruction.attributes, instruction.type))


AGREE = (
    "f32[16,4] all-gather(x), replica_groups={{0,1},{2,3}}, dimensions={0}",
    "f32[8,32] all-gather(x), replica_groups=[1,8]<=[8], dimensions={1}",
    "f32[24,4] all-gather(x), dimensions={0}",
    "(f32[16,4], f32[16]) all-gather(x, v), replica_groups={{0,1}}, dimensions={0}",
    "(f32[8,4], f32[16,4]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}",
    "f32[8,4] all-reduce(x), to_apply=sum",
    "(f32[8,4], f32[8]) all-reduce(x, v), to_apply=sum",
    "f32[8,4] all-reduce-start(x), to_apply=sum",
    "f32[4,4] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=sum",
    "f32[2,4] reduce-scatter(x), dimensions={0}, to_apply=sum",
    "f32[8,4] all-to-all(x), replica_groups={{0,1,2,3}}, dimensions={1}",
    "(f32[8,4], f32[8,4]) all-to-all(x, y), replica_groups={{0,1}}",
    "f32[8,4] ragged-all-to-all(x, y, offsets, offsets, offsets, offsets)",
    "f32[8,4] collective-broadcast(x), replica_groups={{0,1}}",
    "f32[8,4] collective-permute(x), source_target_pairs={{0,1}}",
    "(f32[8,4], f32[8,4], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,1}}",
    "u32[] partition-id()",
    "u32[] replica-id()",
    "(f32[8,4], u32[], token[]) send(x, t)",
    "token[] send-done(sent)",
    "(f32[3], u32[], token[]) recv(t)",
    "(f32[8], token[]) recv-done(sent)",
    "(f32[8], f32[8], u32[]) copy-start(v)",
    "f32[8] copy-done(copied)",
    "((f32[2], s32[]), token[]) infeed(t)",
    "token[] outfeed(x, t), outfeed_shape=f32[8,4]",
    "token[] after-all(t, t)",
    "(f32[8,4], f32[8], token[]) tuple(x, v, t)",
    "f32[8] get-tuple-element(pair), index=1",
    "f32[8] call(x), to_apply=narrow",
    "f32[8] fusion(x), kind=kLoop, calls=narrow",
    "f32[8,4] map(x, y), dimensions={0,1}, to_apply=sum",
    "f32[8,4] while(x), condition=go, body=scale",
    "f32[8,4] conditional(p, x, y), true_computation=scale, false_computation=scale",
    "f32[8] conditional(n, x, y, x), branch_computations={narrow, narrow, narrow}",
    "((f32[8,4]), f32[8], u32[]) async-start(x), calls=narrow",
    "((f32[8,4]), f32[8,4], u32[]) async-update(started)",
    "f32[8,4] async-done(started)",
    'f32[8,4] domain(x), domain={kind="sharding", entry={replicated}, exit={maximal device=0}}',
    'f32[3,3] custom-call(x), custom_call_target="anything"',
)


@pytest.mark.parametrize("line", AGREE)
def test_the_written_type_is_inferred(line: str):
    assert inferred(line) == str(without_layout(node(line).type))  # type: ignore[arg-type]


@pytest.mark.parametrize("line", AGREE)
def test_axis_maps_fit_the_types(line: str):
    instruction = node(line)
    axes = node_axes(instruction)
    if axes is None:
        assert "axes" in instruction.op.because
        return
    leaves = list(instruction.type.leaves()) if instruction.type else []
    dims = [axes.result_dims(index) for index in range(len(axes.results))]
    assert dims == [getattr(leaf, "dims", ()) for leaf in leaves]


REFUSED = {
    "f32[9,4] all-gather(x), dimensions={0}": "all-gather makes dimension 0 a multiple of 8, not 9",
    "f32[8,4] all-gather(x), dimensions={2}": "all-gather works on one dimension of 0 to 1, not on (2,)",
    "f32[8,4] all-gather(t), dimensions={0}": "all-gather takes one array or more, not token[]",
    "f32[8,4] all-reduce(x), to_apply=scale": "the reducer scale takes 1 values, but must take 2",
    "f32[8,4] reduce-scatter(x), replica_groups=[1,0]<=[8], dimensions={0}, to_apply=sum": (
        "replica groups have no devices in them"
    ),
    "f32[8,4] reduce-scatter(x), replica_groups={{0,1,2}}, dimensions={0}, to_apply=sum": (
        "reduce-scatter cannot cut dimension 0 of size 8 into 3 parts"
    ),
    "f32[3,4] reduce-scatter(x), dimensions={0}, to_apply=sum": (
        "reduce-scatter cuts dimension 0 of size 8, which 3 does not divide"
    ),
    "f32[8,4] all-to-all(x), replica_groups={{0,1,2}}, dimensions={1}": (
        "all-to-all cannot cut f32[8,4] into 3 parts along dimension 1"
    ),
    "(f32[8,4], f32[8]) all-to-all(x, v)": "a further operand of all-to-all is f32[8], but must be f32[8,4]",
    "f32[8,4] ragged-all-to-all(x, v, offsets, offsets, offsets, offsets)": (
        "ragged-all-to-all moves rows: f32[8,4] and f32[8] may differ in dimension 0 only"
    ),
    "f32[8,4] ragged-all-to-all(x, y, offsets, offsets, offsets, v)": (
        "offsets and sizes are integer vectors of one length, not f32[8]"
    ),
    "(f32[8,4], u32[], token[]) send(x, v)": "the second operand of send is f32[8], but must be token[]",
    "f32[8] recv(t)": "recv deals in tuples (value, u32[], token[]), not f32[8]",
    "token[] send-done(v)": "send-done deals in tuples (value, u32[], token[]), not f32[8]",
    "f32[8] copy-done(v)": "copy-done takes what copy-start yields, (copy, original, u32[]), not f32[8]",
    "f32[8] infeed(t)": "infeed yields (value, token[]), not f32[8]",
    "token[] outfeed(x, t), outfeed_shape=f32[8]": "the first operand of outfeed is f32[8,4], but must be f32[8]",
    "token[] after-all(t, x)": "operand 1 of after-all is f32[8,4], but must be token[]",
    "f32[8] get-tuple-element(pair), index=2": "index=2, but the tuple (f32[8,4], f32[8]) has 2 elements",
    "f32[8] get-tuple-element(x), index=0": "get-tuple-element takes a tuple, not f32[8,4]",
    "f32[8] call(x, y), to_apply=narrow": "the computation narrow takes 1 values, but 2 are given",
    "f32[8] call(v), to_apply=narrow": "parameter 0 of the computation narrow is f32[8,4], but f32[8] is given",
    "f32[8,4] map(x, v), dimensions={0,1}, to_apply=sum": (
        "map takes arrays of the same dimensions, but is given f32[8,4] and f32[8]"
    ),
    "f32[8,4] map(x, y), dimensions={0}, to_apply=sum": "map works on all dimensions in order, so dimensions must be 0 to 1",
    "f32[8,4] while(x), condition=count, body=scale": "what the condition yields is s32[], but must be pred[]",
    "f32[8,4] while(x), condition=go, body=narrow": "what the body yields is f32[8], but must be f32[8,4]",
    "f32[8,4] conditional(n, x, y), true_computation=scale, false_computation=scale": (
        "the branch index is s32[], but must be pred[]"
    ),
    "f32[8,4] conditional(p, x, y), true_computation=scale, false_computation=narrow": (
        "branch scale yields f32[8,4], but branch narrow yields f32[8]"
    ),
    "f32[8,4] async-start(x), calls=scale": "async-start yields a tuple ((operands), outputs, ...), not f32[8,4]",
    "((f32[8]), f32[8,4], u32[]) async-start(x), calls=scale": (
        "the first element of what async-start yields is (f32[8]), but must be (f32[8,4])"
    ),
    "f32[8] async-done(x)": "async-done takes what async-start yields, ((operands), outputs, ...), not f32[8,4]",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_does_not_go_together_is_refused(line: str):
    with pytest.raises(TypeProblem) as refused:
        inferred(line)
    assert refused.value.message == REFUSED[line]
