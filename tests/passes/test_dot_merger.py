"""Products that share an operand become one, before and after (`dot_merger.py`, `operand_view.py`).

The cases restate those of XLA's xla/hlo/transforms/simplifiers/dot_merger_test.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

import hloom
from hloom import HloomError
from hloom.ir import verify
from hloom.passes import merge_dots
from hloom.runtime import run


def entry(*lines: str, root: str) -> str:
    return "ENTRY main {\n" + "\n".join(lines) + f"\n ROOT t = {root}\n}}"


def dots(module: Any) -> list[Any]:
    return [node for graph in module.graphs for node in graph.nodes if node.opcode == "dot"]


def merged(text: str, count: int, **options: Any) -> Any:
    """The module with as many products left; checked, and with the same numbers through XLA."""
    before = hloom.parse(text)
    after = before.clone()
    merge_dots(after, **options)
    verify(after)
    assert len(dots(after)) == count
    pairs = zip(run(before, seed=1).outputs, run(after, seed=1).outputs, strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=2e-2, atol=1e-3)
    return after


def opcodes_below(module: Any) -> list[str]:
    return [value.opcode for value in module.entry.root.operands]


MATMUL = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
RIGHT = entry(
    "x = f32[20,10] parameter(0)", "a = f32[10,3] parameter(1)", "b = f32[10,5] parameter(2)",
    f"p = f32[20,3] dot(x, a), {MATMUL}", f"q = f32[20,5] dot(x, b), {MATMUL}",
    root="(f32[20,3], f32[20,5], f32[20,10]) tuple(p, q, x)",
)  # fmt: skip
LEFT = entry(
    "a = f32[10,20] parameter(0)", "b = f32[30,20] parameter(1)", "c = f32[50,20] parameter(2)",
    "w = f32[20,5] parameter(3)",
    f"p = f32[10,5] dot(a, w), {MATMUL}", f"q = f32[30,5] dot(b, w), {MATMUL}", f"r = f32[50,5] dot(c, w), {MATMUL}",
    root="(f32[10,5], f32[30,5], f32[50,5]) tuple(p, q, r)",
)  # fmt: skip


@pytest.mark.parametrize("text", [RIGHT, LEFT])
def test_slices_of_one_product(text: str):
    module = merged(text, 1)
    assert opcodes_below(module)[:2] == ["slice", "slice"]
    assert len({value.operands[0] for value in module.entry.root.operands if value.opcode == "slice"}) == 1
    assert [node.opcode for node in module.entry.nodes].count("concatenate") == 1
    assert "transpose" not in [node.opcode for node in module.entry.nodes]


def test_queries_keys_and_values():
    """The projections of attention as JAX writes them: heads and their width are two free dimensions."""
    lines = ["x = f32[2,7,16] parameter(0)"]
    lines += [
        f"w{name} = f32[16,{heads},4] parameter({number})"
        for number, (name, heads) in enumerate(zip("qkv", (4, 2, 2), strict=True), 1)
    ]
    lines += [
        f"{name} = f32[2,7,{heads},4] dot(x, w{name}), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}"
        for name, heads in zip("qkv", (4, 2, 2), strict=True)
    ]
    module = merged(entry(*lines, root="(f32[2,7,4,4], f32[2,7,2,4], f32[2,7,2,4]) tuple(q, k, v)"), 1)
    assert opcodes_below(module) == ["reshape"] * 3


def shared(first: str, second: str, *types: str, root: str, more: Sequence[str] = ()) -> str:
    parameters = [
        f"{name} = {type} parameter({number})" for number, (name, type) in enumerate(zip("xab", types, strict=True))
    ]
    return entry(*parameters, *more, f"p = {first}", f"q = {second}", root=root)


FORMS = {
    "the other side of a transpose": shared(
        f"f32[2,4] dot(a, x), {MATMUL}", f"f32[4,8] dot(turned, b), {MATMUL}", "f32[32,4]", "f32[2,32]", "f32[32,8]",
        root="(f32[2,4], f32[4,8]) tuple(p, q)", more=["turned = f32[4,32] transpose(x), dimensions={1,0}"],
    ),
    "the same contracted dimension on both sides": shared(
        "f32[10,5] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "f32[30,5] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "f32[5,20]", "f32[10,20]", "f32[30,20]", root="(f32[10,5], f32[30,5]) tuple(p, q)",
    ),
    "batches and several contracted dimensions": shared(
        "f32[2,4,6] dot(x, a), lhs_batch_dims={0,2}, rhs_batch_dims={0,3}, lhs_contracting_dims={1,3}, rhs_contracting_dims={2,4}",
        "f32[2,4,7] dot(x, b), lhs_batch_dims={0,2}, rhs_batch_dims={0,3}, lhs_contracting_dims={1,3}, rhs_contracting_dims={2,4}",
        "f32[2,3,4,5]", "f32[2,6,3,4,5]", "f32[2,7,3,4,5]", root="(f32[2,4,6], f32[2,4,7]) tuple(p, q)",
    ),
    "batches out of order": shared(
        "f32[4,2,10,5] dot(a, x), lhs_batch_dims={1,0}, rhs_batch_dims={1,0}, lhs_contracting_dims={3}, rhs_contracting_dims={2}",
        "f32[4,2,30,5] dot(b, x), lhs_batch_dims={1,0}, rhs_batch_dims={1,0}, lhs_contracting_dims={3}, rhs_contracting_dims={2}",
        "f32[2,4,20,5]", "f32[2,4,10,20]", "f32[2,4,30,20]", root="(f32[4,2,10,5], f32[4,2,30,5]) tuple(p, q)",
    ),
    "batches of the operands in other orders": shared(
        "f32[3,4,5] dot(x, a), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        "f32[3,4,6] dot(x, b), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        "f32[3,4,10]", "f32[3,4,10,5]", "f32[4,3,10,6]", root="(f32[3,4,5], f32[3,4,6]) tuple(p, q)",
    ),
    "batches of the results in other orders": shared(
        "f32[3,4,5] dot(x, a), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        "f32[4,3,6] dot(x, b), lhs_batch_dims={1,0}, rhs_batch_dims={1,0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        "f32[3,4,10]", "f32[3,4,10,5]", "f32[3,4,10,6]", root="(f32[3,4,5], f32[4,3,6]) tuple(p, q)",
    ),
    "contracted dimensions in another order": shared(
        "f32[5] dot(x, a), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
        "f32[6] dot(x, b), lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}",
        "f32[10,20]", "f32[10,20,5]", "f32[20,10,6]", root="(f32[5], f32[6]) tuple(p, q)",
    ),
    "other contracted dimensions of what is not shared": shared(
        "f32[7,10] dot(a, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[9,10] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[8,10]", "f32[8,7]", "f32[9,8]", root="(f32[7,10], f32[9,10]) tuple(p, q)",
    ),
    "several free dimensions": shared(
        "f32[3,5,6,7] dot(a, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[2,5,6,7] dot(b, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[4,6,7]", "f32[4,3,5]", "f32[4,2,5]", root="(f32[3,5,6,7], f32[2,5,6,7]) tuple(p, q)",
    ),
    "free dimensions on both sides of a contracted one": shared(
        "f32[6,4,8] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "f32[6,4,8] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "f32[6,5]", "f32[4,5,8]", "f32[4,5,8]", root="(f32[6,4,8], f32[6,4,8]) tuple(p, q)",
    ),
    "no free dimension": shared(
        "f32[2,10,20] dot(x, a), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "f32[2,10] dot(x, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "f32[2,5,10]", "f32[2,5,20]", "f32[2,5]", root="(f32[2,10,20], f32[2,10]) tuple(p, q)",
    ),
    "nothing contracted": shared(
        "f32[10,3] dot(x, a)", "f32[10,5] dot(x, b)", "f32[10]", "f32[3]", "f32[5]",
        root="(f32[10,3], f32[10,5]) tuple(p, q)",
    ),
    "a batch of one": shared(
        "f32[1,10,30] dot(x, a), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        f"f32[10,40] dot(flat, b), {MATMUL}", "f32[1,10,20]", "f32[1,20,30]", "f32[20,40]",
        root="(f32[1,10,30], f32[10,40]) tuple(p, q)", more=["flat = f32[10,20] reshape(x)"],
    ),
    "another side, another order, more dimensions": shared(
        "f32[10,20,5,6] dot(x, a), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={3}",
        "f32[10,7,20] dot(b, x), lhs_batch_dims={2}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={2}",
        "f32[10,20,3]", "f32[10,5,6,3]", "f32[3,7,10]", root="(f32[10,20,5,6], f32[10,7,20]) tuple(p, q)",
    ),
    "contracted dimensions turned and free ones reshaped": entry(
        "x = f32[2,3,4,5,6,7] parameter(0)", "a = f32[8,2,3,5,4] parameter(1)", "b = f32[4,2,3,2,3,5] parameter(2)",
        "s = f32[2,3,5,4,6,7] transpose(x), dimensions={0,1,3,2,4,5}", "r = f32[2,3,5,4,3,14] reshape(s)",
        "p = f32[2,3,8,3,14] dot(a, r), lhs_batch_dims={1,2}, rhs_batch_dims={0,1}, lhs_contracting_dims={3,4}, "
        "rhs_contracting_dims={2,3}",
        "u = f32[2,3,4,5,7,6] transpose(x), dimensions={0,1,2,3,5,4}",
        "q = f32[3,2,7,6,2,3] dot(u, b), lhs_batch_dims={1,0}, rhs_batch_dims={2,3}, lhs_contracting_dims={2,3}, "
        "rhs_contracting_dims={0,5}",
        "v = f32[3,2,42,6] reshape(q)", "w = f32[3,42,2,6] transpose(v), dimensions={0,2,1,3}",
        root="(f32[2,3,8,3,14], f32[3,42,2,6]) tuple(p, w)",
    ),
    "contracted dimensions joined on both sides": entry(
        "x = bf16[2,3,4,5,3,7] parameter(0)", "y = bf16[8,2,3,5,4] parameter(1)", "z = bf16[4,2,3,2,3,5] parameter(2)",
        "a = bf16[8,2,3,20] reshape(y)", "s = bf16[2,3,5,4,3,7] transpose(x), dimensions={0,1,3,2,4,5}",
        "r = bf16[2,3,20,3,7] reshape(s)",
        "p = bf16[2,3,8,3,7] dot(a, r), lhs_batch_dims={1,2}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, "
        "rhs_contracting_dims={2}",
        "u = bf16[2,3,4,5,7,3] transpose(x), dimensions={0,1,2,3,5,4}", "v = bf16[2,3,20,7,3] reshape(u)",
        "b = bf16[2,3,2,3,4,5] transpose(z), dimensions={1,2,3,4,0,5}", "c = bf16[2,3,2,3,20] reshape(b)",
        "q = bf16[3,2,7,3,2,3] dot(v, c), lhs_batch_dims={1,0}, lhs_contracting_dims={2}, rhs_batch_dims={1,2}, "
        "rhs_contracting_dims={4}",
        root="(bf16[2,3,8,3,7], bf16[3,2,7,3,2,3]) tuple(p, q)",
    ),
    "rows of several dimensions joined": shared(
        f"f32[6,5] dot(r, a), {MATMUL}", "f32[2,3,7] dot(x, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        "f32[2,3,8]", "f32[8,5]", "f32[8,7]", root="(f32[6,5], f32[2,3,7]) tuple(p, q)", more=["r = f32[6,8] reshape(x)"],
    ),
    "rows of one dimension split": shared(
        "f32[2,3,5] dot(r, a), lhs_contracting_dims={2}, rhs_contracting_dims={0}", f"f32[6,7] dot(x, b), {MATMUL}",
        "f32[6,8]", "f32[8,5]", "f32[8,7]", root="(f32[2,3,5], f32[6,7]) tuple(p, q)", more=["r = f32[2,3,8] reshape(x)"],
    ),
    "contracted dimensions joined": shared(
        f"f32[2,5] dot(r, a), {MATMUL}", "f32[2,7] dot(x, b), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}",
        "f32[2,3,8]", "f32[24,5]", "f32[3,8,7]", root="(f32[2,5], f32[2,7]) tuple(p, q)", more=["r = f32[2,24] reshape(x)"],
    ),
    "a wider result": shared(
        "f32[3,10] dot(a, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[5,10] dot(b, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f16[8,10]", "f16[8,3]", "f16[8,5]", root="(f32[3,10], f32[5,10]) tuple(p, q)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_whatever_the_order_of_dimensions(text: str):
    merged(text, 1)


SQUARE = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
APART = {
    "parts of a split dimension are contracted": shared(
        "f32[2,8,5] dot(r, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}", f"f32[2,7] dot(x, b), {MATMUL}",
        "f32[2,24]", "f32[3,5]", "f32[24,7]", root="(f32[2,8,5], f32[2,7]) tuple(p, q)", more=["r = f32[2,3,8] reshape(x)"],
    ),
    "parts of a split dimension are apart": shared(
        "f32[3,2,5] dot(s, a), lhs_contracting_dims={2}, rhs_contracting_dims={0}", f"f32[6,7] dot(x, b), {MATMUL}",
        "f32[6,8]", "f32[8,5]", "f32[8,7]", root="(f32[3,2,5], f32[6,7]) tuple(p, q)",
        more=["r = f32[2,3,8] reshape(x)", "s = f32[3,2,8] transpose(r), dimensions={1,0,2}"],
    ),
    "a reshape with a sharding": shared(
        f"f32[6,5] dot(r, a), {MATMUL}", "f32[2,3,7] dot(x, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        "f32[2,3,8]", "f32[8,5]", "f32[8,7]", root="(f32[6,5], f32[2,3,7]) tuple(p, q)",
        more=["r = f32[6,8] reshape(x), sharding={replicated}"],
    ),
    "one needs the other": entry(
        "a = f32[10,20] parameter(0)", "w = f32[20,5] parameter(1)", f"p = f32[10,5] dot(a, w), {MATMUL}",
        "z = f32[] constant(0)", "b = f32[30,20] pad(p, z), padding=20_0x15_0", f"q = f32[30,5] dot(b, w), {MATMUL}",
        root="(f32[10,5], f32[30,5]) tuple(p, q)",
    ),
    "other contracted dimensions of what is shared": shared(
        f"f32[6,6] dot(a, x), {SQUARE}", "f32[6,6] dot(b, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        "f32[6,6]", "f32[6,6]", "f32[6,6]", root="(f32[6,6], f32[6,6]) tuple(p, q)",
    ),
    "other batches of what is shared": shared(
        "f32[5,5,5,5] dot(a, x), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        "f32[5,5,5,5] dot(b, x), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        "f32[5,5,5,5]", "f32[5,5,5,5]", "f32[5,5,5,5]", root="(f32[5,5,5,5], f32[5,5,5,5]) tuple(p, q)",
    ),
    "other types of what is not": shared(
        f"f32[6,6] dot(a, x), {SQUARE}", f"f32[6,6] dot(b, x), {SQUARE}", "f32[6,6]", "f32[6,6]", "f16[6,6]",
        root="(f32[6,6], f32[6,6]) tuple(p, q)",
    ),
    "other types of the results": shared(
        f"f16[6,6] dot(a, x), {SQUARE}", f"f32[6,6] dot(b, x), {SQUARE}", "f16[6,6]", "f16[6,6]", "f16[6,6]",
        root="(f16[6,6], f32[6,6]) tuple(p, q)",
    ),
    "other precisions": shared(
        f"f32[6,6] dot(a, x), {SQUARE}, operand_precision={{highest,highest}}", f"f32[6,6] dot(b, x), {SQUARE}",
        "f32[6,6]", "f32[6,6]", "f32[6,6]", root="(f32[6,6], f32[6,6]) tuple(p, q)",
    ),
    "one waits for the other": shared(
        f"f32[6,6] dot(a, x), {SQUARE}", f"f32[6,6] dot(b, x), {SQUARE}, control-predecessors={{p}}",
        "f32[6,6]", "f32[6,6]", "f32[6,6]", root="(f32[6,6], f32[6,6]) tuple(p, q)",
    ),
    "operands of less than a byte an element": shared(
        f"f32[6,6] dot(c, x), {SQUARE}", f"f32[6,6] dot(d, x), {SQUARE}", "f32[6,6]", "s4[6,6]", "s4[6,6]",
        root="(f32[6,6], f32[6,6]) tuple(p, q)", more=["c = f32[6,6] convert(a)", "d = f32[6,6] convert(b)"],
    ),
    "other configurations": shared(
        f"f32[6,6] dot(a, x), {SQUARE}, backend_config={{\"operation_queue_id\":\"0\"}}",
        f"f32[6,6] dot(b, x), {SQUARE}, backend_config={{\"operation_queue_id\":\"1\"}}",
        "f32[6,6]", "f32[6,6]", "f32[6,6]", root="(f32[6,6], f32[6,6]) tuple(p, q)",
    ),
    "nothing is shared": shared(
        f"f32[4,4] dot(x, a), {MATMUL}", f"f32[4,4] dot(a, b), {MATMUL}", "f32[4,4]", "f32[4,4]", "f32[4,4]",
        root="(f32[4,4], f32[4,4]) tuple(p, q)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_what_stays_apart(text: str):
    merged(text, 2)


THERE_AND_BACK = {
    "transposes": ["m = f32[3,20] transpose(p), dimensions={1,0}", "u = f32[20,3] transpose(m), dimensions={1,0}"],
    "reshapes": ["m = f32[2,10,3] reshape(p)", "u = f32[20,3] reshape(m)"],
    "both": [
        "r = f32[60] reshape(p)", "s = f32[20,3] reshape(r)", "m = f32[3,20] transpose(s), dimensions={1,0}",
        "u = f32[20,3] transpose(m), dimensions={1,0}",
    ],
}  # fmt: skip


@pytest.mark.parametrize("lines", THERE_AND_BACK.values(), ids=THERE_AND_BACK)
def test_transposes_and_reshapes_of_results_cancel(lines: list[str]):
    text = RIGHT.replace(" ROOT", "\n".join(lines) + "\n ROOT").replace("tuple(p, q, x)", "tuple(u, q, x)")
    assert opcodes_below(merged(text, 1)) == ["slice", "slice", "parameter"]


def test_of_three_that_need_one_another_two_are_merged():
    text = LEFT.replace("c = f32[50,20] parameter(2)", "").replace(
        "w = f32[20,5] parameter(3)", "w = f32[20,5] parameter(2)"
    )
    text = text.replace(" r = ", " z = f32[] constant(0)\n c = f32[50,20] pad(p, z), padding=40_0x15_0\n r = ").replace(
        "\nr = ", "\nz = f32[] constant(0)\nc = f32[50,20] pad(p, z), padding=40_0x15_0\nr = "
    )
    merged(text, 2)


def test_what_a_later_product_needs_comes_first():
    """Between two products stands what the second needs, and what needs the first."""
    merged(
        entry(
            "x = f32[6,6] parameter(0)", "a = f32[6,6] parameter(1)", f"p = f32[6,6] dot(x, a), {MATMUL}",
            "used = f32[6,6] negate(p)", "early = f32[6,6] exponential(a)", "needed = f32[6,6] tanh(early)",
            f"q = f32[6,6] dot(x, needed), {MATMUL}", root="(f32[6,6], f32[6,6], f32[6,6]) tuple(used, q, early)",
        ),
        1,
    )  # fmt: skip


def test_what_is_merged_with_the_largest_product_takes_so_many_bytes():
    """Of 10, 30 and 50 rows, a row of an operand and of its product being 100 bytes."""
    merged(LEFT, 2, bytes=1000)
    merged(LEFT, 1, bytes=4000)
    merged(LEFT, 3, bytes=999)
    merged(LEFT, 3, bytes="0")


def test_multiples_of_greater_powers_of_two_come_first():
    sizes = (10, 50, 64, 24)
    lines = ["x = f32[8,6] parameter(0)"]
    lines += [f"w{size} = f32[6,{size}] parameter({number})" for number, size in enumerate(sizes, 1)]
    lines += [f'd{size} = f32[8,{size}] dot(x, w{size}), {MATMUL}, metadata={{op_name="of_{size}"}}' for size in sizes]
    types, names = ", ".join(f"f32[8,{size}]" for size in sizes), ", ".join(f"d{size}" for size in sizes)
    module = merged(entry(*lines, root=f"({types}) tuple({names})"), 1)
    (product,) = dots(module)
    assert [operand.name for operand in product.operands[1].operands] == ["w64", "w24", "w50", "w10"]
    assert product.metadata.op_name == "of_64"


def test_transposes_that_are_not_needed_any_more_go():
    text = shared(
        f"f32[7,5] dot(c, x), {MATMUL}", f"f32[9,5] dot(d, x), {MATMUL}", "f32[6,5]", "f32[6,7]", "f32[6,9]",
        root="(f32[7,5], f32[9,5]) tuple(p, q)",
        more=["c = f32[7,6] transpose(a), dimensions={1,0}", "d = f32[9,6] transpose(b), dimensions={1,0}"],
    )  # fmt: skip
    assert not {"c", "d"} & {node.name for node in merged(text, 1).entry.nodes}


@pytest.mark.parametrize("limit", ["many", -1, "1.5"])
def test_a_limit_is_a_number(limit: Any):
    with pytest.raises(HloomError, match="takes a number of bytes"):
        merge_dots(hloom.parse(RIGHT), bytes=limit)


def test_products_in_loops_and_the_root():
    text = """
