"""Some elements of a tuple: types, shardings, and backend configurations that index elements.

The configuration is WhileLoopBackendConfig of XLA's xla/xla_data.proto.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from hloom.ir import Apply, Attributes, Node, Sharding, TupleSharding, TupleType, Type

_INDEX, _INDICES = "tuple_index", "dynamic_variable_tuple_indices"
_LOST = ("origin", "statistics")
_ORIGIN_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[(){},]')


def elements_of(value_type: Type | None) -> tuple[Type, ...] | None:
    """The element types of a tuple type; None for others."""
    return value_type.elements if isinstance(value_type, TupleType) else None


def only_elements(node: Node) -> set[int] | None:
    """The numbers of a tuple's elements that are used; None where something uses it whole."""
    if node.is_output or any(user.opcode != "get-tuple-element" or user.operands[0] is not node for user in node.users):
        return None
    return {user.attributes["index"] for user in node.users}


def select_sharding(sharding: Sharding | None, tuple_type: TupleType, kept: Sequence[int]) -> Sharding | None:
    """The sharding of a tuple of some of the elements; numbers beyond the old elements are left unsharded."""
    if not isinstance(sharding, TupleSharding):
        return sharding
    if not kept:
        return None
    starts = [0]
    for element in tuple_type.elements:
        starts.append(starts[-1] + len(list(element.leaves())))
    if len(sharding.elements) != starts[-1]:
        return None
    return TupleSharding(tuple(leaf for index in kept for leaf in sharding.elements[starts[index] : starts[index + 1]]))


def select_attributes(attributes: Attributes, value_type: Type | None, kept: Sequence[int]) -> dict[str, Any]:
    """The attributes of what yields a tuple, when it yields only some of the elements, in this order."""
    selected = {name: value for name, value in attributes.items() if name not in _LOST}
    if "sharding" in selected and isinstance(value_type, TupleType):
        selected["sharding"] = select_sharding(selected["sharding"], value_type, kept)
    if "backend_config" in selected:
        selected["backend_config"] = select_configuration(selected["backend_config"], kept)
    return {name: value for name, value in selected.items() if value is not None}


def select_origin(origin: object, count: int, kept: Sequence[int]) -> str | None:
    """Of where the `count` elements of a tuple come from, what it says of some; None where that cannot be told."""
    parts = _origin_parts(origin)
    return f"{{({', '.join(parts[index] for index in kept)})}}" if len(parts) == count else None


def element_origin(origin: object) -> str | None:
    """Where the only element of a tuple comes from; None where that cannot be told, or is said of nothing."""
    parts = _origin_parts(origin)
    return f"{{{parts[0]}}}" if len(parts) == 1 and parts[0] != "{}" else None


def _origin_parts(origin: object) -> list[str]:
    """What `origin={({"a"}, {"b"})}` says of the elements of a tuple; empty where it says something else."""
    if not isinstance(origin, str) or not (origin.startswith("{(") and origin.endswith(")}")):
        return []
    parts, depth, start = list[str](), 0, 2
    for match in _ORIGIN_TOKEN.finditer(origin, 2, len(origin) - 2):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(match[0], 0)
        if match[0] == "," and not depth:
            parts.append(origin[start : match.start()].strip())
            start = match.end()
    return [*parts, origin[start:-2].strip()]


def select_configuration(text: Any, kept: Sequence[int]) -> str | None:
    """A loop's backend configuration, its elements numbered anew; None where it cannot be told what it says."""
    if not isinstance(text, str) or "tuple_ind" not in text:
        return text
    try:
        configuration = json.loads(text)
    except ValueError:
        return None
    configuration = _renumbered(configuration, {old: position for position, old in enumerate(kept)})
    return json.dumps(configuration, separators=(",", ":")) if configuration else None


def _renumbered(value: Any, positions: dict[int, int]) -> Any:
    """A JSON value whose objects name elements by `tuple_index`; None for one that names an element that is gone."""
    if isinstance(value, list):
        return [renumbered for renumbered in (_renumbered(part, positions) for part in value) if renumbered is not None]
    if not isinstance(value, dict):
        return value
    parts: dict[str, Any] = {}
    for name, part in value.items():
        if name == _INDEX and int(part) not in positions:
            return None
        if name == _INDEX:
            part = type(part)(positions[int(part)])
        elif name == _INDICES:
            part = [type(index)(positions[int(index)]) for index in part if int(index) in positions]
        else:
            part = _renumbered(part, positions)
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


def with_trip_count(attributes: Attributes, count: int | None, step: int = 1) -> Attributes:
    """A loop's attributes when it runs `count` times, the counter's steps being `step` times what they were."""
    text = attributes.get("backend_config")
    if not isinstance(text, str) or "known_" not in text:
        return attributes
    try:
        configuration = json.loads(text)
    except ValueError:
        return attributes.changed(backend_config=None)
    if count is None:
        configuration.pop("known_trip_count", None)
        configuration.pop("known_init_step", None)
    else:
        if "known_trip_count" in configuration:
            configuration["known_trip_count"] = {"n": str(count)}
        known = configuration.get("known_init_step")
        if isinstance(known, dict) and "step" in known:
            known["step"] = str(int(known["step"]) * step)
    return attributes.changed(
        backend_config=json.dumps(configuration, separators=(",", ":")) if configuration else None
    )


def element_nodes(node: Node) -> dict[int, list[Apply]]:
    """The get-tuple-elements of a node, by number."""
    by_index: dict[int, list[Apply]] = {}
    for user in node.users:
        if isinstance(user, Apply) and user.opcode == "get-tuple-element":
            by_index.setdefault(user.attributes["index"], []).append(user)
    return by_index
