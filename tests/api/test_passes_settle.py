"""Every pass on its own output changes nothing and says so, or `fixpoint` over it would never end."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import hloom
from hloom.formats.hlo import to_text
from hloom.ir import Module
from hloom.passes import PASSES, apply_in_place, fixpoint, load_further_passes
from tests.passes.random_programs import program_of

load_further_passes()
HANDWRITTEN = sorted((Path(__file__).parents[1] / "corpus" / "handwritten").glob("*.hlo"))

NEED_OPTIONS = frozenset(("microbatch", "remat", "lower-mindir"))
"""`remat` needs a budget, `microbatch` a number of slices, `lower-mindir` a program of MindSpore's: they have their own tests."""
VARIANTS = (
    "saturate(cost=flops)", "saturate(cost=seconds)", "cluster(target=h100)", "cluster(least=1)", "cluster(horizontal=0)",
    "sink-reshapes(rows=1)", "merge-dots(bytes=100)", "simplify-loops(arrays=0)", "inline(once=1)", "fold(floats=0)",
    "fold-transposes(batches=1)", "hoist(constants=1)", "hoist-slices(unary=1)", "sink-all-reduces(scatters=1)",
)  # fmt: skip
"""Options that change what a pass does."""
NAMES = [*(name for name in sorted(PASSES) if name not in NEED_OPTIONS), *VARIANTS]
REPEATED = """ENTRY e {{
  x = f32[8,16] parameter(0)
{}
  ROOT r = f32[8,16] add(v{}, x)
}}"""


def repeated_stretches(count: int = 6) -> Module:
    """The same ten instructions again and again: `outline` finds repeats among the calls that it made."""
    lines, at = ["  v0 = f32[8,16] negate(x)"], 0
    for _ in range(count):
        for opcode in ("tanh", "exponential", "negate", "sine", "cosine", "abs", "sqrt", "logistic", "floor", "ceil"):
            lines.append(f"  v{at + 1} = f32[8,16] {opcode}(v{at})")
            at += 1
    return hloom.parse(REPEATED.format("\n".join(lines), at))


def drawn(seeds: range) -> list[Module]:
    return [program_of(Random(seed), tame=bool(seed % 2)) for seed in seeds]


def read(paths: list[Path]) -> list[Module]:
    modules = []
    for path in paths:
        try:
            modules.append(hloom.load(path))
        except hloom.HloomError:
            continue  # files that a strict reader's tests keep
    return modules


def check_settles(name: str, module: Module) -> bool:
    """Whether the pass took the module; asserts that the second run does nothing."""
    changed = module.clone()
    try:
        first = apply_in_place(changed, name)
    except hloom.HloomError:
        return False
    text = to_text(changed)
    assert first.changed or text == to_text(module), f"{name} changed {module.name} and does not say so"
    again = apply_in_place(changed, name)
    assert to_text(changed) == text, f"{name} changes its own output of {module.name}"
    assert not again.changed, f"{name} says that it changed its own output of {module.name}"
    return True


PROGRAMS = [repeated_stretches(), *drawn(range(9, 17)), *read(HANDWRITTEN[::12])]


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_changes_nothing(name: str):
    assert sum(check_settles(name, module) for module in PROGRAMS) > len(PROGRAMS) // 2


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_changes_nothing_in_many_programs(name: str):
    taken = sum(check_settles(name, module) for module in [*drawn(range(300)), *read(HANDWRITTEN)])
    assert taken > 300


@pytest.mark.parametrize("parts", ["saturate, dce", "cluster, dce", "merge-dots, cse", "outline, dce", "saturate, simplify"])
def test_a_fixpoint_ends(parts: str):
    looped = fixpoint("all", parts.split(", "))
    for module in PROGRAMS[:6]:
        changed = module.clone()
        apply_in_place(changed, looped)
        assert not apply_in_place(changed, looped).changed
