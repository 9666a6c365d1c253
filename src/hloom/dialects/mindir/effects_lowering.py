"""The lowering of primitives that write to parameters: assignments and the updates of optimisers.

A rule gets the parameters' values before the write, and returns its result and the values after it, by operand.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.dialects.arrays import HloArray
from hloom.dialects.mindir.lowering_context import Primitive
from hloom.dialects.mindir.normalisation_lowering import batch_norm_in_training

Writes = tuple[HloArray | tuple[HloArray, ...], dict[int, HloArray]]
"""A primitive's result, and the new values of operands by index."""


def _assign(primitive: Primitive) -> Writes:
    x, made = primitive.x, primitive.array(1, primitive.x.dtype)
    if made.dims != x.dims:
        raise primitive.error(f"{made.type} cannot be assigned to a parameter of {x.type}")
    return made, {0: made}


def _assign_with(opcode: str) -> Callable[[Primitive], Writes]:
    def rule(primitive: Primitive) -> Writes:
        x = primitive.x
        made = x.op(opcode, primitive.array(1, x.dtype).stretch(x.dims))
        return made, {0: made}

    return rule


def _scaled(factor: HloArray, x: HloArray) -> HloArray:
    """An array times a number."""
    return x * factor.convert(x.dtype).reshape(()).spread(x.dims)


def _momentum(primitive: Primitive) -> Writes:
    """(variable, accumulation, rate, gradient, momentum): what MindSpore's ApplyMomentum computes.

        accumulation = accumulation * momentum + gradient
        variable = variable - accumulation * rate

    With `use_nesterov` the step is gradient + momentum * accumulation, as documented; MindSpore 2.10's CPU kernel
    ignores it.
    """
    variable, accumulated, rate, gradient, momentum = primitive.arrays(*range(5))
    scale = primitive.attribute("gradient_scale", 1.0)
    if scale != 1:
        gradient = gradient * scale
    accumulated = _scaled(momentum, accumulated) + gradient
    is_nesterov = primitive.attribute("use_nesterov", False)
    step = _scaled(momentum, accumulated) + gradient if is_nesterov else accumulated
    made = variable - _scaled(rate, step)
    return made, {0: made, 1: accumulated}


def _sgd(primitive: Primitive) -> Writes:
    """(variable, gradient, rate, accumulation, momentum, is first): MindSpore's SGD.

    The accumulation is the gradient at first and then the sum with momentum; without momentum neither it nor the mark
    of the first step changes. Source: mindspore/ops/kernel/cpu/sgd_cpu_kernel.cc, in its result.
    """
    variable, gradient, rate, accumulated, momentum, first = primitive.arrays(*range(6))
    decay, dampening = primitive.attribute("weight_decay", 0.0), primitive.attribute("dampening", 0.0)
    if decay:
        gradient = gradient + variable * decay
    damped = gradient * (1 - dampening)
    summed = _scaled(momentum, accumulated) + damped
    zero = first.filled(0)
    sums = (first > zero).select(gradient, summed)
    step = gradient + _scaled(momentum, sums) if primitive.attribute("nesterov", False) else sums
    has_momentum = (momentum.reshape(()) > 0).spread(variable.dims)
    made = variable - _scaled(rate, has_momentum.select(step, gradient))
    kept = has_momentum.select(sums, accumulated)
    return made, {0: made, 3: kept, 5: has_momentum.select(zero, first)}


def _moving_average(old: HloArray, factor: HloArray, value: HloArray) -> HloArray:
    """factor * old + (1 - factor) * value."""
    rest = 1 - factor
    return _scaled(factor, old) + _scaled(rest, value)


def _adam(primitive: Primitive) -> Writes:
    """(variable, m, v, beta1^t, beta2^t, rate, beta1, beta2, epsilon, gradient): Adam.

        m = beta1 * m + (1 - beta1) * gradient, v = beta2 * v + (1 - beta2) * gradient^2
        variable = variable - rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)

    With `use_nesterov` the step has beta1 * m + (1 - beta1) * gradient in place of m.
    """
    variable, m, v, power1, power2, rate, beta1, beta2, epsilon, gradient = primitive.arrays(*range(10))
    m = _moving_average(m, beta1, gradient)
    v = _moving_average(v, beta2, gradient * gradient)
    one = primitive.build.number(1, rate.dtype)
    power1, power2, rate = (number.reshape(()) for number in (power1, power2, rate))
    root = (one - power2).op("sqrt")
    rate = rate * root / (one - power1)
    step = _moving_average(m, beta1, gradient) if primitive.attribute("use_nesterov", False) else m
    made = variable - _scaled(rate, _over_root(step, v, epsilon))
    return (made, m, v), {0: made, 1: m, 2: v}


def _adam_with_decay(primitive: Primitive) -> Writes:
    """(variable, m, v, rate, beta1, beta2, epsilon, decay, gradient): Adam without its correction, with decay.

    variable = variable - rate * (m / (sqrt(v) + epsilon) + decay * variable)
    """
    variable, m, v, rate, beta1, beta2, epsilon, decay, gradient = primitive.arrays(*range(9))
    m = _moving_average(m, beta1, gradient)
    v = _moving_average(v, beta2, gradient * gradient)
    step = _over_root(m, v, epsilon) + _scaled(decay, variable)
    made = variable - _scaled(rate, step)
    return (made, m, v), {0: made, 1: m, 2: v}


def _over_root(step: HloArray, v: HloArray, epsilon: HloArray) -> HloArray:
    """step / (sqrt(v) + epsilon)."""
    small = epsilon.reshape(()).spread(v.dims)
    return step / (v.op("sqrt") + small)


def _rms_prop(primitive: Primitive) -> Writes:
    """(variable, mean of squares, moment, rate, gradient, rho, momentum, epsilon): RMSProp.

    squares = rho * squares + (1 - rho) * gradient^2
    moment = momentum * moment + rate * gradient * rsqrt(squares + epsilon)
    variable = variable - moment
    """
    variable, squares, moment, rate, gradient, rho, momentum, epsilon = primitive.arrays(*range(8))
    squares = _moving_average(squares, rho, gradient * gradient)
    small = epsilon.reshape(()).spread(squares.dims)
    inverse = (squares + small).op("rsqrt")
    step = _scaled(rate, gradient) * inverse
    moment = _scaled(momentum, moment) + step
    made = variable - moment
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
"""The rule of each primitive that writes. Its last operand, which rules do not get, is the monad that orders it."""
