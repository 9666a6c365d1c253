"""Preflight checks of a text: rejects programs that would run on made-up values, or crash XLA."""

from __future__ import annotations

import re

from hloom.text import HloomError, Source, Unsupported

HOST_CALLBACKS = frozenset(
    {"xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback", "xla_python_cpu_callback"}
)
"""Custom-call targets that call a Python function of the process that lowered the program; elsewhere they fault."""

_IGNORED = re.compile(r'"(?:[^"\\]|\\.)*+"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_ELLIPSIS = re.compile(r"\.\.\.")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')


def check_text(text: str, name: str = "<text>") -> None:
    """Raise HloomError for elided constants and Unsupported for calls back into Python, each with its location."""
    elided = _find_elided(text)
    if elided is not None:
        raise HloomError(
            "the data of a constant were left out of the text, as {...}, and are never invented",
            Source(text, name).location(elided),
            "print the program with whole constants: print_large_constants in XLA's HloPrintOptions, "
            "--xla_dump_large_constants among XLA_FLAGS",
        )
    for match in _TARGET.finditer(text):
        if match[1] in HOST_CALLBACKS:
            raise Unsupported(
                f"custom-call to {match[1]}: its Python function lives in the process that lowered the program",
                Source(text, name).location(match.start()),
            )


def _find_elided(text: str) -> int | None:
    """Where the first `...` outside strings and comments stands; in HLO it means nothing but left-out data."""
    if "..." not in text:
        return None
    blanked = _IGNORED.sub(lambda match: " " * len(match[0]), text)
    match = _ELLIPSIS.search(blanked)
    return match.start() if match else None
