"""What frameworks record about an instruction in its metadata: op_name, Python layer, source line."""

from __future__ import annotations

import re
from functools import lru_cache

from hloom.ir import Node, StackTables
from hloom.text import HloomError

UNKNOWN = "(unknown)"
"""The group for missing metadata."""
OUTSIDE = "(no layer)"
"""The group for instructions outside all scopes named in Python."""
BY = ("opcode", "computation", "scope", "layer", "source")
_TRANSFORMATION = re.compile(r"^(jvp|transpose|vmap|checkpoint|remat|custom_jvp|custom_vjp)\((.*)\)$")
_WRAPPER = re.compile(
    r"^((p?jit|pmap|shard_map|xla_call|core_call|rematted_computation)(\(.*\))?|while|body|cond|scan|"
    r"branch_[0-9]+_fun|closed_call|checkpoint|remat2?|custom_[jv][jv]p_call.*)$"
)
EINSUM = "->"
"""Identifies scopes made by einsum, `bij,bjk->bik`, as opposed to those named in Python."""
_SEPARATOR = re.compile(r"/(?![^()]*\))")
"""A slash outside of parentheses."""


@lru_cache(maxsize=1 << 16)
def parts(op_name: str) -> tuple[str, ...]:
    """The levels of an op_name; if several are joined by semicolons, those of the first.

    >>> parts("jit(step)/transpose(jvp(layer_0))/mlp/dot_general")
    ('jit(step)', 'transpose(jvp(layer_0))', 'mlp', 'dot_general')
    """
    first = op_name.partition(";")[0]
    return tuple(part for part in _SEPARATOR.split(first) if part)


@lru_cache(maxsize=1 << 16)
def layer(op_name: str) -> str:
    """The scopes named in Python, without JAX's wrappers and without the operation itself.

    This groups a layer's forward and backward computations together.

    >>> layer("jit(step)/transpose(jvp(layer_0))/mlp/dot_general"), layer("jit(step)/jvp(layer_0)/mlp/add")
    ('layer_0/mlp', 'layer_0/mlp')
    """
    named = [_unwrapped(part) for part in parts(op_name)[:-1]]
    return "/".join(part for part in named if part and not _WRAPPER.match(part) and EINSUM not in part)


def _unwrapped(part: str) -> str:
    while match := _TRANSFORMATION.match(part):
        part = match[2]
    return part


def joined(outer: str, op_name: str) -> str:
    """The full op_name of an instruction in a computation that is called from a scope.

    XLA's names inside functions are complete if they begin like the caller's, and are relative to it otherwise.

    >>> joined("jit(f)/while/body/call", "add"), joined("jit(f)/call", "jit(f)/call/add")
    ('jit(f)/while/body/call/add', 'jit(f)/call/add')
    """
    if not outer or not op_name:
        return op_name or outer
    return op_name if parts(op_name)[:1] == parts(outer)[:1] else f"{outer}/{op_name}"


def named_within(caller: str, op_name: str) -> str:
    """The full op_name of an instruction in a computation called by another instruction, whose own operation is not a
    scope.

    >>> named_within("jit(f)/layer_0/reduce_sum", "add"), named_within("jit(f)/div", "jit(f)/layer_0/mul")
    ('jit(f)/layer_0/add', 'jit(f)/layer_0/mul')
    """
    levels = parts(caller)
    if not levels or not op_name or parts(op_name)[:1] == levels[:1]:
        return op_name or caller
    return "/".join((*levels[:-1], op_name))


def op_name_of(node: Node) -> str:
    """An instruction's op_name, or "" if its metadata is missing or malformed."""
    try:
        metadata = node.metadata
    except HloomError:
        return ""
    return metadata.op_name if metadata is not None else ""


def source_of(node: Node, tables: StackTables | None) -> str:
    """The source file and line of an instruction: `model.py:12`."""
    try:
        metadata = node.metadata
    except HloomError:
        return UNKNOWN
    if metadata is None:
        return UNKNOWN
    if metadata.source_file:
        return f"{metadata.source_file}:{metadata.source_line}"
    frames = tables.trace(metadata.stack_frame_id) if tables is not None and metadata.stack_frame_id else []
    return f"{frames[0].file}:{frames[0].line}" if frames else UNKNOWN
