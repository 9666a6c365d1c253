"""Rules for loops: before and after."""

import hloom
from hloom.ir import Apply, verify
from hloom.passes import apply
from hloom.passes.rules.loop_state import invariant_elements
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.tuple_elements import select_configuration, with_trip_count
from hloom.passes.rules.while_loop import (
    WHILE_LOOP,
    WHILE_SINKING,
    constant_elements,
    dead_elements,
    element_that_a_loop_passes_on,
    loop_that_never_runs,
    loop_that_runs_once,
    repeated_elements,
    trip_count,
)
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, module_of, rewritten

COUNTED = """
cond {{
  s = (s32[], f32[]{more}) parameter(0)
  c = s32[] get-tuple-element(s), index=0
  l = s32[] constant({limit})
  ROOT p = pred[] compare(c, l), direction=LT
}}

body {{
  s = (s32[], f32[]{more}) parameter(0)
  c = s32[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1
{gets}  one = s32[] constant(1)
  n = s32[] add(c, one)
{lines}  ROOT t = (s32[], f32[]{more}) tuple(n, {results})
}}

ENTRY e {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  z = s32[] constant(0)
{outside}  i = (s32[], f32[]{more}) tuple(z, x{begins})
  w = (s32[], f32[]{more}) while(i), condition=cond, body=body{config}
{used}
}}
"""
FIRST = "  ROOT r = f32[] get-tuple-element(w), index=1"


def counted(
    limit, lines="  y = f32[] negate(x)\n", results="y", more="", gets="", begins="", used=FIRST, config="", outside=""
) -> str:
    return COUNTED.format(**locals())


WITH_THIRD = {"more": ", f32[]", "gets": "  d = f32[] get-tuple-element(s), index=2\n", "begins": ", y"}


def test_element_of_tuple():
    assert_rewrites(
        element_of_tuple,
        """
        x = f32[] parameter(0)
        y = s32[] parameter(1)
        t = (f32[], s32[]) tuple(x, y)
        ROOT r = s32[] get-tuple-element(t), index=1
        """,
        "x = f32[] parameter(0)\n ROOT y = s32[] parameter(1)",
    )


def test_a_loop_that_never_runs_is_its_state():
    result = rewritten(WHILE_LOOP, counted(0))
    assert result.entry.root.name == "x"
    assert [graph.name for graph in result] == ["e"]


def test_a_loop_that_may_run_stays():
    assert_keeps(loop_that_never_runs, counted(3))
    assert_keeps(loop_that_runs_once, counted(3))


def test_a_loop_that_runs_once_is_its_body():
    assert_rewrites(
        [loop_that_runs_once, element_of_tuple],
        counted(1),
        "x = f32[] parameter(0)\n u = f32[] parameter(1)\n ROOT y = f32[] negate(x)",
    )


def test_a_body_with_an_effect_keeps_the_loop():
    text = counted(1, lines="  k = token[] after-all()\n  o = token[] outfeed(x, k)\n", results="x")
    assert_keeps([loop_that_runs_once, element_of_tuple], text)


def test_effects_of_a_body_that_never_runs_are_gone():
    result = rewritten(
        WHILE_LOOP, counted(0, lines="  k = token[] after-all()\n  o = token[] outfeed(x, k)\n", results="x")
    )
    assert not any(node.opcode == "outfeed" for node in result.nodes())


def test_a_condition_with_an_effect_keeps_the_loop():
    text = counted(0).replace("  c = s32[]", "  k = token[] after-all()\n  o = token[] outfeed(s, k)\n  c = s32[]", 1)
    assert_keeps(loop_that_never_runs, text)


def test_a_written_count_is_believed_where_none_can_be_worked_out():
    text = counted(1, config=', backend_config={"known_trip_count":{"n":"1"}}')
    unclear = text.replace("l = s32[] constant(1)", "f = f32[] get-tuple-element(s), index=1\n  l = s32[] convert(f)")
    loop = module_of(unclear).entry["w"]
    assert isinstance(loop, Apply) and trip_count(loop) == 1
    assert rewritten(WHILE_LOOP, unclear).entry.root.opcode == "negate"


def test_a_dead_element_goes():
    before = counted(
        5, lines="  y = f32[] negate(x)\n  e = f32[] add(d, x)\n", results="y, e", **WITH_THIRD,
        config=', backend_config={"known_trip_count":{"n":"5"},"known_induction_variable":{"tuple_index":"0"}}',
    )  # fmt: skip
    after = counted(
        5, config=', backend_config={"known_trip_count":{"n":"5"},"known_induction_variable":{"tuple_index":"0"}}'
    )
    assert_rewrites([dead_elements, element_of_tuple], before, after)


def test_an_element_that_a_live_one_needs_stays():
    assert_keeps(dead_elements, counted(5, lines="  y = f32[] add(x, d)\n", results="y, d", **WITH_THIRD))


