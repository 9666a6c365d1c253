"""Op traits: facts about an opcode's meaning that rewrites and models query."""

from __future__ import annotations

from enum import Enum, auto


class Trait(Enum):
    """A fact about an op. A row of `ops` lists the traits of its op, and tests hold each one against the evaluator.

    About numbers, for operands of real element types; `ROUNDS` holds for complex ones too:

    - ELEMENTWISE: an element of the result depends only on the elements of the operands at the same index. Operands may
      be scalars where the row allows it, and a `bitcast-convert` that changes the width of elements is the exception.
    - COMMUTATIVE: the two operands may be swapped. For zeros of opposite signs, and for NaNs with different bits,
      `maximum` and `minimum` may then return the other one.
    - ASSOCIATIVE: of three values, either pair may be combined first, except for rounding.
    - IDEMPOTENT: applying it again changes nothing: `f(x, x)` is `x`, or `f(f(x))` is `f(x)` for one operand.
    - ROUNDS: the exact result may fall between two floating-point numbers, so its last bits depend on how the compiler
      computes it: separately, or in wider types inside a fusion.
    - PROPAGATES_NAN: where an operand is NaN, so is the result.
    - REPRESENTATION: its result depends on the bits of floating-point numbers, or names a format for them. Of wider
      numbers it is another function, or none.
    - TRANSCENDENTAL: it computes an approximation of a function other than the four operations of arithmetic, and costs
      many instructions. XLA's cost analysis counts these apart.

    About data:

    - MOVES_DATA: it does no arithmetic. Every element of the result is an element of an operand.
    - REINDEXES: it moves data, and attributes alone say which element of its one operand goes where: no element is read
      from an index, chosen, or joined with those of another array.
    - KEEPS_ORDER: it reindexes, and keeps the elements' row-major order and number: only the type changes.
    - READS_PART: it reads of its first operand no more than what it yields.
    - GENERATES: its result has no operand: it is computed from attributes where it is used.
    - TUPLE: it builds a tuple of its operands, or takes an element out of one. Nothing is computed or moved.
    - DEVICE_ID: it yields the number of the replica or partition that runs it.
    - CONTRACTS: it multiplies two arrays and sums products over dimensions that the result does not have.
    - RANDOM: it draws random numbers.

    About execution:

    - COLLECTIVE: devices of a group exchange data. Both halves of an asynchronous collective have the trait.
    - POINT_TO_POINT: one device sends to another, or to the host, through a channel.
    - HOST_FEED: it transfers data between a device and the program that started it.
    - ASYNC_START, ASYNC_UPDATE, ASYNC_DONE: the parts of an operation that runs concurrently with others.
    """

    ELEMENTWISE = auto()
    COMMUTATIVE = auto()
    ASSOCIATIVE = auto()
    IDEMPOTENT = auto()
    ROUNDS = auto()
    PROPAGATES_NAN = auto()
    REPRESENTATION = auto()
    TRANSCENDENTAL = auto()
    MOVES_DATA = auto()
    REINDEXES = auto()
    KEEPS_ORDER = auto()
    READS_PART = auto()
    GENERATES = auto()
    TUPLE = auto()
    DEVICE_ID = auto()
    CONTRACTS = auto()
    RANDOM = auto()
    COLLECTIVE = auto()
    POINT_TO_POINT = auto()
    HOST_FEED = auto()
    ASYNC_START = auto()
    ASYNC_UPDATE = auto()
    ASYNC_DONE = auto()

    __hash__ = object.__hash__  # looked up very often; Enum's own hash is implemented in Python
