"""Reads the attributes after an instruction's operands, as the op's row describes them."""

from __future__ import annotations

from typing import Any

from hloom.formats.hlo.reader_state import ComputationState
from hloom.formats.hlo.tokens import ATTRIBUTE_NAME, read_braced, read_list
from hloom.formats.hlo.value_reader import READERS, read_choice, read_verbatim
from hloom.ir import METADATA_FIELDS, Attribute, AttributeKind, Attributes, Op, Verbatim, Window, read_metadata
from hloom.text import Cursor

METADATA = "metadata"
_EMPTY_WINDOW = Window()
_SAID = frozenset(("lhs_contracting_dims", "rhs_contracting_dims", "largest"))
"""Attributes that XLA prints even if they equal the default; kept if the text has them."""


def read_attributes(cursor: Cursor, op: Op, body: ComputationState) -> tuple[Attributes, str | None]:
    """Read from the first comma on: the attributes in the row's order, and the raw metadata.

    Raises ParseError for repeated attributes and bad values; for unknown attributes only in strict mode.
    """
    values: dict[str, Any] = {}
    metadata: str | None = None
    while cursor.accept(","):
        start = cursor.skip()
        match = ATTRIBUTE_NAME.match(cursor.text, start, cursor.end)
        if match is None:
            raise cursor.error(f"expected an attribute's name and '=', found {cursor.next_token()}")
        name = match[1]
        cursor.position = match.end()
        if name in values or (name == METADATA and metadata is not None):
            raise cursor.error(f"attribute '{name}' is given twice", start)
        if name == METADATA:
            metadata = _read_metadata(cursor) if body.reader.strict else read_braced(cursor)[1:-1]
            continue
        attribute = op.attributes.get(name)
        if attribute is None:
            values[name] = _read_unknown(cursor, name, op, body, start)
        else:
            values[name] = _read_known(cursor, attribute, body)
    return arranged(op, values), metadata


def arranged(op: Op, values: dict[str, Any]) -> Attributes:
    """The values in the row's order, without those that equal the default."""
    rows = op.attributes
    if len(values) > 1:
        known = [name for name in rows if name in values]
        values = {name: values[name] for name in (*known, *values)}
    kept = {name: value for name, value in values.items() if not says_nothing(op, name, value)}
    return Attributes(kept)


def says_nothing(op: Op, name: str, value: Any) -> bool:
    """Whether a value equals the default, or is a window without dimensions, which XLA prints for custom calls only."""
    row = op.attributes.get(name)
    if row is None or name in _SAID:
        return False
    if row.kind is AttributeKind.WINDOW and value == _EMPTY_WINDOW:
        return op.name != "custom-call"
    return row.default is not None and value == row.default


def _read_known(cursor: Cursor, attribute: Attribute, body: ComputationState) -> Any:
    if attribute.kind is AttributeKind.ENUM:
        return read_choice(cursor, attribute)
    if attribute.kind is AttributeKind.GRAPH:
        return body.reader.read_graph_reference(cursor, body)
    if attribute.kind is AttributeKind.GRAPHS:
        return read_list(cursor, lambda inner: body.reader.read_graph_reference(inner, body))
    if attribute.kind is AttributeKind.NODES:
        start = cursor.skip()
        nodes = read_list(cursor, body.read_node_reference)
        if not nodes:
            raise cursor.error("expected the name of an instruction", start)
        return nodes
    return READERS[attribute.kind](cursor)


def _read_metadata(cursor: Cursor) -> str:
    start = cursor.skip()
    raw = read_braced(cursor)[1:-1]
    end = cursor.position
    cursor.position = start + 1
    read_metadata(cursor)
    cursor.expect("}", f"or one of the fields {', '.join(METADATA_FIELDS)}")
    cursor.position = end
    return raw


def _read_unknown(cursor: Cursor, name: str, op: Op, body: ComputationState, start: int) -> Verbatim:
    if body.reader.strict:
        known = ", ".join(op.attributes) or "none"
        raise cursor.error(f"{op} has no attribute '{name}'", start, f"it has {known}")
    value = Verbatim(read_verbatim(cursor))
    if op.is_known:
        body.reader.note(f"{op} has no attribute '{name}': kept as it is", start)
    return value
