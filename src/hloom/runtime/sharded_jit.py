"""`jax.jit` of a function that a planner shards over several devices.

    function -> jaxpr -> Module -> planner -> ProgramShardings -> jax.jit(in_shardings, out_shardings) of the same jaxpr

The planner sees the program of one device, with calls in the entry inlined and donated arguments as aliases. Its
shardings of parameters and results are passed to `jax.jit`, those of instructions are written into the program on its
way to XLA (`jit_rewrite.py`), for whichever partitioner jax uses. Programs that jax derives from the function (its
gradient, its batched form) have other instructions, which are left to the partitioner's propagation: shard the entire
training step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from inspect import signature
from typing import Any, Generic, ParamSpec, TypeVar

from hloom.formats.hlo import load
from hloom.ir import MeshSharding, Metadata, Module, Node
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.jax_shardings import named_sharding, partition_spec
from hloom.runtime.jit_rewrite import inline_call, jit
from hloom.runtime.transformation import Transformation
from hloom.text import HloomError, Unsupported

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_PLANNED_OPTIONS = ("in_shardings", "out_shardings", "device", "backend")
"""Options of `jax.jit` that place arrays on devices, which the plan decides."""
_KEPT_CALLS = ("manual_computation", "shmap_body")
"""Calls whose graphs are one device's program; XLA knows them by these parts of their names."""


@dataclass(frozen=True, slots=True)
class ProgramShardings:
    """A planner's answer for a module: a sharding per parameter and per result, and how instructions are annotated.

    `for_gspmd` and `for_shardy` annotate a module that equals the planned one, node by node and name by name. `plan` is
    the caller's own.
    """

    parameters: Sequence[MeshSharding]
    results: Sequence[MeshSharding]
    for_gspmd: Transformation
    for_shardy: Transformation
    plan: Any = None


Planner = Callable[[Module], ProgramShardings]


def auto_shard(
    function: Callable[Parameters, Result], planner: Planner, **options: Any
) -> AutoShard[Parameters, Result]:
    """The function, jitted and sharded: for arguments of other types it plans once, when it is first called with them.

    `options` are `jax.jit`'s, but for the shardings, which are the plan's.
    """
    if not callable(function):
        raise HloomError(f"expected a function to shard, not {type(function).__name__}")
    given = [option for option in _PLANNED_OPTIONS if option in options]
    if given:
        raise HloomError(f"{given[0]} is for the plan to say", hint="jax.jit takes a plan's partition_specs")
    return AutoShard(function, planner, options)


def leaves(tree: Any) -> list[Any]:
    """The leaves of one of jax's trees, in order."""
    return jax_internals().jax.tree.leaves(tree)


def partition_specs(tree: Any, shardings: Sequence[MeshSharding]) -> Any:
    """The tree with a `PartitionSpec` for each leaf, in order."""
    structure = jax_internals().jax.tree.structure(tree)
    if structure.num_leaves != len(shardings):
        raise HloomError(f"a tree of {structure.num_leaves} leaves cannot hold {len(shardings)} shardings")
    return structure.unflatten(map(partition_spec, shardings))


