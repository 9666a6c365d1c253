"""Passes on modules, those of every package by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from hloom import passes as standard_passes
from hloom.ir import Module
from hloom.passes import PassLike
from hloom.rewrite import FunctionGradients, FunctionLowering, Report, provide_gradients, provide_lowering


def apply(module: Module, passes: PassLike | Iterable[PassLike], **options: Any) -> tuple[Module, Report]:
    """A changed copy of a module, and the report; options are those of `hloom.passes.apply_in_place`.

    A pass is a rule, a list of rules, a function of a module, or a name, with options where it takes any:

    >>> import hloom
    >>> module = hloom.parse("ENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x) ROOT b = f32[2] negate(a) }")
    >>> changed, report = hloom.apply(module, ["simplify", "remat(budget=160MiB)"])
    >>> changed.entry.root.opcode, report.matched
    ('parameter', 1)

    Raises HloomError for a name that no pass has, and for options that a pass does not take.
    """
    return standard_passes.apply(module, with_packages(passes), **options)


def with_packages(passes: PassLike | Iterable[PassLike]) -> PassLike | Iterable[PassLike]:
    """The passes as they are; where one is named that is not known, the packages that register more are imported."""
    given = list(passes) if isinstance(passes, Iterator) else passes
    listed = given if isinstance(given, (list, tuple)) else [given]
    names = [item.partition("(")[0].strip() for item in listed if isinstance(item, str)]
    if any(name not in standard_passes.PASSES for name in names):
        load_packages()
    return given


def _lowering_by_jax() -> FunctionLowering:
    """What traces functions in replacements: of the package that needs jax, and so imported with the first of them."""
    return import_module("hloom.runtime").lowered_function


def _gradients_by_jax() -> FunctionGradients:
    """What differentiates functions in replacements."""
    return import_module("hloom.runtime").JaxGradients()


provide_lowering(_lowering_by_jax)
provide_gradients(_gradients_by_jax)


def load_packages() -> None:
    """Import the packages above `passes` that register passes."""
    import_module("hloom.fit")
    import_module("hloom.fusion")
    import_module("hloom.microbatch")
    import_module("hloom.remat")
    import_module("hloom.saturation")
