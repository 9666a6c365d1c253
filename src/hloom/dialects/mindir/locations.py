"""From the comments below a node to its metadata: scope and source position."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hloom.dialects.mindir.annotations import COMMENTS, annotations_of
from hloom.ir import Metadata, Node
from hloom.text import Location, Unsupported

_SCOPE = re.compile(r"# (?:Fullname with scope|Scope): \(([^()]*)\)")
_LOCATION = re.compile(r"# In file ([^\n]*?):([0-9]{1,9})(?:~([0-9]{1,9}))?(?:, ([0-9]{1,9})~([0-9]{1,9}))?/")
_LIBRARY = "/site-packages/mindspore/"


def metadata_text(primitive: str, lines: Sequence[str]) -> str | None:
    """The metadata that the comments below a node give: the innermost source line outside of MindSpore's own code."""
    scope = ""
    location: re.Match[str] | None = None
    for line in lines:
        if line.startswith("# In file "):
            match = _LOCATION.match(line)
            if match and (location is None or _LIBRARY not in match[1]):
                location = match
        elif match := _SCOPE.match(line):
            scope = match[1]
    if not scope and location is None:
        return None
    numbers = [int(text or 0) for text in location.groups()[1:]] if location else [0, 0, 0, 0]
    return Metadata(
        op_type=primitive,
        op_name=scope,
        source_file=location[1] if location else "",
        source_line=numbers[0],
        source_end_line=numbers[1],
        source_column=numbers[2],
        source_end_column=numbers[3],
    ).text()


def error_at(node: Node, message: str, hint: str | None = None) -> Unsupported:
    """The error at a node, with the source line that made it where the text says that; the caller raises it."""
    where = f"{node.name} of @{node.graph.name}: {message}"
    metadata = node.metadata
    if metadata is None or not metadata.source_file:
        return Unsupported(where, None, hint)
    excerpt = ""
    for line in annotations_of(node).get(COMMENTS, "").split("\n"):
        match = _LOCATION.match(line)
        if match and (match[1], match[2]) == (metadata.source_file, str(metadata.source_line)):
            excerpt = line[match.end() :].partition("/<~~")[0].removesuffix("/")
    column = metadata.source_column
    location = Location(metadata.source_file, metadata.source_line, column + 1, excerpt, min(column, len(excerpt)))
    return Unsupported(where, location, hint)
