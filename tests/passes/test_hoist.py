"""The pass `hoist`: before and after.

Covers `loop_states.py`.
"""

import re
from random import Random

import numpy as np
import pytest

import hloom
from hloom import HloomError
from hloom.evaluator import evaluate
from hloom.ir import verify
from hloom.passes import apply
from tests.passes.domains.while_loop import Element, loop
from tests.passes.pass_assertions import assert_same_outputs
from tests.passes.rule_assertions import module_of

LOOP = """
cond {{ s = {state} parameter(0)  c = s32[] get-tuple-element(s), index=0  l = s32[] constant(5)
  ROOT p = pred[] compare(c, l), direction=LT }}
body {{
  s = {state} parameter(0)
  c = s32[] get-tuple-element(s), index=0
  x = f32[2,2] get-tuple-element(s), index=1
  m = f32[2,2] get-tuple-element(s), index=2
{lines}
  o = s32[] constant(1)
  n = s32[] add(c, o)
  ROOT t = {state} tuple(n, y, m{yielded})
}}
ENTRY e {{
  a = f32[2,2] parameter(0)
  b = f32[2,2] parameter(1)
  z = s32[] constant(0)
{outside}
  i = {state} tuple(z, a, b{begins})
  w = {state} while(i), condition=cond, body=body{config}
  {root}
}}
"""
STATE, WIDER = "(s32[], f32[2,2], f32[2,2])", "(s32[], f32[2,2], f32[2,2], f32[2,2])"
TAKEN = "ROOT r = f32[2,2] get-tuple-element(w), index=1"


def text(lines, state=STATE, yielded="", outside="", begins="", config="", root=TAKEN):
    return LOOP.format(**locals())


def hoisted(before: str):
    result, report = apply(module_of(before), "hoist")
    verify(result)
    return result, report.passes[0]


def assert_hoisted(before: str, after: str) -> None:
    result, _ = hoisted(before)
    wanted = module_of(after)
    result.name = wanted.name
    difference = hloom.difference(result, wanted, metadata=False)
    assert difference is None, f"{difference}\n{hloom.print(result, 'short')}"


def assert_kept(before: str) -> None:
    result, report = hoisted(before)
    assert not report.changed
    assert hloom.difference(result, module_of(before)) is None


def test_what_every_round_computes_the_same_is_computed_before():
    assert_hoisted(
        text("  q = f32[2,2] tanh(m)\n  y = f32[2,2] add(x, q)"),
        text(
            "  q = f32[2,2] get-tuple-element(s), index=3\n  y = f32[2,2] add(x, q)", state=WIDER, yielded=", q",
            outside="  q = f32[2,2] tanh(b)", begins=", q",
        ),
    )  # fmt: skip


def test_what_is_cheap_stays_where_it_is_used():
    assert_hoisted(
        text("  q = f32[2,2] tanh(m)\n  v = f32[2,2] transpose(q), dimensions={1,0}\n  y = f32[2,2] add(x, v)"),
        text(
            "  q = f32[2,2] get-tuple-element(s), index=3\n  v = f32[2,2] transpose(q), dimensions={1,0}\n"
            "  y = f32[2,2] add(x, v)",
            state=WIDER, yielded=", q", outside="  q = f32[2,2] tanh(b)", begins=", q",
        ),
    )  # fmt: skip
    assert_kept(text("  v = f32[2,2] transpose(m), dimensions={1,0}\n  y = f32[2,2] add(x, v)"))


def test_what_depends_on_the_round_stays():
    assert_kept(text("  q = f32[2,2] tanh(x)\n  y = f32[2,2] add(x, q)"))


def test_effects_and_random_numbers_stay():
    assert_kept(text('  q = f32[2,2] custom-call(m), custom_call_target="f", custom_call_has_side_effect=true\n'
                     "  y = f32[2,2] add(x, q)"))  # fmt: skip
    lines = "  h = f32[] constant(0)\n  k = f32[] constant(1)\n  q = f32[2,2] rng(h, k), distribution=rng_uniform\n"
    assert_kept(text(lines + "  y = f32[2,2] add(x, q)"))


def test_shardings_have_a_place_for_the_value():
    before = text(
        "  q = f32[2,2] tanh(m), sharding={maximal device=1}\n  y = f32[2,2] add(x, q)",
        config=", sharding={{replicated}, {maximal device=0}, {maximal device=2}}",
    )
    result, _ = hoisted(before)
    loops = [node for node in result.entry.nodes if node.opcode == "while"]
    wanted = "{{replicated}, {maximal device=0}, {maximal device=2}, {maximal device=1}}"
    assert [str(loop.attributes["sharding"]) for loop in loops] == [wanted]


