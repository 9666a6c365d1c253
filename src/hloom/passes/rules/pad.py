"""Rules on pad and concatenate. Elements are only moved: every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandlePad, HandleConcatenate).
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, Node, PaddingDimension, SliceDimension, TensorType
from hloom.passes.rules.dimensions import (
    broadcast_dims,
    is_empty,
    replace_if_compatible,
    resized,
    scalar_of,
    without,
)
from hloom.rewrite import (
    Builder,
    Family,
    literal_value,
    operand_is,
    register_condition,
    register_value,
    tensor_type,
    used_once,
)

PAD = Family("pad", formerly="padding")

_NONE = PaddingDimension(0, 0)


PAD.table("""
pad-by-nothing [4]: pad(x, v, padding=p) -> in-place(x, root) if adds-nothing(p), same-array(root, x)
    # no element is added
pad-of-no-elements [4]: pad(x, v) -> spread(v, root) if static, x is empty, same-elements(v, root)  # only v is left
""")


@PAD.rewrites("pad", benefit=3, because="computes the padding")
def pad_between_one(build: Builder, node: Apply) -> Node | None:
    """pad(x, value), padding=1_1_2 -> pad(x, value), padding=1_1, where a dimension has one element: none in between"""
    source = tensor_type(node.operands[0])
    if source is None or tensor_type(node) is None:
        return None
    padding = tuple(
        PaddingDimension(amount.low, amount.high) if size == 1 and amount.interior else amount
        for amount, size in zip(_padding(node), source.dims, strict=True)
    )
    return None if padding == _padding(node) else build.like(node, *node.operands, padding=padding)


@PAD.rewrites("pad", benefit=3, because="computes the padding and a slice")
def pad_by_less(build: Builder, node: Apply) -> Node | None:
    """pad(x, value), padding=-1_2 -> slice(pad(x, value), padding=0_2): what is taken away, a slice takes"""
    array_type, source = tensor_type(node), tensor_type(node.operands[0])
    padding = _padding(node)
    if array_type is None or source is None or all(amount.low >= 0 and amount.high >= 0 for amount in padding):
        return None
    positive = tuple(PaddingDimension(max(amount.low, 0), max(amount.high, 0), amount.interior) for amount in padding)
    wide: Node = node.operands[0]
    if any(amount != _NONE for amount in positive) or source.dtype is not array_type.dtype:
        wide = build.op("pad", *node.operands, padding=positive)
    assert isinstance(wide.type, TensorType)
    parts = [
        SliceDimension(max(-amount.low, 0), size - max(-amount.high, 0))
        for amount, size in zip(padding, wide.type.dims, strict=True)
    ]
    return build.op("slice", wide, slice=tuple(parts))


PAD.table("""
pad-with-the-same [2]: pad(b:broadcast(s), v) -> spread(s, root)
    if static, b is static, s is scalar, same-bits(s, v), same-elements(s, root)  # each element is s
pad-of-pad: pad(p:pad(x, v, padding=a), w, padding=b) -> pad(x, v, padding=joined(a, b))
    if static, x is static, p is used once, same-bits(v, w), same-array(v, w), outermost(a, b)
    # both add the same value at the edges
""")


@PAD.rewrites(
    "pad", requires=operand_is(0, "broadcast"), because="computes the shape without the dimensions that are not padded"
)
def pad_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """pad(broadcast(x), value) -> broadcast(pad(broadcast(x), value)), padding fewer dimensions

    The dimensions that are not padded are added last, where x has none of them.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "broadcast" else None
    if array_type is None or source is None or not used_once(inner) or is_empty(array_type):
        return None
    padded = [dim for dim, amount in enumerate(_padding(node)) if amount != _NONE]
    if len(padded) in (0, array_type.rank) or not set(broadcast_dims(inner)) <= set(padded):
        return build.decline("every dimension is padded or none, or one of what is broadcast is not")
    idle = [dim for dim in range(array_type.rank) if dim not in padded]
    wide = tensor_type(inner)
    assert wide is not None
    dimensions = tuple(padded.index(dim) for dim in broadcast_dims(inner))
    narrow = build.op(
        "broadcast", inner.operands[0], type=resized(wide, without(wide.dims, idle)), dimensions=dimensions
    )
    made = build.op("pad", narrow, node.operands[1], padding=tuple(_padding(node)[dim] for dim in padded))
    return build.op("broadcast", made, type=array_type, dimensions=tuple(padded))


