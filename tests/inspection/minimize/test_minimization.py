"""Modules made smaller while a fault shows: each reduction, budgets, reports, errors.

Covers `reductions.py`, `cuts.py`, `search.py`, `minimization.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import hloom
from hloom.formats.hlo import parse
from hloom.inspection.minimize import FaultNotShown, Minimization, minimize
from hloom.ir import Module
from hloom.text import HloomError

CHAIN = """HloModule chain, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  x = f32[8,16] parameter(0)
  unused = f32[3] parameter(1)
  w = f32[16,4] parameter(2)
  a = f32[8,16] exponential(x), metadata={op_name="a"}
  dot = f32[8,4] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,4] negate(dot)
  c = f32[8,4] tanh(b)
  ROOT out = (f32[8,4], f32[8,4], f32[8,16]) tuple(b, c, a)
}
"""


def has(*opcodes: str) -> Callable[[Module], bool]:
    """Whether a module has all of these opcodes."""
    return lambda module: set(opcodes) <= {node.opcode for node in module.nodes()}


def smallest(text: str, predicate: Callable[[Module], object]) -> Minimization:
    result = minimize(parse(text), predicate)
    assert result.shows and result.is_finished, result
    assert hloom.equal(parse(result.text), result.module)
    return result


def test_what_the_fault_does_not_need_goes():
    result = smallest(CHAIN, has("tanh"))
    assert result.text == (
        "HloModule chain\n\nENTRY %main (b.value: f32[1,1]) -> f32[1,1] {\n"
        "  %b.value = f32[1,1] parameter(0)\n  ROOT %c = f32[1,1] tanh(%b.value)\n}\n\n"
    )
    assert (result.instructions_before, result.instructions) == (8, 2)


def test_neighbours_that_the_fault_needs_stay():
    def dot_then_negate(module: Module) -> bool:
        return any(node.opcode == "negate" and node.operands[0].opcode == "dot" for node in module.nodes())

    assert [node.opcode for node in smallest(CHAIN, dot_then_negate).module.entry.nodes][-2:] == ["dot", "negate"]


def test_outputs():
    def yields_two(module: Module) -> bool:
        return module.entry.root.opcode == "tuple" and len(module.entry.root.operands) > 1

    assert smallest(CHAIN, yields_two).instructions <= 4


def test_metadata_stays_where_the_fault_is_about_it():
    result = smallest(CHAIN, lambda module: any(node.raw_metadata for node in module.nodes()))
    assert 'exponential(%x), metadata={op_name="a"}' in result.text


def test_the_header_stays_where_the_fault_is_about_it():
    text = CHAIN.replace("HloModule chain, ", "HloModule chain, replica_count=2, ")
    assert "replica_count=2" in smallest(text, lambda module: module.attributes.get("replica_count") == 2).text


CALLS = """HloModule calls
inner { y = f32[4] parameter(0) ROOT z = f32[4] tanh(y) }
outer { y = f32[4] parameter(0) c = f32[4] call(y), to_apply=inner ROOT n = f32[4] negate(c) }
fused { y = f32[4] parameter(0) ROOT z = f32[4] cosine(y) }
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] call(x), to_apply=outer
  ROOT f = f32[4] fusion(a), kind=kLoop, calls=fused
}
"""


@pytest.mark.parametrize("opcode", ["tanh", "cosine", "negate"])
def test_calls_and_fusions_are_inlined(opcode: str):
    result = smallest(CALLS, has(opcode))
    assert (result.instructions, len(result.module.graphs)) == (2, 1)


def test_a_call_that_the_fault_needs_stays():
    assert smallest(CALLS, has("fusion")).instructions <= 4


LOOP = """HloModule loop
cond { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(100) ROOT c = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[4] get-tuple-element(s), index=1
  t = f32[4] tanh(x)
  u = f32[4] cosine(t)
  ROOT r = (s32[], f32[4]) tuple(next, u)
}
ENTRY e {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[4]) tuple(zero, x)
  loop = (s32[], f32[4]) while(init), condition=cond, body=body
  ROOT y = f32[4] get-tuple-element(loop), index=1
}
"""


def test_a_loop_becomes_its_body():
    assert smallest(LOOP, has("tanh")).instructions == 2


def test_a_loop_goes_round_less_often():
    text = smallest(LOOP, has("while", "tanh")).text
    assert "constant(100)" not in text and "cosine" not in text


BRANCHES = """HloModule branches
yes { y = f32[4] parameter(0) ROOT z = f32[4] tanh(y) }
no { y = f32[4] parameter(0) ROOT z = f32[4] cosine(y) }
ENTRY e {
  p = pred[] parameter(0)
  x = f32[4] parameter(1)
  ROOT c = f32[4] conditional(p, x, x), true_computation=yes, false_computation=no
}
"""


@pytest.mark.parametrize("opcode", ["tanh", "cosine"])
def test_a_conditional_becomes_a_branch(opcode: str):
    assert smallest(BRANCHES, has(opcode)).instructions == 2


def test_effects_do_not_keep_instructions():
    result = smallest(
        "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[2] parameter(0) r = f32[2] all-reduce(x), to_apply=add ROOT t = f32[2] tanh(x) }",
        has("tanh"),
    )
    assert result.instructions == 2


def test_values_that_no_parameter_has():
    """The fault needs what an instruction yields, which no parameter could be: another operand, or a reshape, will do."""

    def reaches_the_constant(module: Module) -> bool:
        values = [node for node in module.nodes() if node.opcode == "tanh"]
        reached = set(values)
        while values:
            values = [operand for node in values for operand in node.operands if operand not in reached]
            reached.update(values)
        return any(node.opcode == "constant" for node in reached)

    result = smallest(
        """ENTRY e {
        c = f32[4] constant({1, 2, 3, 4})
        x = f32[4] parameter(0)
        s = f32[4] add(x, c)
        w = f32[4] multiply(x, s)
        r = f32[2,2] reshape(w)
        ROOT t = f32[2,2] tanh(r)
        }""",
        reaches_the_constant,
    )
    assert result.instructions <= 3


def test_a_predicate_that_always_holds_ends_with_the_smallest():
    assert smallest(CHAIN, lambda module: True).instructions == 1


def test_a_predicate_that_never_holds():
    def never(module: Module) -> bool:
        return False

    with pytest.raises(FaultNotShown, match=r"does not show in chain itself: '.*never' does not hold\n  it returned"):
        minimize(parse(CHAIN), never)


def test_the_module_is_left_alone():
    module = parse(CHAIN)

    def vandal(candidate: Module) -> bool:
        candidate.entry.set_output(candidate.entry.nodes[0])
        return True

    minimize(module, vandal)
    assert hloom.equal(module, parse(CHAIN))


def test_steps_bound_the_checks():
    checked = 0

    def count(module: Module) -> bool:
        nonlocal checked
        checked += 1
        return has("tanh")(module)

    result = minimize(parse(CHAIN), count, steps=3)
    assert (result.steps, checked, result.is_finished) == (3, 3, False)
    assert result.instructions < 8 and has("tanh")(result.module)
    assert str(result).endswith("stopped when the steps ran out")
    with pytest.raises(HloomError, match="0 steps: at least one is needed"):
        minimize(parse(CHAIN), count, steps=0)


def test_a_text_that_shows_no_fault_any_more_is_told():
    calls = iter([True] * 3)
    result = minimize(parse(CHAIN), lambda module: next(calls, False))
    assert not result.shows and result.reason == "it returned False"


def test_progress():
    states: list[tuple[int, int]] = []
    minimize(parse(CHAIN), has("tanh"), told=lambda state: states.append((state.steps, state.instructions)))
    assert states[0] == (1, 8) and states[-1][1] == 2
    assert [steps for steps, _ in states] == list(range(1, len(states) + 1))


def test_what_is_no_program():
    with pytest.raises(HloomError, match="in a circle, a -> a: HLO has no recursion"):
        minimize(
            parse(
                "a { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=a }\nENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=a }"
            ),
            has("call"),
        )
    broken = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[3] negate(x) }")
    with pytest.raises(HloomError, match="negate of its operands yields"):
        minimize(broken, has("negate"))


def test_gpt2_with_a_planted_fault():
    """A step of GPT-2 with two layers; twelve take 1.2 s of processor time (docs/minimize.md)."""

    def planted(module: Module) -> bool:
        return any(
            node.opcode == "tanh" and "layer_1" in str(node.raw_metadata)
            and any(user.opcode == "multiply" for user in node.users)
            for node in module.nodes()
        )  # fmt: skip

    module = hloom.load("docs/dumps/gpt2_step.hlo")
    result = minimize(module, planted)
    assert result.instructions_before > 1500 and result.instructions <= 4 and result.steps < 150
    assert "StackFrames" not in result.text and "layer_1" in result.text


def test_a_fault_that_many_instructions_lead_to():
    """A path of a hundred steps, of tuples, reshapes and arithmetic, from a square root to a tangent: its ends are left."""

    def leads_there(module: Module) -> bool:
        reached = set()
        for node in module.entry.nodes:
            if node.opcode == "sqrt" or any(operand in reached for operand in node.operands):
                reached.add(node)
        return any(node.opcode == "tan" for node in reached)

    lines = ["v0 = f32[4,6] sqrt(x)"]
    for n in range(25):
        lines += [
            f"a{n} = f32[4,6] add(x, v{n})",
            f"t{n} = (f32[4,6], f32[4,6]) tuple(x, a{n})",
            f"g{n} = f32[4,6] get-tuple-element(t{n}), index=1",
            f"r{n} = f32[24] reshape(g{n})",
            f"v{n + 1} = f32[4,6] reshape(r{n})",
        ]
    text = "ENTRY e { x = f32[4,6] parameter(0)\n" + "\n".join(lines) + "\nROOT y = f32[4,6] tan(v25) }"
    result = smallest(text, leads_there)
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "sqrt", "tan"]
    assert result.steps < 160


PAIRS = """HloModule pairs
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] tanh(x)
  s = (f32[4], f32[4], u32[]) copy-start(y)
  z = f32[4] cosine(x)
  d = f32[4] copy-done(s)
  ROOT r = f32[4] add(d, z)
}
"""


@pytest.mark.parametrize("opcode", ["copy-start", "copy-done"])
def test_what_begins_and_what_ends_stay_together(opcode: str):
    result = smallest(PAIRS, has(opcode))
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "copy-start", "copy-done"]


def test_a_program_that_yields_nothing():
    assert (
        smallest(
            "ENTRY e { x = f32[4] parameter(0) t = f32[4] tanh(x) ROOT r = () tuple() }", has("tuple")
        ).instructions
        == 1
    )
