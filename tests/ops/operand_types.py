"""Generated types of operands, as HLO text: some fit together, some nearly."""

from __future__ import annotations

from hypothesis import strategies as st

from hloom.ir import DTYPES

ELEMENTS = list(DTYPES)
COMMON = ["pred", "s32", "u8", "f32", "bf16", "f64", "c64"]
SIZES = st.sampled_from([0, 1, 1, 2, 3, 4])
DIMS = st.lists(SIZES, max_size=4)
ODD = ["token[]", "(f32[2])", "opaque[]"]

elements = st.one_of(st.sampled_from(COMMON), st.sampled_from(ELEMENTS))
sometimes = st.integers(0, 9).map(lambda number: number == 0)


@st.composite
def like(draw: st.DrawFn, dims: list[int], element: str) -> str:
    """A type of these dimensions and elements, or nearly: other sizes, ranks, dynamism, elements."""
    if draw(st.integers(0, 39)) == 0:
        return draw(st.sampled_from(ODD))
    sizes = [draw(SIZES) if draw(sometimes) else size for size in dims]
    if draw(sometimes):
        sizes = draw(st.sampled_from([[], sizes[:-1], [*sizes, 2]]))
    texts = [draw(st.sampled_from([*[str(size)] * 6, f"<={size}", "?"])) for size in sizes]
    return f"{draw(elements) if draw(sometimes) else element}[{','.join(texts)}]"


@st.composite
def operands(draw: st.DrawFn, count: int) -> list[str]:
    """Types of so many operands that mostly fit together."""
    dims, element = draw(DIMS), draw(elements)
    return [draw(like(dims, element)) for _ in range(count)]


@st.composite
def numbers(draw: st.DrawFn, right: list[int]) -> list[int]:
    """The right numbers, or nearly."""
    if not draw(sometimes):
        return right
    wrong = draw(st.lists(st.integers(-1, 4), max_size=4))
    return draw(st.sampled_from([wrong, right[:-1], [*right, 0], right[::-1]]))


def braces(values: list[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"