PAD.table("""
concatenate-of-one [4]: concatenate(x) -> in-place(x, root)  # nothing is joined
""")


@PAD.rewrites("concatenate", benefit=4, because="takes any number of operands")
def concatenate_of_nothing(build: Builder, node: Apply) -> Node | None:
    """concatenate(x, empty, y) -> concatenate(x, y)"""
    types = _types(node)
    if types is None or tensor_type(node) is None:
        return None
    full = [operand for operand, array_type in zip(node.operands, types, strict=True) if not is_empty(array_type)]
    if len(full) == len(node.operands):
        return None
    if len(full) < 2:
        return replace_if_compatible(build, node, full[0] if full else node.operands[0])
    return build.op("concatenate", *full, dimensions=node.attributes["dimensions"])


@PAD.rewrites("concatenate", benefit=3, because="takes any number of operands")
def concatenate_of_concatenate(build: Builder, node: Apply) -> Node | None:
    """concatenate(x, concatenate(y, z)) -> concatenate(x, y, z), along the same dimension"""
    if tensor_type(node) is None or not any(_joins_along(operand, node) for operand in node.operands):
        return None
    flat = [
        part for operand in node.operands for part in (operand.operands if _joins_along(operand, node) else (operand,))
    ]
    return build.op("concatenate", *flat, dimensions=node.attributes["dimensions"])


@PAD.rewrites("concatenate", benefit=2, because="takes any number of operands")
def concatenate_of_neighbours(build: Builder, node: Apply) -> Node | None:
    """concatenate(slice(x), [0:2], slice(x), [2:5]) -> slice(x), [0:5]"""
    if tensor_type(node) is None:
        return None
    (along,) = node.attributes["dimensions"]
    joined: list[tuple[Node, tuple[SliceDimension, ...] | None]] = []
    for operand in node.operands:
        parts = _plain_parts(operand)
        before = joined[-1] if joined else None
        if parts and before and before[1] and _is_next(before[0], before[1], operand, parts, along):
            joined[-1] = before[0], _grown(before[1], along, parts[along].limit)
        else:
            joined.append((operand, parts))
    if len(joined) == len(node.operands):
        return None
    operands = [
        build.op("slice", operand.operands[0], slice=parts) if parts and parts != _plain_parts(operand) else operand
        for operand, parts in joined
    ]
    if len(operands) > 1:
        return build.op("concatenate", *operands, dimensions=node.attributes["dimensions"])
    return operands[0]


@PAD.rewrites("concatenate", benefit=2, because="takes any number of operands")
def concatenate_of_one_scalar(build: Builder, node: Apply) -> Node | None:
    """concatenate(broadcast(s), broadcast(s)) -> broadcast(s), of one scalar"""
    array_type, scalars = tensor_type(node), [scalar_of(operand) for operand in node.operands]
    first = scalars[0] if scalars else None
    if array_type is None or first is None or len(scalars) < 2:
        return None
    if not all(
        scalar is not None and _same_value(first, scalar) and _same_element(scalar, array_type) for scalar in scalars
    ):
        return None
    return build.broadcast(first, array_type)


@PAD.rewrites("concatenate", because="computes the padding")
def concatenate_of_scalar_at_edge(build: Builder, node: Apply) -> Node | None:
    """concatenate(x, broadcast(s)) -> pad(x, s), and with the broadcast in front"""
    array_type, types = tensor_type(node), _types(node)
    if array_type is None or types is None or len(types) != 2 or types[0].dtype is not types[1].dtype:
        return None
    (along,) = node.attributes["dimensions"]
    scalars = [scalar_of(operand) for operand in node.operands]
    padding = [_NONE] * array_type.rank
    if scalars[0] is not None:
        padding[along] = PaddingDimension(types[0].dims[along], 0)
        return build.op("pad", node.operands[1], scalars[0], padding=tuple(padding))
    if scalars[1] is not None:
        padding[along] = PaddingDimension(0, types[1].dims[along])
        return build.op("pad", node.operands[0], scalars[1], padding=tuple(padding))
    return None


