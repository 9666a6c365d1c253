"""The private names of jax that `hloom.jit` uses: those that define a primitive and lower it.

The versions that they are known for are those that `xla.check_version` lets pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hloom.runtime import xla


@dataclass(frozen=True, slots=True)
class JaxInternals:
    """Modules of jax, imported."""

    jax: Any
    ad: Any
    api_util: Any
    batching: Any
    cache: Any
    core: Any
    dispatch: Any
    effects: Any
    func: Any
    ir: Any
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
        core,
        dispatch,
        effects,
        linear_util,
        source_info_util,
        util,
    )
    from jax._src.interpreters import ad, batching, mlir
    from jax._src.interpreters import partial_eval as pe
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
        core=core,
        dispatch=dispatch,
        effects=effects,
        func=func,
        ir=ir,
        linear_util=linear_util,
        mlir=mlir,
        passes=passmanager,
        partial_eval=pe,
        references=discharge,
        source_info=source_info_util,
        util=util,
        xla=transformations,
    )
