"""The framework's metadata of an instruction, for conditions of rules: its scope and source line."""

from __future__ import annotations

from hloom.ir import Metadata, Node
from hloom.text import HloomError


def scope(node: Node) -> str:
    """The scoped name, such as `jit(step)/layer_3/attention/dot_general`; empty if there is none."""
    metadata = _metadata(node)
    return "" if metadata is None else metadata.op_name


def source_file(node: Node) -> str:
    """The source file; empty if unknown."""
    return _source(node)[0]


def source_line(node: Node) -> int:
    """The source line; 0 if unknown."""
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
    except HloomError:  # malformed metadata is left as it is and counts as empty
        return None