def test_an_element_that_an_effect_needs_stays():
    lines = "  y = f32[] negate(x)\n  k = token[] after-all()\n  o = token[] outfeed(d, k)\n"
    assert_keeps(dead_elements, counted(5, lines=lines, results="y, d", **WITH_THIRD))


def test_a_loop_with_an_effect_keeps_it_when_an_element_goes():
    lines = "  e = f32[] add(d, d)\n  k = token[] after-all()\n  o = token[] outfeed(x, k)\n"
    result = rewritten([dead_elements, element_of_tuple], counted(5, lines=lines, results="x, e", **WITH_THIRD))
    loops = [node for node in result.entry.nodes if node.opcode == "while"]
    assert [str(loop.type) for loop in loops] == ["(s32[], f32[])"]
    assert sum(node.opcode == "outfeed" for node in result.nodes()) == 1


def test_a_loop_that_is_used_whole_keeps_its_elements():
    text = counted(
        5,
        lines="  e = f32[] add(d, x)\n",
        results="x, e",
        used="  ROOT o = (s32[], f32[], f32[]) copy(w)",
        **WITH_THIRD,
    )
    assert_keeps(dead_elements, text)


def test_shardings_lose_the_element_too():
    before = counted(
        5, lines="  y = f32[] negate(x)\n  e = f32[] add(d, x)\n", results="y, e", **WITH_THIRD,
        config=", sharding={{replicated}, {maximal device=0}, {maximal device=1}}",
    )  # fmt: skip
    result = rewritten([dead_elements, element_of_tuple], before)
    loop = next(node for node in result.entry.nodes if node.opcode == "while")
    assert str(loop.attributes["sharding"]) == "{{replicated}, {maximal device=0}}"


def test_what_goes_through_unchanged_is_taken_from_before():
    used = "  ROOT r = f32[] get-tuple-element(w), index=2"
    before = counted(5, lines="", results="x, d", used=used, **WITH_THIRD)
    result = rewritten(element_that_a_loop_passes_on, before)
    assert result.entry.root.name == "y"


def test_what_changes_is_not_taken_from_before():
    assert_keeps(element_that_a_loop_passes_on, counted(5))


def test_equal_elements_become_one():
    both = {"more": ", f32[], f32[]", "begins": ", y, y"}
    gets = "  d = f32[] get-tuple-element(s), index=2\n  e = f32[] get-tuple-element(s), index=3\n"
    before = counted(
        5, lines="  m = f32[] multiply(d, e)\n  y = f32[] add(x, m)\n", results="y, d, e", gets=gets, **both
    )
    after = counted(5, lines="  m = f32[] multiply(d, d)\n  y = f32[] add(x, m)\n", results="y, d", **WITH_THIRD)
    assert_rewrites([repeated_elements, element_of_tuple], before, after)


def test_elements_that_begin_the_same_and_part_stay():
    both = {"more": ", f32[], f32[]", "begins": ", y, y"}
    gets = "  d = f32[] get-tuple-element(s), index=2\n  e = f32[] get-tuple-element(s), index=3\n"
    lines = "  m = f32[] multiply(d, e)\n  y = f32[] add(x, m)\n"
    assert_keeps(repeated_elements, counted(5, lines=lines, results="y, d, m", gets=gets, **both))


def test_a_constant_goes_into_the_loop():
    third = {**WITH_THIRD, "begins": ", k", "outside": "  k = f32[] constant(2)\n"}
    before = counted(5, lines="  y = f32[] add(x, d)\n", results="y, d", **third)
    after = counted(5, lines="  d = f32[] constant(2)\n  y = f32[] add(x, d)\n")
    assert_rewrites([constant_elements, element_of_tuple], before, after)


def test_a_constant_that_the_body_changes_stays():
    third = {**WITH_THIRD, "begins": ", k", "outside": "  k = f32[] constant(2)\n"}
    assert_keeps(constant_elements, counted(5, lines="  y = f32[] add(x, d)\n", results="y, y", **third))


def test_what_is_cheap_sinks():
    third = {
        **WITH_THIRD, "begins": ", k", "outside": "  h = f32[] constant(2)\n  k = f32[] negate(h)\n",
    }  # fmt: skip
    before = counted(5, lines="  y = f32[] add(x, d)\n", results="y, d", **third)
    result = rewritten([*WHILE_SINKING, element_of_tuple], before)
    assert str(result.entry["w"].type if "w" in result.entry else result.entry.root.operands[0].type) == "(s32[], f32[])"


