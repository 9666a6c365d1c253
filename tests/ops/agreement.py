"""Whether our types and XLA's agree on one instruction, and generated computations for those that call one."""

from __future__ import annotations

from hypothesis import strategies as st

from hloom.ir import Type
from tests.helpers.properties import examples

from .operand_types import elements, sometimes
from .oracle import module_text, ours, xla

quickly = examples(50)


def assert_agrees(
    instruction: str,
    operands: list[str],
    computations: str = "",
    we_refuse: tuple[str, ...] = (),
    xla_aborts: tuple[str, ...] = (),
) -> None:
    """Both refuse, or both infer the same; but for refusals of ours that contain one of these texts.

    XLA is not asked where a refusal says what it aborts of: a new child each time takes long.
    """
    text = module_text(instruction, operands, computations)
    we = ours(text)
    if isinstance(we, str) and any(reason in we for reason in xla_aborts):
        return
    they = xla(text)
    if isinstance(we, str) and isinstance(they, Type):
        assert any(reason in we for reason in we_refuse), f"{text}we refuse: {we}\nXLA: {they}"
        return
    assert isinstance(we, str) or we is they, f"{text}we: {we}\nXLA: {they}"


def computation(name: str, parameters: list[str], result: str) -> str:
    """A computation of this signature; what it computes does not matter."""
    lines = "".join(f"  q{n} = {parameter_type} parameter({n})\n" for n, parameter_type in enumerate(parameters))
    return f'{name} {{\n{lines}  ROOT made = {result} custom-call(), custom_call_target="any"\n}}\n\n'


def tuple_of(kinds: list[str]) -> str:
    return f"({', '.join(kinds)})"


@st.composite
def nearly(draw: st.DrawFn, element: str) -> str:
    """A scalar of this element type, or something else now and then."""
    if not draw(sometimes):
        return f"{element}[]"
    other = draw(st.one_of(elements, st.sampled_from(["f32", "bf16", "f64"])))
    return draw(st.sampled_from([f"{other}[]", f"{element}[2]", "token[]", f"({element}[])"]))


@st.composite
def reducer(draw: st.DrawFn, name: str, element_types: list[str]) -> str:
    """A computation that reduces arrays of these elements, or nearly."""
    scalars = [draw(nearly(element_type)) for element_type in element_types]
    parameters = [
        draw(nearly(element_type)) if draw(sometimes) else scalar_type for element_type, scalar_type in zip(element_types, scalars, strict=True)
    ]
    parameters += [draw(nearly(element_type)) for element_type in element_types]
    if draw(st.integers(0, 29)) == 0:
        parameters.pop()
    single = len(scalars) == 1 and draw(st.integers(0, 9)) > 0
    return computation(name, parameters, scalars[0] if single else tuple_of(scalars))


@st.composite
def windows(draw: st.DrawFn, sizes: list[int]) -> str:
    """A window of these sizes, with what else one may say of it, as text after an instruction."""
    if not sizes:
        return ""
    parts = [f"size={'x'.join(map(str, sizes))}"]
    fields = {"stride": (1, 3), "lhs_dilate": (1, 3), "rhs_dilate": (1, 2), "rhs_reversal": (0, 1)}
    for name, (least, most) in fields.items():
        if draw(st.integers(0, 2)) == 0:
            low = least if draw(st.integers(0, 9)) else 0
            parts.append(f"{name}={'x'.join(str(draw(st.integers(low, most))) for _ in sizes)}")
    if draw(st.booleans()):
        pads = st.integers(-2, 3)
        parts.append(f"pad={'x'.join(f'{draw(pads)}_{draw(pads)}' for _ in sizes)}")
    return f", window={{{' '.join(parts)}}}"
