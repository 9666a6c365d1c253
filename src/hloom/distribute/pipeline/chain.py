"""A model as a chain of layers with their costs: the input of the pipeline planner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from hloom.text import HloomError


class InvalidChain(HloomError):
    """Layers with times or sizes that no layer has."""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """The costs of one layer on one device for the chain's batch: seconds and bytes.

    `weight_seconds` is the part of `backward_seconds` that makes the gradients of the weights, which nothing waits for.
    The fixed seconds are what a forward and a backward take beside that, however small the microbatch is and on however
    many devices: to launch, and to read the weights. `activation_bytes` are kept from the forward to the backward;
    `output_bytes` go to the next layer, and as many of gradient come back. `optimizer_bytes` is the optimizer's state,
    and what else stays for a step; `gradient_bytes` are of the parameters that are trained: unless given, of all.
    """

    name: str
    forward_seconds: float
    backward_seconds: float
    activation_bytes: float
    output_bytes: float
    parameter_bytes: float = 0.0
    optimizer_bytes: float = 0.0
    weight_seconds: float = 0.0
    forward_fixed_seconds: float = 0.0
    backward_fixed_seconds: float = 0.0
    gradient_bytes: float | None = None

    def __post_init__(self) -> None:
        if self.gradient_bytes is None:
            object.__setattr__(self, "gradient_bytes", self.parameter_bytes)
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidChain(
                    f"layer {self.name}: {field.name} is {value}", hint="seconds and bytes are finite, and 0 or more"
                )
        if self.weight_seconds > self.backward_seconds:
            raise InvalidChain(
                f"layer {self.name}: weight_seconds is {self.weight_seconds}, of {self.backward_seconds} s of backward",
                hint="weight_seconds is a part of backward_seconds",
            )


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers in order, for a batch of this many examples; times and activations scale with the batch.

    `input_bytes` is what the first layer reads of a batch; it is kept where the first stage recomputes.
    """

    layers: tuple[LayerCost, ...]
    batch: int
    input_bytes: float = 0.0

    def __post_init__(self) -> None:
        if not self.layers:
            raise InvalidChain("a chain without layers", hint="give one or more")
        if self.batch < 1:
            raise InvalidChain(f"a chain measured at {self.batch} examples", hint="a batch has one or more")
        if not (math.isfinite(self.input_bytes) and self.input_bytes >= 0):
            raise InvalidChain(f"input_bytes is {self.input_bytes}", hint="bytes are finite, and 0 or more")

    @property
    def seconds(self) -> float:
        """Forward and backward of all layers for the chain's batch on one device, without the fixed seconds."""
        return math.fsum(layer.forward_seconds + layer.backward_seconds for layer in self.layers)

    @property
    def parameter_bytes(self) -> float:
        """The parameters of all layers."""
        return math.fsum(layer.parameter_bytes for layer in self.layers)


def merge_layers(chain: Chain, count: int) -> Chain:
    """At most `count` layers, each of neighbours: the largest takes as little time as possible.

    >>> chain = Chain(tuple(LayerCost(str(number), 1, 1, 1, 1) for number in range(6)), 1)
    >>> [layer.name for layer in merge_layers(chain, 3).layers]
    ['0 to 1', '2 to 3', '4 to 5']
    """
    runs = layer_runs(chain, count)
    if len(runs) == len(chain.layers):
        return chain
    merged = [_merged(chain.layers[first : last + 1]) for first, last in runs]
    return Chain(tuple(merged), chain.batch, chain.input_bytes)


def layer_runs(chain: Chain, count: int) -> list[tuple[int, int]]:
    """The first and the last of the neighbours that become one layer each where a chain is merged to `count` layers."""
    if count < 1:
        raise InvalidChain(f"{count} layers", hint="a chain has one or more")
    if count >= len(chain.layers):
        return [(number, number) for number in range(len(chain.layers))]
    seconds = [layer.forward_seconds + layer.backward_seconds for layer in chain.layers]
    ends = min_max_partition(seconds, count)
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))


def min_max_partition(weights: Sequence[float], parts: int) -> list[int]:
    """The last index of each of at most `parts` runs of neighbours whose largest sum is the least possible.

    >>> min_max_partition([4, 1, 1, 1, 5], 3)
    [1, 3, 4]
    """
    low, high = max(weights), math.fsum(weights)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if len(_filled(weights, middle)) <= parts:
            high = middle
        else:
            low = middle
    ends = _filled(weights, low)
    return ends if len(ends) <= parts else _filled(weights, high)


_BISECTIONS = 1100
"""More than there are halvings of a double's range; what is bisected is narrow after some sixty."""


def _filled(weights: Sequence[float], bound: float) -> list[int]:
    """The last index of each run when runs are filled from the first up to a bound that no weight exceeds."""
    ends, total = [], 0.0
    for index, weight in enumerate(weights):
        if index and total + weight > bound:
            ends.append(index - 1)
            total = 0.0
        total += weight
    return [*ends, len(weights) - 1]


def _merged(layers: Sequence[LayerCost]) -> LayerCost:
    if len(layers) == 1:
        return layers[0]
    sums = {
        field.name: math.fsum(getattr(layer, field.name) for layer in layers)
        for field in fields(LayerCost)[1:]
        if field.name != "output_bytes"
    }
    return LayerCost(f"{layers[0].name} to {layers[-1].name}", output_bytes=layers[-1].output_bytes, **sums)
