"""What structured pruning gives: smaller weights, products and times, and how far the program is from its original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hloom.analysis import DEFAULT_DEVICE, leaf_bytes
from hloom.compress.pruning.structured import StructuredPruning
from hloom.compress.quantization import Noise, ProductReport, compare_outputs, product_reports
from hloom.ir import TensorType
from hloom.ops import PRODUCTS
from hloom.passes import canonicalize
from hloom.text import Record


@dataclass(frozen=True, slots=True)
class CutWeight(Record):
    """A weight's type before and after."""

    name: str
    type: TensorType
    cut_type: TensorType
    json_keys = "name type=type.__str__ pruned_type=cut_type.__str__ bytes"

    @property
    def bytes(self) -> tuple[int, int]:
        return leaf_bytes(self.type), leaf_bytes(self.cut_type)


class CutOutput(NamedTuple):
    """An output's number, how far it is from the original's, and how far from the original's with zeros."""

    number: int
    noise: Noise
    zeroed: Noise
    json_keys = "number **noise with_zeros=zeroed"


@dataclass(frozen=True, slots=True, eq=False)
class StructureReport(Record):
    """What structured pruning gives and costs; `outputs` against the original, `zeroed` against it with zeros."""

    pruning: StructuredPruning
    device: str
    weights: tuple[CutWeight, ...]
    products: tuple[ProductReport, ...]
    outputs: tuple[Noise, ...] | None
    zeroed: tuple[Noise, ...] | None
    seconds: tuple[float, float]
    json_keys = "device pruning.axes weights products outputs=compared_outputs pruning.exclusions weight_bytes seconds"

    @property
    def weight_bytes(self) -> tuple[int, int]:
        """Of the weights that are cut, before and after."""
        return sum(weight.bytes[0] for weight in self.weights), sum(weight.bytes[1] for weight in self.weights)

    @property
    def compared_outputs(self) -> list[CutOutput] | None:
        """The outputs, with their numbers; None where nothing was run."""
        if self.outputs is None:
            return None
        pairs = zip(self.outputs, self.zeroed or (), strict=True)
        return [CutOutput(number, noise, zeros) for number, (noise, zeros) in enumerate(pairs)]


def structure_report(
    pruning: StructuredPruning, inputs: Sequence[Any] | None = None, *, device: str = DEFAULT_DEVICE
) -> StructureReport:
    """What a pruned program costs beside its original and, on these inputs of the original, how far it is from it.

    Costs and seconds are the roofline model's; XLA computes the outputs.
    """
    before, after = canonicalize(pruning.original), pruning.module
    outputs = zeroed = None
    if inputs is not None:
        converted = pruning.convert(inputs)
        outputs = compare_outputs(pruning.original, inputs, after, converted)
        zeroed = compare_outputs(pruning.original, pruning.zeroed(inputs), after, converted)
    cut = {name for axis in pruning.axes for name, _ in axis.dims}
    weights = [
        CutWeight(parameter.name, parameter.type.with_layout(None), smaller.type.with_layout(None))
        for parameter, smaller in zip(before.entry.parameters, after.entry.parameters, strict=True)
        if parameter.name in cut and isinstance(parameter.type, TensorType) and isinstance(smaller.type, TensorType)
    ]
    readers: dict[str, tuple[str, ...]] = {
        node.name: () for graph in after.graphs for node in graph.nodes if node.opcode in PRODUCTS
    }
    products, seconds = product_reports(before, after, readers, {}, device)
    return StructureReport(pruning, device, tuple(weights), products, outputs, zeroed, seconds)
