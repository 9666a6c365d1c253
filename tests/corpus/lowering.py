"""From a JAX program to HLO text with nothing left out, before and after XLA's optimisations.

Needs the environment that `tests.corpus.cache` sets, so it runs in a process of its own.
"""

from collections.abc import Iterator
from typing import Any

import jax
from jax.stages import Lowered
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

from .programs import PROGRAMS, Program


def lower(name: str, stage: str) -> str:
    """The text of one program at one stage; ValueError when the program does not reach it."""
    program = PROGRAMS[name]
    if stage not in program.stages:
        raise ValueError(f"{name} does not reach the stage {stage}: {program.because}")
    return STAGES[stage](trace(program))


def lower_every(part: int = 0, parts: int = 1) -> Iterator[tuple[str, str, str]]:
    """Name, stage and text of one part of the programs; a program is traced once for its stages."""
    for name, program in list(PROGRAMS.items())[part::parts]:
        lowered = trace(program)
        for stage in program.stages:
            yield name, stage, STAGES[stage](lowered)


def trace(program: Program) -> Lowered:
    jax.config.update("jax_use_shardy_partitioner", program.shardy)
    traced = jax.jit(program.function, **program.jit).trace(*program.arguments)
    return traced.lower(lowering_platforms=(program.platform,)) if program.platform else traced.lower()


def before(lowered: Lowered) -> str:
    computation: Any = lowered.compiler_ir("hlo")
    return print_whole(computation.as_hlo_module())


def after(lowered: Lowered) -> str:
    executable: Any = lowered.compile().runtime_executable()
    return print_whole(executable.hlo_modules()[0])


STAGES = {"before": before, "after": after}


def print_whole(module: _hlo.HloModule) -> str:
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_metadata = True
    return module.to_string(options)
