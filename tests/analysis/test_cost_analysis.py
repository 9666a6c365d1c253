"""What each opcode counts: XLA's number, the mathematical one, and that none is without a rule.

Covers `cost_properties.py`, `data_movement.py`, `elementwise.py`, `reduction.py`, `collective.py`, `table.py`.
"""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hloom.analysis import Cost, cost, cost_rule
from hloom.analysis.rules.contraction import positions
from hloom.formats.hlo import parse
from hloom.ir import WindowDimension
from hloom.ops import OPS
from hloom.text import HloomError

ADD = """
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = pred[] compare(p, q), direction=LT
}
"""


def counts(parameters: str, instruction: str) -> tuple[Cost, Cost]:
    """XLA's count and the mathematical one of an instruction; parameters are called a, b, c in order."""
    lines = [
        f"  {name} = {parameter_type} parameter({number})"
        for number, (name, parameter_type) in enumerate(zip("abcdef", parameters.split(), strict=False))
    ]
    text = ADD + "ENTRY e {\n" + "\n".join(lines) + f"\n  ROOT r = {instruction}\n}}"
    report = cost(parse(text))
    return report.total_once, report.mathematical


def test_every_opcode_has_a_rule():
    assert [opcode for opcode, op in OPS.items() if cost_rule(op) is None] == []


@pytest.mark.parametrize("opcode", sorted(OPS))
def test_a_second_count_has_a_reason(opcode: str):
    rule = cost_rule(OPS[opcode])
    assert rule is not None
    assert bool(rule.because) == (rule.mathematical is not None)


