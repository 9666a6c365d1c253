"""JAX functions whose derivatives are modules': two primitives, closed under jax's transformations.

    program_call[program](*inputs)                          what a program computes
    linear_call[program, moves](*inputs, *residuals, *tangents)    its derivative, linear in the tangents

The derivative of a program is again a program: the forward part yields residuals, `linear_call` stands for the linear
function of the tangents, and its transpose calls the backward part with the residuals. Evaluated directly, it is the
program in forward mode. So second order needs nothing more.

A batch of a function is the function that jax batches, and a batch of its derivative is the derivative of that. The
batched function has its own residuals: its backward part gets the inputs and recomputes them.

The differentiation of modules is passed in (`Derivatives`); `hloom.differentiable` passes hloom's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, wraps
from typing import Any, Protocol

import numpy as np

from hloom.formats.hlo import load
from hloom.ir import Module, Node
from hloom.runtime.derivative_rules import lowered_with_rules
from hloom.runtime.jax_internals import jax_internals, register_linearization, trace
from hloom.runtime.lowering import call_module
from hloom.text import HloomError, Unsupported


class Derivatives(Protocol):
    """How modules are differentiated with respect to parameters, by number."""

    def parts(self, module: Module, wrt: Sequence[int]) -> tuple[Module, Module]:
        """The forward part, which yields results and residuals, and the backward part of cotangents and residuals."""
        ...

    def forward(self, module: Module, wrt: Sequence[int]) -> Module:
        """Forward mode: the module of parameters and tangents, which yields results and tangents."""
        ...

    def backward(self, module: Module, wrt: Sequence[int]) -> Module:
        """Reverse mode: the module of parameters and cotangents, which yields cotangents."""
        ...


@dataclass(frozen=True, slots=True)
class Batched:
    """A program over a batch: the inputs that it takes, by number, and where its results are those of one element.

    `is_batched` says which inputs of the one-element program have a batch, along dimension 0; all results have.
    `outputs` are the numbers of its results, None for a result that nothing asks for in a batch.
    """

    program: Program
    inputs: list[int]
    is_batched: list[bool]
    outputs: list[int | None]


_BOUNDARIES = frozenset({"SPMDFullToShardShape", "SPMDShardToFullShape"})


def _is_manual_for_shardy(node: Node) -> bool:
    return node.attributes.get("custom_call_target") == "xla.sdy.GlobalToLocalShape"


class Program:
    """A module with the types jax knows it by; made from a jaxpr, or derived from another program."""

    def __init__(
        self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], derivatives: Derivatives, *, jaxpr: Any = None,
        module: Module | None = None, over_batch: Callable[[int, Sequence[bool]], Batched] | None = None,
        replay: Callable[..., Any] | None = None, has_64_bits: bool = False, keeps_rules: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.derivatives = derivatives
        self.jaxpr = jaxpr
        self._module = module
        self._linearized: dict[tuple[int, ...], tuple[Program, Program]] = {}
        self._forward: dict[tuple[int, ...], Program] = {}
        self._backward: dict[tuple[int, ...], Program] = {}
        self.has_64_bits = has_64_bits
        """Whether types of 64 bits inside it stay, though jax has none: it is a module's, not jax's own."""
        self.keeps_rules = keeps_rules
        """Whether jax's derivative rules within the jaxpr are those of the module: HLO knows none."""
        self._over_batch = over_batch
        self._replay = replay
        self._batched: dict[tuple[int, tuple[bool, ...]], Batched] = {}

    def __repr__(self) -> str:
        return self.name

    @property
    def module(self) -> Module:
        """The module, lowered when first asked for.

        Manual computations of `jax.shard_map` are lowered for GSPMD whichever partitioner is on, because its custom
        calls say which devices share a part and Shardy's do not.
        """
        if self._module is None:
            self._module = self._lowered()
            if any(_is_manual_for_shardy(node) for node in self._module.nodes()):
                with jax_internals().config.use_shardy_partitioner(False):
                    self._module = self._lowered()
        return self._module

    @cached_property
    def is_by_hand(self) -> bool:
        """Whether devices compute parts of it by hand: values between the devices' parts stay inside the program."""
        return any(node.attributes.get("custom_call_target") in _BOUNDARIES for node in self.module.nodes())

    def jax_types(self) -> Any:
        """The types that jax has where it traces what the program does, as a context."""
        return jax_internals().enable_x64() if self.has_64_bits else nullcontext()

    def _lowered(self) -> Module:
        internals = jax_internals()
        if any(_varying_axes(operand) for operand in (*self.inputs, *self.outputs)):
            raise HloomError(
                f"{self.name}: jax.shard_map checks over which axes of the mesh values vary: no module says that",
                hint="jax.shard_map(..., check_vma=False): the objective is then the sum over all devices",
            )
        if self.keeps_rules:
            with self.jax_types():
                return lowered_with_rules(self.jaxpr)
        function = internals.core.jaxpr_as_fun(self.jaxpr)
        arguments = [internals.jax.ShapeDtypeStruct(operand.shape, operand.dtype) for operand in self.inputs]
        with self.jax_types():
            return load(internals.jax.jit(lambda *values: function(*values), keep_unused=True).lower(*arguments))

    def moving_outputs(self) -> list[int]:
        """The numbers of the results that have tangents."""
        return [number for number, output in enumerate(self.outputs) if _moves(output)]

    def linearized(self, wrt: tuple[int, ...]) -> tuple[Program, Program]:
        """The forward part; and the backward part, of cotangents, residuals and the inputs, which it leaves alone."""
        if wrt not in self._linearized:
            forward, backward = self.derivatives.parts(self.module, wrt)
            residuals = _avals(forward)[len(self.outputs) :]
            moving = [self.outputs[number] for number in self.moving_outputs()]
            for parameter in forward.entry.parameters:
                backward.entry.add_parameter(parameter.type, parameter.name)
            count = len(residuals)
            first = Program(f"{self.name}.forward", self.inputs, [*self.outputs, *residuals], self.derivatives,
                            module=forward, over_batch=self._derived(_batched_forward, self, count))  # fmt: skip
            second = Program(f"{self.name}.backward", [*moving, *residuals, *self.inputs],
                             [self.inputs[n] for n in wrt], self.derivatives, module=backward,
                             over_batch=self._derived(_batched_backward, self, wrt, count))  # fmt: skip
            self._linearized[wrt] = first, second
        return self._linearized[wrt]

    def forward_mode(self, wrt: tuple[int, ...]) -> Program:
        """The program of inputs and tangents that yields results and tangents."""
        if wrt not in self._forward:
            made = self.derivatives.forward(self.module, wrt)
            inputs = [*self.inputs, *[self.inputs[number] for number in wrt]]
            outputs = [*self.outputs, *[self.outputs[number] for number in self.moving_outputs()]]
            over_batch = self._derived(_batched_forward_mode, self, wrt)
            self._forward[wrt] = Program(f"{self.name}.tangent", inputs, outputs, self.derivatives, module=made,
                                         over_batch=over_batch)  # fmt: skip
        return self._forward[wrt]

    def reverse_mode(self, wrt: tuple[int, ...]) -> Program:
        """The program of cotangents and inputs that yields cotangents."""
        if wrt not in self._backward:
            moving = [self.outputs[number] for number in self.moving_outputs()]
            made = _parameters_rotated(self.derivatives.backward(self.module, wrt), len(self.inputs))
            over_batch = self._derived(_batched_backward, self, wrt, 0)
            self._backward[wrt] = Program(f"{self.name}.backward", [*moving, *self.inputs],
                                          [self.inputs[n] for n in wrt], self.derivatives, module=made,
                                          over_batch=over_batch)  # fmt: skip
        return self._backward[wrt]

    def _derived(self, over_batch: Callable[..., Batched], *arguments: Any) -> Any:
        return partial(over_batch, *arguments) if self.has_batches else None

    @property
    def has_batches(self) -> bool:
        """Whether it can be batched."""
        return any(source is not None for source in (self.jaxpr, self._over_batch, self.replayed))

    @cached_property
    def replayed(self) -> Any:
        """The jaxpr of the module's instructions, made for batches alone; None where there is none."""
        if self._replay is None:
            return None
        jax = jax_internals().jax
        arguments = [jax.ShapeDtypeStruct(operand.shape, operand.dtype) for operand in self.inputs]
        try:
            with self.jax_types():
                return jax.make_jaxpr(self._replay)(*arguments)
        except (Unsupported, TypeError, ValueError, NotImplementedError):  # jax.lax takes fewer types than HLO
            return None

    def batched(self, size: int, is_batched: Sequence[bool]) -> Batched:
        """The program of a batch; the given inputs have a batch dimension, and others may get one."""
        key = size, tuple(is_batched)
        if key not in self._batched:
            jaxpr = self.replayed if self.jaxpr is None else self.jaxpr
            if jaxpr is not None:
                self._batched[key] = _batched_jaxpr(self, jaxpr, size, is_batched)
            else:
                assert self._over_batch is not None, "it has batches"
                self._batched[key] = self._over_batch(size, is_batched)
        return self._batched[key]


