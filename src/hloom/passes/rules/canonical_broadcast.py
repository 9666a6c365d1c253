"""Broadcasts that keep the order of the dimensions that they spread.

Follows XLA's xla/hlo/transforms/simplifiers/broadcast_canonicalizer.cc (BroadcastCanonicalizer).
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.rewrite import Family, register_value

CANONICAL_BROADCAST = Family("canonical-broadcast")


CANONICAL_BROADCAST.table("""
broadcast-in-order [1, depth 1]: broadcast(x, dimensions=d) ->
    broadcast(transpose(x, dimensions=ranked(d)), type=root, dimensions=in-order(d)) where static, falling(d)
    # a transpose puts them in order before
""")


def _ranked(dims: Sequence[int]) -> tuple[int, ...]:
    """The permutation that puts dimensions in order."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


register_value("ranked", _ranked)
register_value("in-order", lambda dims: tuple(sorted(dims)))