def test_a_loop_that_is_used_whole_yields_what_it_did():
    result, _ = hoisted(text("  q = f32[2,2] tanh(m)\n  y = f32[2,2] add(x, q)", root=f"ROOT r = {STATE} copy(w)"))
    assert str(result.entry.root.type) == STATE
    assert result.entry.root.operands[0].opcode == "tuple"


def test_a_body_of_two_loops_is_copied_first():
    before = text("  q = f32[2,2] tanh(m)\n  y = f32[2,2] add(x, q)").replace(
        "  ROOT r", f"  j = {STATE} tuple(z, b, a)\n  v = {STATE} while(j), condition=cond, body=body\n"
        "  u = f32[2,2] get-tuple-element(v), index=1\n  k = f32[2,2] get-tuple-element(w), index=1\n"
        "  ROOT d = f32[2,2] subtract(u, k)\n  r",
    )  # fmt: skip
    result, report = hoisted(before)
    assert report.changes == 2 and len(result.graphs) == 5


def test_what_leaves_an_inner_loop_may_leave_the_outer_one_too():
    third = Element("f32[3]", "a", "{1}")
    inner = loop(Random(0), [third, Element("f32[3]", "y", "add({2}, h)")], 3, effect="  h = f32[3] sine(g1)")
    outer = re.sub(r"(?m)^(?=cond |body )|(?<==)(?=cond|body)", "outer_", inner)
    lines = outer[outer.index("outer_body {") : outer.index("ENTRY")].replace(
        "  h = f32[3] sine(g1)",
        "  zz = s32[] constant(0)\n  tt = (s32[], f32[3], f32[3]) tuple(zz, g1, g2)\n"
        "  ww = (s32[], f32[3], f32[3]) while(tt), condition=cond, body=body\n"
        "  h = f32[3] get-tuple-element(ww), index=2",
    )
    head, entry = inner[: inner.index("ENTRY")], outer[outer.index("ENTRY") :]
    condition = outer[outer.index("outer_cond {") : outer.index("outer_body {")]
    module = hloom.parse(head + condition + lines + entry)
    result, report = hoisted(hloom.print(module))
    assert [node.opcode for node in result.entry.nodes].count("sine") == 1
    assert report.changes == 2
    arrays = [np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)]
    for left, right in zip(evaluate(module, arrays), evaluate(result, arrays), strict=True):
        assert (left == right).all()


TWICE = """
cond {{ s = (f32[2], f32[2], s32[]) parameter(0)  c = s32[] get-tuple-element(s), index=2  l = s32[] constant(42)
  ROOT p = pred[] compare(c, l), direction={direction} }}
body {{
  s = (f32[2], f32[2], s32[]) parameter(0)
  x = f32[2] get-tuple-element(s), index=0
  y = f32[2] tanh(x)
  k = s32[] constant({after})
  ROOT t = (f32[2], f32[2], s32[]) tuple(x, y, k)
}}
ENTRY e {{
  i = (f32[2], f32[2], s32[]) parameter(0)
  ROOT w = (f32[2], f32[2], s32[]) while(i), condition=cond, body=body
}}"""


@pytest.mark.parametrize(("direction", "after"), [("EQ", -1), ("LT", 50), ("NE", 42)])
def test_a_loop_that_runs_at_most_once_stays(direction: str, after: int):
    assert_kept(TWICE.format(direction=direction, after=after))


@pytest.mark.parametrize(("direction", "after"), [("EQ", 42), ("LT", 5)])
def test_a_loop_that_may_go_on_does_not(direction: str, after: int):
    assert hoisted(TWICE.format(direction=direction, after=after))[1].changed


CONSTANT = text("  k = f32[2,2] constant({{1,2},{3,4}})\n  y = f32[2,2] add(x, k)")


def test_constants_come_out_when_asked():
    assert_kept(CONSTANT)
    result, _ = apply(module_of(CONSTANT), "hoist(constants=1)")
    verify(result)
    assert [node.opcode for node in result.entry.nodes].count("constant") == 3
    (loop,) = [node for node in result.entry.nodes if node.opcode == "while"]
    assert not any(node.opcode == "constant" for node in loop.attributes["body"].nodes)


