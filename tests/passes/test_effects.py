"""No pass loses, doubles or reorders what a program does beside computing, nor takes an asynchronous pair apart.

Covers `ops/side_effects.py`, `passes/dce.py`, `passes/instruction_copies.py`.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import hloom
import hloom.passes.fusion
import hloom.passes.saturation
from hloom.analysis import build_call_graph, find_trip_counts
from hloom.ir import Apply, Graph, Module, Node, verify
from hloom.passes import PASSES
from hloom.runtime import accepts
from tests.passes.effect_programs import CASES, POSITIONS, effect_program

NAMES = (*sorted(PASSES.keys() - {"lower-mindir", "microbatch", "remat"}), "fixpoint(inline,simplify-xla,unroll,cse,dce)")
"""All but those that need options, or programs of MindSpore's; and several together."""
EFFECTS = ("infeed", "outfeed", "send", "send-done", "recv", "recv-done", "rng", "rng-get-and-update-state", "opt-barrier")
PAIRS = ("async", "all-reduce", "all-gather", "collective-permute", "copy")


def effects_of(module: Module) -> list[str]:
    """What a run does, in the order of the text; of a conditional, what every branch does."""
    counts = find_trip_counts(build_call_graph(module), {})

    def within(graph: Graph) -> list[str]:
        return [name for node in graph.nodes if isinstance(node, Apply) for name in done_by(node)]

    def done_by(node: Apply) -> list[str]:
        if node.opcode == "while":
            body = within(node.attributes["body"])
            count = counts[node].count
            return body if count is None else body * count
        if node.opcode in ("call", "conditional", "async-start"):
            return [name for graph in node.called_graphs for name in within(graph)]
        return [node.opcode] if node.opcode in EFFECTS or node.attributes.get("custom_call_has_side_effect") else []

    return within(module.entry)


def is_marker(node: Node) -> bool:
    return node.attributes.get("custom_call_target") == "Sharding"


def check(text: str) -> None:
    assert accepts(text) is None
    before = hloom.parse(text, strict=True)
    effects = effects_of(before)
    for name in NAMES:
        after, _ = hloom.opt(before, name)
        verify(after)
        kept_effects = effects_of(after)
        if name == "cluster":  # a fusion of several results moves what no order ties to it
            kept_effects, effects_here = sorted(kept_effects), sorted(effects)
        else:
            effects_here = effects
        assert kept_effects == effects_here, name
        opcodes = Counter(node.opcode for node in after.nodes())
        assert all(opcodes[f"{pair}-start"] == opcodes[f"{pair}-done"] for pair in PAIRS), name
        assert any(map(is_marker, before.nodes())) == any(map(is_marker, after.nodes())), name
        printed = hloom.print(after)
        assert accepts(printed) is None, name
        hloom.parse(printed, strict=True)
        again, report = hloom.opt(after, name)
        assert not report.changed and hloom.print(again) == printed, name


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 60))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_keep_their_effects(seed: int):
    random = Random(seed)
    check(effect_program(random.choices(list(CASES), k=random.randint(2, 6)), random.choice(POSITIONS)))


@pytest.mark.long
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("case", CASES)
def test_two_equal_effects_stay_two(case: str, position: str):
    check(effect_program([case, case], position))


@pytest.mark.parametrize("step", ["", "u = ((f32[4]), f32[4], s32[]) async-update(s)\n"])
def test_an_unread_end_stays_with_a_start_that_does_something(step: str):
    """XLA's verifier refuses a start whose end is gone."""
    text = f"""
    f {{ a = f32[4] parameter(0) ROOT c = f32[4] custom-call(a), custom_call_target="log", CUSTOM }}
    ENTRY e {{ x = f32[4] parameter(0) s = ((f32[4]), f32[4], s32[]) async-start(x), calls=f
      {step}d = f32[4] async-done({"u" if step else "s"}) ROOT r = f32[4] negate(x) }}"""
    effectful = hloom.parse(text.replace("CUSTOM", "custom_call_has_side_effect=true"))
    kept, report = hloom.opt(effectful, "dce")
    assert not report.changed and kept.entry["d"].opcode == "async-done"
    pure = hloom.parse(text.replace(", CUSTOM", ""))
    assert [node.opcode for node in hloom.opt(pure, "dce")[0].entry.nodes] == ["parameter", "negate"]
