"""A transformation of every module at the end of XLA's own pipeline, while a `with` block runs.

with inside_jit(change):
    jax.jit(f)(x)
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from hloom.hlo import read_proto, write_proto
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.optimized_module import check_fusions, fill_layouts, fused_opcodes
from hloom.runtime.transformation import RewriteError, Transformation, apply_transformation, failure
from hloom.text import HloomError

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
    block begins and ends, and its persistent cache is not used, so functions are compiled anew inside, and again
    after. What was compiled by hand (`lower(...).compile()`) stays as it was. XLA forgets which arguments a changed
    module may overwrite: donated ones are not reused. Blocks nest: the outer change comes first. The registration is
    the process's: what other threads compile meanwhile is changed, too.

    Raises RewriteError, out of the block, where the change fails or leaves a broken module; inside the block the same
    is jax's JaxRuntimeError with that message.
    """
    if not callable(transformation):
        raise HloomError(f"a {type(transformation).__name__} cannot change a module: a function of a module can")
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

    jax cannot take back what it registers for backends that start later: there, an inactive callback stays.
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
    """How many blocks are open, and what the persistent cache's switch was before the first."""

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
