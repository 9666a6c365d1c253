"""All of the dialect's rows, what the results of its ops are called, and its texts, which are MLIR's."""

from __future__ import annotations

from hloom.dialects.oneflow import attention, data_movement, elementwise, linear, normalisation
from hloom.formats import mlir
from hloom.ir import Module, Op
from hloom.text import Source

OPS: dict[str, Op] = {
    **elementwise.ROWS,
    **data_movement.ROWS,
    **linear.ROWS,
    **normalisation.ROWS,
    **attention.ROWS,
}
"""Every op row by full name."""

HINTS: dict[str, tuple[str, ...]] = {
    "oneflow.input": ("output",),
    "oneflow.output": ("output",),
    "oneflow.variable": ("output",),
    "oneflow.dropout": ("out", "mask"),
    "oneflow.normalization": ("y", "mean", "inv_variance"),
    "oneflow.normalization_add_relu": ("y", "reserve_space", "mean", "inv_variance"),
    "oneflow.fused_glu": ("y", "matmul_wx", "matmul_vx"),
}
"""The names of results, as OneFlow's printer gives them: of its own system ops, and of ops with several results."""


def parse(text: str | Source) -> Module:
    """The module of a text of OneFlow's; raises ParseError."""
    return mlir.parse(text, OPS)


def to_text(module: Module) -> str:
    """The text that OneFlow's own tools print."""
    return mlir.to_text(module, HINTS)