class AutoShard(Generic[Parameters, Result]):
    """A function that is planned and compiled once for each signature: the shapes, dtypes and static values."""

    def __init__(self, function: Callable[..., Any], planner: Planner, options: dict[str, Any]) -> None:
        update_wrapper(self, function, updated=())
        self._planner = planner
        self._name = getattr(function, "__name__", type(function).__name__)
        self._jitted = jax_internals().jax.jit(function, **options)
        self._compiler = {name: value for name, value in options.items() if name == "compiler_options"}
        self._static_indices, self._static_names = _static(function, options)
        self._sharded: dict[Any, ShardedFunction] = {}

    def __repr__(self) -> str:
        return f"<hloom.auto_shard {self._name}>"

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """The function's results, in its own structure, each sharded as planned for these arguments."""
        split = self._split(args, kwargs)
        if any(isinstance(leaf, jax_internals().jax.ShapeDtypeStruct) for leaf in split.leaves):
            raise HloomError(
                f"{self._name} is computed for arrays, not for shapes of arrays",
                hint="planned(*shapes) plans for shapes and computes nothing",
            )
        return self._for(split).run(split.leaves)

    def planned(self, *args: Any, **kwargs: Any) -> ShardedFunction:
        """The plan for these arguments, which may be `jax.ShapeDtypeStruct`s: nothing is computed."""
        return self._for(self._split(args, kwargs))

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """`jax.jit(...).lower` of the function of the arrays among the arguments, in order."""
        split = self._split(args, kwargs)
        return self._for(split).lower_leaves(split.leaves)

    def _for(self, split: _Arguments) -> ShardedFunction:
        uses_shardy = bool(jax_internals().jax.config.jax_use_shardy_partitioner)
        avals = tuple((aval.shape, aval.dtype, getattr(aval, "weak_type", False)) for aval in split.avals)
        key = (uses_shardy, split.structure, avals, split.static)
        try:
            sharded = self._sharded.get(key)
        except TypeError as problem:
            raise HloomError(f"{self._name}: a static argument cannot be hashed: {problem}") from None
        if sharded is None:
            sharded = self._sharded[key] = self._planned(split, uses_shardy)
        return sharded

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments:
        """The arrays among the arguments, and what is static."""
        tree, typeof = jax_internals().jax.tree, jax_internals().jax.typeof
        is_static = [index in self._static_indices for index in range(len(args))]
        arrays = [argument for argument, static in zip(args, is_static, strict=True) if not static]
        named = {name: value for name, value in kwargs.items() if name not in self._static_names}
        leaves, structure = tree.flatten((tuple(arrays), named))
        fixed = [(index, args[index]) for index, static in enumerate(is_static) if static]
        fixed += [(name, kwargs[name]) for name in sorted(kwargs.keys() & self._static_names)]
        avals = [leaf if isinstance(leaf, jax_internals().jax.ShapeDtypeStruct) else typeof(leaf) for leaf in leaves]
        return _Arguments(leaves, avals, structure, tuple(fixed))

    def _planned(self, split: _Arguments, uses_shardy: bool) -> ShardedFunction:
        internals = jax_internals()
        tree = internals.jax.tree
        args, kwargs = split.abstract()
        traced = self._jitted.trace(*args, **kwargs)
        infos, structure = tree.flatten(traced.args_info)
        if structure != split.structure or len(traced.jaxpr.in_avals) != len(infos):
            raise HloomError(
                f"{self._name} cannot be planned for these arguments: jax takes others, {structure}",
                hint="arrays of an outer jit or grad must be arguments, not be captured",
            )
        if internals.effects.ordered_effects.filter_in(traced.jaxpr.effects):
            raise Unsupported(f"{self._name} has ordered effects, which jax keeps to one device")
        donated = tuple(number for number, info in enumerate(infos) if info.donated)
        flat = _flat(traced.jaxpr, self._name)
        module = _traced_module(flat, traced.jaxpr, donated)
        planned = _names(module)
        shardings = self._planner(module)
        inputs, outputs = _named_shardings(shardings, module, traced.jaxpr)
        change = shardings.for_shardy if uses_shardy else shardings.for_gspmd
        was_marked: set[bool] = set()

        def marked(program: Module) -> object:
            inline_calls(program)
            is_planned = _names(program) == planned
            was_marked.add(is_planned)
            return change(program) if is_planned else False

        options = {"in_shardings": tuple(inputs), "out_shardings": outputs, "donate_argnums": donated}
        jitted = jit(flat, marked, keep_unused=True, **options, **self._compiler)
        return ShardedFunction(
            shardings.plan,
            module,
            tree.unflatten(structure, inputs),
            tree.unflatten(tree.structure(traced.out_info), outputs),
            self,
            jitted,
            frozenset(donated),
            was_marked,
        )


@dataclass(frozen=True, slots=True)
class ShardedFunction:
    """A jitted function that runs as planned; called with arguments of another signature, it makes a new plan.

    `plan` is the planner's, `module` what it planned, `in_shardings` and `out_shardings` are trees: of the positional
    arguments and the named ones, and of the results.
    """

    plan: Any
    module: Module
    in_shardings: Any
    out_shardings: Any
    _maker: AutoShard = field(repr=False)
    _jitted: Any = field(repr=False)
    _donated: frozenset[int] = field(repr=False)
    _was_marked: set[bool] = field(repr=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's results, in the function's own structure, each sharded as planned."""
        return self._maker(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """`jax.jit(...).lower` of the function of the arrays among the arguments, in order."""
        return self._maker.lower(*args, **kwargs)

    def lower_leaves(self, leaves: list[Any]) -> Any:
        """The same of the arrays of this signature."""
        return self._jitted.lower(*leaves)

    def run(self, leaves: list[Any]) -> Any:
        """The results for the arrays of this signature, in order."""
        tree = jax_internals().jax.tree
        shardings = tree.leaves(self.in_shardings)
        moved = [
            _moved(leaf, sharding, number in self._donated)
            for number, (leaf, sharding) in enumerate(zip(leaves, shardings, strict=True))
        ]
        results = self._jitted(*moved)
        if True not in self._was_marked and not any(
            isinstance(leaf, jax_internals().jax.core.Tracer) for leaf in leaves
        ):
            raise HloomError(
                f"{self.module.name} is another program for several devices than for one, so its plan does not fit it"
            )
        return tree.unflatten(tree.structure(self.out_shardings), results)


@dataclass(frozen=True, slots=True)
class _Arguments:
    leaves: list[Any]
    avals: list[Any]
    structure: Any
    static: tuple[tuple[int | str, Any], ...]

    def abstract(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with shapes instead of arrays: the current shardings of arrays do not change the plan."""
        jax = jax_internals().jax
        shapes = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
            for aval in self.avals
        ]
        arrays, named = jax.tree.unflatten(self.structure, shapes)
        args = list(arrays)
        for key, value in self.static:
            if isinstance(key, int):
                args.insert(key, value)
        return tuple(args), named | {name: value for name, value in self.static if isinstance(name, str)}


