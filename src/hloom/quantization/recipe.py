"""What is to be quantised, and how: checked once, before anything is looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hloom.ir import Node
from hloom.quantization.formats import MX_GROUP, NumberFormat, number_format
from hloom.text import HloomError

OPCODES = ("dot", "convolution", "gather")
"""The instructions whose weights may be quantised."""
ACTIVATIONS = ("dynamic", "static")
"""When the range of activations is known: as the program runs, or before, from inputs."""
GRANULARITIES = ("tensor", "channel", "group")
"""What shares a scale: a whole weight, what is summed up for one element of the result, or so many elements of that."""


@dataclass(frozen=True, slots=True)
class WeightSelection:
    """Which weights are meant.

    `weights` are parameters' names or numbers, where not all are meant; `scope` is searched in the instructions'
    op_names; weights of fewer than `least` elements are left.
    """

    opcodes: tuple[str, ...]
    scope: re.Pattern[str] | None
    weights: tuple[str | int, ...] | None
    least: int

    def chooses(self, node: Node) -> bool:
        """Whether the weights of an instruction are meant."""
        if node.opcode not in self.opcodes:
            return False
        return self.scope is None or self.scope.search(_op_name(node)) is not None


@dataclass(frozen=True, slots=True)
class Recipe(WeightSelection):
    """How weights are quantised, and which.

    `group` is how many elements along the contraction share a scale, where `granularity` is `group`. `activations` says
    when the range of activations is known, where products are to be of integers.
    """

    number_format: NumberFormat
    granularity: str
    group: int | None
    is_symmetric: bool
    activations: str | None


def read_selection(
    opcodes: Sequence[str] = OPCODES,
    scope: str | None = None,
    only: Sequence[str | int] | None = None,
    least: int = 0,
    *,
    what: str = "quantised",
) -> WeightSelection:
    """The selection that a user's options say; raises HloomError for what makes none."""
    unknown = [opcode for opcode in opcodes if opcode not in OPCODES]
    if unknown or not opcodes:
        raise HloomError(
            f"weights of {unknown[0]} cannot be {what}" if unknown else "no opcode is given",
            hint=f"those of {', '.join(OPCODES)} can",
        )
    return WeightSelection(tuple(opcodes), _pattern(scope), None if only is None else tuple(only), max(least, 0))


def read_recipe(
    weights: str,
    *,
    per: str = "channel",
    group: int | None = None,
    symmetric: bool = True,
    opcodes: Sequence[str] = OPCODES,
    scope: str | None = None,
    only: Sequence[str | int] | None = None,
    least: int = 0,
    activations: str | None = None,
) -> Recipe:
    """The recipe that a user's options say; raises HloomError for what makes none."""
    chosen = number_format(weights)
    if chosen.is_block_scaled:
        if group not in (None, MX_GROUP):
            raise HloomError(f"{chosen} has groups of {MX_GROUP} elements, not of {group}")
        per, group = "group", MX_GROUP
    if per not in GRANULARITIES:
        raise HloomError(f"there are no scales per '{per}'", hint=f"scales are per {', '.join(GRANULARITIES)}")
    if (per == "group") != (group is not None):
        raise HloomError(
            "scales per group need the size of a group" if group is None else f"group={group} is for scales per group",
            hint="per='group', group=64",
        )
    if group is not None and group < 1:
        raise HloomError(f"a group cannot have {group} elements", hint="give a size from 1 on")
    if not symmetric and (not chosen.is_integer or chosen.is_block_scaled):
        raise HloomError(f"{chosen} is symmetric about zero: it has no zero points", hint="int8 and int4 may have")
    selection = read_selection(opcodes, scope, only, least)
    if activations is not None:
        _check_activations(activations, chosen, per, symmetric)
    return Recipe(
        selection.opcodes,
        selection.scope,
        selection.weights,
        selection.least,
        chosen,
        per,
        group,
        symmetric,
        activations,
    )


def _check_activations(activations: str, chosen: NumberFormat, per: str, symmetric: bool) -> None:
    if activations not in ACTIVATIONS:
        raise HloomError(
            f"activations cannot be quantised as '{activations}'", hint=f"there are {', '.join(ACTIVATIONS)}"
        )
    if not chosen.is_integer or chosen.is_block_scaled or per == "group" or not symmetric:
        raise HloomError(
            "products of integers need weights that are integers, symmetric, with scales per tensor or channel",
            hint="leave activations out to quantise the weights alone",
        )


def _pattern(scope: str | None) -> re.Pattern[str] | None:
    try:
        return None if scope is None else re.compile(scope)
    except re.error as error:
        raise HloomError(f"'{scope}' is no regular expression: {error}") from None


def _op_name(node: Node) -> str:
    return (node.metadata.op_name if node.metadata is not None else None) or ""
