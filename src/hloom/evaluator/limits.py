"""Limits on evaluation, checked beforehand: instructions executed, elements computed, bytes held at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from hloom.evaluator.inputs import leaves_of
from hloom.evaluator.table import Value
from hloom.ir import UNBOUNDED, Apply, TensorType, Trait, Type, Window
from hloom.ops import CALLERS, INLINABLE, SAME_BYTES, with_trait
from hloom.text import HloomError

MOST_STEPS = 10_000_000
"""The default maximum number of instructions to execute: a minute or two of scalars."""
MOST_BYTES = 4 << 30
"""The default maximum bytes of live values and temporaries of one instruction."""
TEMPORARY_BYTES = 64
"""The maximum bytes of temporaries an evaluator may use per element of its operands and results."""
LIGHT_TEMPORARY_BYTES = 24
"""The same for the opcodes of LIGHT."""
LIGHT = frozenset((
    *("abs", "add", "and", "broadcast", "ceil", "compare", "concatenate", "cosine", "dot", "dynamic-slice"),
    *("dynamic-update-slice", "exponential", "floor", "maximum", "minimum", "multiply", "negate", "not", "or", "pad"),
    *("reduce", "reshape", "reverse", "select", "sign", "sine", "slice", "sqrt", "subtract", "tanh", "transpose"),
    "xor",
))  # fmt: skip
"""Opcodes of few temporaries, where the elements are real."""
PASSING = (
    CALLERS
    | INLINABLE
    | with_trait(Trait.TUPLE)
    | (SAME_BYTES - {"bitcast"})
    | {"after-all", "async-done", "async-update", "copy", "copy-done", "get-dimension-size", "tuple-select"}
)
"""Opcodes whose results are their operands, or what the graphs that they call have computed."""
SMALL = 1024
"""Arrays of fewer bytes are not counted."""
MOST_LOOPS_NAMED = 3


class LimitReached(HloomError):
    """More instructions would have been executed, elements computed or bytes held than the caller allows."""

    def __init__(self, message: str, hint: str | None = None, loops: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.loops = loops

    def within(self, loop: str, round: int) -> LimitReached:
        """The same error, of what runs in some round of a loop; of loops in loops the innermost are named."""
        if self.loops == MOST_LOOPS_NAMED:
            return self
        return LimitReached(f"{self.message}, in round {round:,} of the loop {loop}", self.hint, self.loops + 1)


class EvaluationLimits:
    """The remaining instructions and elements, and the bytes held by values.

    A value that several names have is held once, and a view holds what it is a view of. Values below SMALL bytes are
    not counted.
    """

    def __init__(self, elements: int | None, steps: int | None, memory: int | None) -> None:
        self._most_elements, self._most_steps, self._most_bytes = elements, steps, memory
        self._elements = math.inf if elements is None else elements
        self._steps = math.inf if steps is None else steps
        self._memory = math.inf if memory is None else memory
        self._held = 0
        self._holders: Counter[int] = Counter()
        self._needs: dict[Apply, int] = {}

    def call(self, name: str) -> None:
        """Count the call of a graph: it takes time even where the graph computes nothing."""
        self._take_elements(1, name)
        self._take_steps(1, name)

    def execute(self, node: Apply, operands: Iterable[Value]) -> None:
        """Count an instruction that is about to be executed; raises LimitReached where it is one too many or too large.

        Its elements are those of its result, or of its largest operand.
        """
        self._take_steps(1 if "window" not in node.attributes else _rounds(node), node.name)
        if self._most_elements is not None:
            sizes = [operand.size for operand in operands if isinstance(operand, np.ndarray)]
            self._take_elements(max([1 + _element_count(node.type), *sizes]), node.name)
        need = self._needs.get(node)
        if need is None:
            need = _need(node, operands)
            if all(map(_is_static, (node.type, *(operand.type for operand in node.operands)))):
                self._needs[node] = need
        self._check_memory(node, need)

    def execute_mapped(self, node: Apply, operands: Iterable[Value]) -> None:
        """The same for an instruction of scalars that is about to be executed on arrays of them."""
        sizes = [operand.size for operand in operands if isinstance(operand, np.ndarray)]
        self._take_steps(1, node.name)
        self._take_elements(max([2, *sizes]), node.name)
        self._check_memory(node, max(sizes, default=1) * (len(sizes) + 1) * _temporary_bytes(node, operands))

    def hold(self, values: Iterable[Value]) -> None:
        """Count what values hold, until they are released."""
        for value in values:
            for leaf in (value,) if isinstance(value, np.ndarray) else leaves_of(value):
                if leaf.base is None and leaf.nbytes < SMALL:
                    continue
                owner = _owner(leaf)
                if not self._holders[id(owner)]:
                    self._held += getattr(owner, "nbytes", 0)
                self._holders[id(owner)] += 1

    def release(self, values: Iterable[Value]) -> None:
        """Count no longer what values hold that were counted."""
        for value in values:
            for leaf in (value,) if isinstance(value, np.ndarray) else leaves_of(value):
                if leaf.base is None and leaf.nbytes < SMALL:
                    continue
                owner = _owner(leaf)
                self._holders[id(owner)] -= 1
                if not self._holders[id(owner)]:
                    del self._holders[id(owner)]
                    self._held -= getattr(owner, "nbytes", 0)

    def _take_elements(self, count: int, name: str) -> None:
        self._elements -= count
        if self._elements < 0:
            raise LimitReached(f"{name}: more than {self._most_elements} elements would be computed")

    def _take_steps(self, count: int, name: str) -> None:
        self._steps -= count
        if self._steps < 0:
            raise LimitReached(
                f"{name}: more than {self._most_steps:,} instructions would be executed",
                hint="steps= allows more, on the command line --steps",
            )

    def _check_memory(self, node: Apply, need: int) -> None:
        if self._held + need > self._memory:
            raise LimitReached(
                f"{node.name}: {node.opcode} to {node.type} may take {need:,} bytes where {self._held:,} are in use: "
                f"more than the {self._most_bytes:,} allowed",
                hint="memory= allows more, on the command line --memory",
            )


def _need(node: Apply, operands: Iterable[Value]) -> int:
    """How many bytes an instruction's result and temporaries may take."""
    if node.opcode in PASSING:
        return 0
    count = _element_count(node.type) + sum(leaf.size for operand in operands for leaf in leaves_of(operand))
    window = node.attributes.get("window")
    if isinstance(window, Window):  # of what is kept unread nothing is known
        count += _padded_element_count(node, window, operands)
    return _byte_count(node.type) + count * _temporary_bytes(node, operands)


