"""Groups of bounded size: every instruction is in one, near its neighbours."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.inspection.page.groups import MOST_MEMBERS, MOST_SHOWN_FIRST, group_paths, level_name
from tests.inspection.page.group_sizes import member_counts

SCOPES = st.lists(st.sampled_from(["a", "b", "layer_0", "layer_1", "", "x/y", "__proto__"]), max_size=4).map(tuple)


def grouped(scopes: list[tuple[str, ...]], clones: dict[int, list[int]] | None = None) -> dict[int, tuple[str, ...]]:
    needed = clones or {}
    return group_paths(enumerate(scopes), str, lambda item: needed.get(item, []))


def test_few_stay_as_their_scopes_say():
    assert grouped([("a", "b"), ("a",), ("c",)]) == {0: ("a", "b"), 1: ("a",), 2: ("c",)}


@pytest.mark.parametrize("count", [401, 5_000, 200_000])
def test_one_scope_of_many_is_cut_into_ranges(count: int):
    paths = grouped([("a",)] * count)
    sizes = member_counts(paths.values())
    assert max(sizes.values()) <= MOST_MEMBERS
    assert len(paths) == count
    assert paths[0][0] == paths[count - 1][0] == "a"
    ordered = [paths[item] for item in range(count)]
    changes = sum(one != other for one, other in pairwise(ordered))
    assert changes == len(set(ordered)) - 1  # a range is one run of instructions
    assert paths[0] == paths[1]


@pytest.mark.parametrize("count", [12, 13, 96, 5_000, 50_000])
def test_at_most_twelve_groups_are_shown_first(count: int):
    sizes = member_counts(grouped([(f"layer_{number}",) for number in range(count)]).values())
    assert sizes[()] <= MOST_SHOWN_FIRST
    assert max(sizes.values()) <= MOST_MEMBERS


def test_clones_count():
    """200 instructions with 9 constants of their own are more than a group may hold."""
    clones = {number: [1_000 + 10 * number + constant for constant in range(9)] for number in range(200)}
    paths = grouped([("a",)] * 200, clones)
    members: dict[tuple[str, ...], int] = {}
    for item, path in paths.items():
        members[path] = members.get(path, 0) + 1 + len(clones[item])
    assert max(members.values()) <= MOST_MEMBERS
    assert len(members) == 17


def test_names_that_are_one_when_cut_stay_apart():
    long = "x" * 200
    paths = grouped([("top", long + "a"), ("top", long + "b"), ("top", "a/b"), ("top", "a|b")])
    assert len(set(paths.values())) == 4


@pytest.mark.parametrize(
    "name", ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "", "a/b", "x\0"]
)
def test_names_that_a_viewer_would_take_for_something_else(name: str):
    assert level_name(name) not in (name, "")
    assert "/" not in level_name(name)


@given(st.lists(SCOPES.map(lambda scope: ("top", *scope)), max_size=60))
def test_any_scopes(scopes: list[tuple[str, ...]]):
    paths = grouped(scopes)
    assert list(paths) and set(paths) == set(range(len(scopes))) if scopes else not paths
    for one, first in enumerate(scopes):
        for other, second in enumerate(scopes):
            assert (first == second) == (paths[one] == paths[other])
