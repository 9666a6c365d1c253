"""The pass `dce`: before and after."""

import pytest

import hloom
from hloom.ir import difference, verify
from hloom.passes import apply, erase_unused
from hloom.runtime import accepts
from hloom.text import HloomError
from tests.passes.pass_assertions import assert_leaves, assert_same_outputs
from tests.passes.rule_assertions import module_of


def left(text: str) -> list[str]:
    """The names of the nodes and graphs that are left; the same after what goes without an index of users is gone."""
    result, _ = apply(module_of(text), "dce")
    verify(result)
    sooner = module_of(text)
    erase_unused(sooner)
    verify(sooner)
    assert difference(apply(sooner, "dce")[0], result) is None
    return [node.name for node in result.nodes()] + [graph.name for graph in result]


def test_what_nothing_uses_goes_with_what_only_it_used():
    assert left("x = f32[] parameter(0)\n a = f32[] sine(x)\n b = f32[] cosine(a)\n ROOT r = f32[] negate(x)") == [
        "x", "r", "e",
    ]  # fmt: skip


def test_parameters_stay():
    assert left("x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] negate(x)") == ["x", "y", "r", "e"]


def test_effects_stay():
    text = """
    x = f32[] parameter(0)
    k = token[] after-all()
    o = token[] outfeed(x, k)
    c = f32[] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true
    d = f32[] custom-call(x), custom_call_target="f"
    u = token[] after-all()
    ROOT r = f32[] negate(x)
    """
    assert left(text) == ["x", "k", "o", "c", "r", "e"]


@pytest.mark.parametrize(
    "lines",
    [
        "a = f32[] sine(x)\n ROOT r = f32[] negate(x), control-predecessors={a}",
        "a = f32[] sine(x)\n b = f32[] cosine(a)\n ROOT r = f32[] negate(x), control-predecessors={b}",
        "a = f32[] sine(x)\n d = f32[] cosine(x), control-predecessors={a}\n ROOT r = f32[] negate(x)",
        "a = f32[] sine(x)\n b = f32[] cosine(x), control-predecessors={a}\n d = f32[] tanh(b)\n ROOT r = f32[] add(x, d)",
    ],
    ids=["a predecessor", "what a predecessor needs", "a successor", "a successor that is used"],
)
def test_what_control_dependencies_order_stays(lines: str):
    """As XLA's hlo_dce.cc: an unused instruction in a control dependency is not removed, nor what it needs."""
    assert_leaves("dce", "x = f32[] parameter(0)\n " + lines)


def test_what_is_ordered_by_nothing_goes_beside_what_is():
    text = (
        "x = f32[] parameter(0)\n a = f32[] sine(x)\n b = f32[] tanh(a)\n ROOT r = f32[] negate(x), control-predecessors={a}"
    )
    assert left(text) == ["x", "a", "r", "e"]


def test_what_is_waited_for_stays_where_it_does_something_or_is_used():
    waits = ", control-predecessors={c}"
    for call in (CALL.format("c", "x", ""), "c = f32[4] negate(x)\n o = f32[4] add(c, x)"):
        last = "o, c" if "o =" in call else "x, x"
        assert_leaves("dce", f"x = f32[4] parameter(0)\n {call}\n ROOT r = f32[4] add({last}){waits}")


def test_loops_whose_bodies_have_effects_stay():
    text = """
    cond {{ s = (s32[]) parameter(0)  c = s32[] get-tuple-element(s), index=0  ROOT p = pred[] compare(c, c), direction=LT }}
    body {{ s = (s32[]) parameter(0)  {effect}  c = s32[] get-tuple-element(s), index=0  ROOT t = (s32[]) tuple(c) }}
    ENTRY e {{ x = f32[] parameter(0)  z = s32[] constant(0)  i = (s32[]) tuple(z)
      w = (s32[]) while(i), condition=cond, body=body  ROOT r = f32[] negate(x) }}
    """
    assert "w" not in left(text.format(effect=""))
    assert left(text.format(effect=""))[-1] == "e" and "body" not in left(text.format(effect=""))
    assert "w" in left(text.format(effect="k = token[] after-all()  o = token[] outfeed(s, k)"))


def test_computations_that_nothing_calls_go():
    text = """
    deep { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }
    unused { a = f32[] parameter(0)  ROOT b = f32[] call(a), to_apply=deep }
    used { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }
    ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=used }
    """
    assert left(text)[-2:] == ["used", "e"]