@pytest.mark.parametrize(
    ("parameters", "instruction", "xla", "mathematical"),
    [
        # elementwise
        ("f32[5]", "f32[5] negate(a)", (5, 0, 40), (5, 0, 40)),
        ("f32[5]", "f32[5] tanh(a)", (0, 5, 40), (0, 5, 40)),
        ("f32[5]", "s32[5] convert(a)", (5, 0, 40), (0, 0, 40)),
        ("pred[5] f32[5] f32[5]", "f32[5] select(a, b, c)", (5, 0, 65), (0, 0, 65)),
        ("f32[5]", "f32[5] clamp(a, a, a)", (5, 0, 80), (10, 0, 80)),
        ("c64[5]", "c64[5] multiply(a, a)", (5, 0, 120), (30, 0, 120)),
        ("c64[5]", "f32[5] abs(a)", (5, 0, 60), (15, 5, 60)),
        # contractions
        ("f32[2,3] f32[3,4]", "f32[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", (48, 0, 104), (48, 0, 104)),
        ("c64[2,3] c64[3,4]", "c64[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", (48, 0, 208), (192, 0, 208)),
        (
            "f32[6,4] f32[2,4,5] s32[2]",
            "f32[6,5] ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
            (40, 0, 384),
            (240, 0, 384),
        ),
        ("f32[1,4,1] f32[3,1,1]", "f32[1,4,1] convolution(a, b), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f", (20, 0, 44), (20, 0, 44)),
        ("c64[8]", "c64[8] fft(a), fft_type=FFT, fft_length={8}", (192, 0, 128), (120, 0, 128)),
        ("c64[4,8]", "c64[4,8] fft(a), fft_type=FFT, fft_length={4,8}", (1536, 0, 512), (800, 0, 512)),
        ("f32[3,3]", "f32[3,3] cholesky(a)", (9, 0, 36), (9, 3, 60)),
        ("f32[3,3] f32[3,2]", "f32[3,2] triangular-solve(a, b), left_side=true, transpose_a=NO_TRANSPOSE", (36, 0, 66), (18, 0, 66)),
        # reductions
        ("f32[4,5] f32[]", "f32[4] reduce(a, b), dimensions={1}, to_apply=add", (16, 0, 100), (16, 0, 100)),
        ("f32[0,5] f32[]", "f32[5] reduce(a, b), dimensions={0}, to_apply=add", (-5, 0, 24), (0, 0, 24)),
        ("f32[4] f32[]", "f32[4] reduce-window(a, b), window={size=3 pad=1_1}, to_apply=add", (8, 0, 36), (6, 0, 36)),
        ("f32[4] f32[]", "f32[4] reduce-window(a, b), window={size=7 pad=3_3}, to_apply=add", (4, 0, 36), (12, 0, 36)),
        ("f32[4,8]", "f32[4,8] sort(a), dimensions={1}, to_apply=less", (160, 0, 256), (96, 0, 256)),
        ("f32[3,8]", "(f32[3,2], s32[3,2]) topk(a), k=2, largest=true", (0, 0, 144), (24, 0, 144)),
        # movement
        ("f32[8,4]", "f32[2,4] slice(a), slice={[0:2], [0:4]}", (0, 0, 64), (0, 0, 64)),
        ("f32[8,4] s32[]", "f32[1,4] dynamic-slice(a, b, b), dynamic_slice_sizes={1,4}", (0, 0, 36), (0, 0, 40)),
        ("f32[8,4] f32[1,4] s32[]", "f32[8,4] dynamic-update-slice(a, b, c, c)", (0, 0, 36), (0, 0, 40)),
        ("f32[2,3]", "f32[3,2]{1,0} transpose(a), dimensions={1,0}", (0, 0, 48), (0, 0, 48)),
        ("f32[2,3]{1,0}", "f32[3,2]{0,1} transpose(a), dimensions={1,0}", (0, 0, 0), (0, 0, 0)),
        ("f32[2] f32[3]", "(f32[2], f32[3]) tuple(a, b)", (0, 0, 16), (0, 0, 0)),
        ("s4[7]{0:E(4)}", "s4[7]{0:E(4)} negate(a)", (7, 0, 8), (7, 0, 8)),
        ("f32[<=3,5]", "f32[<=3,5] negate(a)", (15, 0, 136), (15, 0, 136)),
        ("u64[2]", "(u64[2], u32[5]) rng-bit-generator(a), algorithm=rng_default", (0, 7, 52), (0, 0, 52)),
        # communication
        ("f32[8]", "f32[8] all-reduce(a), replica_groups={{0,1,2,3}}, to_apply=add", (8, 0, 64), (6, 0, 64)),
        ("f32[8]", "f32[2] reduce-scatter(a), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add", (0, 0, 40), (6, 0, 40)),
        # calls
        ("f32[3] f32[3]", "f32[3] map(a, b), dimensions={0}, to_apply=add", (3, 0, 36), (3, 0, 36)),
        ("f32[3]", 'f32[3] custom-call(a), custom_call_target="x"', (-1, 0, -1), (0, 0, 24)),
    ],
)  # fmt: skip
def test_counts(parameters: str, instruction: str, xla: tuple, mathematical: tuple):
    assert tuple(map(astuple, counts(parameters, instruction))) == (xla, mathematical)


def test_what_cannot_be_counted_is_named():
    text = "ENTRY e {\n  a = f32[] parameter(0)\n  ROOT c = f32[4] convolution(a, a), dim_labels=b0f_0io->b0f, window={size=1}\n}"
    with pytest.raises(HloomError, match=r"c = f32\[4\] convolution\(a, a\)> cannot be counted"):
        _ = cost(parse(text)).total


def test_what_is_malformed_says_why():
    text = """ENTRY e {
  a = f32[4,5] parameter(0)
  ROOT d = f32[4,5] dot(a, a), lhs_contracting_dims={3}, rhs_contracting_dims={0}
}"""
    with pytest.raises(HloomError, match=r"cannot be counted: lhs_contracting_dims=\{3\} but the left operand"):
        _ = cost(parse(text)).total


