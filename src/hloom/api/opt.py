"""Runs passes on modules, with the passes of every package available by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from hloom import passes as standard_passes
from hloom.ir import Module, ModuleLike, Op, as_module
from hloom.passes import FurtherPasses, PassLike, provide_further_passes
from hloom.rewrite import FunctionGradients, FunctionLowering, Report, provide_gradients, provide_lowering


def opt(module: ModuleLike, passes: PassLike | Iterable[PassLike], **options: Any) -> tuple[Module, Report]:
    """A changed copy of a module, and the report; options are those of `hloom.passes.apply_in_place`.

    A pass is a rule, a list of rules, a function of a module, or a text that names passes as `hloom opt -p` does:

    >>> import hloom
    >>> module = hloom.parse("ENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x) ROOT b = f32[2] negate(a) }")
    >>> changed, report = hloom.opt(module, ["simplify", "remat(budget=160MiB)"])
    >>> changed.entry.root.opcode, report.matched
    ('parameter', 1)
    >>> hloom.opt(module, "fixpoint(simplify,cse),dce")[0].entry.root.opcode
    'parameter'

    Raises HloomError for a name that no pass has, and for options that a pass does not take.
    """
    module = as_module(module)
    return standard_passes.apply(module, passes, **options)


def _lowering_by_jax() -> FunctionLowering:
    """The tracer of functions in replacements; its package needs jax and is imported on first use."""
    return import_module("hloom.runtime").lowered_function


def _gradients_by_jax() -> FunctionGradients:
    """What differentiates functions in replacements."""
    return import_module("hloom.runtime").JaxGradients()


provide_lowering(_lowering_by_jax)
provide_gradients(_gradients_by_jax)


def _load_packages() -> None:
    """Import the packages above `passes` that register passes."""
    for name in ("distribute.fit", "distribute.microbatch", "distribute.remat", "passes.fusion", "passes.saturation"):
        import_module(f"hloom.{name}")
    dialect_ops()


def dialect_ops() -> Mapping[str, Op]:
    """The op rows of all dialects, by full name; imports the dialects, which register their passes."""
    return {**import_module("hloom.dialects.oneflow").OPS, **import_module("hloom.dialects.mindir").ROWS}


provide_further_passes(FurtherPasses(_load_packages, dialect_ops))
