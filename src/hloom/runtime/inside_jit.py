"""A change of every program at the end of XLA's own pipeline, while a `with` block runs.

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
from hloom.runtime.change import Change, RewriteError, apply_change, failure
from hloom.runtime.fusions import check_fusions, fused_opcodes
from hloom.runtime.jax_names import names
from hloom.runtime.layouts import fill_layouts
from hloom.text import HloomError

Stage = Literal["pre_scheduler", "post_scheduler"]
"""When XLA hands its module over: optimised and fused, before or after it chooses the order of execution."""

_LOCK = threading.Lock()
_NUMBERS = itertools.count()
_CACHE = "jax_enable_compilation_cache"


@contextmanager
def inside_jit(
    change: Change, *, stage: Stage = "pre_scheduler", platforms: str | Sequence[str] = "cpu"
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
    if not callable(change):
        raise HloomError(f"a {type(change).__name__} cannot change a module: a function of a module can")
    transformation = _Transformation(change)
    with _registered(transformation, stage, platforms):
        try:
            yield
        except names().jax.errors.JaxRuntimeError as error:
            problem = transformation.problem_in(str(error))
            if problem is None:
                raise
            raise problem from problem.__cause__  # the change's own exception


class _Transformation:
    """The callback that XLA calls with a module, and the errors that it raised."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.problems: list[RewriteError] = []
        self.is_active = True

    def __call__(self, proto: bytes) -> bytes | None:
        if not self.is_active:
            return None
        subject = "a module"
        try:
            module = read_proto(proto)
            subject, known = module.name, fused_opcodes(module)
            if not apply_change(self.change, module, subject):
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
        return next((each for each in reversed(self.problems) if each.message in message), None)


@contextmanager
def _registered(transformation: _Transformation, stage: Stage, platforms: str | Sequence[str]) -> Iterator[None]:
    """Let XLA call the transformation; undone at the end, whatever happens.

    jax cannot take back what it registers for backends that start later: there, an inactive transformation stays.
    """
    xla = names().xla
    when = _stage(stage)
    name = f"hloom-{next(_NUMBERS)}"
    with _without_caches():
        xla.register_hlo_module_transformation(transformation, name=name, stage=when, platforms=platforms)
        try:
            yield
        finally:
            transformation.is_active = False
            xla.clear_hlo_module_transformation(name, stage=when, platforms=platforms)


def _stage(stage: str) -> Any:
    stages = {each.name.lower(): each for each in names().xla.PipelineStage}
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
    found = names()
    with _LOCK:
        if _Caches.depth == 0:
            _Caches.was_enabled = getattr(found.jax.config, _CACHE)
            _switch_cache(False)
        _Caches.depth += 1
    found.jax.clear_caches()
    try:
        yield
    finally:
        with _LOCK:
            _Caches.depth -= 1
            if _Caches.depth == 0:
                _switch_cache(_Caches.was_enabled)
        found.jax.clear_caches()


def _switch_cache(is_enabled: bool) -> None:
    """Turn the persistent cache on or off; jax asks for the switch only once, until the cache is reset."""
    names().jax.config.update(_CACHE, is_enabled)
    names().cache.reset_cache()