def _batched_jaxpr(program: Program, jaxpr: Any, size: int, is_batched: Sequence[bool]) -> Batched:
    internals = jax_internals()
    axis = internals.batching.AxisData(None, size, None, None)
    places = [0 if batched else None for batched in is_batched]
    with program.jax_types():
        batched, _ = internals.batching.batch_jaxpr_axes(jaxpr, axis, places, [0] * len(program.outputs))
    made = Program(program.name, batched.in_avals, batched.out_avals, program.derivatives, jaxpr=batched,
                   has_64_bits=program.has_64_bits, keeps_rules=program.keeps_rules)  # fmt: skip
    return Batched(made, list(range(len(places))), list(is_batched), list(range(len(program.outputs))))


def _batched_forward(program: Program, residuals: int, size: int, is_batched: Sequence[bool]) -> Batched:
    """Of a forward part: the program itself. Backward parts of batches need no residuals."""
    inner = program.batched(size, is_batched)
    return Batched(inner.program, inner.inputs, inner.is_batched, [*inner.outputs, *[None] * residuals])


def _moved(program: Program, wrt: Sequence[int], size: int, is_batched: Sequence[bool]) -> tuple[Batched, list[int]]:
    """A program over a batch in which what moves has a batch, and of what it moves that which it takes, by position."""
    inner = program.batched(size, [batched or number in wrt for number, batched in enumerate(is_batched)])
    return inner, [position for position, number in enumerate(wrt) if number in inner.inputs]


