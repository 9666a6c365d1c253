"""`quantize`: a program whose weights are parameters of a narrow type, and the conversion of weights that it takes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloom.analysis import leaf_bytes
from hloom.ir import DTYPES, Apply, Constant, DType, Literal, Module, Node, Parameter, TensorType, verify
from hloom.passes import canonicalize, canonicalize_in_place, dce
from hloom.quantization.arithmetic import MX_SCALE, QuantizedArray, quantize_array, scale_dims
from hloom.quantization.calibration import CLIPPINGS, PERCENTILE, calibrate
from hloom.quantization.dequantization import add_companions, push_down, write_entry_layout
from hloom.quantization.insertion_point import array_type
from hloom.quantization.integer_products import (
    LARGEST,
    Product,
    add_maximum,
    product_of,
    reason_against,
    write_integer_product,
)
from hloom.quantization.parameter_names import ParameterNames
from hloom.quantization.quantized_cache import QuantizedCache, narrow_caches
from hloom.quantization.quantized_value import F32, F64, SCALE, ZERO, QuantizedValue
from hloom.quantization.recipe import OPCODES, Recipe, WeightFormat, read_cache_formats, read_recipe
from hloom.quantization.smooth_quant import SEARCH, Smoothing, smooth
from hloom.quantization.weights import Exclusion, Weight, choose_weights
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A parameter that has a narrow type now, and the parameters that tell its meaning.

    Elements of a block of `blocks` share a scale. `uses` are the instructions that read it, by name.
    """

    name: str
    number: int
    type: TensorType
    quantized_type: TensorType
    blocks: tuple[int, ...]
    uses: tuple[str, ...]
    companions: Mapping[str, int]
    """The numbers of the further parameters: `scale`, and `zero_point` where there is one."""
    companion_types: Mapping[str, TensorType]
    format: WeightFormat

    @property
    def bytes_before(self) -> int:
        return leaf_bytes(self.type)

    @property
    def bytes_after(self) -> int:
        return leaf_bytes(self.quantized_type) + sum(map(leaf_bytes, self.companion_types.values()))


