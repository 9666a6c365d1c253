"""Words that HLO text reserves, and the check of names in strict mode.

Source: xla/hlo/parser/hlo_lexer.cc (keywords), xla/hlo/parser/hlo_parser.cc, HloParserImpl::ParseInstruction.
"""

from __future__ import annotations

from hloom.ir import DTYPES, legal_name
from hloom.text import Cursor

RESERVED = frozenset(
    [
        "nan",
        "true",
        "false",
        "inf",
        "HloModule",
        "ENTRY",
        "ROOT",
        "maximal",
        "replicated",
        "manual",
        "unknown",
        "unreduced",
        "last_tile_dim_replicate",
        "shard_as",
        "shard_like",
        "FileNames",
        "FunctionNames",
        "FileLocations",
        "StackFrames",
    ]
)
"""Words that are names only after `%`."""
TYPE_NAMES = frozenset(DTYPES) | {"token", "opaque"}
"""Words that are never names."""


def check_name(cursor: Cursor, name: str, start: int) -> None:
    """Reject instruction names that XLA reserves."""
    problem = name_problem(name, _is_marked(cursor, name, start))
    if problem:
        raise cursor.error(problem, start)


def check_word(cursor: Cursor, name: str, start: int) -> None:
    """Reject reserved words as names of modules and computations, and as references, unless after a %."""
    if (name in RESERVED or name in TYPE_NAMES) and not _is_marked(cursor, name, start):
        raise cursor.error(f"'{name}' is a reserved word; as a name it needs a %", start)


def name_problem(name: str, has_percent: bool) -> str | None:
    """Why XLA rejects a word as an instruction's name; None if it does not."""
    if name in TYPE_NAMES:
        return f"'{name}' is a type and cannot be an instruction's name"
    if name in RESERVED and not has_percent:
        return f"'{name}' is a reserved word; as a name it needs a %"
    if name.startswith("__") and not name.startswith("__xla_"):
        return f"names that begin with two underscores are reserved: '{name}'"
    return None


def instruction_name(name: str) -> str:
    """The name as a text may give it to an instruction: protos may have others.

    >>> instruction_name("__x"), instruction_name("f32"), instruction_name("a b"), instruction_name("__xla_x")
    ('_x', 'f32_', 'a_b', '__xla_x')
    """
    name = legal_name(name)
    if name in TYPE_NAMES:
        return f"{name}_"
    return f"_{name.lstrip('_')}" if name_problem(name, True) else name


def _is_marked(cursor: Cursor, name: str, start: int) -> bool:
    """Whether a word is marked as a name: after a `%`, or with a colon right after it."""
    return cursor.text.startswith("%", start) or cursor.text.startswith(":", start + len(name))
