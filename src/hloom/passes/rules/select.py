"""Rules on select; they are exact.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSelect).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.rewrite import (
    Builder,
    Family,
    some_operand,
    tensor_type,
    used_once,
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
""")


@SELECT.rewrites("select", requires=some_operand("dynamic-update-slice"))
def select_around_update(build: Builder, node: Apply) -> Node | None:
    """select(p, x, dynamic-update-slice(x, u, i)) ->
    dynamic-update-slice(x, select(dynamic-slice(p, i), dynamic-slice(x, i), u), i)

    So too with the update on the other side: outside of the slice both alternatives are x.
    """
    predicate, on_true, on_false = node.operands
    for update, whole, is_left in ((on_false, on_true, True), (on_true, on_false, False)):
        if update.opcode == "dynamic-update-slice" and update.operands[0] is whole and used_once(update):
            return _update_by(build, predicate, update, is_left)
    return None


def _update_by(build: Builder, predicate: Node, update: Node, is_left: bool) -> Node | None:
    whole, part, *starts = update.operands
    array_type, choice = tensor_type(part), tensor_type(predicate)
    if array_type is None or choice is None or tensor_type(whole) is None:
        return None
    sizes = array_type.dims
    if choice.rank:
        predicate = build.op("dynamic-slice", predicate, *starts, dynamic_slice_sizes=sizes)
    before = build.op("dynamic-slice", whole, *starts, dynamic_slice_sizes=sizes)
    chosen = build.op("select", predicate, *((before, part) if is_left else (part, before)))
    return build.op("dynamic-update-slice", whole, chosen, *starts)
