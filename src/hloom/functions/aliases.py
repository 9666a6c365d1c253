"""Arrays that may share elements after a control-flow join: writing through one name makes the others unreadable.

    a = x if p else y; a[0] = 1   ->   x and y may not be read any more, for only the run knows which of them changed

Python's names for one array all see a change of its elements. Names that meant one array on every path before a join
mean one array after it; of the others it is known which array they were on each path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hloom.functions.values import Array, ConflictingValue
from hloom.functions.views import is_row_major
from hloom.ir import reachable

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter
    from hloom.functions.joins import Join
    from hloom.functions.store import Store

Origins = tuple[tuple[int, Array], ...]
"""For each path that meets: what identifies it within its join, and the array that comes from it."""


class Aliases:
    """Which arrays of one program may share elements."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self._origins: dict[Array, tuple[int, Join | None, dict[int, Array]]] = {}
        self._neighbours: dict[Array, list[Array]] = {}

    def joined(self, array: Array, join: Join, origins: Origins) -> Array:
        """The array after a join of which one comes from each path: the same for all names that meant one array."""
        key = tuple((path, id(origin)) for path, origin in origins)
        known = join.arrays.get(key)
        if known is not None:
            return known
        join.arrays[key] = array
        self._origins[array] = len(self._origins), join, dict(origins)
        array.is_boxed = not array.dims
        array.is_fixed = all(origin.identity.is_fixed for _, origin in origins)
        array.is_row_major = all(is_row_major(origin) for _, origin in origins)
        protected = self.interpreter.protected
        for _, origin in origins:
            memory = origin.memory
            self._connect(memory, array)
            if memory in protected:
                protected[array] = f"on one of the paths that met, {protected[memory]}"
        return array

    def may_share(self, array: Array, memory: Array) -> None:
        """Note that a new array may be a view of another or a copy: NumPy decides by how the other is laid out."""
        number, join, origins = self._origins.get(array, (len(self._origins), None, {}))
        self._origins[array] = number, join, {**origins, -1 - len(origins): memory}
        self._connect(memory, array)
        if memory in self.interpreter.protected:
            self.interpreter.protected[array] = f"it may be a view, and {self.interpreter.protected[memory]}"

    def _connect(self, memory: Array, array: Array) -> None:
        self._neighbours.setdefault(memory, []).append(array)
        self._neighbours.setdefault(array, []).append(memory)

    def share(self, left: Array, right: Array) -> bool:
        """Whether two arrays may share elements."""
        return self._may_share(left, right, {})

    def changed(self, root: Array) -> None:
        """Elements of an array were changed: others that may share them are unreadable from here on."""
        if root not in self._neighbours:
            return
        seen = set(reachable([root], lambda one: self._neighbours.get(one, ())))
        known: dict[tuple[int, int], bool] = {}
        reason = "this array may be one whose elements were changed since under another name: only the run knows"
        for other in seen - {root}:
            if self._may_share(root, other, known):
                self.interpreter.store.set(other, ConflictingValue(reason))

    def _may_share(self, left: Array, right: Array, known: dict[tuple[int, int], bool]) -> bool:
        left, right = left.memory, right.memory
        if left is right:
            return True
        key = id(left), id(right)
        if key not in known:
            known[key] = False
            known[key] = self._origins_may_share(left, right, known)
        return known[key]

    def _origins_may_share(self, left: Array, right: Array, known: dict[tuple[int, int], bool]) -> bool:
        a, b = self._origins.get(left), self._origins.get(right)
        if a is not None and b is not None and a[1] is b[1] is not None:
            return any(
                self._may_share(origin, other, known)
                for path, origin in a[2].items()
                for other in ([b[2][path]] if path in b[2] else b[2].values())
            )
        if b is None or (a is not None and a[0] > b[0]):
            return a is not None and any(self._may_share(origin, right, known) for origin in a[2].values())
        return any(self._may_share(left, origin, known) for origin in b[2].values())


def origins_of(rows: Sequence[tuple[Any, Store]]) -> Origins:
    """The arrays of paths that meet, if their elements may be changed."""
    if not all(isinstance(value, Array) and value.has_elements for value, _ in rows):
        return ()
    return tuple((id(store), value.identity) for value, store in rows)
