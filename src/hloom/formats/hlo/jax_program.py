"""Recognises jax programs by their methods, without importing jax."""

from __future__ import annotations

from typing import Any

from hloom.text import HloomError

_SERIALIZE = "as_serialized_hlo_module_proto"


def is_lowering(thing: object) -> bool:
    """Whether it is a jax program: traced, lowered, compiled, or XLA's own module or computation."""
    return any(callable(getattr(thing, name, None)) for name in (_SERIALIZE, "compiler_ir", "runtime_executable")) or (
        callable(getattr(thing, "lower", None)) and hasattr(thing, "jaxpr")
    )


def proto_of(thing: Any) -> bytes:
    """The serialized HloModuleProto of a jax program; its text would elide large constants.

    A lowered program is the module before XLA's passes, a compiled one the module after them.
    """
    if hasattr(thing, "jaxpr") and not hasattr(thing, "compiler_ir"):
        thing = thing.lower()
    if hasattr(thing, "compiler_ir"):
        thing = thing.compiler_ir("hlo")
    elif hasattr(thing, "runtime_executable"):
        modules = thing.runtime_executable().hlo_modules()
        if len(modules) != 1:
            raise HloomError(f"a compiled program of {len(modules)} modules: one is expected")
        thing = modules[0]
    if not hasattr(thing, _SERIALIZE):
        raise HloomError(f"a {type(thing).__name__} does not give its HLO", hint="load jax.jit(f).lower(...) itself")
    return getattr(thing, _SERIALIZE)()
