"""What Paddle's ops take and yield: named slots of variables, and attributes. One line of `ops.toml` each.

`extras.toml` has the attributes that ops take at run time, which Paddle keeps apart from the others.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from hloom.dialects.paddle.protos import converted, natural_type
from hloom.rewrite import RuleError

REQUIRED = object()
"""The default of an attribute that must be given."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A named place for variables: whether it may be left out, takes several, and serves the gradient alone."""

    name: str
    optional: bool = False
    several: bool = False
    for_gradient: bool = False


@dataclass(frozen=True)
class Signature:
    """An op: its slots in order, and its attributes as (type, default)."""

    type: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    attributes: Mapping[str, tuple[str, Any]]

    @cached_property
    def usual_inputs(self) -> tuple[tuple[str, int], ...]:
        """The slots that cannot be left out, with one variable each."""
        return tuple((slot.name, 1) for slot in self.inputs if not slot.optional)

    @cached_property
    def usual_outputs(self) -> tuple[tuple[str, int], ...]:
        """The same of outputs."""
        return tuple((slot.name, 1) for slot in self.outputs if not slot.optional)

    def gradient_only(self, slot: str) -> bool:
        """Whether only the gradient op reads what stands in an output slot."""
        return any(output.name == slot and output.for_gradient for output in self.outputs)


_DECLARED: dict[str, Signature] = {}


def declare_op(
    type: str, inputs: str | Sequence[str], outputs: str | Sequence[str], attributes: Mapping[str, Any] | None = None
) -> None:
    """Make an op known that Paddle itself does not have, as loading a library of custom ops does in Paddle.

    Slots are names, `?` behind one that may be left out, `*` behind one that takes several variables; attributes are
    given with their defaults. Raises RuleError for an op that is known already and is another.
    """
    made = Signature(
        type,
        tuple(map(_slot, inputs.split() if isinstance(inputs, str) else inputs)),
        tuple(map(_slot, outputs.split() if isinstance(outputs, str) else outputs)),
        {name: (natural_type(value), _frozen(value)) for name, value in (attributes or {}).items()},
    )
    if _DECLARED.get(type, made) != made or type in _lines():
        raise RuleError(f"paddle has an op '{type}' already")
    _DECLARED[type] = made


def signature(type: str) -> Signature | None:
    """What is known of an op; None where nothing is."""
    return _DECLARED.get(type) or _built_in(type)


def is_extra(type: str, name: str) -> bool:
    """Whether an attribute is one that its op takes at run time; Paddle writes those before the others."""
    return type in _extras().get(name, ("", ()))[1]


def is_flag(type: str, name: str) -> bool:
    """Whether an attribute is a BOOLEAN, declared or taken at run time."""
    known = signature(type)
    if known is not None and name in known.attributes:
        return known.attributes[name][0] == "BOOLEAN"
    return is_extra(type, name) and _extras()[name][0] == "flag"


def known_types() -> list[str]:
    """The types of all ops that are known."""
    return [*_lines(), *_DECLARED]


@cache
def _lines() -> dict[str, list[str]]:
    return tomllib.loads(Path(__file__).with_name("ops.toml").read_text())


@cache
def _extras() -> dict[str, tuple[str, frozenset[str]]]:
    """Of each attribute that ops take at run time: whether it is a flag, and the ops."""
    lines = tomllib.loads(Path(__file__).with_name("extras.toml").read_text())
    return {name: (label, frozenset(types.split())) for name, (label, types) in lines.items()}


@cache
def _built_in(type: str) -> Signature | None:
    line = _lines().get(type)
    if line is None:
        return None
    inputs, outputs, attributes = line
    return Signature(
        type,
        tuple(map(_slot, inputs.split())),
        tuple(map(_slot, outputs.split())),
        {
            name: (attribute_type, _default(attribute_type, *rest))
            for name, attribute_type, *rest in json.loads(attributes)
        },
    )


def _slot(text: str) -> Slot:
    return Slot(text.rstrip("?*~"), "?" in text, "*" in text, "~" in text)


def _default(attribute_type: str, value: Any = REQUIRED) -> Any:
    return value if value is REQUIRED or value is None else converted(value, attribute_type)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
