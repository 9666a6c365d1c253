"""Rules on select; they are exact.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSelect).
"""

from __future__ import annotations

from hloom.rewrite import (
    Family,
)

SELECT = Family("select", formerly="selection")


SELECT.table("""
select-between-the-same [3]: select|tuple-select(p, x, x) -> x  # either is x
select-by-constant [3]: f(p, x, y) -> x if p is all-ones; f(p, x, y) -> y if p is zero for f in select, tuple-select
    # the predicate is known
select-by-not [2]: select(not(p), x, y) -> select(p, y, x)  # where one is true the other is not
select-truths [3]: select(p, c, z) -> p; select(p, z, c) -> not(p)
    where c is all-ones, z is zero, predicate, p is static  # the predicate is what it chooses
select-one-truth [2]: select(p, c, q) -> or(p, q) if c is all-ones; select(p, q, z) -> and(p, q) if z is zero
    where predicate, same-type(p, root)  # true is what or adds, and false what and takes away
select-the-compared [2]: select(compare(x, y, direction=EQ), x, y) -> y; select(compare(x, y, direction=NE), x, y) -> x;
    select(compare(x, y, direction=GE|GT), x, y) -> or(x, y) if predicate;
    select(compare(x, y, direction=GE|GT), x, y) -> maximum(x, y);
    select(compare(x, y, direction=LE|LT), x, y) -> and(x, y) if predicate;
    select(compare(x, y, direction=LE|LT), x, y) -> minimum(x, y)
    where integer or predicate  # floats have two zeros that are equal, and NaN
select-of-select [2]: select(p, select(p, x, y), z) -> select(p, x, z); select(p, x, select(p, y, z)) -> select(p, x, z)
    # the inner one chooses as the outer one does
select-around-update: select(p, x, u:dynamic-update-slice(x, y, i...)) ->
    dynamic-update-slice(x, select(taken(p, u), taken(x, u), y), i);
    select(p, u:dynamic-update-slice(x, y, i...), x) -> dynamic-update-slice(x, select(taken(p, u), y, taken(x, u)), i)
    where u is used once, p and x and y are static  # outside of the slice both alternatives are x
""")
