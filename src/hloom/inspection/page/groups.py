"""Groups instructions hierarchically, with no group larger than a viewer can lay out and a reader can grasp."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hloom.analysis import ScopePath

MOST_MEMBERS = 120
"""The maximum number of members of a group: instructions, clones of constants, groups."""
MOST_SHOWN_FIRST = 12
"""How many groups are shown before one is expanded."""
LONGEST_LEVEL = 80
"""The maximum number of characters of a level's name."""
RESERVED = frozenset(name for name in (*dir(object), "__proto__", "prototype", "constructor", "toString", "valueOf"))
"""Names that a group has not: JavaScript's objects have properties of some of them."""

Item = TypeVar("Item", bound=Hashable)


def level_name(level: str) -> str:
    """A level of a scope as the name of a group: without slashes and without what is special to the viewer.

    >>> level_name("a/b"), level_name("__proto__"), level_name("")
    ('a|b', '__proto__ (name)', '(unnamed)')
    """
    name = level.replace("/", "|").replace("___group___", "group")
    name = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    if len(name) > LONGEST_LEVEL:
        name = name[: LONGEST_LEVEL - 3] + "..."
    if name in RESERVED or name.startswith(("hasOwn", "isPrototype", "propertyIs", "toLocale", "__define", "__lookup")):
        return f"{name} (name)"
    return name or "(unnamed)"


@dataclass(slots=True)
class _Group(Generic[Item]):
    """A group as the scopes say it, its members in the order of the program."""

    path: ScopePath
    members: list[Item | _Group[Item]] = field(default_factory=list)
    groups: dict[str, _Group[Item]] = field(default_factory=dict)


def group_paths(
    items: Iterable[tuple[Item, ScopePath]],
    name_of: Callable[[Item], str],
    clones_of: Callable[[Item], Sequence[Item]],
    most_first: int = MOST_SHOWN_FIRST,
) -> dict[Item, ScopePath]:
    """The group of every item, in the order in which they are given; groups that are too large are cut into ranges.

    `clones_of` are the items of which one's group needs copies of its own; they count as members, once for each group.
    Linear in the number of items and clones.
    """
    root: _Group[Item] = _Group(())
    for item, scope in items:
        group = root
        for level in scope:
            inner = group.groups.get(level)
            if inner is None:
                inner = group.groups[level] = _Group((*group.path, level))
                group.members.append(inner)
            group = inner
        group.members.append(item)
    paths: dict[Item, ScopePath] = {}
    pending: list[tuple[_Group[Item], ScopePath]] = [(root, ())]
    while pending:
        group, path = pending.pop()
        taken: dict[ScopePath, int] = {}
        for member, ranges in _cut(group.members, clones_of, MOST_MEMBERS if path else most_first, name_of):
            if isinstance(member, _Group):
                inner_path = (*path, *ranges, level_name(member.path[-1]))
                taken[inner_path] = count = taken.get(inner_path, 0) + 1
                pending.append(
                    (member, inner_path if count == 1 else (*inner_path[:-1], f"{inner_path[-1]} ({count})"))
                )
            else:
                paths[member] = (*path, *ranges)
    return paths


def _cut(
    members: Sequence[Item | _Group[Item]],
    clones_of: Callable[[Item], Sequence[Item]],
    most: int,
    name_of: Callable[[Item], str],
) -> Iterator[tuple[Item | _Group[Item], ScopePath]]:
    """Members with the names of the ranges that they are in, outermost first; none where they are few."""
    count = len(members)
    parts = most if count > most < MOST_MEMBERS else -(-count // MOST_MEMBERS)
    ranges = list(_ranges(members, clones_of, min(MOST_MEMBERS, -(-count // max(parts, 1)))))
    if len(ranges) <= 1 or (count <= most and most < MOST_MEMBERS):
        yield from ((member, ()) for member in members)
        return
    levels = [[_range_name(number, part, name_of) for number, part in enumerate(ranges, 1)]]
    outer = [list(range(len(ranges)))]
    while len(levels[-1]) > most:
        names = levels[-1]
        size = max(2, min(MOST_MEMBERS, -(-len(names) // most)))
        parts = [names[start : start + size] for start in range(0, len(names), size)]
        levels.append([f"{number}: {part[0]} ... {part[-1]}"[:LONGEST_LEVEL] for number, part in enumerate(parts, 1)])
        outer.append([owner // size for owner in outer[-1]])
    for number, part in enumerate(ranges):
        path = tuple(levels[level][outer[level][number]] for level in reversed(range(len(levels))))
        yield from ((member, path) for member in part)


def _ranges(
    members: Sequence[Item | _Group[Item]], clones_of: Callable[[Item], Sequence[Item]], size: int
) -> Iterator[list[Item | _Group[Item]]]:
    """Members in order, in batches whose size allows for the clones that they need."""
    part: list[Item | _Group[Item]] = []
    clones: set[Item] = set()
    for member in members:
        needed = () if isinstance(member, _Group) else clones_of(member)
        added = 1 + sum(clone not in clones for clone in needed)
        if part and (len(part) >= size or len(part) + len(clones) + added > MOST_MEMBERS):
            yield part
            part, clones = [], set()
        part.append(member)
        clones.update(needed)
    if part:
        yield part


def _range_name(number: int, part: Sequence[Item | _Group[Item]], name_of: Callable[[Item], str]) -> str:
    first, last = (member.path[-1] if isinstance(member, _Group) else name_of(member) for member in (part[0], part[-1]))
    return level_name(f"{number}: {first} ... {last}" if first != last else f"{number}: {first}")
