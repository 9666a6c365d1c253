"""What structured pruning gives: smaller weights, products and times, and how far the program is from its original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hloom.analysis import DEFAULT_DEVICE, leaf_bytes
from hloom.compress.pruning.structured import StructuredPruning
from hloom.compress.quantization import Noise, ProductReport, compare_outputs, numbered, plain_fields, product_reports
from hloom.ir import TensorType
from hloom.ops import PRODUCTS
from hloom.passes import canonicalize


@dataclass(frozen=True, slots=True)
class CutWeight:
    """A weight's type before and after."""

    name: str
    type: TensorType
    cut_type: TensorType

    @property
    def bytes(self) -> tuple[int, int]:
        return leaf_bytes(self.type), leaf_bytes(self.cut_type)


@dataclass(frozen=True, slots=True, eq=False)
class StructureReport:
    """What structured pruning gives and costs; `outputs` against the original, `zeroed` against it with zeros."""

    pruning: StructuredPruning
    device: str
    weights: tuple[CutWeight, ...]
    products: tuple[ProductReport, ...]
    outputs: tuple[Noise, ...] | None
    zeroed: tuple[Noise, ...] | None
    seconds: tuple[float, float]

    @property
    def weight_bytes(self) -> tuple[int, int]:
        """Of the weights that are cut, before and after."""
        return sum(weight.bytes[0] for weight in self.weights), sum(weight.bytes[1] for weight in self.weights)

    def to_json(self) -> dict[str, Any]:
        """Plain values; infinite ratios are null."""
        outputs = numbered(self.outputs)
        return {
            "device": self.device,
            "axes": [
                {
                    "name": axis.name,
                    "role": axis.role,
                    "size": axis.size,
                    "kept": axis.kept,
                    "dims": [
                        {
                            "weight": name,
                            "dim": dim,
                            "kept": cut.shape[-1],
                            "layer_dim": axis.layer_dims.get((name, dim)),
                        }
                        for (name, dim), cut in axis.dims.items()
                    ],
                    "why_shared": axis.why_shared,
                }
                for axis in self.pruning.axes
            ],
            "weights": [
                {
                    "name": weight.name,
                    "type": str(weight.type),
                    "pruned_type": str(weight.cut_type),
                    "bytes": list(weight.bytes),
                }
                for weight in self.weights
            ],
            "products": [
                {name: value for name, value in product.to_json().items() if name != "weights"}
                for product in self.products
            ],
            "outputs": outputs
            and [
                {**record, "with_zeros": zeros.to_json()}
                for record, zeros in zip(outputs, self.zeroed or (), strict=True)
            ],
            "exclusions": [plain_fields(left) for left in self.pruning.exclusions],
            "weight_bytes": list(self.weight_bytes),
            "seconds": list(self.seconds),
        }


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
