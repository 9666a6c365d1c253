"""Training steps of small models, as texts: jax lowers them in a child process, so that tests need no devices."""

from __future__ import annotations

from functools import cache

from hloom.formats.hlo import parse
from hloom.ir import Module

DOT, LEFT, RIGHT = (
    "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "lhs_contracting_dims={0}, rhs_contracting_dims={0}",
)


@cache
def perceptron_text(layers: int = 3, width: int = 64, batch: int = 64) -> str:
    """A step of gradient descent: layers of tanh(x w), squares as the loss, without donation."""
    rows, weight = f"f32[{batch},{width}]", f"f32[{width},{width}]"
    lines = [f"w{n} = {weight} parameter({n})" for n in range(layers)] + [f"x = {rows} parameter({layers})"]
    value = "x"
    for n in range(layers):
        lines += [f"a{n} = {rows} dot({value}, w{n}), {DOT}", f"h{n} = {rows} tanh(a{n})"]
        value = f"h{n}"
    slope = value
    for n in reversed(range(layers)):
        before = f"h{n - 1}" if n else "x"
        lines += [
            f"q{n} = {rows} multiply(h{n}, h{n})",
            f"one{n} = f32[] constant(1)",
            f"ones{n} = {rows} broadcast(one{n}), dimensions={{}}",
            f"t{n} = {rows} subtract(ones{n}, q{n})",
            f"slope{n} = {rows} multiply({slope}, t{n})",
            f"d{n} = {weight} dot({before}, slope{n}), {RIGHT}",
            f"g{n} = {rows} dot(slope{n}, w{n}), {LEFT}",
            f"rate{n} = f32[] constant(0.01)",
            f"rates{n} = {weight} broadcast(rate{n}), dimensions={{}}",
            f"m{n} = {weight} multiply(rates{n}, d{n})",
            f"v{n} = {weight} subtract(w{n}, m{n})",
        ]
        slope = f"g{n}"
    results = ", ".join(f"v{n}" for n in range(layers))
    types = ", ".join([weight] * layers)
    lines.append(f"ROOT new = ({types}) tuple({results})")
    body = "\n  ".join(lines)
    return f"HloModule step\n\nENTRY step {{\n  {body}\n}}\n"


@cache
def softplus_text(layers: int = 3, width: int = 64, batch: int = 64) -> str:
    """The same with log(1 + exp(x w)) for tanh: a layer has two residuals, and one follows from the other."""
    rows = f"f32[{batch},{width}]"
    text = perceptron_text(layers, width, batch)
    for n in range(layers):
        text = text.replace(
            f"h{n} = {rows} tanh(a{n})", f"e{n} = {rows} exponential(a{n})\n  h{n} = {rows} log-plus-one(e{n})"
        )
        text = text.replace(
            f"t{n} = {rows} subtract(ones{n}, q{n})",
            f"p{n} = {rows} add(ones{n}, e{n})\n  t{n} = {rows} divide(e{n}, p{n})",
        )
        text = text.replace(f"q{n} = {rows} multiply(h{n}, h{n})\n  ", "")
    return text


def perceptron(layers: int = 3, width: int = 64, batch: int = 64) -> Module:
    return parse(perceptron_text(layers, width, batch))
