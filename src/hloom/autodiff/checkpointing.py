"""Online checkpointing inside HLO, for loops whose trip count is only known at run time.

The forward loop saves the state at every d-th iteration in one of a fixed number of slots; when they are full, d
doubles and every second slot is freed. The backward loop processes iterations from the last to the first: it recomputes
from the latest checkpoint, saving more states in free slots at binomial checkpointing distances, and steps back by one.
So memory does not depend on the trip count, and with the default number of slots, up to 100,000 iterations are each
computed at most three times in addition to the forward loop.

Source: Stumm and Walther, New algorithms for optimal online checkpointing, SIAM J. Sci. Comput. 32 (2010); Griewank and
Walther, Algorithm 799: revolve, ACM Trans. Math. Softw. 26 (2000), for the distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from hloom.autodiff.activity import bits
from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import S32, Emitter, array_type, flatten, leaf_types, unflatten
from hloom.autodiff.linear import Tape
from hloom.autodiff.linearize import Linearized, Task, Transposed, Walk, linearized, place_of, transposed
from hloom.autodiff.loop_state import LoopState, loop, with_leaves
from hloom.ir import Apply, Graph, Node, SliceDimension, TensorType, Trait
from hloom.ops import with_trait
from hloom.text import Unsupported

SLOTS = 128
"""The default number of slots: 10^5 iterations are then each computed twice more, and once with their derivative."""
MOST_REPETITIONS = 40
"""Columns of the table of binomials: how often an iteration may be computed again. With the default slots beta(128, 4)
is 12 million iterations already, so that more columns are for loops with few slots only."""
LARGEST = 2**30
"""Entries of the table are cut to this many iterations, so that they fit into s32."""


@dataclass(slots=True)
class Checkpointed:
    """A loop's body, linearized and transposed, and the leaves of its state that change and so are kept in slots."""

    node: Apply
    part: Linearized
    back: Transposed
    changing: list[int]
    slots: int
    carried: list[int]


@dataclass(slots=True)
class Kept:
    """The results of the forward loop: trip count, distance, number of checkpoints, their slots, and the buffers."""

    count: Node
    distance: Node
    used: Node
    slot_of: Node
    buffers: list[Node]


def checkpointed(walk: Walk, node: Apply, init: Node, leaves: list[Any], active: int) -> Task:
    """A loop with checkpoints: inside another loop, kept when the backward pass comes to it, not before."""
    session = walk.session
    _check_repeatable(node)
    emitter, value_type, types = walk.emitter, node.type, leaf_types(node.type)
    assert value_type is not None, "a loop has a type"
    session.loop_depth += 1
    part = yield linearized(session, node.attributes["body"], active, active)
    session.loop_depth -= 1
    part.forward.set_output(part.value)
    back = transposed(session, part, bits(active))
    state = LoopState(part.forward, part.value, node.operands[0])
    changing = [leaf for leaf in range(len(types)) if leaf not in state.invariant]
    slots = session.options.checkpoints or SLOTS
    slots += slots % 2
    work = Checkpointed(node, part, back, changing, slots, sorted({*part.inputs, *back.cotangents}))
    started = flatten(emitter, init)
    kept: Kept | None = None
    if session.loop_depth:
        value = emitter.op("while", init, **node.attributes)
    else:
        done, kept = _forward(emitter, work, started)
        value = unflatten(emitter, value_type, done)
    given = sorted(part.inputs)  # those that the body overwrites too: the loop may not run at all

    def transpose(backward: Backward, cotangents: list[Node | None]) -> None:
        value = {leaf: cotangent for leaf, cotangent in zip(given, cotangents, strict=True) if cotangent is not None}
        begun = [backward.use(value) if value.graph is not backward.graph else value for value in started]
        held = kept if kept is not None else _forward(backward, work, begun)[1]
        for leaf, result in _backward(backward, work, begun, held, value).items():
            backward.give(leaves[leaf], result)

    assert isinstance(walk.ops, Tape), "reverse mode"
    outputs = walk.ops.call([types[leaf] for leaf in given], leaves, transpose)
    tangents = dict(zip(given, outputs, strict=True))
    return value, [tangents.get(leaf) for leaf in range(len(types))]


NOT_REPEATED = (with_trait(Trait.RANDOM) - {"rng-bit-generator"}) | {"infeed", "recv", "recv-done"}
"""Ops that yield something else each time; a bit generator is given its state."""


