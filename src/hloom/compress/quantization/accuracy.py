"""The error of a quantised program: outputs as XLA computes them, products as numpy does.

The signal-to-noise ratio is 10 log10(sum |x|^2 / sum |x - x'|^2), in decibels, over all elements, and over all
iterations for products in loops; the error is the square root of the inverse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.analysis import DEFAULT_DEVICE, Roofline, Timing, roofline
from hloom.compress.quantization.noise import Noise
from hloom.compress.quantization.parameter_names import ParameterNames
from hloom.compress.quantization.quantization import Quantization
from hloom.compress.quantization.smooth_quant import SmoothedActivation
from hloom.evaluator import Value, evaluate, inputs_in_order
from hloom.ir import Graph, Module, Node, TensorType, reachable
from hloom.ops import PRODUCTS
from hloom.passes import canonicalize
from hloom.runtime import input_domains, random_inputs, run
from hloom.text import HloomError, Record

MOST_BYTES = 2 << 30
"""The maximum number of bytes of products to hold for comparison."""


@dataclass(frozen=True, slots=True)
class NumberedNoise(Record):
    """The noise of an output, and the output's number."""

    number: int
    noise: Noise
    json_keys = "number **noise"


def numbered(noises: Sequence[Noise] | None) -> list[NumberedNoise] | None:
    """The noise of each output, with its number; None where nothing was run."""
    return None if noises is None else [NumberedNoise(n, noise) for n, noise in enumerate(noises)]


@dataclass(frozen=True, slots=True)
class ProductReport(Record):
    """A dot or convolution whose weight is changed: its cost before and after, and its error if measured.

    The cost after includes the instructions added to make its operands.
    """

    name: str
    opcode: str
    weights: tuple[str, ...]
    flops: tuple[int, int]
    bytes: tuple[int, int]
    seconds: tuple[float, float]
    noise: Noise | None
    json_keys = "name opcode weights flops bytes seconds **noise"


@dataclass(frozen=True, slots=True)
class QuantizationReport(Record):
    """The benefits and costs of quantisation. `steps` and the products' noise are present if arrays were run.

    `steps` are the outputs of the first step, and of those that continue with its caches.
    """

    quantization: Quantization
    device: str
    products: tuple[ProductReport, ...]
    steps: tuple[tuple[Noise, ...], ...]
    seconds: tuple[float, float]
    json_keys = (
        "format=quantization.recipe.__str__ device weights=quantization.weights products outputs=numbered_outputs "
        "smoothed quantization.exclusions quantization.caches steps=numbered_steps cache_bytes weight_bytes seconds"
    )

    @property
    def outputs(self) -> tuple[Noise, ...] | None:
        """The outputs of the first step; None where nothing was run."""
        return self.steps[0] if self.steps else None

    @property
    def cache_bytes(self) -> tuple[int, int]:
        """Bytes of the quantised caches, before and after, scales included."""
        caches = self.quantization.caches
        return sum(cache.bytes_before for cache in caches), sum(cache.bytes_after for cache in caches)

    @property
    def weight_bytes(self) -> tuple[int, int]:
        """Bytes of the quantised weights, before and after, scales included."""
        weights = self.quantization.weights
        return sum(weight.bytes_before for weight in weights), sum(weight.bytes_after for weight in weights)

    @property
    def smoothed(self) -> tuple[SmoothedActivation, ...]:
        """The activations that were smoothed."""
        smoothing = self.quantization.smoothing
        return () if smoothing is None else smoothing.activations

    @property
    def numbered_outputs(self) -> list[NumberedNoise] | None:
        """The outputs of the first step, with their numbers."""
        return numbered(self.outputs)

    @property
    def numbered_steps(self) -> list[list[NumberedNoise] | None]:
        """The outputs of every step, with their numbers."""
        return [numbered(step) for step in self.steps]


def report(
    quantization: Quantization,
    inputs: Sequence[Any] | None = None,
    *,
    further: Sequence[Sequence[Any]] = (),
    device: str = DEFAULT_DEVICE,
    products: bool = True,
) -> QuantizationReport:
    """Compare a quantised program with its original: costs, and errors on these inputs of the original.

    `further` are the inputs of later steps, in which caches are those left by the previous step. Costs and seconds are
    the roofline model's. Without `products` only outputs are compared, which XLA computes; numpy computes the products,
    and raises HloomError if it cannot.
    """
    before, after = canonicalize(quantization.base), quantization.module
    noises: dict[Node, Noise] = {}
    steps: tuple[tuple[Noise, ...], ...] = ()
    if inputs is not None:
        steps = compare_steps(quantization, [inputs, *further])
        if products:
            converted = quantization.convert(inputs)
            noises = compare_products(before, quantization.base_arrays(inputs), after, converted)
    readers: dict[str, list[str]] = {}
    for weight in (*quantization.weights, *quantization.caches):
        for use in weight.uses:
            readers.setdefault(use, []).append(weight.name)
    made, seconds = product_reports(before, after, readers, noises, device)
    return QuantizationReport(quantization, device, made, steps, seconds)


def compare_steps(quantization: Quantization, steps: Sequence[Sequence[Any]]) -> tuple[tuple[Noise, ...], ...]:
    """The original's outputs and those of the quantised program, compared step by step; XLA computes them.

    `steps` are the original's inputs; from the second on, caches are those left by the previous step, in either
    program.
    """
    carried = {cache.number: cache.output for cache in quantization.caches if cache.number is not None}
    compared: list[tuple[Noise, ...]] = []
    before: Sequence[Any] = ()
    after: Sequence[Any] = ()
    for number, arrays in enumerate(steps):
        given, converted = list(arrays), list(quantization.convert(arrays))
        if number:
            for parameter, output in carried.items():
                given[parameter] = before[output or 0]
            converted = quantization.carried(converted, after)
        before = run(quantization.original, given).outputs
        after = run(quantization.module, converted).outputs
        compared.append(Noise.of(before, quantization.restored(after)))
    return tuple(compared)


