"""Rules for conditionals: before and after."""

import pytest

from hloom.passes.rules.bitwise import BITWISE
from hloom.passes.rules.conditional import CONDITIONAL, equal_branches, known_branch, unused_operands, unused_results
from hloom.passes.rules.tuple import TUPLE
from hloom.passes.rules.while_loop import element_of_tuple
from hloom.rewrite import rewrite
from tests.passes.computations import computation
from tests.passes.pass_assertions import assert_leaves, changed
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, module_of, rewritten

TWO = """
f {{ p = f32[] parameter(0)  ROOT r = f32[] sine(p) }}
g {{ q = f32[] parameter(0)  ROOT r = f32[] {other}(q) }}
ENTRY e {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = {index}
  ROOT c = f32[] conditional(i, {operands}), {branches}
}}
"""
BY_NUMBER, BY_PREDICATE = "branch_computations={f, g}", "true_computation=f, false_computation=g"


def two(index, branches=BY_NUMBER, other="cosine", operands="x, y"):
    return TWO.format(index=index, branches=branches, other=other, operands=operands)


@pytest.mark.parametrize(
    ("index", "branches", "opcode"),
    [
        ("s32[] constant(0)", BY_NUMBER, "sine"),
        ("s32[] constant(1)", BY_NUMBER, "cosine"),
        ("s32[] constant(-1)", BY_NUMBER, "cosine"),
        ("s32[] constant(7)", BY_NUMBER, "cosine"),
        ("pred[] constant(true)", BY_PREDICATE, "sine"),
        ("pred[] constant(false)", BY_PREDICATE, "cosine"),
    ],
)
def test_a_known_choice_is_made(index, branches, opcode):
    result = rewritten(known_branch, two(index, branches))
    assert result.entry.root.opcode == opcode
    assert [graph.name for graph in result] == ["e"]


def test_a_choice_of_the_data_stays():
    assert_keeps(CONDITIONAL, two("s32[] parameter(2)"))


def test_a_single_branch_is_taken():
    text = two("s32[] parameter(2)", "branch_computations={f}", operands="x")
    assert rewritten(known_branch, text).entry.root.opcode == "sine"


EFFECTS = """
    f { p = f32[] parameter(0)  ROOT r = f32[] custom-call(p), custom_call_target="a", custom_call_has_side_effect=true }
    g { p = f32[] parameter(0)  ROOT r = f32[] custom-call(p), custom_call_target="b", custom_call_has_side_effect=true }
    ENTRY e { x = f32[] parameter(0)  i = pred[] constant(true)
      ROOT c = f32[] conditional(i, x, x), true_computation=f, false_computation=g }
    """


def test_effects_of_the_chosen_branch_only_come_about():
    result = rewritten(known_branch, EFFECTS)
    assert result.entry.root.attributes["custom_call_target"] == "a"
    assert [graph.name for graph in result] == ["e"]


@pytest.mark.parametrize(
    "transfer",
    [
        "k = token[] after-all()  o = (f32[], token[]) infeed(k)  ROOT r = f32[] sine(p)",
        "k = token[] after-all()  o = token[] outfeed(p, k)  ROOT r = f32[] sine(p)",
        "k = token[] after-all()  s = (f32[], u32[], token[]) send(p, k), channel_id=1"
        "  d = token[] send-done(s), channel_id=1  ROOT r = f32[] sine(p)",
        "k = token[] after-all()  s = (f32[], u32[], token[]) recv(k), channel_id=1"
        "  d = (f32[], token[]) recv-done(s), channel_id=1  ROOT r = f32[] sine(p)",
    ],
)
@pytest.mark.parametrize("choice", ["true", "false"])
def test_what_the_host_awaits_stays(transfer: str, choice: str):
    called = 'ROOT r = f32[] custom-call(p), custom_call_target="a", custom_call_has_side_effect=true'
    assert called in EFFECTS
    assert_keeps(known_branch, EFFECTS.replace(called, transfer).replace("constant(true)", f"constant({choice})"))


def test_results_that_come_twice():
    text = """
    f { p = f32[] parameter(0)  a = f32[] sine(p)  ROOT r = (f32[], f32[], f32[]) tuple(a, p, a) }
    g { p = f32[] parameter(0)  a = f32[] cosine(p)  ROOT r = (f32[], f32[], f32[]) tuple(a, a, a) }
    ENTRY e { x = f32[] parameter(0)  i = pred[] parameter(1)
      c = (f32[], f32[], f32[]) conditional(i, x, x), true_computation=f, false_computation=g
      a = f32[] get-tuple-element(c), index=0
      b = f32[] get-tuple-element(c), index=1
      d = f32[] get-tuple-element(c), index=2
      ROOT t = (f32[], f32[], f32[]) tuple(a, b, d) }
    """
    after, _ = changed("simplify", text)
    assert [node.opcode for node in after.entry.nodes].count("get-tuple-element") == 2