def _batched_forward_mode(program: Program, wrt: tuple[int, ...], size: int, is_batched: Sequence[bool]) -> Batched:
    count = len(program.inputs)
    inner, taken = _moved(program, wrt, size, is_batched[:count])
    positions = {number: position for position, number in enumerate(inner.inputs)}
    made = inner.program.forward_mode(tuple(positions[wrt[position]] for position in taken))
    tangents = {number: len(inner.program.outputs) + n for n, number in enumerate(inner.program.moving_outputs())}
    outputs = [inner.outputs[number] for number in program.moving_outputs()]
    moved = [None if number is None else tangents[number] for number in outputs]
    inputs = [*inner.inputs, *[count + position for position in taken]]
    return Batched(made, inputs, [*inner.is_batched, *[True] * len(wrt)], [*inner.outputs, *moved])


def _batched_backward(
    program: Program, wrt: tuple[int, ...], residuals: int, size: int, is_batched: Sequence[bool]
) -> Batched:
    """Of a backward part: reverse mode of the program over a batch, from its inputs."""
    moving = program.moving_outputs()
    start = len(moving) + residuals
    inner, taken = _moved(program, wrt, size, is_batched[start:])
    positions = {number: position for position, number in enumerate(inner.inputs)}
    made = inner.program.reverse_mode(tuple(positions[wrt[position]] for position in taken))
    given = {inner.outputs[number]: cotangent for cotangent, number in enumerate(moving)}
    cotangents = [given[number] for number in inner.program.moving_outputs()]
    inputs = [*cotangents, *[start + number for number in inner.inputs]]
    batched = [*[True] * len(moving), *is_batched[len(moving) : start], *inner.is_batched]
    return Batched(made, inputs, batched, [taken.index(n) if n in taken else None for n in range(len(wrt))])


