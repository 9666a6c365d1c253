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
        made: Node = primitive.build.op(opcode, x, value)
        return made, {0: made}

    return rule


def _scaled(build: HloBuilder, factor: Node, x: Node) -> Node:
    """An array times a number."""
    number = build.reshape(build.convert(factor, tensor(x).dtype), ())
    return build.op("multiply", x, build.broadcast(number, tensor(x).dims, ()))


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
        gradient = build.op("multiply", gradient, build.like(scale, gradient))
    accumulated = build.op("add", _scaled(build, momentum, accumulated), gradient)
    step: Node = accumulated
    if primitive.attribute("use_nesterov", False):
        step = build.op("add", _scaled(build, momentum, accumulated), gradient)
    made = build.op("subtract", variable, _scaled(build, rate, step))
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
        gradient = build.op("add", gradient, build.op("multiply", variable, build.like(decay, variable)))
    damped = build.op("multiply", gradient, build.like(1 - dampening, gradient))
    summed = build.op("add", _scaled(build, momentum, accumulated), damped)
    zero = build.like(0, first)
    is_first = build.compare("GT", first, zero)
    sums = build.op("select", is_first, gradient, summed)
    step: Node = sums
    if primitive.attribute("nesterov", False):
        step = build.op("add", gradient, _scaled(build, momentum, sums))
    number = build.reshape(momentum, ())
    has_momentum = build.broadcast(build.compare("GT", number, build.like(0, number)), dims, ())
    step = build.op("select", has_momentum, step, gradient)
    made = build.op("subtract", variable, _scaled(build, rate, step))
    kept = build.op("select", has_momentum, sums, accumulated)
    return made, {0: made, 3: kept, 5: build.op("select", has_momentum, zero, first)}


def _moving_average(build: HloBuilder, old: Node, factor: Node, value: Node) -> Node:
    """factor * old + (1 - factor) * value."""
    rest = build.op("subtract", build.like(1, factor), factor)
    return build.op("add", _scaled(build, factor, old), _scaled(build, rest, value))


def _adam(primitive: Primitive) -> Writes:
    """(variable, m, v, beta1^t, beta2^t, rate, beta1, beta2, epsilon, gradient): Adam.

        m = beta1 * m + (1 - beta1) * gradient, v = beta2 * v + (1 - beta2) * gradient^2
        variable = variable - rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)

    With `use_nesterov` the step has beta1 * m + (1 - beta1) * gradient in place of m.
    """
    build = primitive.build
    variable, m, v, power1, power2, rate, beta1, beta2, epsilon, gradient = (primitive.array(i) for i in range(10))
    m = _moving_average(build, m, beta1, gradient)
    v = _moving_average(build, v, beta2, build.op("multiply", gradient, gradient))
    one = build.constant(1, tensor(rate).dtype)
    power1, power2, rate = (build.reshape(number, ()) for number in (power1, power2, rate))
    root = build.op("sqrt", build.op("subtract", one, power2))
    rate = build.op("divide", build.op("multiply", rate, root), build.op("subtract", one, power1))
    step: Node = _moving_average(build, m, beta1, gradient) if primitive.attribute("use_nesterov", False) else m
    made = build.op("subtract", variable, _scaled(build, rate, _over_root(build, step, v, epsilon)))
    return (made, m, v), {0: made, 1: m, 2: v}


def _adam_with_decay(primitive: Primitive) -> Writes:
    """(variable, m, v, rate, beta1, beta2, epsilon, decay, gradient): Adam without its correction, with decay.

    variable = variable - rate * (m / (sqrt(v) + epsilon) + decay * variable)
    """
    build = primitive.build
    variable, m, v, rate, beta1, beta2, epsilon, decay, gradient = (primitive.array(i) for i in range(9))
    m = _moving_average(build, m, beta1, gradient)
    v = _moving_average(build, v, beta2, build.op("multiply", gradient, gradient))
    step = build.op("add", _over_root(build, m, v, epsilon), _scaled(build, decay, variable))
    made = build.op("subtract", variable, _scaled(build, rate, step))
    return (made, m, v), {0: made, 1: m, 2: v}


def _over_root(build: HloBuilder, step: Node, v: Node, epsilon: Node) -> Node:
    """step / (sqrt(v) + epsilon)."""
    small = build.broadcast(build.reshape(epsilon, ()), tensor(v).dims, ())
    return build.op("divide", step, build.op("add", build.op("sqrt", v), small))


def _rms_prop(primitive: Primitive) -> Writes:
    """(variable, mean of squares, moment, rate, gradient, rho, momentum, epsilon): RMSProp.

    squares = rho * squares + (1 - rho) * gradient^2
    moment = momentum * moment + rate * gradient * rsqrt(squares + epsilon)
    variable = variable - moment
    """
    build = primitive.build
    variable, squares, moment, rate, gradient, rho, momentum, epsilon = (primitive.array(i) for i in range(8))
    squares = _moving_average(build, squares, rho, build.op("multiply", gradient, gradient))
    small = build.broadcast(build.reshape(epsilon, ()), tensor(squares).dims, ())
    inverse = build.op("rsqrt", build.op("add", squares, small))
    step = build.op("multiply", _scaled(build, rate, gradient), inverse)
    moment = build.op("add", _scaled(build, momentum, moment), step)
    made = build.op("subtract", variable, moment)
    return made, {0: made, 1: squares, 2: moment}


EFFECTS: dict[str, Callable[[Primitive], Writes]] = {
    "Assign": _assign,
    "AssignAdd": _assign_with("add"),
    "AssignSub": _assign_with("subtract"),
    "ApplyMomentum": _momentum,
    "SGD": _sgd,
    "BatchNorm": batch_norm_in_training,
    "Adam": _adam,
    "AdamWeightDecay": _adam_with_decay,
    "ApplyRMSProp": _rms_prop,
}
"""By primitive that writes: its rule. The operand behind those of the rule is the monad that orders it."""
