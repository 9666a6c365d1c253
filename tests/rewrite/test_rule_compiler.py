"""What patterns match: operations, operands, attributes, constants, conditions.

Covers `match.py`, `matchers.py`, `match_steps.py`, `match_checks.py`, `match_variants.py`, `expressions.py`,
`expression_compiler.py`, `type_check.py`.
"""

from __future__ import annotations

import pytest

from hloom.rewrite import ANY, Rule, holding, one_of, register, rule
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

register("tests.is-sorted", lambda dims: list(dims) == sorted(dims))
register("tests.is-small", lambda node: node.type.element_count <= 4)


@rule
def double_negation(p):
    """negate(negate(x)) -> x"""
    x = p.value("x")
    outer = p.op("negate", p.op("negate", x))
    with p.rewrite() as r:
        r.replace({outer: x})


def test_operations_one_above_the_other():
    assert_rewrites(
        double_negation,
        "x = f32[2] parameter(0)\n n = f32[2] negate(x)\n ROOT m = f32[2] negate(n)",
        "ROOT x = f32[2] parameter(0)",
    )


def test_what_is_used_elsewhere_is_not_matched_unless_shared():
    text = (
        "x = f32[2] parameter(0)\n n = f32[2] negate(x)\n m = f32[2] negate(n)\n ROOT t = (f32[2], f32[2]) tuple(n, m)"
    )
    assert_keeps(double_negation, text)

    @rule
    def shared_negation(p):
        x = p.value("x")
        outer = p.op("negate", p.op("negate", x, shared=True))
        with p.rewrite() as r:
            r.replace({outer: x})

    assert_rewrites(
        shared_negation,
        text,
        "x = f32[2] parameter(0)\n n = f32[2] negate(x)\n ROOT t = (f32[2], f32[2]) tuple(n, x)",
    )


def test_what_the_computation_yields_is_used_elsewhere():
    @rule
    def absolute_of_negation(p):
        x = p.value("x")
        outer = p.op("abs", p.op("negate", x))
        with p.rewrite() as r:
            r.replace({outer: r.op("abs", x)})

    assert_keeps(
        absolute_of_negation,
        "x = f32[2] parameter(0)\n ROOT n = f32[2] negate(x)\n a = f32[2] abs(n)\n b = f32[2] custom-call(a), "
        'custom_call_target="keep", custom_call_has_side_effect=true',
    )


@rule
def sum_with_product(p):
    """x * y + z -> subtract(z, x * y), so that one sees which is which"""
    x, y, z = p.value("x"), p.value("y"), p.value("z")
    product = p.op("multiply", x, y)
    total = p.op("add", product, z)
    with p.rewrite() as r:
        r.replace({total: r.op("subtract", z, r.op("multiply", x, y))})


@pytest.mark.parametrize("operands", ["m, z", "z, m"])
def test_commutative_operations_match_in_either_order(operands: str):
    arrays = "x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n z = f32[2] parameter(2)\n"
    assert_rewrites(
        sum_with_product,
        f"{arrays} m = f32[2] multiply(x, y)\n ROOT a = f32[2] add({operands})",
        f"{arrays} m = f32[2] multiply(x, y)\n ROOT a = f32[2] subtract(z, m)",
    )


def test_commutative_false_keeps_the_order():
    @rule
    def ordered(p):
        x, y = p.value("x"), p.value("y")
        total = p.op("add", p.op("negate", x), y, commutative=False)
        with p.rewrite() as r:
            r.replace({total: r.op("subtract", y, x)})

    arrays = "x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n n = f32[2] negate(x)\n"
    assert_keeps(ordered, f"{arrays} ROOT a = f32[2] add(y, n)")
    assert_rewrites(
        ordered,
        f"{arrays} ROOT a = f32[2] add(n, y)",
        "x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n ROOT a = f32[2] subtract(y, x)",
    )


def test_the_same_value_twice():
    @rule
    def twice(p):
        x = p.value("x")
        total = p.op("add", x, x)
        with p.rewrite() as r:
            r.replace({total: r.op("multiply", x, r.constant(2, like=x))})

    assert_keeps(twice, "x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT a = s32[] add(x, y)")
    assert_rewrites(
        twice,
        "x = s32[] parameter(0)\n ROOT a = s32[] add(x, x)",
        "x = s32[] parameter(0)\n c = s32[] constant(2)\n ROOT a = s32[] multiply(x, c)",
    )


