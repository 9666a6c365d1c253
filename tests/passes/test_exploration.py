"""Rules to forms neither of which is always cheaper.

Covers `passes/rules/explore_dot.py`, `passes/rules/explore_convolution.py`, `passes/rules/explore_elementwise.py`,
`passes/rules/explore_algebra.py`, `passes/rules/explore_concatenate.py` and `passes/rules/diagonal.py`;
`test_equivalence.py` compares the numbers of random programs.
"""

from __future__ import annotations

import pytest

from hloom.passes import EXPLORATION
from hloom.rewrite import Rule
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

RULES: dict[str, Rule] = {rule.name: rule for family in EXPLORATION for rule in family}
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (
            "regrouped-to-the-right",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            c = f32[4,5] parameter(2)
            ab = f32[2,4] dot(a, b), {DOT}
            ROOT y = f32[2,5] dot(ab, c), {DOT}""",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            c = f32[4,5] parameter(2)
            bc = f32[3,5] dot(b, c), {DOT}
            ROOT y = f32[2,5] dot(a, bc), {DOT}""",
        ),
        (
            "sum-of-transforms",
            """x = c64[2,5] parameter(0)
            y = c64[2,5] parameter(1)
            a = f32[2,8] fft(x), fft_type=IRFFT, fft_length={8}
            b = f32[2,8] fft(y), fft_type=IRFFT, fft_length={8}
            ROOT z = f32[2,8] subtract(a, b)""",
            """x = c64[2,5] parameter(0)
            y = c64[2,5] parameter(1)
            d = c64[2,5] subtract(x, y)
            ROOT a = f32[2,8] fft(d), fft_type=IRFFT, fft_length={8}""",
        ),
        (
            "factor-behind-dot",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            x = f32[2] parameter(2)
            rows = f32[2,3] broadcast(x), dimensions={{0}}
            scaled = f32[2,3] divide(a, rows)
            ROOT y = f32[2,4] dot(scaled, b), {DOT}""",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            x = f32[2] parameter(2)
            y = f32[2,4] dot(a, b), {DOT}
            rows = f32[2,4] broadcast(x), dimensions={{0}}
            ROOT scaled = f32[2,4] divide(y, rows)""",
        ),
        (
            "dot-of-identity",
            f"""a = f32[2,3] parameter(0)
            rows = s32[3,3] iota(), iota_dimension=0
            columns = s32[3,3] iota(), iota_dimension=1
            is_same = pred[3,3] compare(rows, columns), direction=EQ
            eye = f32[3,3] convert(is_same)
            ROOT y = f32[2,3] dot(a, eye), {DOT}""",
            """ROOT a = f32[2,3] parameter(0)""",
        ),
        (
            "dot-of-identity",
            f"""rows = s32[3,5] iota(), iota_dimension=0
            columns = s32[3,5] iota(), iota_dimension=1
            two = s32[] constant(2)
            twos = s32[3,5] broadcast(two), dimensions={{}}
            shifted = s32[3,5] add(rows, twos)
            is_same = pred[3,5] compare(shifted, columns), direction=EQ
            one = f32[] constant(1)
            ones = f32[3,5] broadcast(one), dimensions={{}}
            zero = f32[] constant(0)
            zeros = f32[3,5] broadcast(zero), dimensions={{}}
            eye = f32[3,5] select(is_same, ones, zeros)
            b = f32[5,4] parameter(0)
            ROOT y = f32[3,4] dot(eye, b), {DOT}""",
            """b = f32[5,4] parameter(0)
            zero = f32[] constant(0)
            ROOT y = f32[3,4] pad(b, zero), padding=-2_0x0_0""",
        ),
        (
            "dot-of-identity",
            """a = f32[2,3,4] parameter(0)
            rows = s32[2,4,4] iota(), iota_dimension=1
            columns = s32[2,4,4] iota(), iota_dimension=2
            is_same = pred[2,4,4] compare(rows, columns), direction=EQ
            eye = f32[2,4,4] convert(is_same)
            ROOT y = f32[2,4,3] dot(eye, a), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1},
              rhs_contracting_dims={2}""",
            """a = f32[2,3,4] parameter(0)
            ROOT y = f32[2,4,3] transpose(a), dimensions={0,2,1}""",
        ),
        (
            "dot-of-identity",
            f"""a = f32[2,3] parameter(0)
            rows = s32[1,3,3] iota(), iota_dimension=1
            columns = s32[1,3,3] iota(), iota_dimension=2
            is_same = pred[1,3,3] compare(rows, columns), direction=EQ
            kernel = f32[1,3,3] convert(is_same)
            eye = f32[3,3] reshape(kernel)
            ROOT y = f32[2,3] dot(a, eye), {DOT}""",
            """ROOT a = f32[2,3] parameter(0)""",
        ),
        (
            "product-of-broadcasts-as-dot",
            """x = f32[2,3] parameter(0)
            y = f32[4] parameter(1)
            rows = f32[2,3,4] broadcast(x), dimensions={0,1}
            columns = f32[2,3,4] broadcast(y), dimensions={2}
            ROOT r = f32[2,3,4] multiply(columns, rows)""",
            """x = f32[2,3] parameter(0)
            y = f32[4] parameter(1)
            ROOT r = f32[2,3,4] dot(x, y), operand_precision={highest,highest}""",
        ),
        (
            "product-of-broadcasts-as-dot",
            """x = f32[2,3] parameter(0)
            y = f32[2,4] parameter(1)
            rows = f32[2,3,4] broadcast(x), dimensions={0,1}
            columns = f32[2,3,4] broadcast(y), dimensions={0,2}
            ROOT r = f32[2,3,4] multiply(rows, columns)""",
            """x = f32[2,3] parameter(0)
            y = f32[2,4] parameter(1)
            ROOT r = f32[2,3,4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, operand_precision={highest,highest}""",
        ),
        (
            "window-of-concatenation",
            """add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
            ENTRY e {
            a = f32[4,2] parameter(0)
            b = f32[4,3] parameter(1)
            ab = f32[4,5] concatenate(a, b), dimensions={1}
            zero = f32[] constant(0)
            ROOT y = f32[3,5] reduce-window(ab, zero), window={size=2x1}, to_apply=add }""",
            """add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
            ENTRY e {
            a = f32[4,2] parameter(0)
            zero = f32[] constant(0)
            p = f32[3,2] reduce-window(a, zero), window={size=2x1}, to_apply=add
            b = f32[4,3] parameter(1)
            q = f32[3,3] reduce-window(b, zero), window={size=2x1}, to_apply=add
            ROOT y = f32[3,5] concatenate(p, q), dimensions={1} }""",
        ),
        (
            "elementwise-of-concatenations",
            """a = f32[2] parameter(0)
            b = f32[2] parameter(1)
            s = f32[] parameter(2)
            ab = f32[4] concatenate(a, b), dimensions={0}
            spread = f32[4] broadcast(s), dimensions={}
            ROOT y = f32[4] multiply(ab, spread)""",
            """a = f32[2] parameter(0)
            b = f32[2] parameter(1)
            s = f32[] parameter(2)
            spread = f32[2] broadcast(s), dimensions={}
            as = f32[2] multiply(a, spread)
            again = f32[2] broadcast(s), dimensions={}
            bs = f32[2] multiply(b, again)
            ROOT y = f32[4] concatenate(as, bs), dimensions={0}""",
        ),
        (
            "factor-into-kernel",
            """x = f32[1,4,2] parameter(0)
            w = f32[1,2,3] parameter(1)
            s = f32[3] parameter(2)
            y = f32[1,4,3] convolution(x, w), window={size=1}, dim_labels=b0f_0io->b0f
            features = f32[1,4,3] broadcast(s), dimensions={2}
            ROOT r = f32[1,4,3] multiply(y, features)""",
            """x = f32[1,4,2] parameter(0)
            w = f32[1,2,3] parameter(1)
            s = f32[3] parameter(2)
            features = f32[1,2,3] broadcast(s), dimensions={2}
            scaled = f32[1,2,3] multiply(w, features)
            ROOT r = f32[1,4,3] convolution(x, scaled), window={size=1}, dim_labels=b0f_0io->b0f""",
        ),
        (
            "factor-from-image-to-kernel",
            """x = f32[1,4,2] parameter(0)
            w = f32[1,2,3] parameter(1)
            s = f32[2] parameter(2)
            features = f32[1,4,2] broadcast(s), dimensions={2}
            scaled = f32[1,4,2] multiply(x, features)
            ROOT r = f32[1,4,3] convolution(scaled, w), window={size=1}, dim_labels=b0f_0io->b0f""",
            """x = f32[1,4,2] parameter(0)
            w = f32[1,2,3] parameter(1)
            s = f32[2] parameter(2)
            features = f32[1,2,3] broadcast(s), dimensions={1}
            scaled = f32[1,2,3] multiply(w, features)
            ROOT r = f32[1,4,3] convolution(x, scaled), window={size=1}, dim_labels=b0f_0io->b0f""",
        ),
        (
            "sum-of-convolutions-of-two-sizes",
            """x = f32[1,4,2] parameter(0)
            w = f32[3,2,3] parameter(1)
            v = f32[1,2,3] parameter(2)
            p = f32[1,4,3] convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
            q = f32[1,4,3] convolution(x, v), window={size=1}, dim_labels=b0f_0io->b0f
            ROOT r = f32[1,4,3] add(p, q)""",
            """x = f32[1,4,2] parameter(0)
            w = f32[3,2,3] parameter(1)
            v = f32[1,2,3] parameter(2)
            zero = f32[] constant(0)
            larger = f32[3,2,3] pad(v, zero), padding=1_1x0_0x0_0
            both = f32[3,2,3] add(w, larger)
            ROOT r = f32[1,4,3] convolution(x, both), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f""",
        ),
        (
            "dot-of-reshape",
            f"""x = f32[2,3,4] parameter(0)
            b = f32[4,5] parameter(1)
            a = f32[6,4] reshape(x)
            ROOT y = f32[6,5] dot(a, b), {DOT}""",
            """x = f32[2,3,4] parameter(0)
            b = f32[4,5] parameter(1)
            y = f32[2,3,5] dot(x, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}
            ROOT r = f32[6,5] reshape(y)""",
        ),
        (
            "concatenation-of-elementwise",
            """a = f32[2] parameter(0)
            b = f32[3] parameter(1)
            s = f32[] parameter(2)
            s2 = f32[2] broadcast(s), dimensions={}
            s3 = f32[3] broadcast(s), dimensions={}
            p = f32[2] maximum(a, s2)
            q = f32[3] maximum(b, s3)
            ROOT r = f32[5] concatenate(p, q), dimensions={0}""",
            """a = f32[2] parameter(0)
            b = f32[3] parameter(1)
            s = f32[] parameter(2)
            both = f32[5] concatenate(a, b), dimensions={0}
            bound = f32[5] broadcast(s), dimensions={}
            ROOT r = f32[5] maximum(both, bound)""",
        ),
        (
            "sum-of-dots-joined",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            c = f32[2,5] parameter(2)
            d = f32[5,4] parameter(3)
            p = f32[2,4] dot(a, b), {DOT}
            q = f32[2,4] dot(c, d), {DOT}
            ROOT r = f32[2,4] add(p, q)""",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            c = f32[2,5] parameter(2)
            d = f32[5,4] parameter(3)
            left = f32[2,8] concatenate(a, c), dimensions={{1}}
            right = f32[8,4] concatenate(b, d), dimensions={{0}}
            ROOT r = f32[2,4] dot(left, right), {DOT}""",
        ),
        (
            "elementwise-of-broadcasts",
            """x = f32[3] parameter(0)
            y = f32[] parameter(1)
            a = f32[3,4] broadcast(x), dimensions={0}
            b = f32[3,4] broadcast(y), dimensions={}
            ROOT r = f32[3,4] add(a, b)""",
            """x = f32[3] parameter(0)
            y = f32[] parameter(1)
            b = f32[3] broadcast(y), dimensions={}
            sum = f32[3] add(x, b)
            ROOT r = f32[3,4] broadcast(sum), dimensions={0}""",
        ),
        (
            "movement-of-elementwise",
            """x = f32[4] parameter(0)
            y = f32[] parameter(1)
            b = f32[4] broadcast(y), dimensions={}
            p = f32[4] multiply(x, b)
            ROOT r = f32[2] slice(p), slice={[1:3]}""",
            """x = f32[4] parameter(0)
            y = f32[] parameter(1)
            s = f32[2] slice(x), slice={[1:3]}
            b = f32[2] broadcast(y), dimensions={}
            ROOT r = f32[2] multiply(s, b)""",
        ),
        (
            "factor-to-second-operand",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            x = f32[3] parameter(2)
            columns = f32[2,3] broadcast(x), dimensions={{1}}
            scaled = f32[2,3] multiply(a, columns)
            ROOT y = f32[2,4] dot(scaled, b), {DOT}""",
            f"""a = f32[2,3] parameter(0)
            b = f32[3,4] parameter(1)
            x = f32[3] parameter(2)
            rows = f32[3,4] broadcast(x), dimensions={{0}}
            scaled = f32[3,4] multiply(b, rows)
            ROOT y = f32[2,4] dot(a, scaled), {DOT}""",
        ),
        (
            "reshape-of-dot",
            f"""a = f32[5,3] parameter(0)
            b = f32[3,8] parameter(1)
            y = f32[5,8] dot(a, b), {DOT}
            ROOT r = f32[5,2,4] reshape(y)""",
            f"""a = f32[5,3] parameter(0)
            b = f32[3,8] parameter(1)
            heads = f32[3,2,4] reshape(b)
            ROOT y = f32[5,2,4] dot(a, heads), {DOT}""",
        ),
        (
            "dot-over-joined-dimensions",
            f"""a = f32[5,2,4] parameter(0)
            b = f32[8,3] parameter(1)
            x = f32[5,8] reshape(a)
            ROOT y = f32[5,3] dot(x, b), {DOT}""",
            """a = f32[5,2,4] parameter(0)
            b = f32[8,3] parameter(1)
            heads = f32[2,4,3] reshape(b)
            ROOT y = f32[5,3] dot(a, heads), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}""",
        ),
        (
            "reshape-of-elementwise",
            """x = f32[3,8] parameter(0)
            y = f32[] parameter(1)
            b = f32[3,8] broadcast(y), dimensions={}
            p = f32[3,8] add(x, b)
            ROOT r = f32[3,2,4] reshape(p)""",
            """x = f32[3,8] parameter(0)
            y = f32[] parameter(1)
            v = f32[3,2,4] reshape(x)
            b = f32[3,8] broadcast(y), dimensions={}
            c = f32[3,2,4] reshape(b)
            ROOT p = f32[3,2,4] add(v, c)""",
        ),
        (
            "product-of-conjugates",
            """g = f32[4] parameter(0)
            t = f32[4] parameter(1)
            n = f32[] constant(1)
            one = f32[4] broadcast(n), dimensions={}
            d = f32[4] subtract(one, t)
            s = f32[4] add(t, one)
            p = f32[4] multiply(g, d)
            ROOT r = f32[4] multiply(p, s)""",
            """g = f32[4] parameter(0)
            t = f32[4] parameter(1)
            n = f32[] constant(1)
            one = f32[4] broadcast(n), dimensions={}
            ones = f32[4] multiply(one, one)
            square = f32[4] multiply(t, t)
            d = f32[4] subtract(ones, square)
            ROOT r = f32[4] multiply(g, d)""",
        ),
        (
            "broadcast-out-of-second",
            """x = f32[4] parameter(0)
            y = f32[4] parameter(1)
            z = f32[] parameter(2)
            b = f32[4] broadcast(z), dimensions={}
            p = f32[4] multiply(b, y)
            ROOT r = f32[4] divide(x, p)""",
            """x = f32[4] parameter(0)
            y = f32[4] parameter(1)
            z = f32[] parameter(2)
            q = f32[4] divide(x, y)
            b = f32[4] broadcast(z), dimensions={}
            ROOT r = f32[4] divide(q, b)""",
        ),
        (
            "guard-against-nan",
            """x = f32[4] parameter(0)
            e = f32[4] exponential(x)
            is_nan = pred[4] compare(x, x), direction=NE
            ROOT r = f32[4] select(is_nan, x, e)""",
            """x = f32[4] parameter(0)
            ROOT e = f32[4] exponential(x)""",
        ),
        (
            "interleaved",
            """x = f32[2,3] parameter(0)
            y = f32[2,3] parameter(1)
            zero = f32[] constant(0)
            even = f32[4,3] pad(x, zero), padding=0_1_1x0_0
            odd = f32[4,3] pad(y, zero), padding=1_0_1x0_0
            ROOT r = f32[4,3] add(even, odd)""",
            """x = f32[2,3] parameter(0)
            y = f32[2,3] parameter(1)
            pairs = f32[2,6] concatenate(x, y), dimensions={1}
            ROOT r = f32[4,3] reshape(pairs)""",
        ),
    ],
)
def test_a_form_becomes_another(rule: str, before: str, after: str):
    assert_rewrites(RULES[rule], before, after)


def test_a_factor_along_what_is_contracted_stays():
    assert_keeps(
        RULES["factor-behind-dot"],
        f"""a = f32[2,3] parameter(0)
        b = f32[3,4] parameter(1)
        x = f32[3] parameter(2)
        columns = f32[2,3] broadcast(x), dimensions={{1}}
        scaled = f32[2,3] multiply(a, columns)
        ROOT y = f32[2,4] dot(scaled, b), {DOT}""",
    )


def test_whole_numbers_are_left_to_rules_that_keep_every_bit():
    assert_keeps(
        [RULES["regrouped-to-the-right"], RULES["sum-of-dots"]],
        f"""a = s32[2,3] parameter(0)
        b = s32[3,4] parameter(1)
        c = s32[4,5] parameter(2)
        ab = s32[2,4] dot(a, b), {DOT}
        ROOT y = s32[2,5] dot(ab, c), {DOT}""",
    )


def test_the_root_of_a_number_that_may_be_negative_stays():
    assert_keeps(
        RULES["factor-out-of-root"],
        """x = f32[4] parameter(0)
        y = f32[] parameter(1)
        b = f32[4] broadcast(y), dimensions={}
        p = f32[4] multiply(x, b)
        ROOT r = f32[4] sqrt(p)""",
    )


def test_a_guard_stays_where_what_is_chosen_need_not_be_nan():
    assert_keeps(
        RULES["guard-against-nan"],
        """x = f32[4] parameter(0)
        y = f32[4] parameter(1)
        is_nan = pred[4] compare(x, x), direction=NE
        ROOT r = f32[4] select(is_nan, y, x)""",
    )


def test_a_guard_that_takes_all_bits_in_order_stays():
    """With `type=TOTALORDER` a NaN is equal to itself."""
    assert_keeps(
        RULES["guard-against-nan"],
        """x = f32[4] parameter(0)
        e = f32[4] exponential(x)
        is_nan = pred[4] compare(x, x), direction=NE, type=TOTALORDER
        ROOT r = f32[4] select(is_nan, x, e)""",
    )


def test_elements_that_leave_gaps_are_not_put_in_turns():
    assert_keeps(
        RULES["interleaved"],
        """x = f32[2] parameter(0)
        y = f32[2] parameter(1)
        zero = f32[] constant(0)
        even = f32[5] pad(x, zero), padding=0_2_1
        odd = f32[5] pad(y, zero), padding=1_1_1
        ROOT r = f32[5] add(even, odd)""",
    )


@pytest.mark.parametrize(
    "matrix",
    [
        "is_same = pred[3,3] compare(rows, columns), direction=LT\neye = f32[3,3] convert(is_same)",
        "is_same = pred[3,3] compare(rows, rows), direction=EQ\neye = f32[3,3] convert(is_same)",
        """three = s32[] constant(3)
        threes = s32[3,3] broadcast(three), dimensions={}
        shifted = s32[3,3] add(columns, threes)
        is_same = pred[3,3] compare(rows, shifted), direction=EQ
        eye = f32[3,3] convert(is_same)""",
        """is_same = pred[3,3] compare(rows, columns), direction=EQ
        x = f32[3,3] parameter(1)
        zero = f32[] constant(0)
        zeros = f32[3,3] broadcast(zero), dimensions={}
        eye = f32[3,3] select(is_same, x, zeros)""",
    ],
    ids=["triangle", "all ones", "beside the diagonals", "other numbers"],
)
def test_products_with_matrices_that_are_not_ones_on_a_diagonal_stay(matrix: str):
    assert_keeps(
        RULES["dot-of-identity"],
        f"""a = f32[2,3] parameter(0)
        rows = s32[3,3] iota(), iota_dimension=0
        columns = s32[3,3] iota(), iota_dimension=1
        {matrix}
        ROOT y = f32[2,3] dot(a, eye), {DOT}""",
    )


@pytest.mark.parametrize("dims", ["{0,1}", "{}", "{0}"], ids=["both of both", "a number", "one is repeated in both"])
def test_products_of_broadcasts_that_are_no_outer_product_stay(dims: str):
    shape = {"{0,1}": "2,3", "{}": "", "{0}": "2"}[dims]
    assert_keeps(
        RULES["product-of-broadcasts-as-dot"],
        f"""x = f32[2] parameter(0)
        y = f32[{shape}] parameter(1)
        rows = f32[2,3] broadcast(x), dimensions={{0}}
        others = f32[2,3] broadcast(y), dimensions={dims}
        ROOT r = f32[2,3] multiply(rows, others)""",
    )


def test_a_window_over_what_is_joined_stays():
    assert_keeps(
        RULES["window-of-concatenation"],
        """add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
        ENTRY e {
        a = f32[4] parameter(0)
        b = f32[3] parameter(1)
        ab = f32[7] concatenate(a, b), dimensions={0}
        zero = f32[] constant(0)
        ROOT y = f32[6] reduce-window(ab, zero), window={size=2}, to_apply=add }""",
    )


def test_the_trace_of_a_product_stays():
    """Both dimensions of the identity are contracted."""
    assert_keeps(
        RULES["dot-of-identity"],
        """a = f32[3,3] parameter(0)
        rows = s32[3,3] iota(), iota_dimension=0
        columns = s32[3,3] iota(), iota_dimension=1
        is_same = pred[3,3] compare(rows, columns), direction=EQ
        eye = f32[3,3] convert(is_same)
        ROOT y = f32[] dot(a, eye), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}""",
    )


def test_what_is_joined_of_arrays_of_several_shapes_shares_no_broadcast():
    assert_keeps(
        RULES["elementwise-of-concatenations"],
        """a = f32[2] parameter(0)
        b = f32[3] parameter(1)
        s = f32[] parameter(2)
        ab = f32[5] concatenate(a, b), dimensions={0}
        spread = f32[5] broadcast(s), dimensions={}
        ROOT y = f32[5] multiply(ab, spread)""",
    )


def test_transforms_of_two_types_are_not_added():
    assert_keeps(
        RULES["sum-of-transforms"],
        """x = c64[2,5] parameter(0)
        a = c64[2,5] fft(x), fft_type=FFT, fft_length={5}
        b = c64[2,5] fft(x), fft_type=IFFT, fft_length={5}
        ROOT z = c64[2,5] add(a, b)""",
    )