def _temporary_bytes(node: Apply, operands: Iterable[Value]) -> int:
    is_light = node.opcode in LIGHT and not any(
        isinstance(operand, np.ndarray) and operand.dtype.kind == "c" for operand in operands
    )
    return LIGHT_TEMPORARY_BYTES if is_light else TEMPORARY_BYTES


def _rounds(node: Apply) -> int:
    """How often an evaluator goes round for one instruction: once for each element of its window."""
    window = node.attributes.get("window")
    return math.prod(dimension.size for dimension in window.dimensions) if isinstance(window, Window) else 1


def _padded_element_count(node: Apply, window: Window, operands: Iterable[Value]) -> int:
    """How many elements the first operand has with the padding and dilation of a window."""
    first = next(iter(operands), None)
    if not isinstance(first, np.ndarray):
        return 0
    sizes = list(first.shape)
    labels = node.attributes.get("dim_labels")
    axes = range(len(sizes)) if labels is None else labels.spatial(labels.lhs)
    for axis, dimension in zip(axes, window.dimensions, strict=False):
        dilated = max((sizes[axis] - 1) * dimension.base_dilation + 1, 0)
        sizes[axis] = max(dilated + dimension.padding_low + dimension.padding_high, 0)
    return math.prod(sizes)


def _arrays(type_: Type | None) -> list[TensorType]:
    leaves = () if type_ is None else type_.leaves()
    return [leaf for leaf in leaves if isinstance(leaf, TensorType) and UNBOUNDED not in leaf.dims]


def _element_count(type_: Type | None) -> int:
    return sum(math.prod(array.dims) for array in _arrays(type_))


def _byte_count(type_: Type | None) -> int:
    return sum(math.prod(array.dims) * array.dtype.numpy.itemsize for array in _arrays(type_))


def _is_static(type_: Type | None) -> bool:
    return type_ is not None and all(not isinstance(leaf, TensorType) or leaf.is_static for leaf in type_.leaves())


def _owner(array: np.ndarray) -> object:
    """What holds the memory of an array: itself, or what it is a view of."""
    owner: object = array
    while (base := getattr(owner, "base", None)) is not None:
        owner = base
    return owner