@dataclass(frozen=True, slots=True)
class Quantization:
    """A quantised program.

    `module` takes what the original took, weights in their narrow types, and after it the scales (and zero points):
    `convert` makes these of the original's. `exclusions` says what the recipe means and leaves, and why. `stops` are
    the instructions that derivatives take as constants: `hloom.grad(module, stop=stops)`.
    """

    module: Module
    original: Module
    recipe: Recipe
    weights: tuple[QuantizedWeight, ...]
    exclusions: tuple[Exclusion, ...]
    caches: tuple[QuantizedCache, ...] = ()
    stops: tuple[str, ...] = ()
    smoothing: Smoothing | None = None
    rounders: Mapping[int, Callable[[QuantizedWeight, np.ndarray, QuantizedArray], QuantizedArray]] = field(
        default_factory=dict
    )
    """By a weight's number what rounds it otherwise than to the nearest."""

    @property
    def base(self) -> Module:
        """What is quantised: the original, or what smoothing made of it."""
        return self.original if self.smoothing is None else self.smoothing.module

    def base_arrays(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays that `base` takes, of the original's."""
        return list(arrays) if self.smoothing is None else self.smoothing.convert(arrays)

    def convert(self, arrays: Mapping[str, Any] | Sequence[Any]) -> Any:
        """The quantised program's arrays, of the original's.

        A sequence holds all inputs of the original in order, and all of the quantised program's are returned. A mapping
        may hold any of them, by parameters' names, numbers or paths (`params.layers.w`), the weights among them: they
        are converted, with `NAME.scale` beside NAME, and the others stay. Raises HloomError for a weight that is
        missing, of another shape or type, or not finite.
        """
        if isinstance(arrays, Mapping):
            return self._convert_by_name(arrays)
        given = list(arrays)
        if len(given) != len(self.original.entry.parameters):
            raise HloomError(f"the program takes {len(self.original.entry.parameters)} arrays, {len(given)} are given")
        base = self.base_arrays(given)
        result = [*base, *([None] * (len(self.module.entry.parameters) - len(base)))]
        for weight in (*self.weights, *self.caches):
            if weight.number is None:
                continue
            made = self.quantized(weight, base[weight.number])
            result[weight.number] = made.values
            for name, number in weight.companions.items():
                result[number] = companion_of(made, name)
        return result

    def restored(self, outputs: Sequence[Any]) -> list[Any]:
        """The original's outputs, of the quantised program's: caches are dequantised, scales left out."""
        result = list(outputs)
        gone: set[int] = set()
        for cache in self.caches:
            if cache.output is None:
                continue
            scale = np.asarray(outputs[cache.output_companions[SCALE]])
            held = QuantizedArray(np.asarray(outputs[cache.output]), scale, None, cache.blocks)
            result[cache.output] = held.dequantized(cache.type.dtype.numpy)
            gone.update(cache.output_companions.values())
        return [array for number, array in enumerate(result) if number not in gone]

    def carried(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The quantised program's arrays of a next step: those given, with the caches that a step left in `outputs`."""
        result = list(arrays)
        for cache in self.caches:
            if cache.number is None or cache.output is None:
                continue
            result[cache.number] = outputs[cache.output]
            for name, number in cache.companions.items():
                result[number] = outputs[cache.output_companions[name]]
        return result

    def quantized(self, weight: QuantizedWeight | QuantizedCache, array: Any) -> QuantizedArray:
        """One weight's array, or a cache's, as `base` takes it, in its narrow type."""
        values = checked_weight(weight, array)
        nearest = quantize_array(
            values,
            weight.format.number_format,
            weight.blocks,
            is_symmetric=self.recipe.is_symmetric or isinstance(weight, QuantizedCache),
            name=weight.name,
        )
        if isinstance(weight, QuantizedCache):
            return nearest
        rounder = self.rounders.get(weight.number)
        return nearest if rounder is None else rounder(weight, values, nearest)

    def dequantized(self, arrays: Sequence[Any]) -> list[Any]:
        """The inputs of `base` with weights that are what the quantised program computes with."""
        result = self.base_arrays(arrays)
        for weight in (*self.weights, *self.caches):
            if weight.number is not None:
                made = self.quantized(weight, result[weight.number])
                result[weight.number] = made.dequantized(weight.type.dtype.numpy)
        return result

    def _convert_by_name(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        names = ParameterNames(self.original.entry.parameters)
        weights = {weight.number: weight for weight in (*self.weights, *self.caches) if weight.number is not None}
        result: dict[str, Any] = {}
        converted: dict[int, str] = {}
        for key, array in arrays.items():
            parameter = names.get(key)
            if parameter is not None and self.smoothing is not None:
                array = self.smoothing.scaled(parameter.number, array)
            weight = None if parameter is None else weights.get(parameter.number)
            if weight is None:
                result[key] = array
                continue
            assert weight.number is not None, "it is a parameter"
            if weight.number in converted:
                raise HloomError(f"'{converted[weight.number]}' and '{key}' both name the parameter {weight.name}")
            converted[weight.number] = key
            made = self.quantized(weight, array)
            result[key] = made.values
            for name in weight.companions:
                result[f"{key}.{name}"] = companion_of(made, name)
        missing = [weight.name for weight in self.weights if weight.number not in converted]
        if missing:
            raise HloomError(
                f"there is no array for {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}",
                hint=f"arrays are named as parameters are, or by their paths; there are {', '.join([*arrays][:5])}",
            )
        if self.smoothing is not None:
            result |= dict(self.smoothing.added)
        return result


def quantize(
    module: Module,
    weights: str | Mapping[str, str] | None = "int8",
    *,
    cache: str | Mapping[str, str] | None = None,
    per: str | None = None,
    group: int | None = None,
    symmetric: bool = True,
    opcodes: Sequence[str] = OPCODES,
    scope: str | None = None,
    only: Sequence[str | int] | None = None,
    least: int = 0,
    activations: str | None = None,
    calibration: Sequence[Sequence[Any]] = (),
    clipping: str = "minmax",
    percentile: float = PERCENTILE,
    smoothing: float | str | None = None,
    straight_through: bool = False,
) -> Quantization:
    """A program whose weights come in a narrow type and are dequantised where they are used.

    `weights` is the format: int8, int4, int2, e4m3, e5m2, or with blocks of 32 that share a power of two mxfp8, mxfp4,
    mxint8; or that of every weight that is to be quantised, by name. Scales are `per` tensor, channel (of what is
    summed up for one element of the result; if nothing is said) or group (of `group` of these; also int4:64). Quantised
    are the weights of instructions of `opcodes` whose op_name `scope`, a regular expression, is found in, of `least`
    elements or more; or `only` those named. With `activations`, dots and convolutions are of integers: activations are
    quantised to s8 by their range in the program, per row ("dynamic"), or by that which they have on the inputs of
    `calibration`, a list of the arrays of each run ("static"): `clipping` takes the greatest magnitude ("minmax"), a
    "percentile", or that of the least squared error ("mse"). With `smoothing` outliers of activations migrate into
    weights by SmoothQuant: an alpha from 0 to 1, or "search" for every activation's best, on the inputs of
    `calibration`. With `straight_through` a product of integers is written as the original's plus what quantisation
    adds, and `stops` names that, for `hloom.grad`.
    Raises HloomError where there is nothing to quantise, where it is not clear what is a weight, and for elided
    constants.

    >>> import hloom
    >>> layer = hloom.parse('''ENTRY layer {
    ...   x = f32[2,64] parameter(0)
    ...   h = f32[2,64] tanh(x)
    ...   w = f32[64,8] parameter(1)
    ...   ROOT y = f32[2,8] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ... }''')
    >>> quantized = hloom.quantize(layer)
    >>> [f"{p.name}: {p.type}" for p in quantized.module.entry.parameters]
    ['x: f32[2,64]', 'w: s8[64,8]', 'w.scale: f32[1,8]']
    """
    if weights is None and (cache is None or activations is not None):
        raise HloomError("no weights are to be quantised" + (": activations are with them" if activations else ""))
    caches = None if cache is None else read_cache_formats(cache)
    recipe = read_recipe(
        "int8" if weights is None else weights,
        per=per,
        group=group,
        symmetric=symmetric,
        opcodes=opcodes,
        scope=scope,
        only=only,
        least=least,
        activations=activations,
    )
    if clipping not in CLIPPINGS:
        raise HloomError(f"ranges are not chosen by '{clipping}'", hint=f"there are {', '.join(CLIPPINGS)}")
    if not 0 < percentile <= 100:
        raise HloomError(f"{percentile} is no percentile", hint="give a number above 0, and up to 100")
    if straight_through and activations is None:
        raise HloomError(
            "straight_through is for products of integers: dequantised weights have derivatives as they are",
            hint="activations='dynamic'",
        )
    alpha = _alpha(smoothing, activations, calibration)
    if calibration and activations != "static" and smoothing is None:
        raise HloomError("inputs are measured for static activations, and for smoothing", hint="activations='static'")
    check_program(module)
    smoothed = None if smoothing is None else _smooth(module, recipe, calibration, alpha)
    original, module = module, module if smoothed is None else smoothed.module
    if smoothed is not None:
        calibration = [smoothed.convert(arrays) for arrays in calibration]
    copy = module.clone()
    canonicalize_in_place(copy)
    former = tuple(copy.entry.parameters)
    held, exclusions = ([], []) if caches is None else narrow_caches(copy, caches)
    chosen: list[Weight] = []
    if weights is not None:
        chosen, reasons = choose_weights(copy, recipe)
        exclusions = [*exclusions, *_without(reasons, held)]
    if not chosen and weights is not None:
        why = f"; {exclusions[0].name}: {exclusions[0].reason}" if exclusions else ""
        raise HloomError(
            f"{module.name} has no weight to quantise{why}",
            hint=f"weights are parameters that a {', '.join(recipe.opcodes)} reads",
        )
    _check_donations(copy, chosen)
    before = canonicalize(module) if activations == "static" else None
    stops: tuple[str, ...] = ()
    made, dequantized = _narrow(chosen, recipe) if chosen else ([], {})
    if activations is not None:
        named = {use.node.name for weight in chosen if recipe.names(weight.parameter) for use in weight.uses}
        products, reasons = _integer_products(copy, recipe, dequantized, named)
        clips: list[float | None] = [None] * len(products)
        if before is not None:
            keys = [(p.node.graph.name, p.node.name, p.activation_index) for p in products]
            histograms = calibrate(before, keys, calibration)
            clips = [histograms[key].clip(clipping, LARGEST, percentile) for key in keys]
        maximum = add_maximum(copy)
        for product, clip in zip(products, clips, strict=True):
            added = write_integer_product(product, clip, maximum, straight_through=straight_through)
            stops += () if added is None else (added,)
        dce(copy)
        exclusions += reasons
    write_entry_layout(copy, former)
    copy.attributes = copy.attributes.changed(is_scheduled=None)
    verify(copy)
    if smoothed is not None:
        exclusions += smoothed.exclusions
    return Quantization(copy, original, recipe, tuple(made), tuple(exclusions), tuple(held), stops, smoothed)


def _without(exclusions: Sequence[Exclusion], caches: Sequence[QuantizedCache]) -> list[Exclusion]:
    """Why weights are left, without what is a cache and the dots that read one."""
    known = {name for cache in caches for name in (cache.name, *cache.uses, *(f"{cache.name}.{c}" for c in (SCALE,)))}
    return [exclusion for exclusion in exclusions if exclusion.name not in known]


def _alpha(smoothing: float | str | None, activations: str | None, calibration: Sequence[Any]) -> float | None:
    """The alpha that is given, None where it is searched; raises HloomError for what makes no sense."""
    if smoothing is None:
        return None
    if activations is None:
        raise HloomError("smoothing is for products of integers: weights alone need none", hint="activations='static'")
    if not calibration:
        raise HloomError("smoothing needs inputs to measure activations on", hint="calibration=[arrays, ...]")
    if isinstance(smoothing, str):
        if smoothing != SEARCH:
            raise HloomError(f"'{smoothing}' is no smoothing", hint="give a number from 0 to 1, or 'search'")
        return None
    if not 0 <= smoothing <= 1:
        raise HloomError(f"{smoothing} is no alpha of smoothing", hint="give a number from 0 to 1, or 'search'")
    return float(smoothing)


def _smooth(module: Module, recipe: Recipe, calibration: Sequence[Sequence[Any]], alpha: float | None) -> Smoothing:
    """Smooth what the recipe's dots read; a search looks for the least error with this recipe."""
    weights, _ = choose_weights(canonicalize(module), recipe)
    formats = {weight.parameter.number: weight.format for weight in weights}

    def error(measured: np.ndarray, rows: np.ndarray, weight: np.ndarray, number: int) -> float:
        per_row = recipe.activations == "dynamic"
        greatest = (
            np.abs(rows).max(axis=1, keepdims=True, initial=0.0) if per_row else np.abs(measured).max(initial=0.0)
        )
        form = formats[number]
        blocks = (max(len(weight), 1), max(weight.shape[1], 1) if form.granularity == "tensor" else 1)
        made = quantize_array(weight, form.number_format, blocks).dequantized(np.dtype(np.float64))
        return float(np.sum((_stepped(rows, greatest) @ made - rows @ weight) ** 2))

    return smooth(
        module,
        [weight.parameter.number for weight in weights],
        calibration,
        alpha,
        error,
        folds_into_weights=all(form.granularity != "tensor" for form in formats.values()),
    )


def _stepped(rows: np.ndarray, greatest: np.ndarray | float) -> np.ndarray:
    """Rows of activations rounded to integers of a range, and back."""
    step = np.where(greatest > 0, greatest, 1) / LARGEST
    return np.clip(np.rint(rows / step), -LARGEST, LARGEST) * step


def check_program(module: Module, what: str = "quantised") -> None:
    """Raise HloomError for what is not whole: fragments, and constants whose values a text left out."""
    gaps = verify(module).unresolved
    if gaps:
        raise HloomError(f"{module.name} is a fragment, and cannot be {what}: the {gaps[0]} is not known")
    for node in module.nodes():
        if isinstance(node, Constant) and isinstance(node.value, Literal) and node.value.is_elided:
            raise HloomError(
                f"{node.name} in {node.graph.name} is an elided constant: its values are not known",
                hint="dump with --xla_dump_large_constants, or print_large_constants in XLA's print options",
            )


def checked_weight(weight: QuantizedWeight | QuantizedCache, array: Any) -> np.ndarray:
    """A weight's array; raises HloomError where it is of another shape or type."""
    values = np.asarray(array)
    if values.shape != weight.type.dims or values.dtype != weight.type.dtype.numpy:
        raise HloomError(
            f"{weight.name} is {values.dtype}[{','.join(map(str, values.shape))}], the program takes {weight.type}"
        )
    return values


def companion_of(array: QuantizedArray, name: str) -> np.ndarray:
    """The scales of a quantised array, or its zero points."""
    companion = array.scale if name == SCALE else array.zero
    assert companion is not None, "asymmetric arrays have zero points"
    return companion


def _check_donations(module: Module, weights: Sequence[Weight]) -> None:
    """Raise HloomError where a weight's buffer is that of an output: the program updates it."""
    by_number = {weight.parameter.number: weight for weight in weights}
    for alias in module.attributes.get("input_output_alias") or ():
        weight = by_number.get(getattr(alias, "parameter", -1))
        if weight is not None:
            raise HloomError(
                f"{weight.name} shares its buffer with an output: the program updates it, in its own type",
                hint="quantise the program that only reads it",
            )


def _integer_products(
    module: Module, recipe: Recipe, dequantized: Mapping[Node, QuantizedValue], named: Container[str]
) -> tuple[list[Product], list[Exclusion]]:
    """The products that can be of integers, and why others that the recipe means cannot.

    `named` are those that it means by a weight's name. Raises HloomError where none can.
    """
    products: list[Product] = []
    reasons: list[Exclusion] = []
    for graph in module.graphs:
        for node in graph.nodes:
            if not isinstance(node, Apply) or node.opcode not in ("dot", "convolution"):
                continue
            if not recipe.chooses(node) and node.name not in named:
                continue
            product = product_of(node, dequantized)
            reason = None if product is None else reason_against(product)
            if reason is not None:
                reasons.append(Exclusion(node.name, f"its activation stays: {reason}"))
            elif product is not None:
                products.append(product)
    if not products:
        why = f"; {reasons[0].name}: {reasons[0].reason}" if reasons else ""
        raise HloomError(f"{module.name} has no product that can be of integers{why}")
    return products, reasons


def _narrow(weights: Sequence[Weight], recipe: Recipe) -> tuple[list[QuantizedWeight], dict[Node, QuantizedValue]]:
    """Give weights their narrow types, and dequantise them where they are used.

    All get their companions first: instructions are numbered once then.
    """
    made: list[QuantizedWeight] = []
    values: list[QuantizedValue] = []
    nodes = weights[0].parameter.graph.nodes
    first = next((node for node in nodes if not isinstance(node, Parameter)), None)
    for weight in weights:
        parameter, type_ = weight.parameter, weight.type.with_layout(None)
        shape = scale_dims(type_.dims, weight.blocks)
        wanted = {SCALE: (scale_type(weight.format, type_.dtype), shape)}
        if not recipe.is_symmetric:
            wanted[ZERO] = (weight.format.number_format.dtype, shape)
        companions = add_companions(parameter, weight.format.number_format.dtype, wanted, first)
        values.append(QuantizedValue(parameter, companions, dict.fromkeys(companions, weight.blocks), type_))
        made.append(
            QuantizedWeight(
                parameter.name,
                parameter.number,
                type_,
                weight.type,
                weight.blocks,
                tuple(dict.fromkeys(use.node.name for use in weight.uses)),
                {name: companion.number for name, companion in companions.items()},
                {name: array_type(companion) for name, companion in companions.items()},
                weight.format,
            )
        )
    dequantized: dict[Node, QuantizedValue] = {}
    for value in values:
        dequantized |= push_down(value)
    return made, dequantized


def scale_type(form: WeightFormat, element: DType) -> DType:
    """The element type of a weight's scales."""
    if form.number_format.is_block_scaled:
        return MX_SCALE
    return F64 if element is DTYPES["f64"] else F32