def test_results_and_operands_of_a_fusion_that_nothing_needs_go():
    text = """
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] parameter(2)
      p = f32[] sine(a)  q = f32[] cosine(b)  r = f32[] tanh(c)  ROOT t = (f32[], f32[], f32[]) tuple(p, q, r) }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  z = f32[] parameter(2)  n = f32[] negate(y)
      t = (f32[], f32[], f32[]) fusion(x, n, z), kind=kLoop, calls=f
      u = f32[] get-tuple-element(t), index=0  v = f32[] get-tuple-element(t), index=2
      ROOT s = f32[] subtract(u, v) }
    """
    after = """
    f { a = f32[] parameter(0)  c = f32[] parameter(1)
      p = f32[] sine(a)  r = f32[] tanh(c)  ROOT t = (f32[], f32[]) tuple(p, r) }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  z = f32[] parameter(2)
      t = (f32[], f32[]) fusion(x, z), kind=kLoop, calls=f
      u = f32[] get-tuple-element(t), index=0  v = f32[] get-tuple-element(t), index=1
      ROOT s = f32[] subtract(u, v) }
    """
    result, report = apply(module_of(text), "dce")
    verify(result)
    assert difference(result, module_of(after)) is None
    assert report.passes[0].changes == 2


def test_a_graph_of_two_calls_keeps_its_results():
    text = """
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT t = (f32[], f32[]) tuple(a, a) }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)
      t = (f32[], f32[]) call(x, y), to_apply=f  u = f32[] get-tuple-element(t), index=0
      v = (f32[], f32[]) call(y, x), to_apply=f  w = f32[] get-tuple-element(v), index=1
      ROOT s = f32[] subtract(u, w) }
    """
    module = module_of(text)
    assert difference(apply(module, "dce")[0], module) is None


def test_what_only_dead_nodes_of_a_called_graph_use_is_dead_at_once():
    text = """
    g { c = f32[] parameter(0)  d = f32[] parameter(1)  dead = f32[] add(c, d)  ROOT k = f32[] negate(d) }
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  dead = f32[] sine(b)
      ROOT r = f32[] call(a, b), to_apply=g }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  n = f32[] negate(x)
      ROOT s = f32[] call(n, y), to_apply=f }
    """
    after = """
    g { d = f32[] parameter(0)  ROOT k = f32[] negate(d) }
    f { b = f32[] parameter(0)  ROOT r = f32[] call(b), to_apply=g }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] call(y), to_apply=f }
    """
    result, _ = apply(module_of(text), "dce")
    assert difference(result, module_of(after)) is None
    assert not apply(result, "dce")[1].changed


def test_the_only_call_that_is_reached_is_trimmed():
    text = """
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT n = f32[] negate(a) }
    unreached { x = f32[] parameter(0)  ROOT s = f32[] call(x, x), to_apply=f }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] call(x, y), to_apply=f }
    """
    after = """
    f { a = f32[] parameter(0)  ROOT n = f32[] negate(a) }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] call(x), to_apply=f }
    """
    assert difference(apply(module_of(text), "dce")[0], module_of(after)) is None


def fused(results: str, types: int, *lines: str) -> str:
    """A fusion of several results, and what is made of them."""
    given = f"({', '.join(['f32[4]'] * types)})"
    return f"""
    f {{ p = f32[4] parameter(0)  q = f32[4] parameter(1)  r = f32[4] parameter(2)
      a = f32[4] add(p, q)  n = f32[4] negate(a)  ROOT t = {given} tuple({results}) }}
    ENTRY e {{ x = f32[4] parameter(0)  y = f32[4] parameter(1)  z = f32[4] parameter(2)
      k = {given} fusion(x, y, z), kind=kLoop, calls=f
      {"  ".join(lines)} }}"""


ELEMENT = "{} = f32[4] get-tuple-element(k), index={}"


def test_a_fusion_of_one_result_yields_no_tuple():
    """Restates hlo_dce_test.cc: users of the element use the fusion, those that only wait for it too."""
    one = fused("r, a", 2, ELEMENT.format("g", 0), "ROOT " + ELEMENT.format("h", 1))
    after, _ = apply(module_of(one), "dce")
    assert [node.opcode for node in after["f"].nodes] == ["parameter", "parameter", "add"]
    assert after.entry.root.opcode == "fusion" and len(after.entry.root.operands) == 2
    assert_same_outputs(module_of(one), after)
    twice = fused("r, a, r", 3, ELEMENT.format("g", 1), ELEMENT.format("h", 1), "ROOT t = (f32[4], f32[4]) tuple(g, h)")
    after, _ = apply(module_of(twice), "dce")
    assert [operand.opcode for operand in after.entry.root.operands] == ["fusion", "fusion"]
    awaited = fused(
        "p, a", 2, ELEMENT.format("g", 1), "s = f32[4] add(x, y), control-predecessors={g}", "ROOT u = f32[4] add(s, g)"
    )
    after, _ = apply(module_of(awaited), "dce")
    verify(after)
    assert after.entry["s"].attributes["control-predecessors"] == (after.entry["k"],)