@PAD.rewrites("concatenate", because="takes any number of operands")
def concatenate_of_the_same(build: Builder, node: Apply) -> Node | None:
    """concatenate(x, x, x) -> broadcast(reshape(x)), along a dimension of which x has one element"""
    array_type, source = tensor_type(node), tensor_type(node.operands[0]) if node.operands else None
    if array_type is None or source is None or len(node.operands) < 2 or set(node.operands) != {node.operands[0]}:
        return None
    (along,) = node.attributes["dimensions"]
    if source.dims[along] != 1:
        return None
    smaller = build.op("reshape", node.operands[0], type=resized(source, without(source.dims, [along])))
    return build.op("broadcast", smaller, type=array_type, dimensions=without(range(array_type.rank), [along]))


def _padding(node: Node) -> tuple[PaddingDimension, ...]:
    return node.attributes["padding"]


def _types(node: Node) -> Sequence[TensorType] | None:
    """The types of the operands, where all are arrays of static dimensions."""
    types = [tensor_type(operand) for operand in node.operands]
    known = [array_type for array_type in types if array_type is not None]
    return known if len(known) == len(types) else None


def _same_value(a: Node, b: Node) -> bool:
    """Whether two scalars have the same bits: the same node, or equal constants."""
    return a is b or (literal_value(a) is not None and literal_value(a) == literal_value(b))


def _same_element(node: Node, array_type: TensorType) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype is array_type.dtype


def _joins_along(operand: Node, node: Node) -> bool:
    return (
        operand.opcode == "concatenate"
        and operand.attributes["dimensions"] == node.attributes["dimensions"]
        and tensor_type(operand) is not None
    )


def _plain_parts(node: Node) -> tuple[SliceDimension, ...] | None:
    """What a slice takes, where it takes neighbours; None for all else."""
    if node.opcode != "slice" or tensor_type(node) is None or tensor_type(node.operands[0]) is None:
        return None
    parts = node.attributes["slice"]
    return parts if all(part.stride == 1 for part in parts) else None


def _is_next(
    before: Node, parts: tuple[SliceDimension, ...], after: Node, following: tuple[SliceDimension, ...], along: int
) -> bool:
    if before.operands[0] is not after.operands[0] or parts[along].limit != following[along].start:
        return False
    return _all_but(parts, along) == _all_but(following, along)


def _all_but(parts: tuple[SliceDimension, ...], along: int) -> tuple[SliceDimension, ...]:
    """All parts but one."""
    return (*parts[:along], *parts[along + 1 :])


def _grown(parts: tuple[SliceDimension, ...], along: int, limit: int) -> tuple[SliceDimension, ...]:
    return (*parts[:along], SliceDimension(parts[along].start, limit), *parts[along + 1 :])


def _same_elements(node: Node, other: Node) -> bool:
    return isinstance(other.type, TensorType) and _same_element(node, other.type)


def _is_outermost(inner: Sequence[PaddingDimension], outer: Sequence[PaddingDimension]) -> bool:
    """Whether neither padding takes away, and the outer one adds nothing between elements."""
    lows = [
        min(outside.low, outside.high, inside.low, inside.high) for inside, outside in zip(inner, outer, strict=True)
    ]
    return min(lows, default=0) >= 0 and not any(outside.interior for outside in outer)


def _joined(inner: Sequence[PaddingDimension], outer: Sequence[PaddingDimension]) -> tuple[PaddingDimension, ...]:
    """One padding for one around another."""
    return tuple(
        PaddingDimension(inside.low + outside.low, inside.high + outside.high, inside.interior)
        for inside, outside in zip(inner, outer, strict=True)
    )


register_condition("adds-nothing", lambda padding: all(amount == _NONE for amount in padding))
register_condition("same-elements", _same_elements)
register_condition("same-bits", _same_value)
register_condition("outermost", _is_outermost)
register_value("joined", _joined)