def _parameters_rotated(module: Module, count: int) -> Module:
    """The same module with its first parameters moved after the others."""
    entry = module.entry
    parameters = [*entry.parameters[count:], *entry.parameters[:count]]
    for number, parameter in enumerate(parameters):
        parameter.number = number
    entry.parameters[:] = parameters
    module.attributes = module.attributes.changed(
        dict.fromkeys(("entry_computation_layout", "input_output_alias", "buffer_donor"))
    )
    return module


def differentiable(function: Callable[..., Any], derivatives: Derivatives) -> Callable[..., Any]:
    """A function of arrays, in any trees, whose derivatives are those of its program.

    Keyword arguments are arrays too. Raises HloomError on differentiation if there is no derivative.
    """
    if not callable(function):
        raise HloomError(f"expected a function to differentiate, not {type(function).__name__}")
    name = getattr(function, "__name__", type(function).__name__)

    @wraps(function)
    def through_primitive(*args: Any, **kwargs: Any) -> Any:
        internals = jax_internals()
        tree = internals.jax.tree
        inputs, structure = tree.flatten((args, kwargs))
        inputs = [internals.jax.numpy.asarray(operand) for operand in inputs]
        structures: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            positional, named = tree.unflatten(structure, values)
            leaves, result_structure = tree.flatten(function(*positional, **named))
            structures.append(result_structure)
            return leaves

        debug = internals.api_util.debug_info("hloom.differentiable", function, args, kwargs)
        closed, inputs = trace(flat, inputs, debug)
        inputs = [on_mesh(operand, mesh) for operand in inputs] if (mesh := mesh_by_hand(closed.jaxpr)) else inputs
        program = Program(name, closed.in_avals, closed.out_avals, derivatives, jaxpr=closed, keeps_rules=True)
        return tree.unflatten(structures[-1], program_call().bind(*inputs, program=program))

    return through_primitive


def mesh_by_hand(jaxpr: Any) -> Any:
    """The mesh of a jaxpr's manual computations (`jax.shard_map`); None if it has none."""
    pending = [jaxpr]
    core = jax_internals().core
    while pending:
        part = pending.pop()
        for equation in part.eqns:
            mesh = equation.params.get("mesh") if equation.primitive.name == "shard_map" else None
            if isinstance(mesh, jax_internals().jax.sharding.Mesh):
                return mesh
        pending += core.subjaxprs(part)
    return None


def on_mesh(operand: Any, mesh: Any) -> Any:
    """An array on all devices of a mesh, however sharded: jax does not see the mesh inside the primitive."""
    jax = jax_internals().jax
    spec = jax.sharding.PartitionSpec(*[jax.sharding.PartitionSpec.UNCONSTRAINED] * operand.ndim)
    return jax.lax.with_sharding_constraint(operand, jax.sharding.NamedSharding(mesh, spec))


@lru_cache(1)
def program_call() -> Any:
    """The primitive that computes what a program does."""
    internals = jax_internals()
    made = internals.core.Primitive("program_call")
    made.multiple_results = True
    internals.dispatch.simple_impl(made)
    made.def_abstract_eval(lambda *inputs, program: program.outputs)
    internals.mlir.register_lowering(made, _lower_program)
    internals.ad.primitive_jvps[made] = _forward_of_program
    register_linearization(made, _linearize_program)
    internals.batching.primitive_batchers[made] = _batch_program
    return made


@lru_cache(1)
def linear_call() -> Any:
    """The primitive of a program's derivative, linear in its last inputs."""
    internals = jax_internals()
    made = internals.core.Primitive("linear_call")
    made.multiple_results = True
    internals.dispatch.simple_impl(made)
    made.def_abstract_eval(lambda *inputs, program, wrt, residuals: _moving_avals(program))
    internals.mlir.register_lowering(made, internals.mlir.lower_fun(_apply_linear, multiple_results=True))
    internals.ad.primitive_jvps[made] = _forward_of_linear
    internals.ad.primitive_transposes[made] = _transpose_linear
    internals.batching.primitive_batchers[made] = _batch_linear
    return made


def _lower_program(context: Any, *arguments: Any, program: Program) -> Sequence[Any]:
    internals = jax_internals()
    if program.jaxpr is not None:
        function = internals.core.jaxpr_as_fun(program.jaxpr)
        with program.jax_types():
            return internals.mlir.lower_fun(function, multiple_results=True)(context, *arguments)
    return call_module(context, program.module, program.name, arguments)


