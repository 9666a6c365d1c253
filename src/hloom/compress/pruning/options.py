"""The options of pruning with their defaults: the keywords of `prune` and `prune_structured`, and of `hloom prune`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

from hloom.compress.pruning.axis_class import AXES
from hloom.compress.pruning.scores import METHODS
from hloom.compress.quantization import SelectionOptions
from hloom.ops import PRODUCTS
from hloom.text import HloomError

SPARSITY = 0.5
"""The share of elements that is removed where nothing else is said."""
GROUPS = ("output", "weight", "model")
"""The scope within which scores are compared: the inputs of one output, a weight (in a loop, of a layer), or all
weights.
"""
OPCODES = PRODUCTS
"""The instructions whose weights are pruned where nothing else is said."""
DEFAULT_AXES = ("channels", "heads", "experts")
"""The axes that are pruned where nothing else is said."""


@dataclass(frozen=True, slots=True, eq=False)
class PruningOptions(SelectionOptions):
    """How to prune single elements; `prune` says what each option means.

    Raises HloomError for options that do not go together.
    """

    sparsity: float | None = None
    _: KW_ONLY
    opcodes: Sequence[str] = OPCODES
    method: str = METHODS[0]
    pattern: str | None = None
    within: str | None = None
    calibration: Sequence[Sequence[Any]] = ()
    masks: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise HloomError(f"weights are not scored by '{self.method}'", hint=f"there are {', '.join(METHODS)}")
        if self.within is not None and self.within not in GROUPS:
            raise HloomError(f"scores are not compared within '{self.within}'", hint=f"there are {', '.join(GROUPS)}")
        if self.calibration and self.method != "wanda":
            raise HloomError("inputs are measured for Wanda only", hint="method='wanda', or --method wanda")
        if self.method == "wanda" and not self.calibration:
            raise HloomError(
                "Wanda needs inputs to see activations of", hint="calibration=[arrays, ...], or --calibrate X.npz"
            )


@dataclass(frozen=True, slots=True, eq=False)
class StructuredPruningOptions(SelectionOptions):
    """How to remove whole positions; `prune_structured` says what each option means.

    Raises HloomError for values that make no sense.
    """

    sparsity: float = SPARSITY
    _: KW_ONLY
    opcodes: Sequence[str] = OPCODES
    axes: Sequence[str] = DEFAULT_AXES
    multiple: int = 1
    pad_outputs: bool = False
    shared_positions: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.sparsity, Real):
            raise HloomError(
                f"{self.sparsity} is not a valid sparsity: layers of a stack have one shape, so each loses as many "
                "positions",
                hint="give one share, from 0 to 1; for weights that are not stacked, prune with only=[...] several "
                "times",
            )
        if not 0 <= self.sparsity <= 1:
            raise HloomError(
                f"{self.sparsity:g} is not a valid sparsity", hint="give the share that is removed, from 0 to 1"
            )
        if self.multiple < 1:
            raise HloomError(f"numbers cannot be multiples of {self.multiple}", hint="give a number from 1 on")
        unknown = [axis for axis in self.axes if axis not in AXES]
        if unknown or not self.axes:
            what = f"there is no axis '{unknown[0]}'" if unknown else "no axis is given"
            raise HloomError(what, hint=f"axes are {', '.join(AXES)}")
