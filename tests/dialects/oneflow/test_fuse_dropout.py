"""`fuse-bias-add-dropout`: the published texts, seeds, scales, refusals, and numbers under one mask.

Covers `dropout.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hloom.dialects import oneflow
from hloom.ir import Module
from hloom.passes import PASSES
from hloom.rewrite import rule
from hloom.testing.rules import NotEquivalent, check_rule
from hloom.text import HloomError
from tests.dialects.oneflow.domains import DOMAINS
from tests.dialects.oneflow.jobs import assert_kept, assert_rewrites, job, lowered, rewritten

HERE = Path(__file__).parent
BEFORE, AFTER = ((HERE / f"oneflow_bias_add_dropout.{name}.mlir").read_text() for name in ("before", "after"))
SEED = 4920936260932536
NAME = "fuse-bias-add-dropout"
X, B = "tensor<2x3xf32>", "tensor<3xf32>"


def dropout(attributes="", *, rate="5.000000e-01", bias="", second="%b", mask="tensor<2x3xi8>", returned=f"%out : {X}"):
    """bias_add and dropout of one array."""
    lines = (
        f'%0 = "oneflow.bias_add"(%a, %b) {{axis = 1 : si32{bias}}} : ({X}, {B}) -> {X}\n'
        f'%out, %mask = "oneflow.dropout"(%0) {{rate = {rate} : f32{attributes}}} : ({X}) -> ({X}, {mask})'
    )
    return job(f"%a: {X}, %b: {B}", lines, returned)


def seeds(module: Module) -> list[int]:
    return [int(seed) for seed in re.findall(r"seed = (-?\d+) : si64", oneflow.to_text(module))]


@pytest.mark.parametrize("name", [NAME, "oneflow"])
def test_the_text_of_the_issue_byte_for_byte(name):
    changed, report = rewritten(name, BEFORE, seed=SEED)
    assert oneflow.to_text(changed) == AFTER
    assert report.matched == 1


def test_what_is_made():
    assert_rewrites(
        NAME,
        dropout(', op_name = "drop", output_lbns = ["drop/out_0"], scope_symbol_id = 2 : i64', bias=', op_name = "add"'),
        job(
            f"%a: {X}, %b: {B}",
            f"""
    %0 = "oneflow.random_mask_like"(%a) {{op_name = "add", rate = 5.000000e-01 : f32, scope_symbol_id = 2 : i64, seed = 7 : si64}} : ({X}) -> {X}
    %1 = "oneflow.fused_bias_add_mask_scale"(%a, %b, %0) {{axis = 1 : si32, op_name = "drop", output_lbns = ["drop/out_0"], scale = 2.000000e+00 : f32, scope_symbol_id = 2 : i64}} : ({X}, {B}, {X}) -> {X}""",
            f"%1 : {X}",
        ),
        seed=7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "scale"),
    [
        ("0.000000e+00", "1.000000e+00"),
        ("1.000000e-01", "1.11111116"),
        ("5.000000e-01", "2.000000e+00"),
        ("0.899999976", "9.99999809"),
        ("1.000000e+00", "1.000000e+00"),
    ],
)
def test_the_scale_follows_from_the_rate(rate, scale):
    changed, _ = rewritten(NAME, dropout(rate=rate))
    assert f"scale = {scale} : f32" in oneflow.to_text(changed)


def layers(count: int, *, rate="0.25", used_masks: tuple[int, ...] = ()) -> str:
    """Layers of bias_add, dropout and relu, one upon the other; some masks are returned too."""
    x, mask = "tensor<4x3xf32>", "tensor<4x3xi8>"
    lines, below = [], "%a"
    for n in range(count):
        lines.append(
            f'%b{n} = "oneflow.bias_add"({below}, %b) {{axis = 1 : si32, op_name = "bias"}} : ({x}, {B}) -> {x}\n'
            f'%d{n}, %m{n} = "oneflow.dropout"(%b{n}) {{rate = {rate} : f32, op_name = "drop"}} : ({x}) -> ({x}, {mask})\n'
            f'%r{n} = "oneflow.relu"(%d{n}) : ({x}) -> {x}'
        )
        below = f"%r{n}"
    names, kinds = [below], [x]
    for n in used_masks:
        names.append(f"%m{n}")
        kinds.append(mask)
    return job(f"%a: {x}, %b: {B}", "\n".join(lines), f"{', '.join(names)} : {', '.join(kinds)}")


def test_the_first_match_gets_the_seed_and_the_others_distinct_ones():
    layer_seeds = seeds(rewritten(NAME, layers(20), seed=SEED)[0])
    assert layer_seeds[0] == SEED
    assert len(set(layer_seeds)) == 20
    assert all(0 <= seed < 1 << 63 for seed in layer_seeds)
    assert layer_seeds == seeds(rewritten(NAME, layers(20), seed=SEED)[0])
    assert set(layer_seeds[1:]).isdisjoint(seeds(rewritten(NAME, layers(20), seed=SEED + 1)[0]))


def test_without_a_seed_all_are_derived():
    layer_seeds = seeds(rewritten(NAME, layers(20))[0])
    assert len(set(layer_seeds)) == 20
    assert layer_seeds == seeds(rewritten(NAME, layers(20))[0])


def test_a_dropout_that_does_not_match_takes_no_seed():
    changed, report = rewritten(NAME, layers(3).replace("rate = 0.25", "rate = 1.5", 1), seed=SEED)
    assert report.matched == 2
    assert seeds(changed)[0] == SEED


def test_a_seed_that_a_mask_has_already_is_not_given_again():
    line = f'%m = "oneflow.random_mask_like"(%a) {{rate = 0.5 : f32, seed = 7 : si64}} : ({X}) -> {X}\n'
    text = dropout(returned=f"%out, %m : {X}, {X}").replace('%0 = "oneflow', line + '%0 = "oneflow')
    layer_seeds = seeds(rewritten(NAME, text, seed=7)[0])
    assert layer_seeds[0] == 7
    assert layer_seeds[1] != 7


def test_a_seed_must_fit():
    with pytest.raises(HloomError, match="the seed 9223372036854775808 does not fit into 64 bits"):
        rewritten(NAME, dropout(), seed=1 << 63)
    assert seeds(rewritten(NAME, dropout(), seed=-3)[0]) == [-3]


def test_the_seed_is_an_option_of_the_pass():
    assert PASSES[NAME].options == PASSES["oneflow"].options == ("seed",)
    with pytest.raises(HloomError, match="pass fuse-add-n takes no option 'seed'"):
        PASSES["fuse-add-n"].with_options(seed=1)


def test_not_where_dropout_adds_to_an_output():
    text = dropout().replace('dropout"(%0)', 'dropout"(%0, %a)').replace(f": ({X}) -> ({X}", f": ({X}, {X}) -> ({X}")
    assert_kept(NAME, text, "oneflow.dropout has another number of operands")


def test_not_where_bias_add_is_used_twice():
    assert_kept(NAME, dropout(returned=f"%out, %0 : {X}, {X}"), "oneflow.bias_add is used elsewhere too")


@pytest.mark.parametrize(
    ("one", "other", "attribute"),
    [
        (', device_tag = "cpu"', ', device_tag = "gpu"', "device_tag"),
        (', device_tag = "cpu"', "", "device_tag"),
        (', device_name = ["@0:0"]', ', device_name = ["@0:1"]', "device_name"),
    ],
)
def test_not_where_devices_differ(one, other, attribute):
    reason = f"not oneflow.bias_add.{attribute} == oneflow.dropout.{attribute}"
    assert_kept(NAME, dropout(other, bias=one), reason)


@pytest.mark.parametrize("element", ["i8", "i1"])
def test_a_mask_that_is_used_keeps_its_type(element):
    mask = f"tensor<2x3x{element}>"
    changed, report = rewritten(NAME, dropout(mask=mask, returned=f"%out, %mask : {X}, {mask}"), seed=7)
    assert report.matched == 1
    (made,) = [node for node in changed.entry.nodes if node.opcode == "oneflow.random_mask_like"]
    assert f"-> {mask}" in oneflow.to_text(changed) and made.user_count == 2
    assert oneflow.to_text(oneflow.parse(oneflow.to_text(changed))) == oneflow.to_text(changed)


def test_not_where_the_rate_is_none():
    assert_kept(NAME, dropout(rate="1.500000e+00"), "not rate <= 1")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_unfused_and_fused_agree_under_one_mask(rate, axis):
    runtime = pytest.importorskip("hloom.runtime")
    pytest.importorskip("jaxlib")
    dims = (2, 3, 4)
    x, b, mask = "tensor<2x3x4xf32>", f"tensor<{dims[axis]}xf32>", "tensor<2x3x4xi8>"
    text = job(
        f"%a: {x}, %b: {b}",
        f'%0 = "oneflow.bias_add"(%a, %b) {{axis = {axis} : si32}} : ({x}, {b}) -> {x}\n'
        f'%out, %mask = "oneflow.dropout"(%0) {{rate = {rate} : f32}} : ({x}) -> ({x}, {mask})',
        f"%out : {x}",
    )
    changed, report = rewritten(NAME, text)
    assert report.matched == 1
    random = np.random.default_rng(0)
    inputs = [random.normal(size=dims).astype("f4"), random.normal(size=dims[axis]).astype("f4")]
    kept = (random.random(dims) >= rate).astype("i1")
    (one,) = runtime.run(oneflow.lower(oneflow.parse(text)), [*inputs, kept]).outputs
    (other,) = runtime.run(oneflow.lower(changed), [*inputs, kept.astype("f4")]).outputs
    along = [-1 if dim == axis % 3 else 1 for dim in range(3)]
    scale = 1 / (1 - np.float32(rate)) if rate < 1 else 0
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one, (inputs[0] + inputs[1].reshape(along)) * kept * scale, rtol=1e-6)


def test_a_larger_job_agrees_under_the_same_masks():
    runtime = pytest.importorskip("hloom.runtime")
    pytest.importorskip("jaxlib")
    text = layers(30, used_masks=(4, 17), rate="0.1")
    changed, report = rewritten(NAME, text, seed=SEED)
    assert report.matched == 30
    before, after = lowered(oneflow.parse(text)), lowered(changed)
    random = np.random.default_rng(1)
    inputs = [random.uniform(0.1, 1, parameter.type.dims) for parameter in before.entry.parameters[:2]]  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    inputs = [array.astype("f4") for array in inputs] + [random.integers(0, 2, (4, 3), dtype="i1") for _ in range(30)]
    inputs[2:] = [mask | (np.arange(3) % 2 == 0) for mask in inputs[2:]]
    one, other = (runtime.run(module, inputs).outputs for module in (before, after))
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.any(one[0] != 0)


def test_a_rule_with_a_wrong_scale_is_caught():
    pytest.importorskip("jaxlib")

    @rule(rows=oneflow.OPS)
    def wrong(p):
        """The rate in place of 1 / (1 - rate)"""
        a, b = p.value("a"), p.value("b")
        axis, rate = p.attribute("axis"), p.attribute("rate")
        biased = p.op("oneflow.bias_add", a, b, axis=axis)
        out, mask = p.op("oneflow.dropout", biased, rate=rate, results=2, effects=True)
        with p.rewrite() as r:
            m = r.op("oneflow.random_mask_like", a, rate=rate, seed=1)
            r.replace({out: r.op("oneflow.fused_bias_add_mask_scale", a, b, m, axis=axis, scale=rate), mask: m})

    with pytest.raises(NotEquivalent, match=r"rule wrong .* changes what a program computes"):
        check_rule(wrong, domain=DOMAINS[NAME], lower=lowered)