def test_variadic_operands():
    @rule
    def first_of_many(p):
        x, rest = p.value("x"), p.values("rest")
        joined = p.op("concatenate", x, rest, dimensions=ANY)
        p.where(joined.operand_count > 2)
        with p.rewrite() as r:
            r.replace({joined: r.op("concatenate", rest, x, dimensions=(0,))})

    arrays = "x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n"
    assert_keeps(first_of_many, f"{arrays} ROOT c = f32[4] concatenate(x, y), dimensions={{0}}")


def test_an_optional_operation():
    @rule
    def maybe_converted(p):
        x = p.value("x")
        inside = p.op("negate", x, optional=True)
        outer = p.op("abs", p.op("sign", inside))
        with p.rewrite() as r:
            r.replace({outer: r.op("abs", r.op("exponential", x))})

    after = "x = f32[2] parameter(0)\n e = f32[2] exponential(x)\n ROOT a = f32[2] abs(e)"
    assert_rewrites(maybe_converted, "x = f32[2] parameter(0)\n s = f32[2] sign(x)\n ROOT a = f32[2] abs(s)", after)
    assert_rewrites(
        maybe_converted,
        "x = f32[2] parameter(0)\n n = f32[2] negate(x)\n s = f32[2] sign(n)\n ROOT a = f32[2] abs(s)",
        after,
    )


def _with_constant(value, **options) -> Rule:
    @rule(name="with-constant")
    def matched(p):
        x = p.value("x")
        total = p.op("multiply", x, p.constant("c", value, **options))
        with p.rewrite() as r:
            r.replace({total: r.op("negate", x)})

    return matched


def test_constants_by_value_in_every_place():
    result = _with_constant(2.0)
    after = "x = f32[2] parameter(0)\n ROOT n = f32[2] negate(x)"
    for constant in ("c = f32[2] constant({2, 2})", "s = f32[] constant(2)\n c = f32[2] broadcast(s), dimensions={}"):
        assert_rewrites(result, f"x = f32[2] parameter(0)\n {constant}\n ROOT m = f32[2] multiply(x, c)", after)
    assert_keeps(result, "x = f32[2] parameter(0)\n c = f32[2] constant({2, 3})\n ROOT m = f32[2] multiply(x, c)")


def test_constants_by_predicate():
    @rule
    def by_an_even_number(p):
        x, c = p.value("x"), p.constant("c")
        total = p.op("multiply", x, c)
        p.where(c.value % 2 == 0)
        with p.rewrite() as r:
            r.replace({total: r.op("negate", x)})

    text = "x = s32[] parameter(0)\n c = s32[] constant({})\n ROOT m = s32[] multiply(x, c)"
    assert_keeps(by_an_even_number, text.replace("{}", "3"))
    assert_rewrites(by_an_even_number, text.replace("{}", "4"), "x = s32[] parameter(0)\n ROOT n = s32[] negate(x)")


def test_attribute_conditions_and_arithmetic():
    @rule
    def last_axis(p):
        a, b, axis = p.value("a"), p.value("b"), p.attribute("axis")
        joined = p.op("concatenate", a, b, dimensions=axis)
        p.where(axis[0] == a.rank - 1, b.shape[0] == a.shape[axis[0]])
        with p.rewrite() as r:
            r.replace({joined: r.op("concatenate", b, a, dimensions=(joined.rank - 1,))})

    arrays = "a = f32[2,2] parameter(0)\n b = f32[2,3] parameter(1)\n"
    step = [last_axis]
    text = f"{arrays} ROOT c = f32[2,5] concatenate(a, b), dimensions={{1}}"
    after = f"{arrays} ROOT c = f32[2,5] concatenate(b, a), dimensions={{1}}"
    assert_rewrites(step, text, after)
    assert_keeps(
        step,
        "a = f32[2,2] parameter(0)\n b = f32[3,2] parameter(1)\n ROOT c = f32[5,2] concatenate(a, b), dimensions={0}",
    )