def _apply_linear(*inputs: Any, program: Program, wrt: tuple[int, ...], residuals: int) -> list[Any]:
    primals, tangents = inputs[: len(program.inputs)], inputs[len(program.inputs) + residuals :]
    outputs = program_call().bind(*primals, *tangents, program=program.forward_mode(wrt))
    return outputs[len(program.outputs) :]


def _forward_of_program(primals: Any, tangents: Any, *, program: Program) -> Any:
    zero = jax_internals().ad.Zero
    wrt = tuple(n for n, tangent in enumerate(tangents) if not isinstance(tangent, zero) and _moves(program.inputs[n]))
    outputs = program_call().bind(*primals, program=program)
    if not wrt:
        return outputs, [zero(output.to_tangent_aval()) for output in program.outputs]
    moved = linear_call().bind(*primals, *[tangents[number] for number in wrt], program=program, wrt=wrt, residuals=0)
    return outputs, _all_tangents(program, moved)


def _linearize_program(is_reverse: Any, moves: Any, *primals: Any, program: Program) -> Any:
    """The forward part now; of the tangents a `linear_call` that knows the residuals.

    What devices compute by hand has no residuals: they would be parts that no array outside has.
    """
    zero = jax_internals().ad.Zero
    wrt = tuple(n for n, is_moved in enumerate(moves) if is_moved and _moves(program.inputs[n]))
    if not wrt:
        outputs = program_call().bind(*primals, program=program)
        none = [zero(output.to_tangent_aval()) for output in program.outputs]
        return outputs, [False] * len(outputs), (), lambda residuals, *tangents: none
    forward = program if program.is_by_hand else program.linearized(wrt)[0]
    result = program_call().bind(*primals, program=forward)
    outputs, residuals = result[: len(program.outputs)], result[len(program.outputs) :]
    results_move = [_moves(output) for output in program.outputs]

    def apply_linear(known: Any, *tangents: Any) -> Any:
        given = [jax_internals().ad.instantiate_zeros(tangents[number]) for number in wrt]
        moved = linear_call().bind(*known, *given, program=program, wrt=wrt, residuals=len(residuals))
        return _all_tangents(program, moved)

    return outputs, results_move, [*primals, *residuals], apply_linear


def _all_tangents(program: Program, moved: Sequence[Any]) -> list[Any]:
    zero = jax_internals().ad.Zero
    remaining = iter(moved)
    return [next(remaining) if _moves(output) else zero(output.to_tangent_aval()) for output in program.outputs]


def _forward_of_linear(primals: Any, tangents: Any, *, program: Program, wrt: tuple[int, ...], residuals: int) -> Any:
    """As of the program in forward mode; what the residuals hold follows from the inputs."""
    start = len(program.inputs)
    kept = [*range(start), *range(start + residuals, len(primals))]
    inner = program.forward_mode(wrt)
    outputs, moved = _forward_of_program(
        [primals[number] for number in kept], [tangents[number] for number in kept], program=inner
    )
    return outputs[len(program.outputs) :], moved[len(program.outputs) :]


