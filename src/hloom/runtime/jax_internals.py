"""The private names of jax that `hloom.jit` uses to define a primitive and lower it.

`xla.check_version` accepts the versions for which these names are known to work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hloom.runtime import xla
from hloom.text import Unsupported


@dataclass(frozen=True, slots=True)
class JaxInternals:
    """Modules of jax, imported."""

    jax: Any
    ad: Any
    api_util: Any
    batching: Any
    cache: Any
    config: Any
    core: Any
    dispatch: Any
    effects: Any
    func: Any
    ir: Any
    lax_internal: Any
    linear_util: Any
    mlir: Any
    passes: Any
    partial_eval: Any
    references: Any
    source_info: Any
    util: Any
    xla: Any


@lru_cache(1)
def jax_internals() -> JaxInternals:
    """Import them once; raises HloomError where jax is missing or of another version."""
    xla.libraries()
    import jax
    from jax._src import (
        api_util,
        compilation_cache,
        config,
        core,
        dispatch,
        effects,
        linear_util,
        source_info_util,
        util,
    )
    from jax._src.interpreters import ad, batching, mlir
    from jax._src.interpreters import partial_eval as pe
    from jax._src.lax import lax as lax_internal
    from jax._src.state import discharge
    from jax.extend import xla as transformations
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import func

    source_info_util.register_exclusion(str(Path(__file__).parent))  # or every op's metadata would name our files
    return JaxInternals(
        jax=jax,
        ad=ad,
        api_util=api_util,
        batching=batching,
        cache=compilation_cache,
        config=config,
        core=core,
        dispatch=dispatch,
        effects=effects,
        func=func,
        ir=ir,
        lax_internal=lax_internal,
        linear_util=linear_util,
        mlir=mlir,
        passes=passmanager,
        partial_eval=pe,
        references=discharge,
        source_info=source_info_util,
        util=util,
        xla=transformations,
    )


def trace(function: Callable[..., Any], inputs: Sequence[Any], debug: Any) -> tuple[Any, Sequence[Any]]:
    """The closed jaxpr of a function of a flat list of arrays, and its inputs; first come values that it captures."""
    internals = jax_internals()
    wrapped = internals.linear_util.wrap_init(function, debug_info=debug)
    jaxpr, _, constants = internals.partial_eval.trace_to_jaxpr_dynamic(
        wrapped, tuple(map(internals.core.typeof, inputs))
    )
    closed = internals.core.ClosedJaxpr(jaxpr, constants)
    if any(isinstance(constant, internals.core.Tracer) for constant in constants):
        closed, captured = internals.partial_eval.separate_consts(closed)
        return closed, [*captured, *inputs]
    return closed, inputs


def refuse_callbacks(jaxpr: Any) -> None:
    """Raise Unsupported where a closed jaxpr calls Python functions: a module has their addresses, and keeps none."""
    core = jax_internals().core
    pending = [jaxpr.jaxpr]
    while pending:
        part = pending.pop()
        for equation in part.eqns:
            if equation.primitive.name.endswith("callback"):
                raise Unsupported(f"it calls back into Python ({equation.primitive.name}), which no module keeps")
        pending += core.subjaxprs(part)


def kept_arguments(lowered: Any) -> frozenset[int] | None:
    """The numbers of the flat arguments that a lowered program has; None where it has all of them."""
    options = getattr(getattr(lowered, "_lowering", None), "compile_args", None) or {}
    kept = options.get("kept_var_idx")
    return frozenset(kept) if kept is not None else None


def implementation_of_key(key_type: Any) -> Any:
    """What makes the random numbers of keys of a type."""
    return key_type._impl