def test_choices_and_native_predicates_of_attributes():
    @rule
    def some_comparisons(p):
        x, y = p.value("x"), p.value("y")
        test = p.op("compare", x, y, direction=one_of("LT", "GT"))
        with p.rewrite() as r:
            r.replace({test: r.op("compare", x, y, direction="NE")})

    arrays = "x = s32[] parameter(0)\n y = s32[] parameter(1)\n"
    assert_keeps(some_comparisons, f"{arrays} ROOT c = pred[] compare(x, y), direction=EQ")
    assert_rewrites(
        some_comparisons,
        f"{arrays} ROOT c = pred[] compare(x, y), direction=GT",
        f"{arrays} ROOT c = pred[] compare(x, y), direction=NE",
    )

    @rule
    def unmoved(p):
        x = p.value("x")
        moved = p.op("transpose", x, dimensions=holding("tests.is-sorted"))
        with p.rewrite() as r:
            r.replace({moved: x})

    assert_keeps(unmoved, "x = f32[2,2] parameter(0)\n ROOT t = f32[2,2] transpose(x), dimensions={1,0}")
    assert_rewrites(
        unmoved,
        "x = f32[2,2] parameter(0)\n ROOT t = f32[2,2] transpose(x), dimensions={0,1}",
        "ROOT x = f32[2,2] parameter(0)",
    )


def test_shapes_ranks_and_element_types():
    @rule
    def square(p):
        n = p.dimension("n")
        x = p.value("x", dtype=("f32", "f64"), shape=[n, n])
        moved = p.op("transpose", x, dimensions=(1, 0))
        with p.rewrite() as r:
            r.replace({moved: r.op("negate", x)})

    text = "x = f32[{}] parameter(0)\n ROOT t = f32[{}] transpose(x), dimensions={1,0}"
    assert_keeps(square, text.replace("{}", "2,3", 1).replace("{}", "3,2", 1))
    assert_keeps(square, text.replace("{}", "2,2").replace("f32", "s32"))
    assert_rewrites(square, text.replace("{}", "2,2"), "x = f32[2,2] parameter(0)\n ROOT n = f32[2,2] negate(x)")


def test_native_conditions():
    @rule
    def small_only(p):
        x = p.value("x")
        outer = p.op("abs", p.op("negate", x))
        p.where(p.call("tests.is-small", x))
        with p.rewrite() as r:
            r.replace({outer: r.op("abs", x)})

    text = "x = f32[{}] parameter(0)\n n = f32[{}] negate(x)\n ROOT a = f32[{}] abs(n)"
    assert_keeps(small_only, text.replace("{}", "5"))
    assert_rewrites(small_only, text.replace("{}", "4"), "x = f32[4] parameter(0)\n ROOT a = f32[4] abs(x)")


SUM = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"


def test_what_a_called_computation_does():
    @rule
    def sums(p):
        x, zero = p.value("x"), p.constant("zero", 0.0)
        total = p.op("reduce", x, zero, dimensions=ANY, to_apply=p.graph(lambda a, b: p.op("add", a, b)))
        with p.rewrite() as r:
            r.replace({total: r.op("negate", r.op("reduce", r.op("negate", x), zero, dimensions=total.dimensions,
                                                  to_apply=total.to_apply))})  # fmt: skip
        p.equivalence(reason="the sum is computed in another order", tolerance=1e-5)

    entry = "ENTRY e { x = f32[3] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply="
    assert_keeps(sums, SUM.replace("add(a, b)", "maximum(a, b)").replace("add {", "most {") + entry + "most }")


def test_left_out_attributes_have_their_defaults():
    @rule
    def cholesky_twice(p):
        x = p.value("x")
        result = p.op("cholesky", x)
        with p.rewrite() as r:
            r.replace({result: r.op("negate", x)})

    text = "x = f32[2,2] parameter(0)\n ROOT c = f32[2,2] cholesky(x)"
    assert_keeps(cholesky_twice, f"{text}, lower=true")
    after = "x = f32[2,2] parameter(0)\n ROOT n = f32[2,2] negate(x)"
    assert_rewrites(cholesky_twice, text, after)
    assert_rewrites(cholesky_twice, f"{text}, lower=false", after)


def test_carried_attributes_never_stand_in_the_way():
    assert_rewrites(
        double_negation,
        "x = f32[2] parameter(0)\n n = f32[2] negate(x), sharding={replicated}\n"
        ' ROOT m = f32[2] negate(n), frontend_attributes={a="b"}',
        "ROOT x = f32[2] parameter(0)",
    )


def test_other_attributes_that_are_not_named_do():
    assert_keeps(
        double_negation,
        'x = f32[2] parameter(0)\n n = f32[2] negate(x), backend_config="b"\n ROOT m = f32[2] negate(n)',
    )
