"""How far work has come, for whoever shows it.

Work that knows its end goes through `tracked`, or calls `report`; a program listens with `listening`. What a tracked
loop calls is a part of it, and reports nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(slots=True)
class _Listener:
    """Who is told, and whether some work reports already: what it calls is a part of it and keeps silent."""

    told: Callable[[int, int], None]
    is_busy: bool = False


_LISTENER: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(told: Callable[[int, int], None]) -> Iterator[None]:
    """Tell how much is done, and of how much, while the block runs; in the same thread."""
    token = _LISTENER.set(_Listener(told))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report(done: int, total: int) -> None:
    """Say how much of some work is done; nothing where nobody listens or a loop around it reports."""
    listener = _LISTENER.get()
    if listener is not None and not listener.is_busy:
        listener.told(done, total)


def tracked(items: Sequence[Item], size: Callable[[Item], int] = lambda item: 1) -> Iterator[Item]:
    """The items of a loop, reported as they are done; `size` says how much of the work one of them is.

    >>> with listening(print):
    ...     names = [name for name in tracked(["a", "b"])]
    0 2
    1 2
    2 2
    """
    listener = _LISTENER.get()
    if listener is None or listener.is_busy:
        yield from items
        return
    done, total = 0, sum(map(size, items))
    listener.is_busy = True
    try:
        listener.told(done, total)
        for item in items:
            yield item
            done += size(item)
            listener.told(done, total)
    finally:
        listener.is_busy = False