def _transpose_linear(
    cotangents: Any, *inputs: Any, program: Program, wrt: tuple[int, ...], residuals: int
) -> list[Any]:
    """The backward part, with the residuals where they are known, else reverse mode from the inputs."""
    internals = jax_internals()
    start = len(program.inputs)
    backward = program.linearized(wrt)[1] if residuals else program.reverse_mode(wrt)
    known = inputs[start : start + residuals]
    given = [internals.ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    results = program_call().bind(*given, *known, *inputs[:start], program=backward)
    undefined = internals.ad.is_undefined_primal
    value = [
        result if undefined(operand) else None
        for operand, result in zip(inputs[start + residuals :], results, strict=True)
    ]
    return [*[None] * (start + residuals), *value]


def _batch_program(inputs: Any, dims: Any, *, program: Program) -> Any:
    if not program.has_batches:
        return _one_by_one(lambda *value: program_call().bind(*value, program=program), inputs, dims)
    size, batched = _over_batch(inputs, dims, program)
    given = _given(inputs, dims, batched, size)
    results = program_call().bind(*[given[number] for number in batched.inputs], program=batched.program)
    return _with_nothing(program.outputs, [None if n is None else results[n] for n in batched.outputs])


def _batch_linear(inputs: Any, dims: Any, *, program: Program, wrt: tuple[int, ...], residuals: int) -> Any:
    if not program.has_batches:
        call = partial(linear_call().bind, program=program, wrt=wrt, residuals=residuals)
        return _one_by_one(call, inputs, dims)
    count, start = len(program.inputs), len(program.inputs) + residuals
    sizes = [operand.shape[dim] for operand, dim in zip(inputs, dims, strict=True) if dim is not None]
    is_batched = [dim is not None or number in wrt for number, dim in enumerate(dims[:count])]
    batched = program.batched(sizes[0], is_batched)
    given = _given(inputs[:count], dims[:count], batched, sizes[0])
    tangents = [_with_batch(*pair, sizes[0]) for pair in zip(inputs[start:], dims[start:], strict=True)]
    taken = [position for position, number in enumerate(wrt) if number in batched.inputs]
    moves = tuple(batched.inputs.index(wrt[position]) for position in taken)
    primals = [given[number] for number in batched.inputs]
    moved = linear_call().bind(
        *primals, *[tangents[position] for position in taken], program=batched.program, wrt=moves, residuals=0
    )
    numbers = batched.program.moving_outputs()
    tangent_of = dict(zip(numbers, moved, strict=True))
    outputs = [batched.outputs[number] for number in program.moving_outputs()]
    return _with_nothing(_moving_avals(program), [None if n is None else tangent_of[n] for n in outputs])


def _over_batch(inputs: Any, dims: Any, program: Program) -> tuple[int, Batched]:
    sizes = [operand.shape[dim] for operand, dim in zip(inputs, dims, strict=True) if dim is not None]
    return sizes[0], program.batched(sizes[0], [dim is not None for dim in dims])


def _given(inputs: Any, dims: Any, batched: Batched, size: int) -> list[Any]:
    """The inputs, those that have to have a batch with one along dimension 0."""
    return [
        _with_batch(operand, dim, size) if is_batched else operand
        for operand, dim, is_batched in zip(inputs, dims, batched.is_batched, strict=True)
    ]


def _with_batch(operand: Any, dim: int | None, size: int) -> Any:
    numpy = jax_internals().jax.numpy
    if dim is None:
        return numpy.broadcast_to(operand, (size, *operand.shape))
    return numpy.moveaxis(operand, dim, 0)


def _with_nothing(avals: Sequence[Any], results: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
    """Results with a batch along dimension 0, and zeros without one for those that nothing asks for."""
    zeros = jax_internals().jax.numpy.zeros
    made = [
        zeros(aval.shape, aval.dtype) if result is None else result for aval, result in zip(avals, results, strict=True)
    ]
    return made, [None if result is None else 0 for result in results]


def _one_by_one(function: Callable[..., Any], inputs: Any, dims: Any) -> Any:
    """The elements of a batch in a loop."""
    jax = jax_internals().jax
    moved = [jax.numpy.moveaxis(operand, dim, 0) for operand, dim in zip(inputs, dims, strict=True) if dim is not None]

    def one(batched: Any) -> Any:
        remaining = iter(batched)
        return function(
            *[operand if dim is None else next(remaining) for operand, dim in zip(inputs, dims, strict=True)]
        )

    outputs = jax.lax.map(one, moved)
    return outputs, [0] * len(outputs)


def _varying_axes(aval: Any) -> Any:
    """The axes of a mesh over which `jax.shard_map` says that a value varies; empty where it says nothing."""
    return getattr(getattr(aval, "mat", None), "varying", ())


def _moves(aval: Any) -> bool:
    return jax_internals().jax.numpy.issubdtype(aval.dtype, np.inexact)


def _moving_avals(program: Program) -> list[Any]:
    return [program.outputs[number] for number in program.moving_outputs()]


def _avals(module: Module) -> list[Any]:
    core = jax_internals().core
    kinds = module.entry.root.type.elements  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    return [core.ShapedArray(value_type.dims, value_type.dtype.numpy) for value_type in kinds]