def _names(module: Module) -> list[tuple[str, str, Any]]:
    """The identity of a program: the same jaxpr gives the same names."""
    return [(node.name, node.opcode, node.type) for node in module.entry.nodes]


def inline_calls(module: Module) -> None:
    """Put what the entry calls into the entry, so that a plan can name it; one device's programs stay calls."""
    while calls := [node for node in module.entry.nodes if _may_inline(node)]:
        for node in calls:
            inline_call(node)


def _may_inline(node: Node) -> bool:
    if node.opcode != "call" or dict(node.attributes.get("frontend_attributes") or ()).get("inlineable") == "false":
        return False
    (called,) = node.called_graphs
    return not any(part in called.name for part in _KEPT_CALLS)


def _static(function: Callable[..., Any], options: dict[str, Any]) -> tuple[frozenset[int], frozenset[str]]:
    """Which arguments are static, by index and by name: jax infers one from the other."""
    try:
        known = signature(function)
    except (TypeError, ValueError):
        known = None
    given = [options.get(f"{which}_{by}") for which in ("donate", "static") for by in ("argnums", "argnames")]
    _, _, indices, called = jax_internals().api_util.resolve_argnums(function, known, *given)
    count = len(known.parameters) if known else 0
    return frozenset(index if index >= 0 else index + count for index in indices), frozenset(called)


def _flat(jaxpr: Any, name: str) -> Callable[..., Any]:
    apply = jax_internals().core.jaxpr_as_fun(jaxpr)

    def flat(*leaves: Any) -> Any:
        return apply(*leaves)

    flat.__name__ = flat.__qualname__ = name
    return flat


def _traced_module(flat: Callable[..., Any], jaxpr: Any, donated: tuple[int, ...]) -> Module:
    """The program as a change will see it, with donated parameters as aliases of results, named as in Python."""
    seen: list[Module] = []

    def look(module: Module) -> bool:
        seen.append(module)
        return False

    plain = jit(flat, look, keep_unused=True, donate_argnums=donated)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Some donated buffers", UserWarning)  # repeated by jax when compiling
        around = load(plain.lower(*jaxpr.in_avals))
    (module,) = seen
    inline_calls(module)
    module.attributes = module.attributes.changed(input_output_alias=around.attributes.get("input_output_alias"))
    _name_parameters(module, jaxpr)
    return module


def _name_parameters(module: Module, jaxpr: Any) -> None:
    spelled = jaxpr.jaxpr.debug_info.safe_arg_names(len(jaxpr.in_avals))
    parameters = module.entry.parameters[len(module.entry.parameters) - len(spelled) :]
    for parameter, name in zip(parameters, spelled, strict=True):
        module.entry.set_metadata(parameter, Metadata(op_name=name).text())


def _named_shardings(shardings: ProgramShardings, module: Module, jaxpr: Any) -> tuple[list[Any], list[Any]]:
    """jax's shardings of the arguments and of the results: constants that jax adds in front are left out."""
    avals, results = jaxpr.in_avals, jaxpr.out_avals
    if len(shardings.parameters) != len(module.entry.parameters) or len(shardings.results) != len(results):
        raise HloomError(
            f"the plan of {module.name} has shardings for {len(shardings.parameters)} parameters and "
            f"{len(shardings.results)} results, not for {len(module.entry.parameters)} and {len(results)}"
        )
    own = shardings.parameters[len(shardings.parameters) - len(avals) :]
    return list(map(_named_sharding, own, avals)), list(map(_named_sharding, shardings.results, results))


def _named_sharding(sharding: MeshSharding, aval: Any) -> Any:
    """jax's sharding of a value; of a random key the hidden dimensions are replicated."""
    visible = MeshSharding(sharding.mesh, sharding.dimensions[: len(aval.shape)], (), sharding.unreduced)
    return named_sharding(visible)


def _moved(leaf: Any, sharding: Any, is_donated: bool) -> Any:
    """The array, resharded if it is committed to another sharding, which jax rejects if in_shardings are given."""
    jax = jax_internals().jax
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer) or not leaf.committed:
        return leaf
    if leaf.sharding.is_equivalent_to(sharding, leaf.ndim):
        return leaf
    return jax.device_put(leaf, sharding, donate=is_donated)
