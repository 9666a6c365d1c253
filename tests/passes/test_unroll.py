"""The pass `unroll`: before and after. Covers `instruction_copies.py`."""

import re
import sys

import pytest

import hloom
from hloom.formats.hlo import parse, to_text
from hloom.ir import verify
from hloom.passes import Pass, apply
from hloom.passes.unroll import unroll, unrolled
from tests.passes.rule_assertions import module_of
from tests.passes.test_while_loop import counted


def written_out(text: str, *passes):
    result, report = apply(module_of(text), list(passes) or "unroll")
    verify(result)
    return result, report.passes[0]


def opcodes(module, opcode: str) -> int:
    return sum(node.opcode == opcode for node in module.nodes())


def test_every_round_is_written_out():
    result, _ = written_out(counted(3))
    assert opcodes(result, "negate") == 3 and opcodes(result, "while") == 0
    assert [graph.name for graph in result] == ["e"]
    clean, _ = apply(result, "dce")
    wanted = module_of("x = f32[] parameter(0)\n p = f32[] parameter(1)\n a = f32[] negate(x)\n b = f32[] negate(a)\n"
                       "ROOT y = f32[] negate(b)")  # fmt: skip
    clean.name = wanted.name
    assert hloom.difference(clean, wanted) is None


def test_a_loop_that_never_runs_is_its_state():
    result, _ = written_out(counted(0))
    assert result.entry.root.name == "x"


def test_a_loop_that_is_used_whole():
    result, _ = written_out(counted(2, used="  ROOT r = (s32[], f32[]) copy(w)"))
    assert result.entry.root.operands[0].opcode == "tuple" and opcodes(result, "negate") == 2


def test_an_element_that_the_state_has_not_stays_asked_for():
    result, _ = apply(module_of(counted(2, used="  ROOT r = f32[] get-tuple-element(w), index=7")), "unroll")
    assert result.entry.root.opcode == "get-tuple-element" and opcodes(result, "while") == 0


def test_an_element_that_a_round_does_not_yield_stays_asked_for():
    text = counted(2, used="  ROOT r = f32[] get-tuple-element(w), index=1")
    lines = [re.sub(r"(ROOT .* tuple\(.*?),.*\)", r"\1)", line) for line in text.splitlines()]
    result, _ = apply(module_of("\n".join(lines)), "unroll")
    assert result.entry.root.opcode == "get-tuple-element" and opcodes(result, "while") == 0


def test_effects_come_about_in_every_round():
    result, _ = written_out(counted(3, lines="  k = token[] after-all()\n  o = token[] outfeed(x, k)\n", results="x"))
    assert opcodes(result, "outfeed") == 3


def test_a_long_loop_stays():
    result, report = written_out(counted(1_000_000))
    assert opcodes(result, "while") == 1
    assert report.notes == ["w in e stays: 1,000,000 rounds of 7 instructions"]


def test_a_limit():
    result, _ = written_out(counted(9), lambda module: unroll(module, limit=20))
    assert opcodes(result, "while") == 1


def test_rounds_that_depend_on_the_data_stay():
    text = counted(3).replace(
        "l = s32[] constant(3)", "f = f32[] get-tuple-element(s), index=1\n  l = s32[] convert(f)"
    )
    result, report = written_out(text)
    assert opcodes(result, "while") == 1 and report.notes == ["w in e stays: its rounds are not known"]


def test_several_rounds_in_one():
    config = ', backend_config={"known_trip_count":{"n":"6"},"known_init_step":{"init":"0","step":"1"}}'
    result, _ = written_out(counted(6, config=config), unrolled(3))
    loop = result.entry["w"]
    assert opcodes(result, "negate") == 3 and opcodes(result, "while") == 1
    assert loop.attributes["backend_config"] == (
        '{"known_trip_count":{"n":"2"},"known_init_step":{"init":"0","step":"3"}}'
    )


def test_rounds_that_do_not_come_out_even_stay():
    result, report = written_out(counted(7), unrolled(3))
    assert opcodes(result, "negate") == 1 and report.notes == ["w in e stays: it has 7 rounds"]


def test_copies_of_collectives_get_channels_of_their_own():
    text = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n" + counted(
        3, lines="  y = f32[] all-reduce(x), channel_id=1, replica_groups={}, to_apply=add\n"
    )
    result, _ = written_out(text)
    channels = [node.attributes["channel_id"] for node in result.entry.nodes if node.opcode == "all-reduce"]
    assert channels == [1, 2, 3]


