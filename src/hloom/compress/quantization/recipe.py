"""What to quantise and how; checked once, up front."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hloom.compress.quantization.formats import MX_GROUP, NumberFormat, number_format
from hloom.compress.quantization.options import (
    ACTIVATIONS,
    FORMAT,
    GRANULARITIES,
    OPCODES,
    QuantizationOptions,
    SelectionOptions,
)
from hloom.compress.quantization.parameter_names import names_of
from hloom.ir import Node, Parameter
from hloom.text import HloomError, ParseError, RegularExpression, compile_pattern

_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class WeightSelection:
    """Which weights are meant.

    `weights` are parameters' names or numbers, if not all are meant; `scope` is matched against the instructions'
    op_names and the parameters' names; weights with fewer than `least` elements are skipped.
    """

    opcodes: tuple[str, ...]
    scope: RegularExpression | None
    weights: tuple[str | int, ...] | None
    least: int

    def chooses(self, node: Node, weight: Parameter | None = None) -> bool:
        """Whether a weight of an instruction is meant, or any of its weights."""
        if node.opcode not in self.opcodes:
            return False
        return self.scope is None or self.scope.search(_op_name(node)) or self.names(weight)

    def names(self, weight: Parameter | None) -> bool:
        """Whether the scope is in a name of a weight."""
        scope = self.scope
        return scope is not None and weight is not None and any(scope.search(name) for name in names_of(weight))


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How a weight is stored; `group` is how many elements along the contraction share a scale, per group.

    As text `int8`, or `int4:32` with groups of 32.
    """

    number_format: NumberFormat
    granularity: str
    group: int | None

    def __str__(self) -> str:
        is_plain = self.group is None or self.number_format.is_block_scaled
        return self.number_format.name if is_plain else f"{self.number_format}:{self.group}"


@dataclass(frozen=True, slots=True)
class Recipe(WeightSelection):
    """Which weights to quantise, and how.

    `format` applies to all weights except those in `by_weight`. `activations` says when the range of activations is
    known, if products use narrow types.
    """

    format: WeightFormat
    by_weight: tuple[tuple[str, WeightFormat], ...]
    is_symmetric: bool
    activations: str | None

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(map(str, [one for _, one in self.by_weight] or [self.format])))


def read_selection(options: SelectionOptions, what: str = "quantised") -> WeightSelection:
    """The selection that a user's options say; raises HloomError for what makes none."""
    opcodes, only = options.opcodes, options.only
    unknown = [opcode for opcode in opcodes if opcode not in OPCODES]
    if unknown or not opcodes:
        raise HloomError(
            f"weights of {unknown[0]} cannot be {what}" if unknown else "no opcode is given",
            hint=f"those of {', '.join(OPCODES)} can",
        )
    named = None if only is None else tuple(only)
    return WeightSelection(tuple(opcodes), _pattern(options.scope), named, max(options.least, 0))


def read_recipe(options: QuantizationOptions) -> Recipe:
    """The recipe that a user's options say; raises HloomError for what makes none.

    `per` is channel where nothing is said, and group where a size is.
    """
    weights = FORMAT if options.weights is None else options.weights
    by_weight: dict[str, WeightFormat] = {}
    if isinstance(weights, str):
        formats = [_read_format(weights, options)]
    else:
        if options.only is not None or not weights:
            raise HloomError(
                "weights are named with their formats, and in only= again" if weights else "no weight is named",
                hint="weights={'up': 'int8', 'down': 'int4:32'}",
            )
        by_weight = {name: _read_format(text, options) for name, text in weights.items()}
        formats, options = [*by_weight.values()], replace(options, only=[*by_weight])
    selection = read_selection(options)
    if options.activations is not None:
        for one in formats:
            _check_activations(options.activations, one, options.symmetric)
    return Recipe(
        selection.opcodes,
        selection.scope,
        selection.weights,
        selection.least,
        formats[0],
        tuple(by_weight.items()),
        options.symmetric,
        options.activations,
    )


def _read_format(text: str, options: QuantizationOptions) -> WeightFormat:
    return read_format(text, options.per, options.group, is_symmetric=options.symmetric)


def read_cache_formats(cache: str | Mapping[str, str]) -> WeightFormat | dict[str, WeightFormat]:
    """The format of all caches, or that of those named; raises HloomError for what makes none."""
    if not isinstance(cache, str):
        return {name: read_format(text, None, None, is_symmetric=True) for name, text in cache.items()}
    return read_format(cache, None, None, is_symmetric=True)


def read_format(text: str, per: str | None, group: int | None, *, is_symmetric: bool) -> WeightFormat:
    """A format, `int4:32` with its group; raises HloomError for what makes none."""
    name, colon, size = text.partition(":")
    chosen = number_format(name)
    if colon:
        if not size.isdecimal() or len(size) > _MOST_DIGITS:
            raise HloomError(f"'{text}' has no group size after the colon", hint=f"{name}:64")
        group = int(size)
    if chosen.is_block_scaled:
        if group not in (None, MX_GROUP):
            raise HloomError(f"{chosen} has groups of {MX_GROUP} elements, not of {group}")
        if not is_symmetric:
            raise HloomError(f"{chosen} is symmetric about zero: it has no zero points", hint="int8 and int4 may have")
        return WeightFormat(chosen, "group", MX_GROUP)
    per = per or ("channel" if group is None else "group")
    if colon:
        per = "group"
    if per not in GRANULARITIES:
        raise HloomError(f"there are no scales per '{per}'", hint=f"scales are per {', '.join(GRANULARITIES)}")
    if (per == "group") != (group is not None):
        raise HloomError(
            "scales per group need the size of a group" if group is None else f"group={group} is for scales per group",
            hint="per='group', group=64, or --group 64",
        )
    if group is not None and group < 1:
        raise HloomError(f"a group cannot have {group} elements", hint="give a size from 1 on")
    if not is_symmetric and not chosen.is_integer:
        raise HloomError(f"{chosen} is symmetric about zero: it has no zero points", hint="int8 and int4 may have")
    return WeightFormat(chosen, per, group)


def _check_activations(activations: str, chosen: WeightFormat, symmetric: bool) -> None:
    if activations not in ACTIVATIONS:
        raise HloomError(
            f"activations cannot be quantised as '{activations}'", hint=f"there are {', '.join(ACTIVATIONS)}"
        )
    if chosen.number_format.is_block_scaled or chosen.granularity == "group" or not symmetric:
        raise HloomError(
            "products of narrow types need weights that are integers or fp8, symmetric, with scales per tensor or "
            "channel",
            hint="leave activations out to quantise the weights alone",
        )


def _pattern(scope: str | None) -> RegularExpression | None:
    if scope is None:
        return None
    try:
        return compile_pattern(scope)
    except ParseError as error:
        raise HloomError(f"'{scope[:100]}' is not a regular expression: {error.message}") from None


def _op_name(node: Node) -> str:
    return (node.metadata.op_name if node.metadata is not None else None) or ""