@pytest.mark.parametrize("name", ["stride", "rhs_dilate"])
def test_a_window_that_divides_by_zero_is_refused(name: str):
    text = """a { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
    ENTRY e { x = f32[8] parameter(0)  c = f32[] constant(0)
    ROOT w = f32[4] reduce-window(x, c), window={size=2 GIVEN}, to_apply=a }"""
    module = parse(text.replace("GIVEN", f"{name}=0"))
    with pytest.raises(HloomError, match=r"cannot be counted: the window .* needs a positive"):
        _ = cost(module).mathematical



def test_a_fragment_without_its_operands_lists_what_it_cannot_count():
    report = cost(
        parse("d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\ns = f32[8,8] add(d, d)")
    )
    assert report.total == Cost(64, 0, 3 * 256)
    assert report.uncounted == ("d",)


def test_custom_calls_are_listed():
    report = cost(parse('ENTRY e { ROOT c = f32[4] custom-call(), custom_call_target="x" }'))
    assert report.uncounted == ("c",)


def test_types_that_the_text_leaves_out_are_inferred():
    report = cost(parse("ENTRY e {\n  a = f32[5] parameter(0)\n  b = negate(a)\n  ROOT c = add(b, b)\n}"))
    assert report.total == Cost(10, 0, 100)


def brute(base: int, kernel: int, result: int, window: WindowDimension) -> int:
    count = 0
    for tap in range(kernel):
        for output in range(result):
            at = output * window.stride - window.padding_low + tap * window.window_dilation
            count += at % window.base_dilation == 0 and 0 <= at // window.base_dilation < base
    return count


@given(
    some.integers(1, 9),
    some.integers(1, 5),
    some.integers(1, 12),
    some.integers(1, 4),
    some.integers(-3, 5),
    some.integers(1, 4),
    some.integers(1, 3),
)
def test_positions_are_those_that_trying_finds(base, kernel, result, stride, padding, hole, dilation):
    window = WindowDimension(kernel, stride, padding, 0, hole, dilation)
    assert positions(base, kernel, result, window) == brute(base, kernel, result, window)


def test_a_long_convolution_is_counted_at_once():
    length = 10**9
    text = (
        f"ENTRY e {{\n  a = f32[1,{length},1] parameter(0)\n  b = f32[3,1,1] parameter(1)\n"
        f"  ROOT r = f32[1,{length},1] convolution(a, b), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f\n}}"
    )
    assert cost(parse(text)).total.flops == 2 * (3 * length - 2)


def test_long_chains_and_deep_calls_need_no_stack():
    depth = 3000
    graphs = ["g0 {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a)\n}"]
    graphs += [
        f"g{n} {{\n  a = f32[4] parameter(0)\n  b = f32[4] sine(a)\n  ROOT r = f32[4] call(b), to_apply=g{n - 1}\n}}"
        for n in range(1, depth)
    ]
    entry = f"ENTRY e {{\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] call(a), to_apply=g{depth - 1}\n}}"
    assert cost(parse("\n".join([*graphs, entry]))).total == Cost(4, 4 * (depth - 1), 32 * depth)


def test_shared_graphs_count_for_each_caller():
    graphs = ["g0 {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a)\n}"]
    graphs += [
        f"g{n} {{\n  a = f32[4] parameter(0)\n  b = f32[4] call(a), to_apply=g{n - 1}\n"
        f"  ROOT r = f32[4] call(b), to_apply=g{n - 1}\n}}"
        for n in range(1, 100)
    ]
    report = cost(parse("\n".join(graphs).replace("g99 {", "ENTRY g99 {")))
    assert report.total.flops == 4 * 2**99
    assert math.isclose(sum(node_cost.total.flops for node_cost in report.per_node), 4 * 2**99)


def test_graphs_in_a_circle_are_refused():
    module = parse(
        "f {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a)\n}\n"
        "ENTRY e {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] call(a), to_apply=f\n}"
    )
    graph, call = module["f"], module.entry["r"]
    graph.add_apply(OPS["call"], [graph["r"]], graph["r"].type, call.attributes, "again")
    with pytest.raises(HloomError, match="graph f leads back to f: its cost has no end"):
        cost(module)