SELECTED = """
f {{ p = f32[4] parameter(0)  {one} }}
g {{ p = f32[4] parameter(0)  {other} }}
ENTRY e {{
  i = pred[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] parameter(2)
  ROOT c = f32[4] conditional(i, x, y), true_computation=f, false_computation=g
}}
"""
SINE, COSINE = "ROOT r = f32[4] sine(p)", "ROOT r = f32[4] cosine(p)"


def test_cheap_branches_become_a_select():
    after, _ = changed("conditional-to-select", SELECTED.format(one=SINE, other=COSINE))
    assert [node.opcode for node in after.entry.nodes[3:]] == ["sine", "cosine", "broadcast", "select"]
    assert [graph.name for graph in after] == ["e"]


def test_tuples_are_selected_by_element():
    text = """
    f { p = (f32[4], token[]) parameter(0)  x = f32[4] get-tuple-element(p), index=0
      k = token[] get-tuple-element(p), index=1  n = f32[4] negate(x)  ROOT t = (f32[4], token[]) tuple(n, k) }
    g { p = (f32[4], token[]) parameter(0)  x = f32[4] get-tuple-element(p), index=0
      k = token[] get-tuple-element(p), index=1  n = f32[4] abs(x)  ROOT t = (f32[4], token[]) tuple(n, k) }
    ENTRY e { i = pred[] parameter(0)  x = f32[4] parameter(1)  k = token[] after-all()
      t = (f32[4], token[]) tuple(x, k)
      c = (f32[4], token[]) conditional(i, t, t), true_computation=f, false_computation=g
      ROOT r = f32[4] get-tuple-element(c), index=0 }
    """
    after, _ = changed(["conditional-to-select", "dce"], text)
    assert after.entry.root.opcode == "select"


def test_what_runs_for_each_element_has_no_branches():
    text = """
    f { p = f32[] parameter(0)  ROOT r = f32[] cbrt(p) }
    g { p = f32[] parameter(0)  k = f32[] constant(2)  ROOT r = f32[] power(p, k) }
    m { a = f32[] parameter(0)  b = f32[] parameter(1)  i = pred[] compare(a, b), direction=LT
      ROOT c = f32[] conditional(i, a, b), true_computation=f, false_computation=g }
    ENTRY e { x = f32[9] parameter(0)  y = f32[9] parameter(1)  ROOT r = f32[9] map(x, y), dimensions={0}, to_apply=m }
    """
    after, _ = changed("conditional-to-select", text)
    assert after.graphs[0].root.opcode == "select"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SINE, "ROOT r = f32[4] sort(p), dimensions={0}, to_apply=lt_f32"),
        (SINE, 'ROOT r = f32[4] custom-call(p), custom_call_target="a"'),
        (SINE, "n = f32[4] negate(p)  k = f32[] constant(0)  l = f32[] constant(1)"
         "  ROOT r = f32[4] rng(k, l), distribution=rng_uniform"),
    ],
)  # fmt: skip
def test_expensive_branches_stay(one: str, other: str):
    text = computation("lt", "f32") + SELECTED.format(one=one, other=other)
    assert_leaves("conditional-to-select", text)
    assert_leaves("conditional-to-select", text.replace("f32[4] conditional(i, x, y)", "f32[4] conditional(i, x, x)"))


def test_an_empty_branch_stays():
    text = SELECTED.format(one=SINE, other=COSINE).replace(
        f"g {{ p = f32[4] parameter(0)  {COSINE} }}", "g { ROOT p = f32[4] parameter(0) }"
    )
    assert_leaves("conditional-to-select", text)


def test_equal_branches_need_no_choice():
    text = two("s32[] parameter(2)", other="sine", operands="x, x")
    assert rewritten(equal_branches, text).entry.root.opcode == "sine"


def test_equal_branches_of_different_operands_stay():
    assert_keeps(equal_branches, two("s32[] parameter(2)", other="sine"))


def test_different_branches_stay():
    assert_keeps(equal_branches, two("s32[] parameter(2)", operands="x, x"))


PAIRS = """
f {{ p = {taken} parameter(0)
  a = f32[] get-tuple-element(p), index=0
  {f_lines} }}
g {{ p = {taken} parameter(0)
  a = f32[] get-tuple-element(p), index=0
  {g_lines} }}
ENTRY e {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  i = pred[] parameter(2)
  t = {taken} tuple({given})
  c = {yielded} conditional(i, t, t), true_computation=f, false_computation=g
  {root}
}}
"""


def test_a_result_that_nothing_uses_goes():
    before = PAIRS.format(
        taken="(f32[])", given="x", yielded="(f32[], f32[])", root="ROOT r = f32[] get-tuple-element(c), index=1",
        f_lines="s = f32[] sine(a)  ROOT r = (f32[], f32[]) tuple(s, a)",
        g_lines="s = f32[] cosine(a)  ROOT r = (f32[], f32[]) tuple(a, s)",
    )  # fmt: skip
    after = PAIRS.format(
        taken="(f32[])", given="x", yielded="(f32[])", root="ROOT r = f32[] get-tuple-element(c), index=0",
        f_lines="ROOT r = (f32[]) tuple(a)", g_lines="s = f32[] cosine(a)  ROOT r = (f32[]) tuple(s)",
    )  # fmt: skip
    assert_rewrites([unused_results, element_of_tuple], before, after)