TRANSFERS = """
condition { s = (s32[], f32[], (f32[], u32[], token[])) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)  ROOT p = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[], (f32[], u32[], token[])) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1  c = (f32[], u32[], token[]) get-tuple-element(s), index=2
  end = token[] send-done(c), channel_id=4  start = (f32[], u32[], token[]) send(x, end), channel_id=4
  o = s32[] constant(1)  j = s32[] add(i, o)  y = f32[] negate(x)
  ROOT t = (s32[], f32[], (f32[], u32[], token[])) tuple(j, y, start) }
ENTRY e { x = f32[] parameter(0)  z = s32[] constant(0)  k = token[] after-all()
  first = (f32[], u32[], token[]) send(x, k), channel_id=4
  t = (s32[], f32[], (f32[], u32[], token[])) tuple(z, x, first)
  w = (s32[], f32[], (f32[], u32[], token[])) while(t), condition=condition, body=body
  c = (f32[], u32[], token[]) get-tuple-element(w), index=2  q = token[] send-done(c), channel_id=4
  ROOT y = f32[] get-tuple-element(w), index=1 }
"""


@pytest.mark.parametrize(("passes", "count"), [((), 7), ((unrolled(3),), 4)], ids=["whole", "three rounds"])
def test_transfers_that_end_in_the_next_round_keep_their_channel(passes: tuple[Pass, ...], count: int):
    result, _ = written_out(TRANSFERS, *passes)
    parse(to_text(result), strict=True)
    assert opcodes(result, "send") == opcodes(result, "send-done") == count
    assert {node.attributes.get("channel_id") for node in result.nodes()} == {None, 4}


def test_transfers_that_end_in_their_round_get_channels():
    lines = "  k = token[] after-all()  started = (f32[], u32[], token[]) send(x, k), channel_id=1\n"
    result, _ = written_out(counted(3, lines=lines + "  d = token[] send-done(started), channel_id=1  y = f32[] negate(x)\n"))
    parse(to_text(result), strict=True)
    assert [node.attributes["channel_id"] for node in result.nodes() if node.opcode == "send"] == [1, 2, 3]


def test_copies_of_asynchronous_operations_have_computations_of_their_own():
    lines = "  started = ((f32[]), f32[], s32[]) async-start(x), calls=wrapped  y = f32[] async-done(started), calls=wrapped\n"
    wrapped = "wrapped { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }\n"
    result, _ = written_out(wrapped + counted(3, lines=lines))
    parse(to_text(result), strict=True)
    runs = [node.attributes["calls"] for node in result.entry.nodes if node.opcode == "async-start"]
    assert len(set(runs)) == 3 and [graph.name for graph in result if not graph.callers] == ["e"]


NESTED = """
inner_condition { s = (s32[], s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1  ROOT p = pred[] compare(i, n), direction=LT }
inner { s = (s32[], s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1  x = f32[] get-tuple-element(s), index=2  o = s32[] constant(1)
  j = s32[] add(i, o)  y = f32[] negate(x)  ROOT t = (s32[], s32[], f32[]) tuple(j, n, y) }
condition { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(2)
  ROOT p = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  x = f32[] get-tuple-element(s), index=1
  z = s32[] constant(0)  t = (s32[], s32[], f32[]) tuple(z, i, x)
  w = (s32[], s32[], f32[]) while(t), condition=inner_condition, body=inner  y = f32[] get-tuple-element(w), index=2
  o = s32[] constant(1)  j = s32[] add(i, o)  ROOT r = (s32[], f32[]) tuple(j, y) }
ENTRY e { x = f32[] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[]) tuple(z, x)
  w = (s32[], f32[]) while(t), condition=condition, body=body  ROOT y = f32[] get-tuple-element(w), index=1 }
"""


def test_loops_whose_rounds_an_outer_loop_counts_go_in_the_same_run(monkeypatch: pytest.MonkeyPatch):
    result, _ = written_out(NESTED)
    assert opcodes(result, "while") == 0 and opcodes(result, "negate") == 1
    monkeypatch.setattr(sys.modules[unroll.__module__], "MAX_MODULE_NODES", 50)
    result, report = written_out(NESTED)
    assert opcodes(result, "while") == 2 and report.notes[-1].endswith("the module would have more than 50 instructions")


def test_a_loop_that_others_wait_for_stays():
    text = counted(3).replace("ROOT r", "q = f32[] sine(y), control-predecessors={w}\n  ROOT r")
    assert opcodes(written_out(text)[0], "while") == 1
