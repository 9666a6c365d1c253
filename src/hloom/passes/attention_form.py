"""Attention in a normal form: queries, keys, values, and the steps applied to their scores."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir import Node, TensorType, dtype
from hloom.ops import OPS
from hloom.rewrite import Builder

STEPS = ("tanh", "negate", "add", "subtract", "multiply", "divide", "maximum", "minimum")
"""Ops that may be applied to scores, or combine them with a number or a term, as library kernels take them."""
UNARY = {opcode for opcode in STEPS if OPS[opcode].arity == (1, 1)}


@dataclass(frozen=True, slots=True)
class ScoreStep:
    """A step applied to scores: an opcode, and the other operand, a number or (None) the next term.

    `is_second` says that the scores are the second operand. The first operand of a `select` is always a term, the mask;
    scores are what it chooses where it is true, or, if they are second, where it is false.
    """

    opcode: str
    number: float | None = None
    is_second: bool = False

    @property
    def has_term(self) -> bool:
        """Whether a binary step's other operand is a term, not a number."""
        return self.number is None and self.opcode not in UNARY

    def as_tuple(self) -> tuple[str, float | None, bool]:
        """The same as a tuple, for keywords of functions."""
        return self.opcode, self.number, self.is_second


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """softmax over keys of the scores, times values; `terms` are those of the steps, in order.

    Of `batch` batch dimensions and `rows` dimensions of queries: q is [batch, rows, d], k [batch, keys, d], v [batch,
    keys, e]; terms are [batch, rows, keys], with size 1 where they do not vary. The result has to be [batch, rows, e].
    """

    q: Node
    k: Node
    v: Node
    terms: tuple[Node, ...]
    steps: tuple[ScoreStep, ...]
    batch: int
    rows: int
    order: tuple[int, ...]
    dims: tuple[int, ...]
    kept: Node | None = None

    def finish(self, build: Builder, result: Node, like: Node) -> Node:
        """The result, [batch, rows, e], given the dimensions and type of the node it replaces."""
        assert isinstance(result.type, TensorType) and isinstance(like.type, TensorType), "they are arrays"
        whole = build.reshape(result, TensorType(result.type.dtype, self.dims))
        turned = build.transpose(whole if self.kept is None else self._zeroed(build, whole, self.kept), self.order)
        return build.convert(build.reshape(turned, TensorType(result.type.dtype, like.type.dims)), like.type.dtype)

    def _zeroed(self, build: Builder, result: Node, kept: Node) -> Node:
        """The result with zeros in the rows that keep no key."""
        assert isinstance(result.type, TensorType), "it is an array"
        truth, rows = dtype("pred"), self.batch + self.rows
        nothing = build.constant(False, truth)
        some = build.op("reduce", kept, nothing, dimensions=(rows,), to_apply=build.reducer("or", truth))
        ones = (1,) * (len(self.dims) - rows)
        whole = repeated(build, build.reshape(some, TensorType(truth, (*some.dims, *ones))), self.dims)
        return build.op("select", whole, result, build.constant(0, result.type))


def repeated(build: Builder, node: Node, dims: tuple[int, ...]) -> Node:
    """A value broadcast to these dimensions; it has size 1 in some of them."""
    if dims == node.dims:
        return node
    assert isinstance(node.type, TensorType), "it is an array"
    kept = tuple(dim for dim, size in enumerate(node.dims) if size == dims[dim])
    narrow = build.reshape(node, TensorType(node.type.dtype, tuple(dims[dim] for dim in kept)))
    return build.op("broadcast", narrow, type=TensorType(node.type.dtype, dims), dimensions=kept)