def test_results_that_are_used_stay():
    text = PAIRS.format(
        taken="(f32[])", given="x", yielded="(f32[], f32[])", root="ROOT r = (f32[], f32[]) copy(c)",
        f_lines="ROOT r = (f32[], f32[]) tuple(a, a)", g_lines="s = f32[] cosine(a)  ROOT r = (f32[], f32[]) tuple(a, s)",
    )  # fmt: skip
    assert_keeps(unused_results, text)


def test_an_operand_that_no_branch_uses_goes():
    taken = "(f32[], f32[])"
    root = "ROOT r = f32[] get-tuple-element(c), index=0"
    lines = {"f_lines": "ROOT r = (f32[]) tuple(a)", "g_lines": "s = f32[] cosine(a)  ROOT r = (f32[]) tuple(s)"}
    before = PAIRS.format(taken=taken, given="x, y", yielded="(f32[])", root=root, **lines)
    result = rewritten(unused_operands, before)
    conditional = next(node for node in result.entry.nodes if node.opcode == "conditional")
    assert [str(array_text) for array_text in conditional.operand_types()] == ["pred[]", "(f32[])", "(f32[])"]


def test_a_constant_goes_into_the_branches():
    before = """
    f { p = (f32[], f32[]) parameter(0)  a = f32[] get-tuple-element(p), index=0  b = f32[] get-tuple-element(p), index=1
      ROOT r = f32[] add(a, b) }
    g { q = f32[] parameter(0)  ROOT r = f32[] sine(q) }
    ENTRY e { x = f32[] parameter(0)  i = pred[] parameter(1)  k = f32[] constant(2)  t = (f32[], f32[]) tuple(x, k)
      ROOT c = f32[] conditional(i, t, x), true_computation=f, false_computation=g }
    """
    after = """
    f { p = (f32[]) parameter(0)  b = f32[] constant(2)  a = f32[] get-tuple-element(p), index=0
      ROOT r = f32[] add(a, b) }
    g { q = f32[] parameter(0)  ROOT r = f32[] sine(q) }
    ENTRY e { x = f32[] parameter(0)  i = pred[] parameter(1)  t = (f32[]) tuple(x)
      ROOT c = f32[] conditional(i, t, x), true_computation=f, false_computation=g }
    """
    assert_rewrites(unused_operands, before, after)


def test_operands_that_the_branches_use_stay():
    assert_keeps(unused_operands, two("s32[] parameter(2)"))


CHOICE = (
    "f {\n x = f32[] parameter(0)\n ROOT r = f32[] add(x, x)\n}\n"
    "g {\n x = f32[] parameter(0)\n ROOT r = f32[] multiply(x, x)\n}\n"
    "ENTRY e {\n p = %s[] parameter(0)\n x = f32[] parameter(1)\n y = f32[] parameter(2)\n %s\n}"
)


def test_a_converted_predicate_chooses_by_itself():
    assert_rewrites(
        CONDITIONAL,
        CHOICE % ("pred", "i = s32[] convert(p)\n ROOT c = f32[] conditional(i, x, y), branch_computations={f, g}"),
        CHOICE % ("pred", "ROOT c = f32[] conditional(p, y, x), true_computation=g, false_computation=f"),
    )


def test_another_converted_number_stays():
    assert_keeps(
        CONDITIONAL,
        CHOICE % ("u8", "i = s32[] convert(p)\n ROOT c = f32[] conditional(i, x, y), branch_computations={f, g}"),
    )


def test_an_operand_goes_once_its_last_use_in_the_branch_has_gone():
    text = """
    f { q = (u32[], u32[]) parameter(0)  x = u32[] get-tuple-element(q), index=0
      y = u32[] get-tuple-element(q), index=1  m = u32[] shift-left(x, y)  ROOT t = (u32[], u32[]) tuple(x, m) }
    g { q = (u32[], u32[], u32[]) parameter(0)  z = u32[] constant(0)  ROOT t = (u32[], u32[]) tuple(z, z) }
    ENTRY e { p = pred[] parameter(0)  z = u32[] constant(0)  y = u32[] parameter(1)
      t = (u32[], u32[]) tuple(z, y)  w = (u32[], u32[], u32[]) parameter(2)
      c = (u32[], u32[]) conditional(p, t, w), true_computation=f, false_computation=g
      ROOT r = u32[] get-tuple-element(c), index=1 }
    """
    module = module_of(text)
    rewrite(module, [*CONDITIONAL, *BITWISE, *TUPLE])
    assert not rewrite(module, [*CONDITIONAL, *BITWISE, *TUPLE]).steps