body {
  state = (f32[4,4], f32[4,4]) parameter(0)
  x = f32[4,4] get-tuple-element(state), index=0
  y = f32[4,4] get-tuple-element(state), index=1
  p = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  q = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT both = (f32[4,4], f32[4,4]) tuple(p, q)
}
ENTRY main {
  a = f32[4,4] parameter(0)
  state = (f32[4,4], f32[4,4]) tuple(a, a)
  ROOT r = (f32[4,4], f32[4,4]) call(state), to_apply=body
}"""
    merged(text, 1)
    alone = entry("x = f32[4,4] parameter(0)", root=f"f32[4,4] dot(x, x), {MATMUL}")
    merged(alone, 1)


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_layouts_stay(layout: str):
    text = RIGHT.replace("f32[20,3]", f"f32[20,3]{layout}").replace("f32[10,3]", f"f32[10,3]{layout}")
    for array in ("f32[20,10]", "f32[10,5]", "f32[20,5]"):
        text = text.replace(array, f"{array}{{1,0}}")
    module = merged(text, 1)
    assert str(module.entry.root.operands[0].type) == f"f32[20,3]{layout}"


def test_nothing_to_merge():
    report = merge_dots(hloom.parse("ENTRY e { ROOT x = f32[] parameter(0) }"))
    assert not report.changed


@pytest.mark.parametrize("seed", range(12))
def test_random_products(seed: int):
    """Random products of one value and its transposes, some needing others."""
    random = Random(seed)
    lines, values = ["x = f32[4,4] parameter(0)", "turned = f32[4,4] transpose(x), dimensions={1,0}"], ["x", "turned"]
    for number in range(10):
        left, right = random.choice(values[:2]), random.choice(values)
        if random.random() < 0.5:
            left, right = right, left
        dims = random.choice(
            ["lhs_contracting_dims={1}, rhs_contracting_dims={0}", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"]
        )
        lines.append(f"d{number} = f32[4,4] dot({left}, {right}), {dims}")
        lines.append(f"v{number} = f32[4,4] tanh(d{number})")
        values.append(f"v{number}")
    types = ", ".join(["f32[4,4]"] * 10)
    text = entry(*lines, root=f"({types}) tuple({', '.join(f'v{number}' for number in range(10))})")
    before = hloom.parse(text)
    after = before.clone()
    merge_dots(after)
    verify(after)
    for one, other in zip(run(before, seed=1).outputs, run(after, seed=1).outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(16))
def test_random_views_of_one_value(seed: int):
    """Products of one value that is transposed, split and joined before, on either side."""
    _merge_views(seed)


def _merge_views(seed: int) -> int:
    random = Random(seed)
    lines, results, parameters = ["x = f32[4,6,2,3] parameter(0)"], list[str](), 1
    roles = random.choice(("fffc", "ffcc", "bffc", "bfcf", "fcfc", "bbfc", "bccf", "cccf"))
    for number in range(4):
        dims, has, value = _view(random, number, lines, roles)
        batch, contracted = ([dim for dim, role in enumerate(has) if role == name] for name in "bc")
        random.shuffle(batch)
        random.shuffle(contracted)
        numbers = [*batch, *contracted]
        free = [random.choice((1, 2, 5)) for _ in range(random.randint(0, 2))]
        order = [*batch, *contracted, *(-1 - index for index in range(len(free)))]
        random.shuffle(order)
        its = [dims[dim] if dim >= 0 else free[-1 - dim] for dim in order]
        lines.append(f"w{number} = f32[{','.join(map(str, its))}] parameter({parameters})")
        parameters += 1
        sides = [
            (value, batch, contracted),
            (f"w{number}", [*map(order.index, batch)], [*map(order.index, contracted)]),
        ]
        rest = [
            [dims[dim] for dim in range(len(dims)) if dim not in numbers],
            [free[-1 - dim] for dim in order if dim < 0],
        ]
        if random.random() < 0.5:
            sides, rest = sides[::-1], rest[::-1]
        attributes = ", ".join(
            f"{side}_{name}_dims={{{','.join(map(str, numbers))}}}"
            for side, (_, *both) in zip(("lhs", "rhs"), sides, strict=True)
            for name, numbers in zip(("batch", "contracting"), both, strict=True)
        )
        made = [*(dims[dim] for dim in batch), *rest[0], *rest[1]]
        results.append(f"f32[{','.join(map(str, made))}]")
        lines.append(f"d{number} = {results[-1]} dot({sides[0][0]}, {sides[1][0]}), {attributes}")
    names = ", ".join(f"d{number}" for number in range(4))
    before = hloom.parse(entry(*lines, root=f"({', '.join(results)}) tuple({names})"))
    verify(before)
    after = before.clone()
    merge_dots(after)
    verify(after)
    for one, other in zip(run(before, seed=1).outputs, run(after, seed=1).outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    again = after.clone()
    assert not merge_dots(again).changed
    return len(dots(before)) - len(dots(after))


def _view(random: Random, number: int, lines: list[str], roles: str) -> tuple[list[int], str, str]:
    """Transposes and reshapes of `x`, as lines of a program: the dimensions, their roles, and the name of the last.

    A role is `b` for batch, `c` for contracted, and `f` for free dimensions: those of one role are joined.
    """
    dims, value = [4, 6, 2, 3], "x"
    for step in range(random.randint(0, 3)):
        name, move = f"v{number}.{step}", random.choice(("transpose", "transpose", "join", "join", "split", "one"))
        at = random.randrange(len(dims))
        if move == "transpose":
            order = random.sample(range(len(dims)), len(dims))
            dims, roles = [dims[dim] for dim in order], "".join(roles[dim] for dim in order)
            how = f"transpose({value}), dimensions={{{','.join(map(str, order))}}}"
        else:
            after = at + 1
            if move == "join" and roles[at : at + 2] in ("bb", "cc", "ff"):
                made, after = [dims[at] * dims[at + 1]], at + 2
            elif move == "split" and dims[at] % 2 == 0 and random.random() < (1.0 if roles[at] == "f" else 0.2):
                made = random.choice(([2, dims[at] // 2], [dims[at] // 2, 2]))
            else:
                made = [1, dims[at]]
            dims, roles = [*dims[:at], *made, *dims[after:]], roles[:at] + roles[at] * len(made) + roles[after:]
            how = f"reshape({value})"
        lines.append(f"{name} = f32[{','.join(map(str, dims))}] {how}")
        value = name
    return dims, roles, value