def test_what_is_larger_than_its_operands_stays_when_asked():
    grown = text("  b = f32[2,2,9] broadcast(m), dimensions={0,1}\n  v = f32[2,2,9] tanh(b)\n  u = f32[2,2] slice(v)")
    grown = grown.replace("slice(v)", "reshape(h)").replace(
        "  u =", "  h = f32[2,2,1] slice(v), slice={[0:2], [0:2], [0:1]}\n  u ="
    )
    grown = grown.replace("reshape(h)", "reshape(h)\n  y = f32[2,2] add(u, x)")
    assert hoisted(grown)[1].changed
    assert not apply(module_of(grown), "hoist(inflation=1.5)")[1].changed
    assert apply(module_of(grown), "hoist(inflation=9)")[1].changed


PRODUCT = """
mul {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] multiply(a, b) }}
cond {{ s = (f32[], f32[{rows},{columns}]) parameter(0)  a = f32[] get-tuple-element(s), index=0
  l = f32[] constant(3)  ROOT p = pred[] compare(a, l), direction=LT }}
body {{
  s = (f32[], f32[{rows},{columns}]) parameter(0)
  a = f32[] get-tuple-element(s), index=0
  b = f32[{rows},{columns}] get-tuple-element(s), index=1
  o = f32[] constant(1)
  l = f32[{columns},{rows}] broadcast(o), dimensions={{}}
  d = f32[{made}] dot(l, b), {numbers}
  r = f32[] reduce(d, o), dimensions={{0,1}}, to_apply=mul
  e = f32[] abs(r)
  q = f32[] add(a, o)
  n = f32[] add(q, e)
  ROOT t = (f32[], f32[{rows},{columns}]) tuple(n, b)
}}
ENTRY main {{
  x = f32[] parameter(0)
  y = f32[{rows},{columns}] parameter(1)
  i = (f32[], f32[{rows},{columns}]) tuple(x, y)
  ROOT w = (f32[], f32[{rows},{columns}]) while(i), condition=cond, body=body
}}
"""
SMALL = PRODUCT.format(rows=16, columns=8, made="8,8", numbers="lhs_contracting_dims={1}, rhs_contracting_dims={0}")
LARGE = PRODUCT.format(rows=16, columns=4, made="16,16", numbers="lhs_contracting_dims={0}, rhs_contracting_dims={1}")


@pytest.mark.parametrize(
    ("before", "options", "left"),
    [
        (SMALL, "growth=1,only=dot", {"reduce"}),
        (SMALL, "growth=1,only=dot+reduce", set()),
        (SMALL, "growth=1", set()),
        (LARGE, "growth=1,only=dot+reduce", set()),
        (LARGE, "growth=1", set()),
        (LARGE, "growth=4,only=dot", {"reduce"}),
        (SMALL, "growth=1,only=sort", None),
        (LARGE, "growth=1,only=dot", None),
    ],
)
def test_values_that_outgrow_what_they_are_computed_of(before: str, options: str, left: set[str] | None):
    """Restates while_loop_expensive_invariant_code_motion_test.cc: a small value of a large one comes out with it."""
    after, report = apply(module_of(before), f"hoist({options})")
    verify(after)
    assert report.changed == (left is not None)
    if left is None:
        return
    assert {node.opcode for node in after["body"].nodes} & {"dot", "reduce"} == left
    assert_same_outputs(module_of(before), after, exact=False)


def test_a_constant_before_the_state():
    before = module_of("""
    body {
      one = s32[] constant(1)
      p = (s32[], f32[4], f32[4]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      x = f32[4] get-tuple-element(p), index=1
      w = f32[4] get-tuple-element(p), index=2
      j = s32[] add(i, one)
      e = f32[4] exponential(w)
      y = f32[4] multiply(x, e)
      ROOT r = (s32[], f32[4], f32[4]) tuple(j, y, w)
    }
    condition {
      three = s32[] constant(3)
      p = (s32[], f32[4], f32[4]) parameter(0)
      q = (s32[], f32[4], f32[4]) copy(p)
      i = s32[] get-tuple-element(q), index=0
      ROOT c = pred[] compare(i, three), direction=LT
    }
    ENTRY e {
      zero = s32[] constant(0)
      x = f32[4] parameter(0)
      w = f32[4] parameter(1)
      t = (s32[], f32[4], f32[4]) tuple(zero, x, w)
      ROOT l = (s32[], f32[4], f32[4]) while(t), condition=condition, body=body
    }""")
    after, report = apply(before, "hoist")
    verify(after)
    assert report.changed
    assert "exponential" not in {node.opcode for node in after["body"].nodes}
    assert_same_outputs(before, after)


