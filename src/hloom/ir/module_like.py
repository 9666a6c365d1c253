"""What public functions accept as a module: a module itself, or anything `hloom.load` reads."""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol, TypeAlias

from hloom.ir.module import Module


class JaxLowered(Protocol):
    """A program that jax lowered: `jax.jit(f).lower(...)`."""

    @property
    def compiler_ir(self) -> Any: ...


class JaxCompiled(Protocol):
    """A program that jax compiled: `jax.jit(f).lower(...).compile()`."""

    @property
    def runtime_executable(self) -> Any: ...


class JaxExported(Protocol):
    """A program that jax exported: `jax.export.export(jax.jit(f))(...)`."""

    @property
    def mlir_module(self) -> Any: ...


JaxProgram: TypeAlias = JaxLowered | JaxCompiled | JaxExported
ModuleLike: TypeAlias = Module | str | os.PathLike[str] | bytes | bytearray | memoryview | JaxProgram
"""A module, the path or text of one, its bytes, or a program lowered by jax."""


def as_module(source: ModuleLike) -> Module:
    """Return a module unchanged and load anything else with `hloom.load`; raises HloomError if it holds no module.

    Public functions call this at the boundary; internal functions take a Module.
    """
    if isinstance(source, Module):
        return source
    # The readers of all formats are in packages above; the root package, which is always loaded, knows them.
    return sys.modules["hloom"].load(source)
