from __future__ import annotations

import random

from hloom.analysis import DisjointSets


def test_joined_sets_have_the_first_ones_root():
    sets = DisjointSets[str]()
    assert sets.root("a") == "a"
    assert sets.join("a", "b")
    assert sets.join("c", "a")
    assert [sets.root(item) for item in "abc"] == ["c", "c", "c"]
    assert not sets.join("b", "c")


def test_random_joins_give_the_sets_that_follow():
    source, sets, groups = random.Random(0), DisjointSets[int](), [{number} for number in range(200)]
    for _ in range(150):
        one, other = source.randrange(200), source.randrange(200)
        assert sets.join(one, other) == (groups[one] is not groups[other])
        groups[one] |= groups[other]
        for member in groups[one]:
            groups[member] = groups[one]
    for number in range(200):
        assert {item for item in range(200) if sets.root(item) == sets.root(number)} == groups[number]


def test_a_long_chain_is_followed_without_recursion():
    sets = DisjointSets[int]()
    for number in range(100_000):
        sets.join(number + 1, number)
    assert sets.root(0) == 100_000
