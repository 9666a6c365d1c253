"""What cannot be planned is refused, with what to do about it."""

from __future__ import annotations

import pytest

from hloom import plan
from hloom.distribute.planner.plannable import MAX_RANK, check_plannable
from hloom.formats.hlo import parse
from hloom.text import HloomError

MANUAL = """ENTRY e {
  x = f32[64,64] parameter(0)
  part = f32[8,64] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  ROOT whole = f32[64,64] custom-call(part), custom_call_target="SPMDShardToFullShape", sharding={devices=[8,1]<=[8]}
}"""
PARTITIONED = """HloModule m, num_partitions=8
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[64] parameter(0)
  ROOT y = f32[64] all-reduce(x), replica_groups={{0,1,2,3,4,5,6,7}}, to_apply=add, channel_id=1
}"""
FED = """ENTRY e {
  t = token[] after-all()
  fed = ((f32[64]), token[]) infeed(t)
  given = (f32[64]) get-tuple-element(fed), index=0
  ROOT x = f32[64] get-tuple-element(given), index=0
}"""
NESTED = """ENTRY e {
  x = f32[64] parameter(0)
  inner = (f32[64]) tuple(x)
  ROOT outer = ((f32[64]), f32[64]) tuple(inner, x)
}"""


ENDLESS = """ENTRY e {
  x = f32[2] parameter(0)
  y = f32[?] custom-call(x), custom_call_target="nonzero"
  ROOT z = f32[2] custom-call(y), custom_call_target="pad"
}"""


def of_rank(rank: int) -> str:
    return f"ENTRY e {{ ROOT x = f32[{','.join(['2'] * 7 + ['1'] * (rank - 7))}] parameter(0) }}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (of_rank(50_000), "x: an array of 50,000 dimensions cannot be planned: at most 30 are"),
        (ENDLESS, "y: f32[?] has an unbounded dimension: what it costs is not known, and it cannot be planned"),
        (MANUAL, "part: a part of this program is one device's already (shard_map), and cannot be planned"),
        (PARTITIONED, "y: all-reduce between partitions: this program is one device's already"),
        (FED, "fed: infeed is one device's: XLA's partitioner does not spread it"),
        (NESTED, "module_e yields ((f32[64]), f32[64]): only arrays, and tuples of arrays, can be planned"),
    ],
)
def test_what_cannot_be_planned(text: str, says: str):
    with pytest.raises(HloomError) as caught:
        check_plannable(parse(text))
    assert caught.value.message == says
    assert caught.value.hint


def test_arrays_of_many_dimensions_are_planned():
    assert plan(parse(of_rank(MAX_RANK)), "a=2,b=2,c=2,d=2,e=2").best


def test_shardings_that_are_there_do_not_matter():
    check_plannable(parse("ENTRY e { ROOT x = f32[64] parameter(0), sharding={devices=[8]<=[8]} }"))


def test_fragments_and_unsound_modules_are_refused():
    with pytest.raises(HloomError, match="m is a fragment, and cannot be planned: the operand gone in e is not known"):
        check_plannable(parse("HloModule m\nENTRY e { ROOT x = f32[2] negate(gone) }"))
    with pytest.raises(HloomError, match="its type is"):
        check_plannable(parse("HloModule m\nENTRY e { y = f32[2] parameter(0) ROOT x = f32[3] negate(y) }"))