def product_reports(
    before: Module,
    after: Module,
    readers: Mapping[str, Sequence[str]],
    noises: Mapping[Node, Noise],
    device: str,
) -> tuple[tuple[ProductReport, ...], tuple[float, float]]:
    """What the dots and convolutions cost that read weights, by their names, in two programs; and both programs' times.

    Instructions that both programs have, have one name, in computations of one name.
    """
    times = roofline(before, device), roofline(after, device)
    timings = _by_node(times[0]), _by_node(times[1])
    made = tuple(
        _product_report(node, before[graph.name], readers[node.name], timings, noises.get(node))
        for graph in after.graphs
        for node in graph.nodes
        if node.name in readers and before[graph.name][node.name].opcode in PRODUCTS
    )
    return made, (times[0].seconds, times[1].seconds)


def random_arrays(quantization: Quantization, seed: int = 0) -> list[np.ndarray]:
    """Random inputs of the original; weights are scaled so that sums keep their size."""
    summed = {weight.number: weight.summed_count for weight in quantization.weights}
    return random_weights(quantization.original, summed, seed)


def random_weights(module: Module, summed: Mapping[int, int], seed: int = 0) -> list[np.ndarray]:
    """Random inputs of a program; `summed` gives for weights, by number, how many elements a product sums up."""
    types = [parameter.type for parameter in module.entry.parameters]
    plain = [type_ for type_ in types if isinstance(type_, TensorType) and type_.is_static]
    if len(plain) != len(types):
        raise HloomError("the program takes values that are not arrays of known sizes: give inputs")
    arrays = random_inputs(plain, seed, input_domains(module))
    for number, count in summed.items():
        array = arrays[number]
        arrays[number] = (array.astype(np.float64) / math.sqrt(max(count, 1))).astype(array.dtype)
    return arrays


def inputs_by_any_name(module: Module, arrays: Mapping[str, Any]) -> list[Any]:
    """The inputs of a program in order, from arrays under any of the parameters' names.

    Raises HloomError for a name that no parameter has, and for parameters without an array.
    """
    parameters = module.entry.parameters
    names = ParameterNames(parameters)
    return inputs_in_order(
        {names[key].name: array for key, array in arrays.items()}, [parameter.name for parameter in parameters]
    )


def compare_outputs(
    original: Module, inputs: Sequence[Any], quantized: Module, converted: Sequence[Any]
) -> tuple[Noise, ...]:
    """The outputs of both programs, compared; XLA computes them."""
    return Noise.of(run(original, list(inputs)).outputs, run(quantized, list(converted)).outputs)


def compare_products(
    before: Module, inputs: Sequence[Any], after: Module, converted: Sequence[Any]
) -> dict[Node, Noise]:
    """The noise of each product of the quantised program relative to the original's, which is in canonical form.

    Raises HloomError where numpy cannot compute the programs, or where the products are too many bytes to hold.
    """
    held: dict[tuple[str, str], list[np.ndarray]] = {}
    left = MOST_BYTES

    def hold(node: Node, value: Value) -> None:
        nonlocal left
        if node.opcode in PRODUCTS and isinstance(value, np.ndarray | np.generic):
            left -= value.nbytes
            if left < 0:
                raise HloomError(
                    f"the products of {before.name} are more than {MOST_BYTES:,} bytes: they are not compared",
                    hint="compare outputs only",
                )
            held.setdefault((node.graph.name, node.name), []).append(np.array(value))

    noises: dict[Node, Noise] = {}

    def compare(node: Node, value: Value) -> None:
        rounds = held.get((node.graph.name, node.name))
        if rounds and isinstance(value, np.ndarray | np.generic):
            noises.setdefault(node, Noise()).add(rounds.pop(0), np.asarray(value))

    evaluate(before, list(inputs), observe=hold)
    evaluate(after, list(converted), observe=compare)
    return noises


def _by_node(model: Roofline) -> dict[Node, list[Timing]]:
    timings: dict[Node, list[Timing]] = {}
    for timing in model.timings:
        timings.setdefault(timing.node, []).append(timing)
    return timings


def _product_report(
    node: Node,
    original: Graph,
    weights: Sequence[str],
    timings: tuple[dict[Node, list[Timing]], dict[Node, list[Timing]]],
    noise: Noise | None,
) -> ProductReport:
    one = timings[0].get(original[node.name], [])
    two = [timing for made in (node, *_written_for(node, original)) for timing in timings[1].get(made, [])]
    return ProductReport(
        node.name,
        original[node.name].opcode,
        tuple(weights),
        (sum(t.cost.flops * t.times for t in one), sum(t.cost.flops * t.times for t in two)),
        (sum(t.cost.bytes_accessed * t.times for t in one), sum(t.cost.bytes_accessed * t.times for t in two)),
        (sum(t.total for t in one), sum(t.total for t in two)),
        noise,
    )


def _written_for(node: Node, original: Graph) -> set[Node]:
    """What was written to make a product's operands: instructions that the original does not have."""

    def written_operands(reader: Node) -> list[Node]:
        return [operand for operand in reader.operands if operand.name not in original and operand.operands]

    return set(reachable(written_operands(node), written_operands))
