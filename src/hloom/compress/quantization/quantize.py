"""`quantize`: turns weights into parameters of a narrow type."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from hloom.compress.quantization.arithmetic import scale_dims
from hloom.compress.quantization.calibration import calibrate
from hloom.compress.quantization.dequantization import add_companions, finish_program, push_down
from hloom.compress.quantization.insertion_point import first_instruction
from hloom.compress.quantization.integer_products import (
    Product,
    QuantizedActivation,
    product_of,
    reason_against,
    write_integer_product,
)
from hloom.compress.quantization.options import KeywordsOf, QuantizationOptions
from hloom.compress.quantization.quantization import Quantization, QuantizedWeight
from hloom.compress.quantization.quantized_cache import QuantizedCache, narrow_caches
from hloom.compress.quantization.quantized_value import SCALE, ZERO, QuantizedValue
from hloom.compress.quantization.recipe import Recipe, read_cache_formats, read_recipe
from hloom.compress.quantization.smoothing_recipe import smooth_for
from hloom.compress.quantization.weights import Exclusion, Weight, choose_weights
from hloom.ir import Apply, Module, ModuleLike, Node, as_module, verify
from hloom.ops import PRODUCTS
from hloom.passes import canonicalize, canonicalize_in_place, dce
from hloom.text import HloomError


@KeywordsOf(QuantizationOptions)
def quantize(module: ModuleLike, options: QuantizationOptions) -> Quantization:
    """A program whose weights come in a narrow type and are dequantised where they are used.

    `weights` is the format: int8, int4, int2, e4m3, e5m2, or with blocks of 32 that share a power of two mxfp8, mxfp4,
    mxint8; or a mapping from weights' names to formats. Scales are `per` tensor, channel (the elements summed up for
    one element of the result; the default) or group (of `group` of these; also int4:64). Quantised are the weights of
    instructions of `opcodes` whose op_name matches `scope`, a regular expression, with at least `least` elements; or
    `only` those named. With `activations`, dots and convolutions work on integers, or on fp8 if the weights do:
    activations are quantised to s8, or to the weight's e4m3 or e5m2, by their range in the program, per row
    ("dynamic"), or by their range on the inputs of `calibration`, a list of the arrays of each run ("static"):
    `clipping` uses the maximum magnitude ("minmax"), a "percentile", or the range of minimum squared error ("mse").
    With `smoothing`, outliers of activations migrate into weights by SmoothQuant: an alpha from 0 to 1, or "search" for
    the best one for each activation on the inputs of `calibration`. With `straight_through`, a product of integers is
    written as the original's plus the quantisation error, and `stops` names the latter, for `hloom.grad`. Raises
    HloomError if there is nothing to quantise, if weights cannot be identified, and for elided constants.

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
    return quantize_with(as_module(module), options)


def quantize_with(module: Module, options: QuantizationOptions) -> Quantization:
    """The same for options that are made already."""
    caches = None if options.cache is None else read_cache_formats(options.cache)
    recipe = read_recipe(options)
    check_program(module)
    smoothed = smooth_for(module, recipe, options)
    original, calibration = module, options.calibration
    if smoothed is not None:
        module, calibration = smoothed.module, [smoothed.convert(arrays) for arrays in calibration]
    copy = module.clone()
    canonicalize_in_place(copy)
    former = tuple(copy.entry.parameters)
    held, exclusions = ([], []) if caches is None else narrow_caches(copy, caches)
    chosen: list[Weight] = []
    if options.weights is not None:
        chosen, reasons = choose_weights(copy, recipe)
        exclusions = [*exclusions, *_without(reasons, held)]
        if not chosen:
            why = f"; {exclusions[0].name}: {exclusions[0].reason}" if exclusions else ""
            raise HloomError(
                f"{module.name} has no weight to quantise{why}",
                hint=f"weights are parameters that a {', '.join(recipe.opcodes)} reads",
            )
    _check_donations(copy, chosen)
    before = canonicalize(module) if options.activations == "static" else None
    stops: tuple[str, ...] = ()
    quantized: list[QuantizedActivation] = []
    made, dequantized = _narrow(chosen, recipe) if chosen else ([], {})
    if options.activations is not None:
        named = {use.node.name for weight in chosen if recipe.names(weight.parameter) for use in weight.uses}
        products, reasons = _integer_products(copy, recipe, dequantized, named)
        clips: list[float | None] = [None] * len(products)
        if before is not None:
            keys = [(p.node.graph.name, p.node.name, p.activation_index) for p in products]
            histograms = calibrate(before, keys, calibration)
            clips = [
                histograms[key].clip(options.clipping, product.activation_format, options.percentile)
                for key, product in zip(keys, products, strict=True)
            ]
        quantized = [product.quantized_activation(clip) for product, clip in zip(products, clips, strict=True)]
        for product, clip in zip(products, clips, strict=True):
            added = write_integer_product(product, clip, straight_through=options.straight_through)
            stops += () if added is None else (added,)
        dce(copy)
        exclusions += reasons
    finish_program(copy, former)
    if smoothed is not None:
        exclusions += smoothed.exclusions
    return Quantization(
        copy,
        original,
        recipe,
        tuple(made),
        tuple(exclusions),
        tuple(held),
        stops,
        smoothed,
        tuple(quantized),
    )


def _without(exclusions: Sequence[Exclusion], caches: Sequence[QuantizedCache]) -> list[Exclusion]:
    """Why weights are left, without what is a cache and the dots that read one."""
    known = {name for cache in caches for name in (cache.name, *cache.uses, *(f"{cache.name}.{c}" for c in (SCALE,)))}
    return [exclusion for exclusion in exclusions if exclusion.name not in known]


def check_program(module: Module, what: str = "quantised") -> None:
    """Raise HloomError for what is not whole: fragments, and constants whose values a text left out."""
    gaps = verify(module).unresolved
    if gaps:
        raise HloomError(f"{module.name} is a fragment, and cannot be {what}: the {gaps[0]} is not known")
    for node in module.nodes():
        if node.literal is not None and node.literal.is_elided:
            raise HloomError(
                f"{node.name} in {node.graph.name} is an elided constant: its values are not known",
                hint="dump with --xla_dump_large_constants, or print_large_constants in XLA's print options",
            )


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
    """The products that can be of narrow types, and why others that the recipe means cannot.

    `named` are those that it means by a weight's name. Raises HloomError where none can.
    """
    products: list[Product] = []
    reasons: list[Exclusion] = []
    for graph in module.graphs:
        for node in graph.nodes:
            if not isinstance(node, Apply) or node.opcode not in PRODUCTS:
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
        raise HloomError(f"{module.name} has no product that can be of narrow types{why}")
    return products, reasons


def _narrow(weights: Sequence[Weight], recipe: Recipe) -> tuple[list[QuantizedWeight], dict[Node, QuantizedValue]]:
    """Give weights their narrow types, and dequantise them where they are used.

    All get their companions first: instructions are numbered once then.
    """
    made: list[QuantizedWeight] = []
    values: list[QuantizedValue] = []
    first = first_instruction(weights[0].parameter.graph)
    for weight in weights:
        parameter, type_ = weight.parameter, weight.type.with_layout(None)
        shape = scale_dims(type_.dims, weight.blocks)
        wanted = {SCALE: (weight.format.number_format.scale_type(type_.dtype), shape)}
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
                {name: companion.array_type for name, companion in companions.items()},
                weight.format,
                weight.summed_count,
            )
        )
    dequantized: dict[Node, QuantizedValue] = {}
    for value in values:
        dequantized |= push_down(value)
    return made, dequantized