def test_a_fusion_of_several_results_yields_those():
    text = fused("n, p, a", 3, ELEMENT.format("g", 0), ELEMENT.format("h", 2), "ROOT s = f32[4] add(g, h)")
    after, _ = apply(module_of(text), "dce")
    assert str(after.entry["k"].type) == "(f32[4], f32[4])"
    assert_same_outputs(module_of(text), after)


def test_markers_of_shardings_stay_with_what_they_mark():
    mark = 's = f32[4] custom-call(a), custom_call_target="Sharding", sharding={devices=[2]0,1}'
    text = f"x = f32[4] parameter(0)\n a = f32[4] add(x, x)\n {mark}\n ROOT r = f32[4] multiply(a, a)"
    assert not apply(module_of(text), "dce")[1].changed
    after, _ = apply(module_of(text.replace("multiply(a, a)", "multiply(x, x)")), "dce")
    assert [node.opcode for node in after.entry.nodes] == ["parameter", "multiply"]


CALL = '{} = f32[4] custom-call({}), custom_call_target="f", custom_call_has_side_effect=true{}'
ALLOWED = ', frontend_attributes={xla_allow_dce_side_effecting_op="true"}'
ASYNCHRONOUS = """
    f {{ p = f32[4] parameter(0)  {inside} }}
    ENTRY e {{ x = f32[4] parameter(0)  s = ((f32[4]), f32[4]) async-start(x), calls=f{start}
      d = f32[4] async-done(s), calls=f{done}  ROOT r = f32[4] copy(x) }}"""


def test_effects_that_may_go_say_so():
    text = "x = f32[4] parameter(0)\n n = f32[4] negate(x)\n {}\n ROOT r = f32[4] copy(x)"
    assert not apply(module_of(text.format(CALL.format("c", "n", ""))), "dce")[1].changed
    after, _ = apply(module_of(text.format(CALL.format("c", "n", ALLOWED))), "dce")
    assert [node.opcode for node in after.entry.nodes] == ["parameter", "copy"]
    inside = CALL.format("ROOT c", "p", "")
    for start, done, is_left in ((ALLOWED, ALLOWED, False), (ALLOWED, "", False), ("", "", True)):
        after, _ = apply(module_of(ASYNCHRONOUS.format(inside=inside, start=start, done=done)), "dce")
        assert (len(after.entry.nodes) == 4) == is_left


def test_what_is_to_stay_says_so():
    gather = "ROOT g = f32[4] negate(p)"
    kept = ALLOWED.replace("true", "false")
    for start, is_left in ((kept, True), ("", False)):
        after, _ = apply(module_of(ASYNCHRONOUS.format(inside=gather, start=start, done="")), "dce")
        assert (len(after.entry.nodes) == 4) == is_left


GATHERED = """
    x = f32[8] parameter(0)
    g = f32[16] all-gather(x), dimensions={{0}}, replica_groups={{{{0,1}}}}, channel_id=1{more}
    ROOT r = f32[8] copy(x)
"""
GATHERS_ALONE = """
    f {{ p = f32[8] parameter(0)
      ROOT g = f32[16] all-gather(p), dimensions={{0}}, replica_groups={{{{0,1}}}}, channel_id=1{more} }}
    ENTRY e {{ x = f32[8] parameter(0)  s = ((f32[8]), f32[16]) async-start(x), calls=f
      d = f32[16] async-done(s), calls=f  ROOT r = f32[8] copy(x) }}"""
REDUCES_IN_A_LOOP = """
    add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
    goes {{ s = f32[] parameter(0)  h = f32[] constant(9)  ROOT p = pred[] compare(s, h), direction=LT }}
    body {{ s = f32[] parameter(0)  {more}  ROOT n = f32[] all-reduce(s), replica_groups={{}}, to_apply=add }}
    ENTRY e {{ x = f32[] parameter(0)  w = f32[] while(x), condition=goes, body=body  ROOT r = f32[] copy(x) }}"""
STARTED = """
    x = f32[8] parameter(0)
    s = (f32[8], f32[16]) all-gather-start(x), dimensions={{0}}, replica_groups={{{{0,1}}}}, channel_id=1{more}
    d = f32[16] all-gather-done(s)
    ROOT r = f32[8] copy(x)
"""


