"""The account of a module, number by number."""

from __future__ import annotations

import json

import pytest

from hloom.analysis import Call, CollectiveCount, Tensor, inspect
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.text import HloomError

NESTED = """HloModule m, is_scheduled=true, replica_count=2, num_partitions=3
inner { ROOT x = f32[] parameter(0) }
outer { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=inner }
ENTRY e {
  p = (bf16[2,3], (s4[5], token[])) parameter(0)
  q = pred[] parameter(1)
  c = f32[] constant(0)
  a = f32[] call(c), to_apply=outer
  b = f32[] conditional(q, a, a), branch_computations={outer, inner}
  d = f32[1000] broadcast(b), dimensions={}
  r = f32[] all-reduce-start(b), to_apply=sum
  s = f32[] all-reduce-done(r)
  i = u32[] replica-id()
  ROOT t = (f32[1000], f32[]) tuple(d, s)
}
alone { ROOT x = f32[] parameter(0) }
"""


def test_counts_and_bytes():
    contents = inspect(parse(NESTED))
    assert (contents.name, contents.entry, contents.source) == ("m", "e", "<text>")
    assert (contents.is_scheduled, contents.replica_count, contents.partition_count) == (True, 2, 3)
    assert (contents.computation_count, contents.instruction_count, contents.entry_instruction_count) == (4, 14, 10)
    assert (contents.parameter_count, contents.parameter_bytes) == (2, 12 + 5 + 1)
    assert (contents.output_count, contents.output_bytes) == (2, 4004)
    assert contents.constant_bytes == 4
    assert contents.opcodes["parameter"] == 5
    assert list(contents.opcodes.values()) == sorted(contents.opcodes.values(), reverse=True)
    assert contents.dtypes == {"f32": 12, "bf16": 1, "s4": 1, "token[]": 1, "pred": 1, "u32": 1}
    assert contents.unreached == ("alone",)
    assert contents.unresolved == ("computation sum",)


def test_calls_are_a_tree_in_preorder():
    assert inspect(parse(NESTED)).calls == (
        Call("e", 0, (), 1, 10),
        Call("outer", 1, ("call", "conditional"), 2, 2),
        Call("inner", 2, ("call",), 1, 1),
        Call("inner", 1, ("conditional",), 1, 1, is_repeated=True),
        Call("sum", 1, ("all-reduce-start",), 1, 0),
    )


def test_the_largest_first():
    assert inspect(parse(NESTED)).largest[0] == Tensor("d", "e", "broadcast", "f32[1000]", 4000)


def test_collectives_count_once():
    assert inspect(parse(NESTED)).collectives == (CollectiveCount("all-reduce-start", 1, 4),)


def test_deep_and_shared_calls():
    chain = "f0 { ROOT x = f32[] parameter(0) }\n" + "".join(
        f"f{n} {{ x = f32[] parameter(0) y = f32[] call(x), to_apply=f{n - 1} ROOT z = f32[] call(y), to_apply=f{n - 1} }}\n"
        for n in range(1, 5000)
    )
    contents = inspect(parse(f"HloModule m\n{chain}"))
    assert len(contents.calls) == 5000
    assert contents.calls[-1] == Call("f0", 4999, ("call",), 2, 1)


def test_data_left_out_and_sizes_not_known():
    contents = inspect(parse("ENTRY e { c = f32[100] constant({...}) ROOT x = f32[?] parameter(0) }"))
    assert contents.elided_constant_count == 1
    assert (contents.parameter_bytes, contents.output_bytes) == (0, 0)


def test_json_and_text():
    contents = inspect(parse(NESTED))
    assert json.loads(json.dumps(contents.to_json()))["calls"][3]["is_repeated"] is True
    assert str(contents).startswith(
        "m: 4 computations, 14 instructions; 2 parameters of 18 bytes, 2 outputs of 4,004 bytes; parameter 5, "
    )


def test_a_module_without_an_entry():
    with pytest.raises(HloomError, match=r"^module empty has no entry graph$"):
        inspect(Module("empty"))
