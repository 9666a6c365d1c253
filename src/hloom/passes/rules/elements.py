"""Tuples with some of their elements: types, shardings, and what a loop says of its elements by number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hloom.ir import Apply, Attributes, Node, TupleType, Type
from hloom.ir.sharding import Sharding, TupleSharding

_INDEX, _INDICES = "tuple_index", "dynamic_variable_tuple_indices"
_LOST = ("origin", "statistics")


def elements_of(kind: Type | None) -> tuple[Type, ...] | None:
    """The element types of a tuple type; None for others."""
    return kind.elements if isinstance(kind, TupleType) else None


def only_elements(node: Node) -> set[int] | None:
    """The numbers of a tuple's elements that are used; None where something uses it whole."""
    if node.is_output or any(user.opcode != "get-tuple-element" or user.inputs[0] is not node for user in node.users):
        return None
    return {user.attributes["index"] for user in node.users}


def select_sharding(sharding: Sharding | None, kind: TupleType, kept: Sequence[int]) -> Sharding | None:
    """The sharding of a tuple of some of the elements; numbers beyond the old elements are left unsharded."""
    if not isinstance(sharding, TupleSharding):
        return sharding
    starts = [0]
    for element in kind.elements:
        starts.append(starts[-1] + len(list(element.leaves())))
    if len(sharding.elements) != starts[-1]:
        return None
    return TupleSharding(tuple(leaf for place in kept for leaf in sharding.elements[starts[place] : starts[place + 1]]))


def select_attributes(attributes: Attributes, kind: Type | None, kept: Sequence[int]) -> dict[str, Any]:
    """The attributes of what yields a tuple, when it yields only some of the elements, in this order."""
    found = {name: value for name, value in attributes.items() if name not in _LOST}
    if "sharding" in found and isinstance(kind, TupleType):
        found["sharding"] = select_sharding(found["sharding"], kind, kept)
    if "backend_config" in found:
        found["backend_config"] = select_configuration(found["backend_config"], kept)
    return {name: value for name, value in found.items() if value is not None}


def select_configuration(text: Any, kept: Sequence[int]) -> str | None:
    """A loop's backend configuration, its elements numbered anew; None where it cannot be told what it says."""
    if not isinstance(text, str) or "tuple_ind" not in text:
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return None
    found = _renumbered(found, {old: place for place, old in enumerate(kept)})
    return json.dumps(found, separators=(",", ":")) if found else None


def _renumbered(value: Any, places: dict[int, int]) -> Any:
    """A JSON value whose objects name elements by `tuple_index`; None for one that names an element that is gone."""
    if isinstance(value, list):
        return [each for each in (_renumbered(part, places) for part in value) if each is not None]
    if not isinstance(value, dict):
        return value
    parts: dict[str, Any] = {}
    for name, part in value.items():
        if name == _INDEX and int(part) not in places:
            return None
        if name == _INDEX:
            part = type(part)(places[int(part)])
        elif name == _INDICES:
            part = [type(each)(places[int(each)]) for each in part if int(each) in places]
        else:
            part = _renumbered(part, places)
        if part is not None:
            parts[name] = part
    return parts


def written_trip_count(attributes: Attributes) -> int | None:
    """How often a loop runs, as its configuration says; None where it does not."""
    text = attributes.get("backend_config")
    if not isinstance(text, str) or "known_trip_count" not in text:
        return None
    try:
        return int(json.loads(text)["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        return None


def without_counts(attributes: Attributes) -> Attributes:
    """A loop's attributes without what its configuration says of how often it runs."""
    return with_trip_count(attributes, None)


def with_trip_count(attributes: Attributes, count: int | None, step: int = 1) -> Attributes:
    """A loop's attributes when it runs `count` times, the counter's steps being `step` times what they were."""
    text = attributes.get("backend_config")
    if not isinstance(text, str) or "known_" not in text:
        return attributes
    try:
        found = json.loads(text)
    except ValueError:
        return attributes.changed(backend_config=None)
    if count is None:
        found.pop("known_trip_count", None)
        found.pop("known_init_step", None)
    else:
        if "known_trip_count" in found:
            found["known_trip_count"] = {"n": str(count)}
        known = found.get("known_init_step")
        if isinstance(known, dict) and "step" in known:
            known["step"] = str(int(known["step"]) * step)
    return attributes.changed(backend_config=json.dumps(found, separators=(",", ":")) if found else None)


def element_nodes(node: Node) -> dict[int, list[Apply]]:
    """The get-tuple-elements of a node, by number."""
    found: dict[int, list[Apply]] = {}
    for user in node.users:
        if isinstance(user, Apply) and user.opcode == "get-tuple-element":
            found.setdefault(user.attributes["index"], []).append(user)
    return found
