"""The second half of reverse mode: transposes a tape, last entry first, into instructions on cotangents.

The cotangent of a tangent is the sum of what its users give it, made when its turn comes: a user may give a value, or
an update of the sum so far, as a dynamic-slice does, which adds to a part of it in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hloom.analysis import BROADCASTS
from hloom.autodiff.emitter import Emitter, array_type
from hloom.autodiff.linear import Linear, LinearCall, Tape
from hloom.autodiff.recognition import splat, triangle_of
from hloom.autodiff.slice_sums import SlicedPart, add_slices
from hloom.autodiff.table import ABSORPTIONS, TRANSPOSITIONS
from hloom.ir import Apply, Constant, Graph, Node, SliceDimension, Trait
from hloom.ops import with_trait
from hloom.text import Unsupported

Update = Callable[[Node | None], Node]
"""From the sum so far, or None where nothing was given yet, to the sum with a further part."""

MASKABLE = with_trait(Trait.ELEMENTWISE) | {"reshape", "transpose", "reverse"}
"""Ops that a masked cotangent passes with its mask: each element of theirs is made of one of each operand."""

SIGNED = MASKABLE | {"broadcast", "reduce"}
"""Linear ops that a cotangent passes with its sign, among others that no tape has."""

REBUILT = BROADCASTS | with_trait(Trait.KEEPS_ORDER)
"""Ops that cost no arithmetic and whose operand is never larger: made again rather than kept."""


Mask = tuple[Node, bool]
"""A predicate, and whether elements are kept where it is true or where it is false."""


class Part(NamedTuple):
    """A part of a cotangent: `value`, or its negative, where all masks hold, and zero elsewhere.

    The zeros are put in as late as possible: `value` may be infinite or NaN where a mask says zero, and a zero that
    was multiplied by an infinite derivative of the branch not taken would be NaN. Signs wait to become subtractions.
    """

    value: Node
    masks: tuple[Mask, ...] = ()
    negative: bool = False


class Backward(Emitter):
    """The instructions of a backward pass, in the graph of the forward pass or in one of its own.

    In a graph of its own, a value of the forward graph becomes a parameter when it is first used: a residual.
    `residuals` lists the forward values in the order of those parameters.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.residuals: list[Node] = []
        self._imported: dict[Node, Node] = {}
        self._plain: dict[Linear, list[Node]] = {}
        """Cotangents of which no part has a mask or waits for its sign: most. `_values` has the others."""
        self._values: dict[Linear, list[Part]] = {}
        self._slices: dict[Linear, list[SlicedPart]] = {}
        self._updates: dict[Linear, list[Update]] = {}
        self._cleared: dict[tuple[Node, Mask], Node] = {}
        self._masks: tuple[Mask, ...] = ()
        self._negative = False
        self._triangles: dict[Any, Node] = {}
        self.is_absorbing = False
        """Whether the entry that is being transposed has to do without a mask that it absorbs."""

    def use(self, node: Node) -> Node:
        """A forward value as this graph has it."""
        chain: list[Apply] = []
        current = node
        while current not in self._imported and isinstance(current, Apply) and current.opcode in REBUILT:
            chain.append(current)
            if not current.operands:
                break
            current = current.operands[0]
        made = self._imported.get(current) or self._import(current, chain)
        for value in reversed(chain):
            if value.operands:
                made = self.graph.add_apply(value.op, (made,), value.type, value.attributes, metadata=self.metadata)
            self._imported[value] = made
        return made

    def _import(self, node: Node, chain: list[Apply]) -> Node:
        if isinstance(node, Constant) or (chain and chain[-1] is node):
            mapping: dict[Any, Any] = {}
            self.graph.copy_nodes([node], mapping)
            made = mapping[node]
        else:
            made = self.graph.add_parameter(node.type, "residual")
            self.residuals.append(node)
        self._imported[node] = made
        return made

    def give(self, tangent: Any, cotangent: Node | None) -> None:
        """Add to the cotangent of a tangent; nothing where the operand is not a tangent."""
        if cotangent is None or not isinstance(tangent, Linear):
            return
        if self._masks or self._negative or tangent in self._values:
            self._give_part(tangent, Part(cotangent, self._masks, self._negative))
        elif tangent in self._plain:
            self._plain[tangent].append(cotangent)
        else:
            self._plain[tangent] = [cotangent]

    def _give_part(self, tangent: Linear, part: Part) -> None:
        if tangent not in self._values:
            self._values[tangent] = self._parts(tangent)
        self._values[tangent].append(part)

    def give_negative(self, tangent: Any, cotangent: Node) -> None:
        """Subtract from the cotangent of a tangent."""
        if isinstance(tangent, Linear):
            self._give_part(tangent, Part(cotangent, self._masks, not self._negative))

    def give_masked(self, tangent: Any, predicate: Node, holds: bool, cotangent: Node) -> None:
        """Add to the cotangent of a tangent, but only where the predicate is `holds`."""
        if not isinstance(tangent, Linear):
            return
        triangle = triangle_of(predicate)
        if triangle is not None:
            predicate = self._triangles.setdefault(triangle, predicate)
        if (predicate, not holds) in self._masks:
            return
        mask = predicate, holds
        masks = self._masks if mask in self._masks else (*self._masks, mask)
        self._give_part(tangent, Part(cotangent, masks, self._negative))

    def give_slice(self, tangent: Any, limits: tuple[SliceDimension, ...], cotangent: Node) -> None:
        """Add to the part of the cotangent of a tangent that was sliced out of it."""
        if isinstance(tangent, Linear):
            self._slices.setdefault(tangent, []).append(SlicedPart(limits, cotangent))

    def give_update(self, tangent: Any, update: Update) -> None:
        """Let the cotangent of a tangent be updated in place."""
        if isinstance(tangent, Linear):
            self._updates.setdefault(tangent, []).append(update)

    def take(self, tangent: Linear) -> Node | None:
        """The cotangent of a tangent, complete; None where it is zero."""
        total = self._positive(self._sum(self._parts(tangent), 0))
        parts = self._slices.pop(tangent, ())
        if parts:
            total = add_slices(self, total, array_type(tangent), parts)
        for update in self._updates.pop(tangent, ()):
            total = update(total)
        return total

    def _parts(self, tangent: Linear) -> list[Part]:
        """The parts of a cotangent, in the order in which they were given; they are gone then."""
        plain = self._plain.pop(tangent, ())
        return [Part(value) for value in plain] if plain else self._values.pop(tangent, [])

    def _positive(self, part: Part | None) -> Node | None:
        if part is None:
            return None
        return self.neg(part.value) if part.negative else part.value

    def _sum(self, parts: Sequence[Part], kept: int) -> Part | None:
        """The sum of parts that share their first `kept` masks, under those.

        Two sums that the last of their masks keeps apart become one select; others have zeros put in.
        """
        if not parts:
            return None
        if len(parts) == 1 and len(parts[0].masks) == kept:
            return parts[0]
        groups: dict[tuple[Mask, ...], list[Part]] = {}
        for part in parts:
            groups.setdefault(part.masks, []).append(part)
        own = parts[0].masks[:kept]
        while len(groups) > 1 or own not in groups:
            masks = max(groups, key=len)
            part = self._added(groups.pop(masks))
            others = groups.pop((*masks[:-1], _opposite(masks[-1])), None)
            if others is not None:
                merged = self._merged(masks, part, self._added(others))
            else:
                meets = any(masks[:end] in groups or (*masks[: end - 1], _opposite(masks[end - 1])) in groups
                            for end in range(kept + 1, len(masks)))  # fmt: skip
                merged = self._with_zeros(part, masks, len(masks) - 1 if meets else kept)
            groups.setdefault(merged.masks, []).append(merged)
        return self._added(groups[own])

    def _added(self, parts: Sequence[Part]) -> Part:
        """The sum of parts under the same masks, by subtraction where their signs differ."""
        signs: dict[bool, Node] = {}
        for part in parts:
            total = signs.get(part.negative)
            signs[part.negative] = part.value if total is None else self._total("add", total, part.value)
        if len(signs) == 2:
            return Part(self._total("subtract", signs[False], signs[True]), parts[0].masks)
        ((negative, value),) = signs.items()
        return Part(value, parts[0].masks, negative)

    def _total(self, opcode: str, left: Node, right: Node) -> Node:
        """The sum or difference of cotangents; of the cotangents of real and imaginary parts without arithmetic.

        add(complex(x, 0), complex(0, y))  ->  complex(x, y)
        """
        if left.opcode == "complex" and right.opcode == "complex":
            parts = [self._nonzero(opcode, *pair) for pair in zip(left.operands, right.operands, strict=True)]
            if None not in parts:
                return self.op("complex", *filter(None, parts))
        return self.elementwise(opcode, left, right)

    def _nonzero(self, opcode: str, left: Node, right: Node) -> Node | None:
        """The sum or difference of two values of which one is known to be zero; None where neither is."""
        if splat(right) == 0:
            return left
        if splat(left) != 0:
            return None
        return self.neg(right) if opcode == "subtract" else right

    def _merged(self, masks: tuple[Mask, ...], part: Part, other: Part) -> Part:
        """A part where all masks hold and another where the last of them does not."""
        predicate, holds = masks[-1]
        negative = part.negative and other.negative
        values = [item.value if negative else self._positive(item) for item in (part, other)]
        on_true, on_false = values if holds else reversed(values)
        assert on_true is not None and on_false is not None, "both were given"
        return Part(self.select(predicate, on_true, on_false), masks[:-1], negative)

    def _with_zeros(self, part: Part, masks: tuple[Mask, ...], kept: int) -> Part:
        """A part with zeros where masks behind the first `kept` do not hold: one that several share is made once."""
        value = part.value
        for mask in masks[kept:]:
            if (value, mask) not in self._cleared:
                zero = self.like(0, value)
                branches = (value, zero) if mask[1] else (zero, value)
                self._cleared[value, mask] = self.select(mask[0], *branches)
            value = self._cleared[value, mask]
        return Part(value, masks[:kept], part.negative)

    def _take_part(self, entry: Linear) -> Part | None:
        """The cotangent of an entry, under masks that pass it and with a sign that does."""
        if entry in self._updates or entry in self._slices:
            value = self.take(entry)
            return None if value is None else Part(value)
        parts = self._parts(entry)
        for part in parts:
            if part.masks:
                part = self._masked_sum(entry, parts)
                break
        else:
            part = None if not parts else parts[0] if len(parts) == 1 else self._added(parts)
        if part is None or not part.negative or _passes_sign(entry):
            return part
        return Part(self.neg(part.value), part.masks)

    def _masked_sum(self, entry: Linear, parts: Sequence[Part]) -> Part | None:
        """The sum of parts under the masks that all begin with and that pass the entry."""
        if entry.opcode in ABSORPTIONS:
            parts = self._without_absorbed(entry, parts)
        return self._sum(parts, _shared(parts) if entry.opcode in MASKABLE else 0)

    def _without_absorbed(self, entry: Linear, parts: Sequence[Part]) -> Sequence[Part]:
        if not parts:
            return parts
        absorbs = ABSORPTIONS[entry.opcode]
        common = [mask for mask in parts[0].masks if all(mask in part.masks for part in parts)]
        absorbed = [mask for mask in common if absorbs(entry, *mask)]
        self.is_absorbing = bool(absorbed)
        return [
            Part(part.value, tuple(mask for mask in part.masks if mask not in absorbed), part.negative)
            for part in parts
        ]

    def _operand_masks(self, entry: Linear, masks: tuple[Mask, ...]) -> tuple[Mask, ...]:
        """Masks as they stand in the operand of an entry."""
        if entry.opcode in with_trait(Trait.ELEMENTWISE):
            return masks
        return tuple((self._moved_back(entry, predicate), holds) for predicate, holds in masks)

    def _moved_back(self, entry: Linear, predicate: Node) -> Node:
        if not array_type(predicate).rank:
            return predicate
        if entry.opcode == "reshape":
            return self.reshape(predicate, array_type(entry.operands[0]).dims)
        if entry.opcode == "reverse":
            return self.op("reverse", predicate, dimensions=entry.attributes["dimensions"])
        order = entry.attributes["dimensions"]
        return self.transpose(predicate, [order.index(dim) for dim in range(len(order))])

    def run(self, tape: Tape) -> None:
        """Transpose a whole tape; cotangents of results have been given, those of inputs are there to take."""
        for entry in reversed(tape.entries):
            self.metadata = entry.metadata
            if isinstance(entry, LinearCall):
                cotangents = [self.take(output) for output in entry.outputs]
                if any(value is not None for value in cotangents):
                    entry.transpose(self, cotangents)
            elif entry in self._values or entry in self._updates or entry in self._slices:
                part = self._take_part(entry)
                if part is not None:
                    self._transpose_part(entry, part)
            elif entry in self._plain:
                values = self._plain.pop(entry)
                value = values[0]
                for number in range(1, len(values)):
                    value = self._total("add", value, values[number])
                transposition_of(entry)(self, entry, value)

    def _transpose_part(self, entry: Linear, part: Part) -> None:
        """Transpose an entry, its masks and its sign passed on to its operands' cotangents."""
        value, masks, self._negative = part
        self._masks = self._operand_masks(entry, masks) if masks else ()
        transposition_of(entry)(self, entry, value)
        self._masks, self._negative, self.is_absorbing = (), False, False


def transposition_of(entry: Linear) -> Callable[..., None]:
    """How a linear op is transposed; raises Unsupported where it has no rule."""
    transpose = TRANSPOSITIONS.get(entry.opcode)
    if transpose is None:
        raise Unsupported(f"the linear op {entry.opcode} has no transposition")
    return transpose


def _opposite(mask: Mask) -> Mask:
    return mask[0], not mask[1]


def _shared(parts: Sequence[Part]) -> int:
    """How many masks all parts begin with."""
    if not parts:
        return 0
    if len(parts) == 1:
        return len(parts[0].masks)
    count = min(len(part.masks) for part in parts)
    first = parts[0].masks
    return next((index for index in range(count) if any(part.masks[index] != first[index] for part in parts)), count)


def _passes_sign(entry: Linear) -> bool:
    """Whether an entry may be transposed for a cotangent whose sign is still to be applied.

    Of several operands each would apply it, and of a larger one it would cost more.
    """
    if entry.opcode not in SIGNED:
        return False
    operands = [operand for operand in entry.operands if isinstance(operand, Linear)]
    if len(operands) != 1 or entry.opcode in MASKABLE:
        return len(operands) == 1
    return array_type(operands[0]).element_count <= array_type(entry).element_count
