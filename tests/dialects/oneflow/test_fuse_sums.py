"""bias_add with gelu, additions one after the other, casts that change nothing, scaled triangles: before and after.

Covers `addition.py`.
"""

from __future__ import annotations

import pytest

from tests.dialects.oneflow.jobs import assert_kept, assert_rewrites, job, rewritten

X, B = "tensor<2x3xf32>", "tensor<3xf32>"
ABCD = ", ".join(f"%{name}: {X}" for name in "abcd")
CPU, GPU = 'device_tag = "cpu"', 'device_tag = "gpu"'


def add(name: str, *operands: str, opcode: str = "", attributes: str = "") -> str:
    """One addition of arrays."""
    opcode = opcode or ("add_n2" if len(operands) == 2 else "add_n")
    return (
        f'{name} = "oneflow.{opcode}"({", ".join(operands)}){attributes} : ({", ".join([X] * len(operands))}) -> {X}\n'
    )


def sums(*lines: str, returned: str = f"%y : {X}") -> str:
    return job(ABCD, "".join(lines), returned)


def bias_gelu(gelu: str = "", bias: str = "", returned: str = f"%y : {X}") -> str:
    return job(
        f"%a: {X}, %b: {B}",
        f'%0 = "oneflow.bias_add"(%a, %b) {{axis = 1 : si32, op_name = "add"{bias}}} : ({X}, {B}) -> {X}\n'
        f'%y = "oneflow.gelu"(%0) {{op_name = "gelu", output_lbns = ["gelu/out_0"]{gelu}}} : ({X}) -> {X}',
        returned,
    )


def test_bias_add_and_gelu():
    assert_rewrites(
        "fuse-bias-add-gelu",
        bias_gelu(),
        job(
            f"%a: {X}, %b: {B}",
            f'%y = "oneflow.fused_bias_add_gelu"(%a, %b) {{axis = 1 : si32, op_name = "gelu",'
            f' output_lbns = ["gelu/out_0"]}} : ({X}, {B}) -> {X}',
            f"%y : {X}",
        ),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (bias_gelu(returned=f"%y, %0 : {X}, {X}"), "oneflow.bias_add is used elsewhere too"),
        (bias_gelu(f", {CPU}", f", {GPU}"), "not oneflow.bias_add.device_tag == oneflow.gelu.device_tag"),
        (bias_gelu().replace("oneflow.gelu", "oneflow.fast_gelu"), "its root is oneflow.gelu, not oneflow.fast_gelu"),
    ],
)
def test_not_bias_add_and_gelu(text, reason):
    assert_kept("fuse-bias-add-gelu", text, reason)


@pytest.mark.parametrize(
    ("lines", "operands"),
    [
        ([add("%0", "%a", "%b"), add("%y", "%0", "%c")], ["%a", "%b", "%c"]),
        ([add("%0", "%a", "%b"), add("%y", "%c", "%0")], ["%a", "%b", "%c"]),
        ([add("%0", "%a", "%b"), add("%1", "%0", "%c"), add("%y", "%1", "%d")], ["%a", "%b", "%c", "%d"]),
        ([add("%0", "%a", "%b"), add("%1", "%c", "%d"), add("%y", "%0", "%1")], ["%a", "%b", "%c", "%d"]),
        ([add("%0", "%a", "%b", "%c"), add("%y", "%0", "%d", "%a")], ["%a", "%b", "%c", "%d", "%a"]),
        ([add("%0", "%a", "%b", opcode="add_n"), add("%y", "%0", "%a")], ["%a", "%b", "%a"]),
    ],
)
def test_consecutive_additions(lines, operands):
    assert_rewrites("fuse-add-n", sums(*lines), sums(add("%y", *operands, opcode="add_n")))


def test_many_additions_become_one():
    names = [f"%{n}" for n in range(50)]
    lines = [add("%s1", "%0", "%1"), *[add(f"%s{n}", f"%s{n - 1}", names[n]) for n in range(2, 50)]]
    arguments = ", ".join(f"%{n}: {X}" for n in range(50))
    before = job(arguments, "".join(lines), f"%s49 : {X}")
    assert_rewrites("fuse-add-n", before, job(arguments, add("%y", *names), f"%y : {X}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (sums(add("%y", "%a", "%b")), ", not oneflow.add_n2/oneflow.add_n"),
        (
            sums(add("%0", "%a", "%b"), add("%y", "%0", "%c"), returned=f"%y, %0 : {X}, {X}"),
            "oneflow.add_n2 is used elsewhere too",
        ),
        (sums(add("%0", "%a", "%b"), add("%y", "%0", "%0")), "oneflow.add_n2 is used elsewhere too"),
        (
            sums(add("%0", "%a", "%b", attributes=f" {{{CPU}}}"), add("%y", "%0", "%c", attributes=f" {{{GPU}}}")),
            "not oneflow.add_n2.device_tag == oneflow.add_n2.device_tag",
        ),
    ],
)
def test_not_consecutive_additions(text, reason):
    assert_kept("fuse-add-n", text, reason)