@pytest.mark.parametrize(
    "options", ["constants=some", "constants=2", "inflation=-1", "inflation=inf", "growth=x", "only=dot+dots"]
)
def test_options_that_are_no_numbers(options: str):
    with pytest.raises(HloomError, match="hoist: "):
        apply(module_of(CONSTANT), f"hoist({options})")


def test_a_body_that_uses_its_state_whole_uses_what_it_was():
    """The state has one element more: the barrier is given a tuple of the others."""
    before = text("  q = f32[2,2] exponential(m)\n  g = (s32[], f32[2,2], f32[2,2]) opt-barrier(s)\n"
                  "  u = f32[2,2] get-tuple-element(g), index=1\n  y = f32[2,2] add(u, q)")  # fmt: skip
    result, report = hoisted(before)
    verify(hloom.parse(hloom.print(result)))
    assert report.changes == 1
    body = result.entry["w"].attributes["body"]
    assert body["g"].operands[0].opcode == "tuple" and len(body["g"].operands[0].operands) == 3
    given = [np.full((2, 2), 0.5, np.float32)] * 2
    for one, other in zip(evaluate(module_of(before), given), evaluate(result, given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_constant_tuples_sink():
    """In the body and in the condition, where they are small."""
    before = """
    cond { s = (f32[], (f32[], f32[])) parameter(0)  a = f32[] get-tuple-element(s), index=0
      l = (f32[], f32[]) get-tuple-element(s), index=1  m = f32[] get-tuple-element(l), index=1
      ROOT p = pred[] compare(a, m), direction=LT }
    body { s = (f32[], (f32[], f32[])) parameter(0)  a = f32[] get-tuple-element(s), index=0
      l = (f32[], f32[]) get-tuple-element(s), index=1  k = f32[] get-tuple-element(l), index=0
      b = f32[] add(a, k)  ROOT t = (f32[], (f32[], f32[])) tuple(b, l) }
    ENTRY main { a = f32[] parameter(0)  l = (f32[], f32[]) constant((1, 10))
      i = (f32[], (f32[], f32[])) tuple(a, l)
      ROOT w = (f32[], (f32[], f32[])) while(i), condition=cond, body=body }
    """
    after, _ = apply(module_of(before), "sink")
    verify(after)
    assert_same_outputs(module_of(before), after)
    (loop,) = [node for node in after.entry.nodes if node.opcode == "while"]
    for name in ("condition", "body"):
        taken = [node for node in loop.attributes[name].nodes if node.opcode == "get-tuple-element"]
        assert sorted(node.operands[0].opcode for node in taken) == ["constant", "parameter"]


CALLED = "called {{ v = f32[2,2] parameter(0) {inner} ROOT d = f32[2,2] sine(v) }}\n"
CALL = "  d = f32[2,2] call(m), to_apply=called\n  y = f32[2,2] add(x, d)"


def test_calls_of_what_does_not_change_come_out():
    before = CALLED.format(inner="") + text(CALL)
    result, report = hoisted(before)
    assert report.changes == 1
    [loop_node] = [node for node in result.entry.nodes if node.opcode == "while"]
    assert "call" in [node.opcode for node in result.entry.nodes]
    assert "call" not in [node.opcode for node in loop_node.attributes["body"].nodes]
    assert_same_outputs(module_of(before), result)


@pytest.mark.parametrize(
    "inner",
    [
        'q = f32[2,2] custom-call(v), custom_call_target="f"',
        'q = f32[2,2] custom-call(v), custom_call_target="f", custom_call_has_side_effect=true',
        "q = f32[2,2] while(v), condition=forever, body=same",
        "p = pred[] constant(true) q = f32[2,2] conditional(p, v, v), true_computation=same, false_computation=same",
        "q = f32[2,2] call(v), to_apply=deeper",
    ],
    ids=["an opaque call", "an effect", "a loop", "a branch", "a loop in what is called"],
)
def test_calls_of_what_may_never_end_stay(inner: str):
    """The loop may not run at all."""
    functions = (
        "same { v = f32[2,2] parameter(0) ROOT n = f32[2,2] negate(v) }\n"
        "forever { v = f32[2,2] parameter(0) ROOT t = pred[] constant(true) }\n"
        "deeper { v = f32[2,2] parameter(0) ROOT w = f32[2,2] while(v), condition=forever, body=same }\n"
    )
    _, report = hoisted(functions + CALLED.format(inner=inner) + text(CALL))
    assert report.changes == 0
