"""Finds where NaNs and infinities in a program's outputs arise: the first instruction with finite operands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloom.evaluator.inputs import Inputs, leaves_of
from hloom.evaluator.limits import MOST_BYTES, LimitReached
from hloom.evaluator.runner import evaluate
from hloom.evaluator.table import Value
from hloom.ir import Apply, Constant, Module, Node, dtype_of
from hloom.text import HloomError

MOST_INSTRUCTIONS, MOST_ELEMENTS = 200_000, 1 << 27
"""The maximum number of instructions executed, and elements computed, for the search: some seconds."""


@dataclass(frozen=True, slots=True)
class NotFinite:
    """The instruction at which the first value of an output that is not finite arises, and how many it makes.

    `what` is "NaN" or "infinity"; of `elements` values `count` are so.
    """

    instruction: str
    opcode: str
    what: str
    count: int
    elements: int

    def __str__(self) -> str:
        made = {"parameter": "is given in the input", "constant": "is in the constant"}
        where = made.get(self.opcode)
        where = f"{where} {self.instruction}" if where else f"first arises in {self.instruction} ({self.opcode})"
        return f"{self.what} {where}: {self.count:,} of {self.elements:,} values"


def first_not_finite(module: Module, inputs: Inputs) -> NotFinite | None:
    """Where the first NaN or infinity that reaches an output arises; None where the outputs are finite.

    The module is evaluated with numpy. Raises HloomError where that cannot be done, or would take long.
    """
    trace = _Trace()
    try:
        results = evaluate(
            module, inputs, limit=MOST_ELEMENTS, steps=MOST_INSTRUCTIONS, memory=MOST_BYTES, observe=trace
        )
    except LimitReached as problem:
        raise HloomError(f"where it arises is not looked for: {problem.message}") from None
    origins = [trace.origin_of(array) for array in results]
    known = [origin for origin in origins if origin is not None]
    return next((origin for origin in known if origin.what == "NaN"), known[0] if known else None)


class _Trace:
    """Notes, as an observer of an evaluation, from which instruction each array that is not finite has its values."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[np.ndarray, NotFinite]] = {}
        self._nodes: dict[Node, NotFinite | None] = {}

    def origin_of(self, array: np.ndarray) -> NotFinite | None:
        """The origin of what is not finite in an array that was observed."""
        held = self._arrays.get(id(array))
        return held[1] if held is not None else None

    def __call__(self, node: Node, value: Value) -> None:
        self._nodes[node] = None
        for leaf in leaves_of(value):
            what = _what(leaf)
            if not what:
                continue
            held = self._arrays.get(id(leaf))
            origin = self._origin(node, leaf, what) if held is None else held[1]
            self._arrays[id(leaf)] = leaf, origin  # held, so that no other array gets its number
            self._nodes[node] = self._nodes[node] or origin

    def _origin(self, node: Node, leaf: np.ndarray, what: str) -> NotFinite:
        """The origin of an operand, unless the operands are finite, or NaN comes of infinite constants, as of masks."""
        operands = [origin for operand in node.operands if (origin := self._nodes.get(operand)) is not None]
        kept = [origin for origin in operands if origin.opcode != "constant"]
        if kept:
            return next((origin for origin in kept if origin.what == "NaN"), kept[0])
        if operands and what == operands[0].what:
            return operands[0]
        opcode = node.opcode if isinstance(node, Apply) else "constant" if isinstance(node, Constant) else "parameter"
        count = int(np.count_nonzero(np.isnan(leaf) if what == "NaN" else np.isinf(leaf)))
        return NotFinite(node.name, opcode, what, count, leaf.size)


def _what(array: np.ndarray) -> str:
    """Whether an array has NaN, or else an infinity; empty where it has neither."""
    element = dtype_of(array.dtype)
    if not (element.is_float or element.is_complex):
        return ""
    with np.errstate(all="ignore"):
        if np.isnan(array).any():
            return "NaN"
        return "infinity" if np.isinf(array).any() else ""
