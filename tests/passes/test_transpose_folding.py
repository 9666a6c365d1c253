"""Products and convolutions of transposes (`transpose_folding.py`); the cases restate transpose_folding_test.cc."""

import pytest

import hloom
from hloom.passes import apply
from hloom.text import HloomError
from tests.passes.pass_assertions import assert_leaves, changed

MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHES = "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}"


def product(x: str, y: str, order: str, transposed: str, result: str, numbers: str) -> str:
    return f"""
        x = f32[{x}] parameter(0)
        y = f32[{y}] parameter(1)
        t = f32[{transposed}] transpose(y), dimensions={{{order}}}
        ROOT d = f32[{result}] dot(x, t), {numbers}"""


FOLDED = {
    "matrix": product("2,3", "4,3", "1,0", "3,4", "2,4", MATRICES),
    "batches": product("5,6,2,3", "5,6,4,3", "0,1,3,2", "5,6,3,4", "5,6,2,4", BATCHES),
    "batches apart": product(
        "5,2,6,3", "5,4,6,3", "0,3,2,1", "5,3,6,4", "5,6,2,4",
        "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1}",
    ),
    "constants": """
        k = f32[2,1] constant({{1},{2}})
        l = f32[3,2] constant({{1,2},{3,4},{5,6}})
        t = f32[1,2] transpose(k), dimensions={1,0}
        u = f32[2,3] transpose(l), dimensions={1,0}
        ROOT d = f32[1,3] dot(t, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
}  # fmt: skip
LEFT = {
    "transposed batches": product(
        "2,3", "3,2", "1,0", "2,3", "2",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "vector": product("3", "3,2", "1,0", "2,3", "2", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
    "nothing contracted": product(
        "3,4", "3,4,6,7", "0,1,3,2", "3,4,7,6", "3,4,7,6", "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}",
    ),
    "batches exchanged": product("7,7,2,3", "7,7,4,3", "1,0,3,2", "7,7,3,4", "7,7,2,4", BATCHES),
    "nothing exchanged": product("7,7,2,3", "7,7,3,4", "0,1,2,3", "7,7,3,4", "7,7,2,4", BATCHES),
}  # fmt: skip


@pytest.mark.parametrize("text", FOLDED.values(), ids=FOLDED)
def test_products_of_transposes(text: str):
    after, _ = changed("fold-transposes", text, exact=False)
    assert all(node.opcode != "transpose" for node in after.entry.nodes)


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_transposes_that_no_kernel_takes(text: str):
    assert_leaves("fold-transposes", text)


def test_batches_on_demand():
    text = product(
        "5,2,3", "3,5,4", "1,0,2", "5,3,4", "5,2,4",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    )  # fmt: skip
    assert_leaves("fold-transposes", text)
    after, _ = changed("fold-transposes(batches=1)", text, exact=False)
    assert after.entry.root.operands[1].opcode == "parameter"
    with pytest.raises(HloomError, match="batches is 0 or 1, not 'all'"):
        apply(hloom.parse(f"ENTRY e {{ {text} }}"), "fold-transposes(batches=all)")


CONVOLUTION = """
    x = f32[{image}] parameter(0)
    y = f32[{kernel}] parameter(1)
    t = f32[{transposed}] transpose({operand}), dimensions={{{order}}}
    ROOT c = f32[2,5,4,6] convolution({operands}), window={{size=3x2}}, dim_labels=bf01_oi01->bf01"""


@pytest.mark.parametrize(
    ("image", "kernel", "order", "labels"),
    [
        ("2,3,6,7", "3,5,3,2", "1,0,2,3", "bf01_io01->bf01"),
        ("2,3,6,7", "2,3,5,3", "2,1,3,0", "bf01_1io0->bf01"),
        ("3,2,6,7", "5,3,3,2", "1,0,2,3", "fb01_oi01->bf01"),
        ("7,2,6,3", "5,3,3,2", "1,3,2,0", "1b0f_oi01->bf01"),
    ],
)
def test_convolutions_of_transposes(image: str, kernel: str, order: str, labels: str):
    of_kernel = kernel != "5,3,3,2"
    transposed, operand, operands = ("5,3,3,2", "y", "x, t") if of_kernel else ("2,3,6,7", "x", "t, y")
    text = CONVOLUTION.format(
        image=image, kernel=kernel, transposed=transposed, operand=operand, order=order, operands=operands
    )
    after, _ = changed("fold-transposes", text, exact=False)
    assert str(after.entry.root.attributes["dim_labels"]) == labels
    assert all(node.opcode != "transpose" for node in after.entry.nodes)


def test_in_calls():
    text = f"f {{\n{FOLDED['matrix']}\n}}\nENTRY e {{ x = f32[2,3] parameter(0) y = f32[4,3] parameter(1) ROOT c = f32[2,4] call(x, y), to_apply=f }}"
    after, _ = changed("fold-transposes", text, exact=False)
    assert after.graphs[0].root.operands[1].opcode == "parameter"
