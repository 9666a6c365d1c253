"""Which nodes are computed from which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hloom.formats.hlo import parse
from hloom.targets.cpu import reachability
from hloom.targets.cpu.reachability import Reachability


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20))
def test_agrees_with_the_transitive_closure(pairs: list[tuple[int, int]]):
    lines, ancestors = ["n0 = f32[] parameter(0)"], [set[int]()]
    for number, (left, right) in enumerate(pairs, 1):
        operands = left % number, right % number
        lines.append(f"n{number} = f32[] add(n{operands[0]}, n{operands[1]})")
        ancestors.append(set(operands) | ancestors[operands[0]] | ancestors[operands[1]])
    lines[-1] = f"ROOT {lines[-1]}"
    entry = parse("HloModule m\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n").entry
    answers = Reachability(entry)
    for target, sources in enumerate(ancestors):
        for source in range(len(lines)):
            assert answers.reaches(entry[f"n{source}"], entry[f"n{target}"]) == (source in sources)


def test_a_long_search_ends_with_yes(monkeypatch):
    monkeypatch.setattr(reachability, "MAX_VISITS", 3)
    lines = ["a = f32[] parameter(0)", "b = f32[] parameter(1)", "n0 = f32[] negate(b)"]
    lines += [f"n{number} = f32[] negate(n{number - 1})" for number in range(1, 6)]
    entry = parse("HloModule m\n\nENTRY e {\n" + "\n".join(lines) + "\nROOT r = f32[] negate(n5)\n}\n").entry
    assert Reachability(entry).reaches(entry["a"], entry["r"])
