"""Progress of long work, reported to a listener.

Work of known length uses `tracked` or calls `report`, a search calls `say`; a program listens with `listening`. Work
inside a tracked loop is part of it and reports nothing itself.
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
    """The callbacks, and whether some work is already reporting, in which case nested work stays silent."""

    told: Callable[[int, int], None]
    said: Callable[[str], None]
    is_busy: bool = False


_LISTENER: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(told: Callable[[int, int], None], said: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Call `told` with the work done and the total, and `said` with what is known so far, while the block runs."""
    token = _LISTENER.set(_Listener(told, said))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report(done: int, total: int) -> None:
    """Report how much work is done; does nothing if nobody listens or an enclosing loop reports."""
    listener = _LISTENER.get()
    if listener is not None and not listener.is_busy:
        listener.told(done, total)


def say(answer: str) -> None:
    """Tell what is known so far, in a few words; does nothing if nobody listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.said(answer)


def tracked(items: Sequence[Item], size: Callable[[Item], int] = lambda item: 1) -> Iterator[Item]:
    """The items of a loop, reporting progress after each; `size` gives each item's share of the work.

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
