"""`jax.jit` with passes before XLA optimises a program, or inside XLA's own pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from hloom import runtime
from hloom.api import opt as _passes_by_name  # noqa: F401  it lets passes of all packages be named
from hloom.api.differentiable import module_derivatives
from hloom.ir import Module
from hloom.passes import PASSES, Pass, PassLike, apply_in_place, resolve
from hloom.rewrite import RuleReport
from hloom.runtime import Stage
from hloom.text import HloomError, HloomWarning

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Output = TypeVar("Output", covariant=True)


class Jitted(Protocol[Parameters, Output]):
    """A function as `jax.jit` makes it, with the module that XLA gets."""

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Output: ...

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(function).lower`."""
        ...

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(function).trace`."""
        ...

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(function).eval_shape`."""
        ...

    def clear_cache(self) -> None:
        """As `jax.jit(function).clear_cache`."""
        ...

    def rewritten(self, *args: Any, **kwargs: Any) -> Module:
        """The module that XLA gets for these arguments."""
        ...


class _Decorator(Protocol):
    def __call__(self, function: Callable[Parameters, Result], /) -> Jitted[Parameters, Result]: ...


@overload
def jit(
    function: Callable[Parameters, Result], passes: PassLike | Iterable[PassLike] = (), **options: Any
) -> Jitted[Parameters, Result]: ...


@overload
def jit(function: None = None, passes: PassLike | Iterable[PassLike] = (), **options: Any) -> _Decorator: ...


def jit(function: Callable[..., Any] | None = None, passes: PassLike | Iterable[PassLike] = (), **options: Any) -> Any:
    """A function as `jax.jit(function, **options)` makes it, its program rewritten by passes before XLA optimises it.

    Without a function, this is a decorator: `@hloom.jit(passes=[...])`. Returns jax.jit's own object with an additional
    `rewritten(*args)`, the module that XLA gets. Raises HloomError for unknown passes, and RewriteError, when called,
    if a pass fails or leaves a broken module. Warns once about each given rule that fires nowhere in the program.
    """
    if function is None:
        return partial(jit, passes=passes, **options)
    name = getattr(function, "__name__", type(function).__name__)

    def change(module: Module) -> bool:
        changed = applied(module)
        applied.warn_of_unused(name)
        return changed

    applied = _Change(passes)
    derivatives = module_derivatives() if applied.has_own else None
    return runtime.jit(function, change, derivatives, applied.uncounted, **options)


def inside_jit(
    passes: PassLike | Iterable[PassLike],
    *,
    stage: Stage = "pre_scheduler",
    platforms: str | Sequence[str] = "cpu",
) -> AbstractContextManager[None]:
    """While the `with` block runs, passes over every module that XLA compiles, once XLA has optimised it.

    `stage` is `pre_scheduler` or `post_scheduler`. Raises RewriteError, out of the block, if a pass fails. Warns at the
    end of the block about each given rule that fired in no module.

    XLA has inserted by then the copies that keep a loop's state from being overwritten while it is needed, and counts
    on the order in which it is read: passes that make fusions are refused in modules with loops (HloomError).
    """
    return _inside_jit(_ChangeAfterCopies(passes), stage, platforms)


@contextmanager
def _inside_jit(applied: _Change, stage: Stage, platforms: str | Sequence[str]) -> Iterator[None]:
    with runtime.inside_jit(applied, stage=stage, platforms=platforms):
        yield
    applied.warn_of_unused(f"what was compiled, {applied.modules} modules")


class _Change:
    """Passes as a single change that says whether it changed anything; names are resolved when it is made.

    Counts firings only of rules that were given individually: named passes have many rules, and most programs use a
    few.
    """

    def __init__(self, passes: PassLike | Iterable[PassLike]) -> None:
        self.passes = resolve(passes)
        self.modules = 0
        others = [given for chosen in self.passes for given in _leaves(chosen) if PASSES.get(given.name) is not given]
        own = [rule for given in others for rule in given.rules]
        self.has_own = bool(others)
        self._accounts = {rule: RuleReport(rule) for rule in own}

    def __call__(self, module: Module) -> bool:
        report = apply_in_place(module, self.passes)
        self.modules += 1
        for account in report.all_rules():
            if (total := self._accounts.get(account.rule)) is not None:
                total.tried += account.tried
                total.matched += account.matched
                total.rejected.update(account.rejected)
        return report.changed

    def uncounted(self, module: Module) -> bool:
        """The same change without counting, to find out what it would do."""
        return apply_in_place(module, self.passes).changed

    def warn_of_unused(self, where: str) -> None:
        """Warn, once, of the rules that never fired; of a family of rules, where none of it did."""
        if not self.modules:
            return
        families = {rule.family for rule, account in self._accounts.items() if rule.family and account.matched}
        for rule, account in self._accounts.items():
            if not account.matched and rule.family not in families:
                warnings.warn(f"{rule.name} never fired in {where}: {_why(account)}", HloomWarning, stacklevel=2)
        self._accounts = {}


def _leaves(chosen: Pass) -> Iterator[Pass]:
    """What a fixpoint or a sequence of no name of its own is made of; any other pass itself."""
    if not chosen.parts or chosen.name in PASSES:
        yield chosen
        return
    for part in chosen.parts:
        yield from _leaves(part)


class _ChangeAfterCopies(_Change):
    """The same in modules whose buffers XLA has begun to assign."""

    def __call__(self, module: Module) -> bool:
        loops = [node for node in module.nodes() if node.opcode == "while"]
        if not loops:
            return super().__call__(module)
        before = _fusion_count(module)
        changed = super().__call__(module)
        if _fusion_count(module) > before:
            raise HloomError(
                f"{module.name} has the loop {loops[0].name}, and XLA has inserted the copies of its state already: a "
                "fusion that is made now may read the state too late",
                hint="make fusions where there are no loops, or before XLA optimises: hloom.jit, hloom.opt",
            )
        return changed


def _fusion_count(module: Module) -> int:
    return sum(node.opcode == "fusion" for node in module.nodes())


def _why(account: RuleReport) -> str:
    """Why a rule never fired: what rejected it most often."""
    if not account.tried:
        return f"nothing in it has the opcode {' or '.join(account.rule.roots)}"
    reasons = [reason for reason, _ in account.rejected.most_common(1)]
    return f"tried {account.tried:,} times{''.join(f', most often rejected because {reason}' for reason in reasons)}"
