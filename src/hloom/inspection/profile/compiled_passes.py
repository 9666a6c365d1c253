"""The passes of XLA that change a module, as told by what XLA dumps while it compiles it for the CPU."""

from __future__ import annotations

import tempfile
from itertools import pairwise

from hloom.formats.hlo import print_module
from hloom.inspection.profile.pass_states import pass_states
from hloom.ir import Module
from hloom.runtime import compiles, legalize, placement_of, xla_flags
from hloom.text import HloomError

TIMEOUT = 120.0
"""Seconds that compiling may take."""


def changing_passes(module: Module, timeout: float = TIMEOUT) -> list[str]:
    """The names of the passes that change a module, in the order in which they first do.

    Raises HloomError where XLA does not compile it.
    """
    text = print_module(legalize(module, 1))
    with tempfile.TemporaryDirectory(prefix="hloom-") as folder:
        flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*"
        with xla_flags(flags):
            refusal = compiles(text, placement_of(text), timeout)
        if refusal is not None:
            raise HloomError(f"XLA does not compile {module.name}: its passes are not known", hint=refusal)
        _, states = pass_states(folder)
        names: dict[str, None] = {}
        for earlier, later in pairwise(states):
            if later.last_pass and later.digest != earlier.digest:
                names[later.last_pass] = None
    return list(names)