@pytest.mark.parametrize("text", [GATHERED, GATHERS_ALONE, STARTED, REDUCES_IN_A_LOOP])
def test_collectives_on_demand(text: str):
    """Restates hlo_dce_test.cc: collectives that nothing uses go where that is asked for, unless layouts bind them."""
    assert_leaves("dce", text.format(more=""))
    after, _ = apply(module_of(text.format(more="")), "dce(collectives=1)")
    verify(after)
    assert [node.opcode for node in after.entry.nodes] == ["parameter", "copy"] and len(after.graphs) == 1
    bound = "k = token[] after-all()  o = token[] outfeed(s, k)" if "body" in text else ", constrain_layout=true"
    assert_leaves("dce(collectives=1)", text.format(more=bound))


def test_collectives_that_stay():
    """What says so, and transfers, whose other side may be needed."""
    assert_leaves("dce(collectives=1)", GATHERED.format(more=ALLOWED.replace("true", "false")))
    assert_leaves(
        "dce(collectives=1)",
        """
        x = f32[8] parameter(0)
        k = token[] after-all()
        s = (f32[8], u32[], token[]) send(x, k), channel_id=1
        d = token[] send-done(s), channel_id=1
        ROOT r = f32[8] copy(x)
        """,
    )


SHARED = """HloModule m, input_output_alias={ {}: (3, {}, may-alias) }, buffer_donor={ (1, {}), (2, {}) },
  entry_computation_layout={(f32[2,3]{1,0}, f32[4,5]{0,1}, f32[2,3]{1,0}, f32[2,3]{0,1})->f32[2,3]{1,0}},
  allow_spmd_sharding_propagation_to_parameters={true,false,true,false}
ENTRY e { x = f32[2,3]{1,0} parameter(0)  y = f32[4,5]{0,1} parameter(1)  z = f32[2,3]{1,0} parameter(2)
  w = f32[2,3]{0,1} parameter(3)  dead = f32[4,5]{0,1} negate(y)  ROOT s = f32[2,3]{1,0} add(x, z) }"""


def test_parameters_of_the_entry_on_demand():
    """Restates hlo_dce_test.cc, with what else of the header counts parameters; a shared buffer stays."""
    before = hloom.parse(SHARED)
    after, report = apply(before, "dce(parameters=1)")
    verify(after)
    header = hloom.print(after).split("\n")[0]
    assert [node.name for node in after.entry.parameters] == ["x", "z", "w"]
    assert "{}: (2, {}, may-alias)" in header and "buffer_donor={ (1, {}) }" in header
    assert "{(f32[2,3]{1,0}, f32[2,3]{1,0}, f32[2,3]{0,1})->f32[2,3]{1,0}}" in header and "{true,true,false}" in header
    assert report.passes[0].notes == ["1 parameters erased that nothing uses"]
    assert not apply(after, "dce(parameters=1)")[1].changed
    expected = hloom.run(before, seed=1)
    x, _, z, w = expected.inputs
    assert (hloom.run(after, [x, z, w]).outputs[0] == expected.outputs[0]).all()
    assert [node.name for node in apply(before, "dce")[0].entry.parameters] == ["x", "y", "z", "w"]


def test_options_are_switches():
    for option in ("collectives", "parameters"):
        with pytest.raises(HloomError, match=f"dce: {option} is 0 or 1, not '2'"):
            apply(hloom.parse(SHARED), f"dce({option}=2)")


@pytest.mark.parametrize(
    ("given", "one", "two"),
    [
        ('{({"n"}, {"p" {1}}, {"a"})}', '{{"n"}}', '{({"n"}, {"a"})}'),
        ('{(({"n,"}, {"(m" {0}}), {}, {"a\\"}"})}', '{({"n,"}, {"(m" {0}})}', '{(({"n,"}, {"(m" {0}}), {"a\\"}"})}'),
        ("{({}, {}, {})}", None, "{({}, {})}"),
        ('{({"n"}, {"p"})}', None, None),
        ('{{"n"}}', None, None),
    ],
)
def test_the_origin_of_results_that_stay_is_known(given: str, one: str | None, two: str | None):
    for lines, wanted in (
        (("ROOT " + ELEMENT.format("g", 0),), one),
        ((ELEMENT.format("g", 0), ELEMENT.format("h", 2), "ROOT s = f32[4] add(g, h)"), two),
    ):
        text = fused("n, p, a", 3, *lines).replace("calls=f", f"calls=f, origin={given}")
        after, _ = apply(module_of(text), "dce")
        assert after.entry["k"].attributes.get("origin") == wanted


