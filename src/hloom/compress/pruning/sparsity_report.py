"""What pruning gives: zeros, bytes, products, and how far the pruned program is from its original."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hloom.analysis import DEFAULT_DEVICE, leaf_bytes
from hloom.compress.pruning.pattern import BlockPattern, GroupPattern, Pattern
from hloom.compress.pruning.prune import PrunedWeight, Pruning
from hloom.compress.quantization import (
    Noise,
    NumberedNoise,
    ProductReport,
    compare_outputs,
    compare_products,
    numbered,
    product_reports,
    random_weights,
)
from hloom.ir import Module, Node, TensorType
from hloom.passes import canonicalize
from hloom.text import Record


class StoredWeight(NamedTuple):
    """A pruned weight, and its bytes: dense, and stored sparsely."""

    weight: PrunedWeight
    bytes: tuple[int, int]
    json_keys = "**weight bytes"


@dataclass(frozen=True, slots=True, eq=False)
class PruningReport(Record):
    """What pruning gives and costs. `outputs` and the products' noise are there where arrays were run.

    The times are those of dense products, since XLA has no sparse ones: zeros save time in none of them. `flops` of
    a product after pruning are those with elements that are kept.
    """

    pruning: Pruning
    device: str
    products: tuple[ProductReport, ...]
    kept_flops: Mapping[str, int]
    outputs: tuple[Noise, ...] | None
    seconds: tuple[float, float]
    json_keys = (
        "pruning.method pattern=pattern sparsity device weights=stored_weights products=kept_products "
        "outputs=numbered_outputs pruning.exclusions weight_bytes seconds"
    )

    @property
    def weight_bytes(self) -> tuple[int, int]:
        """Of the weights that are pruned: dense, and stored sparsely."""
        weights = self.pruning.weights
        stored = sum(stored_bytes(weight, self.pruning.pattern) for weight in weights)
        return sum(leaf_bytes(weight.type) for weight in weights), stored

    @property
    def sparsity(self) -> float:
        """The share of all elements of pruned weights that is removed."""
        size = sum(weight.mask.size for weight in self.pruning.weights)
        return 1 - sum(weight.kept for weight in self.pruning.weights) / size if size else 0.0

    @property
    def pattern(self) -> str | None:
        """The pattern of the zeros, if there is one."""
        return None if self.pruning.pattern is None else str(self.pruning.pattern)

    @property
    def stored_weights(self) -> list[StoredWeight]:
        """The weights that are pruned, with their bytes."""
        pattern = self.pruning.pattern
        return [
            StoredWeight(weight, (leaf_bytes(weight.type), stored_bytes(weight, pattern)))
            for weight in self.pruning.weights
        ]

    @property
    def kept_products(self) -> list[ProductReport]:
        """The products, with the FLOPs of elements that are kept."""
        return [replace(one, flops=(one.flops[0], self.kept_flops[one.name])) for one in self.products]

    @property
    def numbered_outputs(self) -> list[NumberedNoise] | None:
        """The outputs, with their numbers."""
        return numbered(self.outputs)


def report(
    pruning: Pruning, inputs: Sequence[Any] | None = None, *, device: str = DEFAULT_DEVICE, products: bool = True
) -> PruningReport:
    """What a pruned program costs beside its original and, on these inputs of the original, how far it is from it.

    Costs and seconds are the roofline model's. Without `products` only outputs are compared, which XLA computes; numpy
    computes the products, and raises HloomError where it cannot.
    """
    before, after = canonicalize(pruning.original), canonicalize(pruning.module)
    noises: dict[Node, Noise] = {}
    outputs = None
    if inputs is not None:
        converted = pruning.convert(inputs)
        outputs = compare_outputs(pruning.original, inputs, pruning.module, converted)
        if products:
            noises = compare_products(before, inputs, after, converted)
    readers: dict[str, list[str]] = {}
    shares: dict[str, float] = {}
    for weight in pruning.weights:
        for use in weight.uses:
            readers.setdefault(use, []).append(weight.name)
            shares[use] = shares.get(use, 1.0) * (1 - weight.sparsity)
    made, seconds = product_reports(before, after, readers, noises, device)
    kept = {product.name: round(product.flops[0] * shares[product.name]) for product in made}
    return PruningReport(pruning, device, made, kept, outputs, seconds)


def random_arrays(module: Module, seed: int = 0) -> list[np.ndarray]:
    """Random inputs of a program; those of two or more dimensions are scaled so that sums keep their size."""
    summed = {
        parameter.number: math.prod(parameter.type.dims[:-1])
        for parameter in module.entry.parameters
        if isinstance(parameter.type, TensorType) and parameter.type.rank > 1 and parameter.type.dtype.is_float
    }
    return random_weights(module, summed, seed)


def stored_bytes(weight: PrunedWeight, pattern: Pattern) -> int:
    """How many bytes a weight takes if zeros are left out: the elements that are kept, and where they are.

    Of groups every kept element has its number in the group (2:4: two bits), of blocks there is a bit for a block, else
    a bit for an element; dense where that is less.
    """
    dense = leaf_bytes(weight.type)
    values = weight.kept * weight.type.dtype.bits
    if isinstance(pattern, GroupPattern):
        where = weight.kept * math.ceil(math.log2(pattern.size))
    elif isinstance(pattern, BlockPattern):
        stack, summed, free = weight.dims.matrices(weight.mask).shape
        where = stack * -(-summed // pattern.rows) * -(-free // pattern.columns)
    else:
        where = weight.mask.size
    return min(dense, -(-(values + where) // 8))
