"""Checks that an attribute's value has the Python type its kind requires; one row per kind.

To add a kind, add its row here and a reader and a writer in the package of each text format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from hloom.ir.attributes import Referent
from hloom.ir.literal import Literal
from hloom.ir.replica_groups import ExplicitGroups, IotaGroups, MeshGroups
from hloom.ir.schema import Attribute, AttributeKind
from hloom.ir.sharding import Maximal, MeshSharding, Tiled, TupleSharding, Uniform
from hloom.ir.types import Type
from hloom.ir.values import (
    ConvolutionDimensions,
    Domain,
    OutputAlias,
    PaddingDimension,
    ResultAccuracy,
    SliceDimension,
    Sparsity,
    Statistics,
    Verbatim,
    Window,
)

Check = Callable[[Any], bool]


def expected_type(attribute: Attribute, value: Any) -> str | None:
    """A description of the expected type if the value does not have it, else None."""
    check, wanted = CHECKS[attribute.kind]
    if not check(value):
        return wanted
    if attribute.choices and value not in attribute.choices:
        return f"one of {', '.join(attribute.choices)}"
    return None


def _one(*kinds: type) -> Check:
    """A value of exactly one of these classes: a bool is not an int."""
    return lambda value: type(value) in kinds


def _kind_of(class_: type) -> Check:
    return lambda value: isinstance(value, class_)


def _all(check: Check) -> Check:
    def check_all(value: Any) -> bool:
        return type(value) is tuple and all(map(check, cast("tuple[Any, ...]", value)))

    return check_all


def _is_graph(value: Any) -> bool:
    return isinstance(value, Referent) and value.is_graph


def _is_node(value: Any) -> bool:
    return isinstance(value, Referent) and not value.is_graph


def _is_text_pair(value: Any) -> bool:
    if type(value) is not tuple:
        return False
    parts = cast("tuple[Any, ...]", value)
    return len(parts) == 2 and all(isinstance(part, str) for part in parts)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


_INTEGER, _STRING, _BOOLEAN = _one(int), _one(str), _one(bool)
_K = AttributeKind

CHECKS: dict[AttributeKind, tuple[Check, str]] = {
    _K.INTEGER: (_INTEGER, "an int"),
    _K.BOOLEAN: (_BOOLEAN, "a bool"),
    _K.FLOAT: (_one(float, int), "a float"),
    _K.STRING: (_STRING, "a str"),
    _K.ENUM: (_STRING, "a str"),
    _K.INTEGERS: (_all(_INTEGER), "a tuple of ints"),
    _K.BOOLEANS: (_all(_BOOLEAN), "a tuple of bools"),
    _K.PAIRS: (_all(_all(_INTEGER)), "a tuple of tuples of ints"),
    _K.TYPE: (_kind_of(Type), "a Type"),
    _K.TYPES: (_all(_kind_of(Type)), "a tuple of Types"),
    _K.GRAPH: (_is_graph, "a Graph"),
    _K.GRAPHS: (_all(_is_graph), "a tuple of Graphs"),
    _K.NODES: (_all(_is_node), "a tuple of nodes"),
    _K.WINDOW: (_one(Window), "a Window"),
    _K.DIMENSION_LABELS: (_one(ConvolutionDimensions), "ConvolutionDimensions"),
    _K.PADDING: (_all(_one(PaddingDimension)), "a tuple of PaddingDimensions"),
    _K.SLICES: (_all(_one(SliceDimension)), "a tuple of SliceDimensions"),
    _K.PRECISIONS: (_all(_STRING), "a tuple of strs"),
    _K.REPLICA_GROUPS: (_one(ExplicitGroups, IotaGroups, MeshGroups), "ExplicitGroups, IotaGroups or MeshGroups"),
    _K.ALIASING: (_all(_one(OutputAlias)), "a tuple of OutputAliases"),
    _K.DOMAIN: (_one(Domain), "a Domain"),
    _K.SPARSITY: (_one(Sparsity), "a Sparsity"),
    _K.LITERAL: (_one(Literal), "a Literal"),
    _K.SHARDING: (_one(Uniform, Maximal, Tiled, MeshSharding, TupleSharding), "a sharding"),
    _K.FRONTEND: (_all(_is_text_pair), "a tuple of (key, text)"),
    _K.STATISTICS: (_one(Statistics), "Statistics"),
    _K.ACCURACY: (_one(ResultAccuracy), "a ResultAccuracy"),
    _K.ORIGIN: (_STRING, "a str"),
    _K.BACKEND_CONFIG: (_STRING, "a str"),
    _K.VERBATIM: (_one(Verbatim), "Verbatim"),
    _K.ANY: (_is_hashable, "a value that can be hashed"),
}
"""For each kind, the check of a value and a description of the expected type for error messages."""
