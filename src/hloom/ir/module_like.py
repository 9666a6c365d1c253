"""Whatever holds a module, as public functions take it: the module itself, or what `hloom.load` reads."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from hloom.ir.module import Module


class LoweredProgram(Protocol):
    """A program that jax lowered: `jax.jit(f).lower(...)`."""

    @property
    def compiler_ir(self) -> Any: ...


class CompiledProgram(Protocol):
    """A program that jax compiled: `jax.jit(f).lower(...).compile()`."""

    @property
    def runtime_executable(self) -> Any: ...


class ExportedProgram(Protocol):
    """A program that jax exported: `jax.export.export(jax.jit(f))(...)`."""

    @property
    def mlir_module(self) -> Any: ...


JaxProgram: TypeAlias = LoweredProgram | CompiledProgram | ExportedProgram
ModuleLike: TypeAlias = Module | str | os.PathLike[str] | bytes | bytearray | memoryview | JaxProgram
"""A module, the path or text of one, its bytes, or a program of jax's."""


def as_module(source: ModuleLike) -> Module:
    """A module as it is, anything else as `hloom.load` reads it; raises HloomError for what holds no module.

    Public functions call this at their boundary; what they call takes a Module.
    """
    if isinstance(source, Module):
        return source
    # By name, when it is first needed: the readers of all formats are in packages above this one.
    return import_module("hloom.api.load").load(source)
