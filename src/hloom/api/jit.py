"""`jax.jit` with passes before XLA optimises a program, or inside XLA's own pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from hloom import runtime
from hloom.ir import Module
from hloom.passes import PassLike, apply_in_place, resolve
from hloom.runtime import Stage


def jit(function: Callable[..., Any] | None = None, passes: PassLike | Iterable[PassLike] = (), **options: Any) -> Any:
    """A function as `jax.jit(function, **options)` makes it, its program rewritten by passes before XLA optimises it.

    Without a function, a decorator: `@hloom.jit(passes=[...])`. What comes back is jax.jit's own object, with
    `rewritten(*args)` beside, the module that XLA gets. Raises HloomError for passes that are not there, and
    RewriteError, when it is called, where a pass fails or leaves a broken module.
    """
    if function is None:
        return partial(jit, passes=passes, **options)
    return runtime.jit(function, _change(passes), **options)


def inside_jit(
    passes: PassLike | Iterable[PassLike],
    *,
    stage: Stage = "pre_scheduler",
    platforms: str | Sequence[str] = "cpu",
) -> AbstractContextManager[None]:
    """While the `with` block runs, passes over every module that XLA compiles, once XLA has optimised it.

    `stage` is `pre_scheduler` or `post_scheduler`. Raises RewriteError, out of the block, where a pass fails.
    """
    return runtime.inside_jit(_change(passes), stage=stage, platforms=platforms)


def _change(passes: PassLike | Iterable[PassLike]) -> Callable[[Module], bool]:
    """Passes as one change, which says whether it changed anything; names are looked up now."""
    resolved = resolve(passes)
    return lambda module: apply_in_place(module, resolved).changed
