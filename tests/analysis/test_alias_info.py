"""What fusions must write over (analysis/alias_info.py)."""

from __future__ import annotations

import hloom
from hloom.analysis.alias_info import AliasInfo, InPlacePair
from hloom.ir import Apply


def fusions(calls: str, entry: str) -> hloom.Module:
    """Computations of one fusion each, `name=callee`, and an entry that calls one of them."""
    lines = []
    for pair in calls.split():
        name, callee = pair.split("=")
        body = "negate(x)" if callee == "none" else f"fusion(x), kind=kLoop, calls={callee}"
        lines.append(f"{name} {{ x = f32[2] parameter(0) ROOT y = f32[2] {body} }}")
    lines.append(f"ENTRY e {{ x = f32[2] parameter(0) ROOT y = f32[2] fusion(x), kind=kLoop, calls={entry} }}")
    return hloom.parse("\n".join(["HloModule m", *lines]))


def pairs_of_root(module: hloom.Module) -> tuple[InPlacePair, ...]:
    root = module.entry.root
    assert isinstance(root, Apply)
    return AliasInfo().pairs(root)


def test_fusions_may_nest_deeper_than_the_stack():
    deep = fusions("c0=none " + " ".join(f"c{n}=c{n - 1}" for n in range(1, 1500)), "c1499")
    assert pairs_of_root(deep) == ()
