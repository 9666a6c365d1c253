"""Every pass ends on every program: loops without end, many rounds, deep nesting, long chains."""

import pytest

import hloom
from hloom.evaluator import evaluate
from hloom.passes import PASSES, apply_in_place
from hloom.text import HloomError

ENDLESS = """
    cond { p = s32[] parameter(0)  ROOT t = pred[] constant(true) }
    body { ROOT p = s32[] parameter(0) }
    ENTRY e { c = s32[] constant(1)  ROOT w = s32[] while(c), condition=cond, body=body }
"""
NOTHING_AT_ALL = """
    cond { p = () parameter(0)  ROOT t = pred[] constant(true) }
    body { ROOT p = () parameter(0) }
    ENTRY e { c = () tuple()  w = () while(c), condition=cond, body=body  ROOT r = s32[] constant(0) }
"""
MANY_ROUNDS = """
    cond { p = s64[] parameter(0)  n = s64[] constant(1000000000000)  ROOT t = pred[] compare(p, n), direction=LT }
    body { p = s64[] parameter(0)  one = s64[] constant(1)  ROOT s = s64[] add(p, one) }
    ENTRY e { c = s64[] constant(0)  ROOT w = s64[] while(c), condition=cond, body=body }
"""
DOUBLED = "f0 { ROOT p = f32[] parameter(0) }\n" + "".join(
    f"f{n} {{ p = f32[] parameter(0)  a = f32[] call(p), to_apply=f{n - 1}  ROOT b = f32[] call(a), to_apply=f{n - 1} }}\n"
    for n in range(1, 40)
) + "ENTRY e { c = f32[] constant(1)  ROOT r = f32[] call(c), to_apply=f39 }"
NESTED = "f0 { ROOT p = f32[] parameter(0) }\n" + "".join(
    f"f{n} {{ p = f32[] parameter(0)  a = f32[] negate(p)  ROOT b = f32[] call(a), to_apply=f{n - 1} }}\n"
    for n in range(1, 300)
) + "ENTRY e { c = f32[] parameter(0)  ROOT r = f32[] call(c), to_apply=f299 }"
CHAIN = "ENTRY e { n0 = f32[] parameter(0) " + "".join(f"n{n} = f32[] sine(n{n - 1}) " for n in range(1, 1500)) + (
    "ROOT r = f32[] negate(n1499) }"
)
PROGRAMS = {
    "endless": ENDLESS, "of nothing": NOTHING_AT_ALL, "many rounds": MANY_ROUNDS, "calls doubled": DOUBLED,
    "calls nested": NESTED, "chain": CHAIN,
}  # fmt: skip
OTHERS = ("lower-mindir", "microbatch", "remat")  # of no HLO modules, or in need of an option
NAMES = [name for name in PASSES if not name.startswith("test-") and name not in OTHERS]


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_pass_ends(name: str, text: str):
    module = hloom.parse(text)
    apply_in_place(module, name, verify_each=True)


@pytest.mark.parametrize("text", [ENDLESS, MANY_ROUNDS], ids=["endless", "many rounds"])
def test_evaluating_ends_at_the_limit(text: str):
    with pytest.raises(HloomError, match="more than 1000 elements would be computed"):
        evaluate(hloom.parse(text), limit=1000)
