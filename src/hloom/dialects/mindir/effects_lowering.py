"""The lowering of primitives that write to parameters: assignments and the updates of optimisers.

A rule is given the parameters' values before it, and yields its result and, by operand, the values behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.dialects.mindir.lowering_context import Primitive
from hloom.dialects.mindir.normalisation_lowering import batch_norm_in_training
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import Node

Writes = tuple[Node | tuple[Node, ...], dict[int, Node]]
"""A primitive's result, and the new values of operands by index."""


def _assign(primitive: Primitive) -> Writes:
    made = primitive.build.convert(primitive.array(1), primitive.x_type.dtype)
    if tensor(made).dims != primitive.x_type.dims:
        raise primitive.error(f"{tensor(made)} cannot be assigned to a parameter of {primitive.x_type}")
    return made, {0: made}


def _assign_with(opcode: str) -> Callable[[Primitive], Writes]:
    def rule(primitive: Primitive) -> Writes:
        x = primitive.x
        value = primitive.build.stretch(primitive.array(1, tensor(x).dtype), tensor(x).dims)
        made: Node = primitive.build.apply(opcode, x, value)
        return made, {0: made}

    return rule


def _scaled(build: HloBuilder, factor: Node, x: Node) -> Node:
    """An array times a number."""
    number = build.reshape(build.convert(factor, tensor(x).dtype), ())
    return build.apply("multiply", x, build.spread(number, tensor(x).dims, ()))


def _momentum(primitive: Primitive) -> Writes:
    """(variable, accumulation, rate, gradient, momentum): what MindSpore's ApplyMomentum computes.

        accumulation = accumulation * momentum + gradient
        variable = variable - accumulation * rate

    With `use_nesterov` the step is gradient + momentum * accumulation, as documented; MindSpore 2.10's CPU kernel pays
    no heed to it.
    """
    build = primitive.build
    variable, accumulated, rate, gradient, momentum = (primitive.array(index) for index in range(5))
    scale = primitive.attribute("gradient_scale", 1.0)
    if scale != 1:
        gradient = build.apply("multiply", gradient, build.filled(scale, gradient))
    accumulated = build.apply("add", _scaled(build, momentum, accumulated), gradient)
    step: Node = accumulated
    if primitive.attribute("use_nesterov", False):
        step = build.apply("add", _scaled(build, momentum, accumulated), gradient)
    made = build.apply("subtract", variable, _scaled(build, rate, step))
    return made, {0: made, 1: accumulated}


def _sgd(primitive: Primitive) -> Writes:
    """(variable, gradient, rate, accumulation, momentum, is first): MindSpore's SGD.

    The accumulation is the gradient at first and then the sum with momentum; without momentum neither it nor the mark
    of the first step changes. Source: mindspore/ops/kernel/cpu/sgd_cpu_kernel.cc, in its result.
    """
    build = primitive.build
    variable, gradient, rate, accumulated, momentum, first = (primitive.array(index) for index in range(6))
    decay, dampening = primitive.attribute("weight_decay", 0.0), primitive.attribute("dampening", 0.0)
    dims = tensor(variable).dims
    if decay:
        gradient = build.apply("add", gradient, build.apply("multiply", variable, build.filled(decay, variable)))
    damped = build.apply("multiply", gradient, build.filled(1 - dampening, gradient))
    summed = build.apply("add", _scaled(build, momentum, accumulated), damped)
    zero = build.filled(0, first)
    is_first = build.compare(first, zero, "GT")
    sums = build.apply("select", is_first, gradient, summed)
    step: Node = sums
    if primitive.attribute("nesterov", False):
        step = build.apply("add", gradient, _scaled(build, momentum, sums))
    number = build.reshape(momentum, ())
    has_momentum = build.spread(build.compare(number, build.filled(0, number), "GT"), dims, ())
    step = build.apply("select", has_momentum, step, gradient)
    made = build.apply("subtract", variable, _scaled(build, rate, step))
    kept = build.apply("select", has_momentum, sums, accumulated)
    return made, {0: made, 3: kept, 5: build.apply("select", has_momentum, zero, first)}


EFFECTS: dict[str, Callable[[Primitive], Writes]] = {
    "Assign": _assign,
    "AssignAdd": _assign_with("add"),
    "AssignSub": _assign_with("subtract"),
    "ApplyMomentum": _momentum,
    "SGD": _sgd,
    "BatchNorm": batch_norm_in_training,
}
"""By primitive that writes: its rule. The operand behind those of the rule is the monad that orders it."""