STARTS = """
    f {{ a = f32[4] parameter(0)  b = f32[8] parameter(1)  c = f32[4] parameter(2)  s = f32[4] add(a, c)
      ROOT t = (f32[4]) tuple(s) }}{thread}
    ENTRY e {{ x = f32[4] parameter(0)  y = f32[8] parameter(1)  z = f32[4] parameter(2)
      s = ((f32[4], f32[8], f32[4]), (f32[4]), s32[]) call-start(x, y, z), to_apply=f{started}{more}
      {then}
      ROOT d = (f32[4]) call-done({last}) }}"""
UPDATED = "u = ((f32[4], f32[8], f32[4]), (f32[4]), s32[]) call-update(s)"


@pytest.mark.parametrize("thread, started", [("", ""), (', execution_thread="t"', ', async_execution_thread="t"')])
@pytest.mark.parametrize("then, last", [("", "s"), (UPDATED, "u")])
def test_asynchronous_calls_lose_operands_that_nothing_uses(thread: str, started: str, then: str, last: str):
    before = hloom.parse(STARTS.format(thread=thread, started=started, more="", then=then, last=last))
    after, _ = apply(before, "dce")
    verify(after)
    started_call = next(node for node in after.entry.nodes if node.opcode == "async-start")
    assert [operand.name for operand in started_call.operands] == ["x", "z"]
    assert str(started_call.type) == "((f32[4], f32[4]), (f32[4]), s32[])"
    assert {node.type for node in after.entry.nodes if node.opcode == "async-update"} <= {started_call.type}
    assert [len(graph.parameters) for graph in after] == [2, 2, 3]
    assert accepts(hloom.print(after)) is None
    if not thread:
        assert_same_outputs(before, after)
    assert not apply(after, "dce")[1].changed


@pytest.mark.parametrize(
    "text",
    [
        STARTS.format(
            thread="", started="", more=", sharding={{replicated}, {replicated}, {replicated}, {replicated}, {replicated}}",
            then="", last="s",
        ),
        """f { a = f32[4] parameter(0)  b = f32[4] parameter(1)  ROOT n = f32[4] negate(a) }
        ENTRY e { x = f32[4] parameter(0)  s = ((f32[4], f32[4]), f32[4]) async-start(x, x), calls=f
          r = ((f32[4], f32[4]), f32[4]) async-start(x, x), calls=f
          d = f32[4] async-done(s)  e = f32[4] async-done(r)  ROOT a = f32[4] add(d, e) }""",
        """f { a = f32[4] parameter(0)  b = f32[4] parameter(1)  ROOT n = f32[4] negate(a) }
        ENTRY e { x = f32[4] parameter(0)  ROOT s = ((f32[4], f32[4]), f32[4]) async-start(x, x), calls=f }""",
    ],
    ids=["sharding", "two calls", "result"],
)  # fmt: skip
def test_asynchronous_calls_that_keep_their_operands(text: str):
    after, _ = apply(hloom.parse(text), "dce")
    starts = [node for node in after.entry.nodes if node.opcode == "async-start"]
    assert all(len(start.operands) == len(start.called_graphs[0].parameters) for start in starts)
    before = [node for node in hloom.parse(text).entry.nodes if node.opcode == "async-start"]
    assert [start.type for start in starts] == [start.type for start in before]


def test_results_of_a_called_loop_that_nothing_needs_go():
    """The call yields the loop's state as it is: its elements are taken apart, and the loop stores no array any more."""
    state = "(s32[], f32[8], f32[10,8])"
    text = f"""
    b {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[8] get-tuple-element(s), index=1
      a = f32[10,8] get-tuple-element(s), index=2 o = s32[] constant(1) z = s32[] constant(0) j = s32[] add(i, o)
      y = f32[8] tanh(x) v = f32[1,8] reshape(y) u = f32[10,8] dynamic-update-slice(a, v, i, z)
      ROOT r = {state} tuple(j, y, u) }}
    c {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(10)
      ROOT p = pred[] compare(i, n), direction=LT }}
    f {{ x = f32[8] parameter(0) a = f32[10,8] parameter(1) z = s32[] constant(0) t = {state} tuple(z, x, a)
      ROOT w = {state} while(t), condition=c, body=b }}
    ENTRY e {{ x = f32[8] parameter(0) a = f32[10,8] parameter(1) q = {state} call(x, a), to_apply=f
      ROOT g = f32[8] get-tuple-element(q), index=1 }}"""
    before = module_of(text)
    after, _ = apply(before, "dce")
    verify(after)
    assert str(after.entry["q"].type) == "(f32[8])"
    assert_same_outputs(before, after)
    simple, _ = apply(before, "simplify")
    assert "dynamic-update-slice" not in [node.opcode for node in simple.nodes()]
    assert not apply(after, "dce")[1].changed