def cast(number: int, result: str, before: str = "f32") -> str:
    x, y = f"tensor<2x{before}>", f"tensor<2x{result}>"
    return job(
        f"%a: {x}",
        f'%0 = "oneflow.cast"(%a) {{dtype = {number} : i32, pin_memory = false}} : ({x}) -> {y}\n'
        f'%y = "oneflow.relu"(%0) : ({y}) -> {y}',
        f"%y : {y}",
    )


def test_a_cast_to_the_same_type():
    x = "tensor<2xf32>"
    after = job(f"%a: {x}", f'%y = "oneflow.relu"(%a) : ({x}) -> {x}', f"%y : {x}")
    assert_rewrites("remove-cast-to-same-type", cast(2, "f32"), after)


@pytest.mark.parametrize("text", [cast(5, "i32"), cast(3, "f64"), cast(2, "f32", "f16")])
def test_not_a_cast_to_another_type(text):
    assert_kept("remove-cast-to-same-type", text, "not x.dtype == oneflow.cast.dtype")


M = "tensor<4x4xf32>"
BY = "float_operand = -2.500000e+00 : f64, has_float_operand = true, has_int_operand = false, int_operand = 0 : si64"
FILL = (
    "diagonal = -1 : si64, floating_fill_value = {} : f64, integer_fill_value = 0 : si64, is_floating_fill_value = true"
)
ZEROS = FILL.format("0.000000e+00")


def triangle(first: str, second: str, by: str = BY, fill: str = ZEROS, returned: str = f"%y : {M}") -> str:
    attributes = {"tril": fill, "scalar_mul": by}
    return job(
        f"%a: {M}",
        f'%0 = "oneflow.{first}"(%a) {{{attributes[first]}}} : ({M}) -> {M}\n'
        f'%y = "oneflow.{second}"(%0) {{{attributes[second]}, op_name = "last"}} : ({M}) -> {M}',
        returned,
    )


@pytest.mark.parametrize(
    ("first", "second", "fill"),
    [("scalar_mul", "tril", ZEROS), ("scalar_mul", "tril", FILL.format("7.0")), ("tril", "scalar_mul", ZEROS)],
)
def test_a_scaled_triangle(first, second, fill):
    assert_rewrites(
        "fuse-scale-tril",
        triangle(first, second, fill=fill),
        job(
            f"%a: {M}",
            f'%y = "oneflow.fused_scale_tril"(%a) {{{fill}, floating_scale_value = -2.500000e+00 : f64,'
            f' integer_scale_value = 0 : si64, is_floating_scale_value = true, op_name = "last"}} : ({M}) -> {M}',
            f"%y : {M}",
        ),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (triangle("tril", "scalar_mul", fill=FILL.format("1.0")), "== 0"),
        (triangle("tril", "scalar_mul", BY.replace("-2.500000e+00", "0x7FF0000000000000")), "float_operand * 0 == 0"),
        (triangle("tril", "scalar_mul", returned=f"%y, %0 : {M}, {M}"), "oneflow.tril is used elsewhere too"),
        (triangle("scalar_mul", "tril", BY + f", {CPU}"), "device_tag == oneflow.tril.device_tag"),
        (triangle("scalar_mul", "tril", "int_operand = 0 : si64"), "not has_float_operand | has_int_operand"),
    ],
)
def test_not_a_scaled_triangle(text, reason):
    reason = reason.replace("float_operand * 0", "(float_operand * 0)")
    assert_kept("fuse-scale-tril", text, reason)


def test_all_passes_together():
    text = sums(
        add("%0", "%a", "%b"), add("%1", "%0", "%c"), f'%y = "oneflow.cast"(%1) {{dtype = 2 : i32}} : ({X}) -> {X}'
    )
    changed, report = rewritten("oneflow", text)
    assert report.matched == 2
    assert [node.opcode for node in changed.entry.nodes[4:]] == ["oneflow.add_n"]
