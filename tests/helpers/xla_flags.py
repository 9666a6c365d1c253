"""XLA's flags that not every version knows: XLA ends the process on others."""

from __future__ import annotations

from importlib.metadata import version

HAS_EMITTERS_FLAG = tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
"""Whether the fusion emitters can be turned off; since jaxlib 0.11 they are always on."""


def fusion_emitters(on: bool) -> str:
    """The flag for XLA's lowering of fusions by MLIR on the CPU; empty where they cannot be turned off."""
    return f"--xla_cpu_use_fusion_emitters={str(on).lower()}" if HAS_EMITTERS_FLAG else ""
