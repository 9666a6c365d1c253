"""A transformation of every module at the end of XLA's own pipeline, while a `with` block runs.

    with inside_jit(change):
        jax.jit(f)(x)

A change must respect what XLA has made: fusions that its emitters accept, since other operations in a fusion abort the
process, and one layout per array, since XLA's layout assignment has already run.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, Literal

from hloom.formats.hlo import read_proto, write_proto
from hloom.ir import Graph, Layout, Module, Node, TensorType, Type, default_layout, map_leaves
from hloom.ops import FUSIBLE
from hloom.runtime.in_place_copies import insert_copies
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.transformation import RewriteError, Transformation, apply_transformation, failure
from hloom.text import HloomError, Unsupported

Stage = Literal["pre_scheduler", "post_scheduler"]
"""When XLA passes its module to the callback: optimised and fused, before or after its scheduler ran."""

_LOCK = threading.Lock()
_NUMBERS = itertools.count()
_CACHE = "jax_enable_compilation_cache"


@contextmanager
def inside_jit(
    transformation: Transformation, *, stage: Stage = "pre_scheduler", platforms: str | Sequence[str] = "cpu"
) -> Iterator[None]:
    """Change every module that XLA compiles in this process while the block runs; also a decorator of a function.

    The module is as XLA left it: optimised, with fusions and layouts, which nodes without one get from their
    neighbours; after the scheduler, the order of nodes is the order of execution. jax's caches are cleared when the
    block begins and ends, and its persistent cache is not used, so functions are recompiled inside, and again
    afterwards. Functions compiled ahead of time (`lower(...).compile()`) are not affected. XLA forgets which arguments
    a changed module may overwrite: donated ones are not reused. Blocks nest: the outer change comes first. The
    registration is process-wide: programs that other threads compile meanwhile are changed, too.

    Raises RewriteError, out of the block, where the change fails or leaves a broken module; inside the block the same
    is jax's JaxRuntimeError with that message.
    """
    if not callable(transformation):
        raise HloomError(f"expected a function of a module, not {type(transformation).__name__}")
    callback = _Callback(transformation)
    with _registered(callback, stage, platforms):
        try:
            yield
        except jax_internals().jax.errors.JaxRuntimeError as error:
            problem = callback.problem_in(str(error))
            if problem is None:
                raise
            raise problem from problem.__cause__  # the change's own exception


class _Callback:
    """The callback that XLA calls with a module, and the errors that it raised."""

    def __init__(self, transformation: Transformation) -> None:
        self.transformation = transformation
        self.problems: list[RewriteError] = []
        self.is_active = True

    def __call__(self, proto: bytes) -> bytes | None:
        if not self.is_active:
            return None
        subject = "a module"
        try:
            module = read_proto(proto)
            subject, known = module.name, fused_opcodes(module)
            if not apply_transformation(self.transformation, module, subject):
                return None
            check_fusions(module, known)
            insert_copies(module)
            fill_layouts(module)
            return write_proto(module, "hlo_module")
        except Exception as error:
            problem = failure(error, subject)
            self.problems.append(problem)
            raise problem from problem.__cause__ or error

    def problem_in(self, message: str) -> RewriteError | None:
        """The last error that this message of XLA's quotes."""
        return next((problem for problem in reversed(self.problems) if problem.message in message), None)


@contextmanager
def _registered(callback: _Callback, stage: Stage, platforms: str | Sequence[str]) -> Iterator[None]:
    """Register the callback with XLA; undone at the end, whatever happens.

    jax cannot unregister callbacks for backends that start later: for those, an inactive callback stays.
    """
    xla = jax_internals().xla
    when = _stage(stage)
    name = f"hloom-{next(_NUMBERS)}"
    with _without_caches():
        xla.register_hlo_module_transformation(callback, name=name, stage=when, platforms=platforms)
        try:
            yield
        finally:
            callback.is_active = False
            xla.clear_hlo_module_transformation(name, stage=when, platforms=platforms)


def _stage(stage: str) -> Any:
    stages = {known.name.lower(): known for known in jax_internals().xla.PipelineStage}
    if stage not in stages:
        raise HloomError(f"XLA has no stage '{stage}'", hint=f"the stages are {' and '.join(stages)}")
    return stages[stage]


class _Caches:
    """The number of open blocks, and the previous setting of the persistent cache."""

    depth = 0
    was_enabled = True


@contextmanager
def _without_caches() -> Iterator[None]:
    """Clear jax's caches before and after, and do without the persistent one in between."""
    internals = jax_internals()
    with _LOCK:
        if _Caches.depth == 0:
            _Caches.was_enabled = getattr(internals.jax.config, _CACHE)
            _switch_cache(False)
        _Caches.depth += 1
    internals.jax.clear_caches()
    try:
        yield
    finally:
        with _LOCK:
            _Caches.depth -= 1
            if _Caches.depth == 0:
                _switch_cache(_Caches.was_enabled)
        internals.jax.clear_caches()


def _switch_cache(is_enabled: bool) -> None:
    """Turn the persistent cache on or off; jax asks for the switch only once, until the cache is reset."""
    jax_internals().jax.config.update(_CACHE, is_enabled)
    jax_internals().cache.reset_cache()


def fused_opcodes(module: Module) -> Set[str]:
    """The opcodes in a module's fusions."""
    return {node.opcode for graph in _fused(module) for node in graph.nodes}


def check_fusions(module: Module, known: Set[str]) -> None:
    """Raise Unsupported for an opcode in a fusion that was in none before and that fusions do not take."""
    for graph in _fused(module):
        for node in graph.nodes:
            if node.opcode not in FUSIBLE and node.opcode not in known:
                raise Unsupported(
                    f"{node.name} of fusion {graph.name}: XLA's fusions take no {node.opcode}",
                    hint="put it before the fusion or after it",
                )


def _fused(module: Module) -> list[Graph]:
    return [graph for node in module.nodes() if node.opcode == "fusion" for graph in node.called_graphs]


def fill_layouts(module: Module) -> None:
    """Give every array whose type has no layout one.

    A node takes the layout of an operand of the same dimensions, or else of such a user (elementwise operations must
    agree with both), or else the row-major one. Arrays in a tuple become row-major.
    """
    for graph in module.graphs:
        for node in graph.nodes:
            if node.type is not None and _lacks_layout(node.type):
                graph.set_type(node, _filled(node, node.type))


def _lacks_layout(value_type: Type) -> bool:
    return any(isinstance(leaf, TensorType) and leaf.layout is None for leaf in value_type.leaves())


def _filled(node: Node, value_type: Type) -> Type:
    if isinstance(value_type, TensorType):
        return value_type.with_layout(_neighbour_layout(node, value_type) or default_layout(value_type.rank))
    return map_leaves(value_type, _row_major)


def _row_major(value_type: Type) -> Type:
    if isinstance(value_type, TensorType) and value_type.layout is None:
        return value_type.with_layout(default_layout(value_type.rank))
    return value_type


def _neighbour_layout(node: Node, array_type: TensorType) -> Layout | None:
    for neighbour in (*node.operands, *node.users):
        other = neighbour.type
        if isinstance(other, TensorType) and other.layout is not None and other.dims == array_type.dims:
            return other.layout
    return None