def test_a_body_of_two_loops_is_changed_for_one_only():
    text = counted(5, lines="  y = f32[] negate(x)\n  e = f32[] add(d, x)\n", results="y, e", **WITH_THIRD)
    text = text.replace("  ROOT r =", "  v = (s32[], f32[], f32[]) while(i), condition=cond, body=body\n  r =").replace(
        "index=1\n\n}", "index=1\n  q = f32[] get-tuple-element(v), index=2\n  ROOT o = (f32[], f32[]) tuple(r, q)\n}"
    )
    result = rewritten([dead_elements, element_of_tuple], text)
    types = sorted(str(node.type) for node in result.entry.nodes if node.opcode == "while")
    assert types == ["(s32[], f32[])", "(s32[], f32[], f32[])"]


def test_what_one_loop_does_not_need_the_loop_before_it_does_not_yield():
    lines = "  y = f32[] negate(x)\n  e = f32[] add(d, x)\n"
    second = (
        "  u = f32[] get-tuple-element(w), index=1\n  v = f32[] get-tuple-element(w), index=2\n"
        "  j = (s32[], f32[], f32[]) tuple(z, u, v)\n"
        "  k = (s32[], f32[], f32[]) while(j), condition=cond, body=body\n"
        "  ROOT r = f32[] get-tuple-element(k), index=1"
    )
    result = rewritten(WHILE_LOOP, counted(5, lines=lines, results="y, e", used=second, **WITH_THIRD))
    loops = [node for node in result.entry.nodes if node.opcode == "while"]
    assert [str(node.type) for node in loops] == ["(s32[], f32[])"] * 2


def test_nested_loops_are_simplified_from_both_sides():
    text = """
    inner_cond { s = (s32[], f32[]) parameter(0)  c = s32[] get-tuple-element(s), index=0  l = s32[] constant(1)
      ROOT p = pred[] compare(c, l), direction=LT }
    inner { s = (s32[], f32[]) parameter(0)  c = s32[] get-tuple-element(s), index=0  o = s32[] constant(1)
      x = f32[] get-tuple-element(s), index=1  n = s32[] add(c, o)  y = f32[] sine(x)
      ROOT t = (s32[], f32[]) tuple(n, y) }
    outer_cond { s = (s32[], f32[]) parameter(0)  c = s32[] get-tuple-element(s), index=0  l = s32[] constant(1)
      ROOT p = pred[] compare(c, l), direction=LT }
    outer { s = (s32[], f32[]) parameter(0)  c = s32[] get-tuple-element(s), index=0  o = s32[] constant(1)
      x = f32[] get-tuple-element(s), index=1  n = s32[] add(c, o)  z = s32[] constant(0)
      i = (s32[], f32[]) tuple(z, x)  w = (s32[], f32[]) while(i), condition=inner_cond, body=inner
      y = f32[] get-tuple-element(w), index=1  ROOT t = (s32[], f32[]) tuple(n, y) }
    ENTRY e { x = f32[] parameter(0)  z = s32[] constant(0)  i = (s32[], f32[]) tuple(z, x)
      w = (s32[], f32[]) while(i), condition=outer_cond, body=outer
      ROOT r = f32[] get-tuple-element(w), index=1 }
    """
    assert_rewrites(WHILE_LOOP, text, "x = f32[] parameter(0)\n ROOT y = f32[] sine(x)")


def test_which_elements_a_body_passes_on():
    module = module_of(counted(5, lines="  y = f32[] negate(x)\n", results="y, d", **WITH_THIRD))
    assert invariant_elements(module["body"]) == {2}


def test_a_configuration_names_elements_by_their_places():
    text = '{"known_trip_count":{"n":"5"},"known_induction_variable":{"tuple_index":"2"},"dynamic_variables":[]}'
    kept = '{"known_trip_count":{"n":"5"},"known_induction_variable":{"tuple_index":"1"},"dynamic_variables":[]}'
    assert select_configuration(text, [0, 2]) == kept
    assert select_configuration(text, [0, 1]) == '{"known_trip_count":{"n":"5"},"dynamic_variables":[]}'
    assert select_configuration("opaque", [0]) == "opaque"
    assert select_configuration("no json: tuple_index", [0]) is None


def test_a_configuration_is_told_of_fewer_rounds():
    text = '{"known_trip_count":{"n":"6"},"known_init_step":{"init":"0","step":"1"}}'
    module = module_of(counted(6, config=f", backend_config={text}"))
    attributes = module.entry["w"].attributes
    assert with_trip_count(attributes, 3, 2)["backend_config"] == (
        '{"known_trip_count":{"n":"3"},"known_init_step":{"init":"0","step":"2"}}'
    )
    assert "backend_config" not in with_trip_count(attributes, None)


def test_the_pass_sink():
    third = {**WITH_THIRD, "begins": ", k", "outside": "  k = f32[] constant(2)\n"}
    module, report = apply(hloom.parse(counted(5, lines="  y = f32[] add(x, d)\n", results="y, d", **third)), "sink")
    verify(module)
    assert report.matched
    assert str(next(n for n in module.entry.nodes if n.opcode == "while").type) == "(s32[], f32[])"
