"""Names of modules, graphs and nodes as HLO text spells them."""

from __future__ import annotations

import re

LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*+")
_OTHER = re.compile(r"[^A-Za-z0-9_.-]")


def legal_name(name: str) -> str:
    """The name with `_` for each character that no name may hold, as in SanitizeName of xla/hlo/ir/hlo_instruction.cc.

    Names taken from a user's objects (functions, arguments, keys) must go through here.

    >>> legal_name("<lambda>"), legal_name("größe"), legal_name("2d"), legal_name("add.1")
    ('_lambda_', 'gr__e', '_2d', 'add.1')
    """
    if LEGAL_NAME.fullmatch(name):
        return name
    made = _OTHER.sub("_", name)
    return made if made[:1].isalpha() or made.startswith("_") else f"_{made}"
