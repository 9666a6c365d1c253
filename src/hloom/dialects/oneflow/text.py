"""OneFlow's texts: MLIR's, read and printed with this dialect's rows and names."""

from __future__ import annotations

from hloom import mlir
from hloom.dialects.oneflow.ops import HINTS, OPS
from hloom.ir import Module
from hloom.text import Source


def parse(text: str | Source) -> Module:
    """The module of a text of OneFlow's; raises ParseError."""
    return mlir.parse(text, OPS)


def to_text(module: Module) -> str:
    """The text that OneFlow's own tools print."""
    return mlir.to_text(module, HINTS)