def _check_repeatable(node: Apply) -> None:
    """Refuse a loop of which an iteration that is computed again would not be the same. Raises Unsupported."""
    pending: list[Graph] = list(node.called_graphs)
    seen = set(pending)
    while pending:
        for inner in pending.pop().nodes:
            if inner.opcode in NOT_REPEATED:
                raise Unsupported(
                    f"{place_of(inner)}: {inner.opcode} in the loop {node.name}, whose trip count is not known: the"
                    " backward pass computes iterations again, and it would yield something else",
                    hint="max_iterations=N (--max-iterations N) keeps the states of all iterations",
                )
            further = [graph for graph in inner.called_graphs if graph not in seen]
            seen.update(further)
            pending += further


def _forward(emitter: Emitter, work: Checkpointed, started: list[Node]) -> tuple[list[Node], Kept]:
    """The loop in stretches: at the beginning of each the state is kept."""
    node, slots, leaf_count = work.node, work.slots, len(started)
    types = [array_type(started[leaf]) for leaf in work.changing]
    buffers = [emitter.zeros(TensorType(value_type.dtype, [slots, *value_type.dims])) for value_type in types]
    zero, one = emitter.constant(0, S32), emitter.constant(1, S32)
    init = [*started, zero, one, zero, emitter.iota(S32, [slots], 0), *buffers]
    condition_graph: Graph = node.attributes["condition"]

    def goes_on(inner: Emitter, state: list[Node]) -> Node:
        return with_leaves(inner, condition_graph, state[:leaf_count])[condition_graph.root]

    def stretch(inner: Emitter, state: list[Node]) -> list[Node]:
        leaves, (count, distance, used, slot_of) = state[:leaf_count], state[leaf_count : leaf_count + 4]
        is_full = inner.compare("EQ", used, inner.constant(slots, S32))
        distance = inner.select(is_full, inner.add(distance, distance), distance)
        used = inner.select(is_full, inner.constant(slots // 2, S32), used)
        slot_of = inner.select(inner.broadcast(is_full, [slots]), _thinned(inner, slot_of, slots), slot_of)
        slot = _entry(inner, slot_of, used)
        held = [
            put(inner, buffer, leaves[leaf], slot)
            for leaf, buffer in zip(work.changing, state[leaf_count + 4 :], strict=True)
        ]
        end = inner.add(count, distance)

        def within(deeper: Emitter, inside: list[Node]) -> Node:
            below = deeper.compare("LT", inside[leaf_count], inside[leaf_count + 1])
            return deeper.op("and", below, goes_on(deeper, inside))

        def step(deeper: Emitter, inside: list[Node]) -> list[Node]:
            after = advanced(deeper, work, inside[:leaf_count])
            return [*after, deeper.add(inside[leaf_count], deeper.constant(1, S32)), inside[leaf_count + 1]]

        done = loop(inner, f"{node.name}.stretch", [*leaves, count, end], within, step)
        further = [done[leaf_count], distance, inner.add(used, inner.constant(1, S32)), slot_of]
        return [*done[:leaf_count], *further, *held]

    done = loop(emitter, f"{node.name}.checkpointed", init, goes_on, stretch)
    count, distance, used, slot_of = done[leaf_count : leaf_count + 4]
    return done[:leaf_count], Kept(count, distance, used, slot_of, done[leaf_count + 4 :])


def advanced(emitter: Emitter, work: Checkpointed, leaves: Sequence[Node]) -> list[Node]:
    """The state after one iteration."""
    graph: Graph = work.node.attributes["body"]
    return flatten(emitter, with_leaves(emitter, graph, leaves)[graph.root])


def _thinned(emitter: Emitter, slot_of: Node, slots: int) -> Node:
    """The slots of checkpoints 0, 2, 4, ..., then those that become free."""
    even = emitter.op("slice", slot_of, slice=(SliceDimension(0, slots, 2),))
    odd = emitter.op("slice", slot_of, slice=(SliceDimension(1, slots, 2),))
    return emitter.op("concatenate", even, odd, dimensions=(0,))


def _entry(emitter: Emitter, table: Node, index: Node) -> Node:
    return emitter.reshape(emitter.op("dynamic-slice", table, index, dynamic_slice_sizes=(1,)), [])


def put(emitter: Emitter, buffer: Node, value: Node, slot: Node) -> Node:
    value_type = array_type(value)
    zero = emitter.constant(0, S32)
    row = emitter.reshape(value, [1, *value_type.dims])
    return emitter.op("dynamic-update-slice", buffer, row, slot, *[zero] * value_type.rank)


def take(emitter: Emitter, buffer: Node, slot: Node) -> Node:
    dims = array_type(buffer).dims[1:]
    zero = emitter.constant(0, S32)
    row = emitter.op("dynamic-slice", buffer, slot, *[zero] * len(dims), dynamic_slice_sizes=(1, *dims))
    return emitter.reshape(row, dims)


def _backward(
    backward: Backward, work: Checkpointed, started: list[Node], kept: Kept, cotangents: dict[int, Node]
) -> dict[int, Node]:
    """The loop over iterations from the last to the first: the cotangents of the leaves before it."""
    slots, types, carried = work.slots, work.part.forward.parameters[0].type, work.carried
    leaf_kinds = leaf_types(types)
    unchanged = [leaf for leaf in range(len(started)) if leaf not in set(work.changing)]
    one = backward.constant(1, S32)
    spread = backward.broadcast(
        backward.use(kept.distance) if kept.distance.graph is not backward.graph else kept.distance, [slots]
    )
    steps = backward.mul(backward.iota(S32, [slots], 0), spread)
    first = [cotangents.get(leaf) or backward.zeros(leaf_kinds[leaf]) for leaf in carried]
    init = [
        kept.count,
        backward.sub(kept.used, one),
        steps,
        kept.slot_of,
        *first,
        *[started[leaf] for leaf in unchanged],
        *kept.buffers,
    ]

    def remains(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("GT", state[0], inner.constant(0, S32))

    def step_back(inner: Emitter, state: list[Node]) -> list[Node]:
        remaining, top, steps, slot_of = state[:4]
        own = state[4 : 4 + len(carried)]
        constants = state[4 + len(carried) : 4 + len(carried) + len(unchanged)]
        buffers = state[4 + len(carried) + len(unchanged) :]
        target = inner.sub(remaining, inner.constant(1, S32))
        at = _entry(inner, steps, top)
        slot = _entry(inner, slot_of, top)
        values = [take(inner, buffer, slot) for buffer in buffers]
        moved = _advance(inner, work, target, at, top, steps, slot_of, values, constants, buffers)
        top, steps, values, buffers = moved
        leaves = _merged(work.changing, values, unchanged, constants)
        mapping = with_leaves(inner, work.part.forward, leaves)
        incoming = dict(zip(carried, own, strict=True))
        results = work.back.embed(
            inner,
            [incoming[leaf] for leaf in work.back.cotangents],
            [mapping[residual] for residual in work.back.residuals],
        )
        after = [results[leaf] if leaf in results else inner.zeros(leaf_kinds[leaf]) for leaf in carried]
        is_spent = inner.compare("GE", _entry(inner, steps, top), target)
        top = inner.sub(top, inner.convert(is_spent, S32))
        return [target, top, steps, slot_of, *after, *constants, *buffers]

    done = loop(backward, f"{work.node.name}.backward", init, remains, step_back)
    return dict(zip(carried, done[4 : 4 + len(carried)], strict=True))


def _merged(changing: list[int], values: Sequence[Node], unchanged: list[int], constants: Sequence[Node]) -> list[Node]:
    by_leaf = dict(zip([*changing, *unchanged], [*values, *constants], strict=True))
    return [by_leaf[leaf] for leaf in range(len(by_leaf))]


def _advance(
    emitter: Emitter,
    work: Checkpointed,
    target: Node,
    at: Node,
    top: Node,
    steps: Node,
    slot_of: Node,
    values: list[Node],
    constants: list[Node],
    buffers: list[Node],
) -> tuple[Node, Node, list[Node], list[Node]]:
    """Go on from a checkpoint to an iteration, keeping states on the way: top, steps, the state, the buffers."""
    count, slots = len(values), work.slots
    unchanged = [leaf for leaf in range(count + len(constants)) if leaf not in set(work.changing)]
    table = emitter.constant(_binomials(slots), TensorType(S32, [slots + 1, MOST_REPETITIONS]))
    init = [at, top, target, steps, slot_of, table, *values, *constants, *buffers]

    def short(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("LT", state[0], state[2])

    def move(inner: Emitter, state: list[Node]) -> list[Node]:
        at, top, target, steps, slot_of, table = state[:6]
        now = state[6 : 6 + count]
        fixed = state[6 + count : 6 + count + len(constants)]
        held = state[6 + count + len(constants) :]
        length = inner.add(inner.sub(target, at), inner.constant(1, S32))
        end = inner.add(at, _distance(inner, table, length, top, slots))

        def within(deeper: Emitter, inside: list[Node]) -> Node:
            return deeper.compare("LT", inside[0], inside[1])

        def step(deeper: Emitter, inside: list[Node]) -> list[Node]:
            leaves = _merged(work.changing, inside[2 : 2 + count], unchanged, inside[2 + count :])
            after = advanced(deeper, work, leaves)
            moved = deeper.add(inside[0], deeper.constant(1, S32))
            return [moved, inside[1], *[after[leaf] for leaf in work.changing], *inside[2 + count :]]

        done = loop(inner, f"{work.node.name}.advance", [at, end, *now, *fixed], within, step)
        now = done[2 : 2 + count]
        # the state at the target itself is used at once: it needs no slot, and is written where the last one stands
        arrives = inner.compare("GE", end, target)
        is_kept = inner.op("not", arrives)
        top = inner.add(top, inner.convert(is_kept, S32))
        slot = _entry(inner, slot_of, top)
        kept_rows = [
            inner.select(inner.broadcast(is_kept, array_type(value).dims), value, take(inner, buffer, slot))
            for value, buffer in zip(now, held, strict=True)
        ]
        held = [put(inner, buffer, row, slot) for buffer, row in zip(held, kept_rows, strict=True)]
        step_value = inner.select(is_kept, end, _entry(inner, steps, top))
        steps = inner.op("dynamic-update-slice", steps, inner.reshape(step_value, [1]), top)
        return [end, top, target, steps, slot_of, table, *now, *fixed, *held]

    done = loop(emitter, f"{work.node.name}.replay", init, short, move)
    return done[1], done[3], done[6 : 6 + count], done[6 + count + len(constants) :]


def _distance(emitter: Emitter, table: Node, length: Node, top: Node, slots: int) -> Node:
    """How far the next checkpoint is, of so many iterations that remain, with the slots above the top one free.

    With s slots and t repetitions beta(s, t) = (s + t)! / (s! t!) iterations can be reversed. Of the distances that
    keep the smallest t that will do, from length - beta(s - 1, t) to beta(s, t - 1), the middle one is taken.
    """
    last = emitter.sub(length, emitter.constant(1, S32))
    one = emitter.constant(1, S32)
    free = emitter.sub(emitter.constant(slots, S32), top)
    zero = emitter.constant(0, S32)
    sizes = (1, MOST_REPETITIONS)
    row = emitter.reshape(emitter.op("dynamic-slice", table, free, zero, dynamic_slice_sizes=sizes), sizes[1:])
    too_few = emitter.compare("LT", row, emitter.broadcast(length, [MOST_REPETITIONS]))
    repetitions = emitter.reduce("add", emitter.convert(too_few, S32), [0])
    fits = emitter.compare("LT", repetitions, emitter.constant(MOST_REPETITIONS, S32))
    before = emitter.op("maximum", emitter.sub(repetitions, one), zero)
    most = _entry(emitter, row, before)
    below = emitter.sub(free, one)
    lower = emitter.reshape(emitter.op("dynamic-slice", table, below, repetitions, dynamic_slice_sizes=(1, 1)), [])
    high = emitter.op("minimum", most, last)
    low = emitter.op("maximum", one, emitter.sub(length, lower))
    two = emitter.constant(2, S32)
    middle = emitter.div(emitter.add(high, low), two)
    halved = emitter.div(length, two)
    chosen = emitter.select(fits, middle, halved)
    only = emitter.compare("LE", free, one)
    chosen = emitter.select(only, last, chosen)
    return emitter.op("clamp", one, chosen, last)


def _binomials(slots: int) -> np.ndarray:
    """beta(s, t) for s slots, the current one included, and t repetitions; at most 2^30."""
    return np.array(
        [[min(comb(s + t, t), LARGEST) for t in range(MOST_REPETITIONS)] for s in range(slots + 1)], np.int32
    )
