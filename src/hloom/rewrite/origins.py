"""What a framework says of an instruction, for conditions of rules: its scope and the line of source that made it."""

from __future__ import annotations

from hloom.ir import Metadata, Node
from hloom.text import HloomError


def scope(node: Node) -> str:
    """The name with its scopes, as `jit(step)/layer_3/attention/dot_general`; empty where nothing is said."""
    metadata = _metadata(node)
    return "" if metadata is None else metadata.op_name


def source_file(node: Node) -> str:
    """The file that made it; empty where nothing is said."""
    return _source(node)[0]


def source_line(node: Node) -> int:
    """The line that made it; 0 where nothing is said."""
    return _source(node)[1]


def _source(node: Node) -> tuple[str, int]:
    metadata = _metadata(node)
    if metadata is None or metadata.source_file:
        return ("", 0) if metadata is None else (metadata.source_file, metadata.source_line)
    tables = node.graph.module.stack_tables
    frames = tables.trace(metadata.stack_frame_id) if tables is not None and metadata.stack_frame_id else []
    return (frames[0].file, frames[0].line) if frames else ("", 0)


def _metadata(node: Node) -> Metadata | None:
    try:
        return node.metadata
    except HloomError:  # malformed: it stays as it is, and says nothing
        return None
