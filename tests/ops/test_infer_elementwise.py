"""Element-by-element ops: the types that XLA infers, and which of its answers we do not give.

What XLA's parser accepts and we refuse, each on purpose:

    shift-*, mulhi of floats, complex numbers or pred      no backend has them, StableHLO neither: integers only
    add-dependency on something else than a token          XLA's own verifier refuses it
And the other way round:
    opt-barrier                                            XLA's parser cannot leave its type out; it is the operand's
    tuple-select                                           gone from XLA since 2020: read in old texts only
    copy of opaque[]                                       XLA aborts when the type is left out

Covers `elementwise.py`, `random.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import DTYPES, TensorType, Type
from hloom.ops import OPS, elementwise
from tests.helpers.properties import examples

from .operand_types import ELEMENTS, operands
from .oracle import module_text, ours, xla

NOT_ASKED = {"opt-barrier", "tuple-select"}
ROWS = [op for op in elementwise.ROWS.values() if op.omits_type and op.name not in NOT_ASKED]
UNARY = [op.name for op in ROWS if op.arity == (1, 1)]
BINARY = [op.name for op in ROWS if op.arity == (2, 2) and op.name not in ("compare", "add-dependency")]
INTEGERS_ONLY = {"mulhi", "shift-left", "shift-right-arithmetic", "shift-right-logical"}


def instruction(name: str, count: int) -> str:
    suffix = ", direction=LT" if name == "compare" else ""
    return f"{name}({', '.join(f'p{n}' for n in range(count))}){suffix}"


def assert_agrees(name: str, kinds: list[str]) -> None:
    text = module_text(instruction(name, len(kinds)), kinds)
    if name == "copy" and kinds == ["opaque[]"]:
        return
    we, they = ours(text), xla(text)
    if isinstance(they, Type) and isinstance(we, str) and deviates(name, kinds):
        return
    assert isinstance(we, Type) == isinstance(they, Type), f"{text}we: {we}\nXLA: {they}"
    assert isinstance(we, str) or we is they, text


def deviates(name: str, kinds: list[str]) -> bool:
    element = DTYPES.get(kinds[0].partition("[")[0])
    if name in INTEGERS_ONLY:
        return element is not None and not element.is_integer
    return name == "add-dependency" and kinds[1] != "token[]"


@pytest.mark.parametrize("name", UNARY)
def test_every_element_type_of_a_unary_op(name: str) -> None:
    for element in ELEMENTS:
        assert_agrees(name, [f"{element}[2]"])


@pytest.mark.parametrize("name", [*BINARY, "compare"])
def test_every_element_type_of_a_binary_op(name: str) -> None:
    for element in ELEMENTS:
        assert_agrees(name, [f"{element}[2]"] * 2)


def test_every_pair_of_element_types() -> None:
    for left in ELEMENTS:
        for right in ELEMENTS:
            if {left, right} not in ({"f8e5m2", "f8e5m2fnuz"}, {"f8e4m3", "f8e4m3fnuz"}):
                assert_agrees("add", [f"{left}[2]", f"{right}[2]"])


@pytest.mark.parametrize("pair", [("f8e5m2", "f8e5m2fnuz"), ("f8e4m3", "f8e4m3fnuz")])
def test_types_that_abort_xla_are_refused(pair: tuple[str, str]) -> None:
    text = module_text("add(p0, p1)", [f"{pair[0]}[2]", f"{pair[1]}[2]"])
    assert "equally precise" in str(ours(text))
    assert str(xla(text)).startswith("aborted")


@examples(60)
@given(st.data())
def test_generated_operands(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(ROWS))
    assert_agrees(op.name, data.draw(operands(op.arity[0])))


@examples(60)
@given(st.data())
def test_generated_operands_of_three(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["select", "clamp"]))
    kinds = data.draw(operands(3))
    if name == "select" and data.draw(st.integers(0, 9)):
        kinds[0] = f"pred[{kinds[0].partition('[')[2]}" if kinds[0][0] not in "(to" else "pred[]"
    for index in (0, 2) if name == "clamp" else (0,):
        if data.draw(st.integers(0, 3)) == 0:
            kinds[index] = kinds[index].partition("[")[0] + "[]" if kinds[index][0] != "(" else "pred[]"
    assert_agrees(name, kinds)


@pytest.mark.parametrize(
    ("name", "kinds", "expected"),
    [
        ("opt-barrier", ["(f32[2]{0}, token[])"], "(f32[2], token[])"),
        ("tuple-select", ["pred[]", "(f32[2], s32[])", "(f32[2], s32[])"], "(f32[2], s32[])"),
        ("copy", ["f32[2,3]{0,1}"], "f32[2,3]"),
        ("add-dependency", ["(f32[2], s32[])", "token[]"], "(f32[2], s32[])"),
    ],
)
def test_types_passed_on(name: str, kinds: list[str], expected: str) -> None:
    assert str(ours(module_text(instruction(name, len(kinds)), kinds))) == expected


@pytest.mark.parametrize(
    ("text", "kinds", "problem"),
    [
        ("negate(p0)", ["(f32[2])"], "the operand must be an array, not (f32[2])"),
        ("erf(p0)", ["s32[2]"], "the operand must be of float type, but is s32[2]"),
        ("add(p0, p1)", ["f32[2]", "f32[2,2]"], "the operands must have the same rank, but are f32[2] and f32[2,2]"),
        ("add(p0, p1)", ["f32[2]", "f32[3]"], "must be equal or 1, but 2 meets 3 in f32[2] and f32[3]"),
        ("add(p0, p1)", ["f32[2]", "s32[2]"], "must have the same element type, but are f32[2] and s32[2]"),
        ("shift-left(p0, p1)", ["f32[]", "f32[]"], "the left operand must be of signed or unsigned type, but is f32[]"),
        ("complex(p0, p1)", ["bf16[]", "bf16[]"], "must both be f32 or both f64, but are bf16[] and bf16[]"),
        (
            "clamp(p0, p1, p2)",
            ["f32[3]", "f32[2]", "f32[]"],
            "the lower bound must be a scalar or have the operand's dim",
        ),
        ("clamp(p0, p1, p2)", ["s32[]", "f32[2]", "f32[]"], "the lower bound must have the operand's element type"),
        ("clamp(p0, p1, p2)", ["f32[3]", "f32[?]", "f32[2]"], "the bounds must have the same dimensions"),
        ("select(p0, p1, p2)", ["s32[]", "f32[2]", "f32[2]"], "the predicate must be pred, but is s32[]"),
        (
            "select(p0, p1, p2)",
            ["pred[3]", "f32[2]", "f32[2]"],
            "a scalar or have the dimensions of f32[2], but is pred[3]",
        ),
        ("select(p0, p1, p2)", ["pred[]", "f32[3]", "f32[2]"], "operands 1 and 2 must have the same type"),
        ("add-dependency(p0, p1)", ["f32[]", "f32[]"], "the second operand must be token[], but is f32[]"),
        ("tuple-select(p0, p1, p2)", ["pred[]", "f32[]", "f32[]"], "operands 1 and 2 must be tuples of the same type"),
        ("tuple-select(p0, p1, p2)", ["s32[]", "(f32[])", "(f32[])"], "the predicate must be pred[], but is s32[]"),
    ],
)
def test_refusals_say_what_would_be_right(text: str, kinds: list[str], problem: str) -> None:
    assert problem in str(ours(module_text(text, kinds)))


def test_every_row_has_its_rules() -> None:
    assert all(op.infer and (op.axes or "axes" in op.because) for op in elementwise.ROWS.values())
    assert OPS["add"].infer is not None and OPS["add"].infer(TensorType(DTYPES["f32"]), TensorType(DTYPES["f32"]))
