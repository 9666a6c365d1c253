"""The domains of random inputs: a parameter that reaches the root of a square, for example, is drawn positive.

A requirement starts at an operand of RESTRICTED and propagates backwards: through data movement, calls, loops and
branches, and through arithmetic that maps intervals to intervals, such as x + 1e-5, to the parameters of the entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from hloom.analysis import Position, forwarded_from, phis
from hloom.ir import TOKEN, Apply, Graph, Module, Node, Parameter, TensorType, Trait, TupleType, Type
from hloom.ops import EXTREMES, REDUCERS, with_trait
from hloom.rewrite import splat_of

MARGIN = 1 / 16
"""How far numbers stay from the end of a domain."""


@dataclass(frozen=True, slots=True)
class InputDomain:
    """An open interval; without zero; or the positive definite matrices of the last two dimensions."""

    low: float = -math.inf
    high: float = math.inf
    is_nonzero: bool = False
    is_definite: bool = False

    def meet(self, other: InputDomain) -> InputDomain:
        """The intersection; this domain if that would be empty."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low + 2 * MARGIN >= high:
            return self
        return InputDomain(low, high, self.is_nonzero or other.is_nonzero, self.is_definite or other.is_definite)

    def draw(self, normal: np.ndarray) -> np.ndarray:
        """Normal numbers moved into the domain."""
        if self.is_definite and normal.ndim >= 2 and normal.shape[-1] == normal.shape[-2]:
            size = normal.shape[-1]
            return normal @ np.swapaxes(normal, -1, -2) / max(size, 1) + np.eye(size)
        if math.isfinite(self.low) and math.isfinite(self.high):
            return self.low + (self.high - self.low) * (1 + 0.9 * np.tanh(normal)) / 2
        if math.isfinite(self.low):
            return self.low + MARGIN + np.abs(normal)
        if math.isfinite(self.high):
            return self.high - MARGIN - np.abs(normal)
        return normal + np.copysign(MARGIN, normal) if self.is_nonzero else normal

    def choose(self, integers: np.ndarray, most: int) -> np.ndarray:
        """Small integers moved into the domain where it has any of them."""
        least = 1 if self.is_nonzero and self.low < 0 else math.floor(self.low) + 1 if math.isfinite(self.low) else 0
        return np.maximum(integers, least) if 0 < least <= most else integers


ANY, POSITIVE, NONZERO = InputDomain(), InputDomain(low=0.0), InputDomain(is_nonzero=True)
RESTRICTED: dict[str, tuple[tuple[int, InputDomain], ...]] = {
    "acos": ((0, InputDomain(-1.0, 1.0)),),
    "acosh": ((0, InputDomain(low=1.0)),),
    "asin": ((0, InputDomain(-1.0, 1.0)),),
    "atanh": ((0, InputDomain(-1.0, 1.0)),),
    "batch-norm-grad": ((3, POSITIVE),),
    "batch-norm-inference": ((4, POSITIVE),),
    "cholesky": ((0, InputDomain(is_definite=True)),),
    "divide": ((1, NONZERO),),
    "log": ((0, POSITIVE),),
    "log-plus-one": ((0, InputDomain(low=-1.0)),),
    "power": ((0, POSITIVE),),
    "remainder": ((1, NONZERO),),
    "rsqrt": ((0, POSITIVE),),
    "sqrt": ((0, POSITIVE),),
}
"""By opcode, which operands are restricted, and to what."""
MOVING = (with_trait(Trait.MOVES_DATA) - {"bitcast"}) | {
    "all-gather",
    "all-to-all",
    "collective-permute",
    "convert",
    "reduce-precision",
}
"""What passes elements of its operands on: of the first, or of those in MOVED. A bitcast may give them another type."""
MOVED = {"concatenate": None, "dynamic-update-slice": 2, "pad": 2}
"""The number of operands whose elements are passed on, if not one; None for all."""

MOST_STEPS = 1 << 20
"""The maximum number of backward steps: bounds programs whose loops shift an interval in each iteration."""


def input_domains(module: Module) -> list[InputDomain]:
    """The domain of each flattened parameter of a module's entry, tokens left out."""
    entry = module.entry
    required = _Requirements(module).required
    domains: list[InputDomain] = []
    for parameter in entry.parameters:
        for index, leaf in _leaves(parameter.type):
            if leaf is not TOKEN:
                domains.append(required.get(Position(parameter, index), ANY))
    return domains


def _leaves(value_type: Type | None) -> Iterator[tuple[tuple[int, ...], Type | None]]:
    pending: list[tuple[tuple[int, ...], Type | None]] = [((), value_type)]
    while pending:
        index, part = pending.pop()
        if isinstance(part, TupleType):
            pending += [((*index, number), element) for number, element in reversed([*enumerate(part.elements)])]
        else:
            yield index, part


class _Requirements:
    """The domains that instructions ask of the entry's parameters."""

    def __init__(self, module: Module) -> None:
        self.entry = module.entry
        self.required: dict[Position, InputDomain] = {}
        self._sources: dict[Node, list[tuple[tuple[int, ...], tuple[Position, ...]]]] = {}
        self._pending: list[tuple[Position, InputDomain]] = []
        seen: set[tuple[Position, InputDomain]] = set()
        for graph in module.graphs:
            for node in graph.nodes:
                self._visit(node)
        while self._pending:
            item = self._pending.pop()
            if item not in seen and len(seen) < MOST_STEPS:
                seen.add(item)
                self._follow(*item)

    def _visit(self, node: Node) -> None:
        """Note where values of calls come from, and what an instruction asks of its operands."""
        for phi in phis(node):
            for name in phi.names:
                self._sources.setdefault(name.node, []).append((name.index, (*phi.sources, *phi.back_edges)))
        for number, domain in RESTRICTED.get(node.opcode, ()):
            if number < len(node.operands) and _is_real(node.operands[number].type) and not _is_defined(node):
                self._pending.append((Position(node.operands[number]), domain))

    def _follow(self, position: Position, domain: InputDomain) -> None:
        node, index = position
        if isinstance(node, Parameter) and node.graph is self.entry:
            known = self.required.get(position)
            self.required[position] = domain if known is None else known.meet(domain)
            return
        for prefix, sources in self._sources.get(node, ()):
            if index[: len(prefix)] == prefix:
                rest = index[len(prefix) :]
                self._pending += [(Position(source.node, (*source.index, *rest)), domain) for source in sources]
        if not isinstance(node, Apply) or isinstance(node.function, Node):
            return
        passed = forwarded_from(node, index)
        if passed is not None:
            self._pending.append((passed, domain))
        elif not index:
            self._pending += [(Position(operand), wanted) for operand, wanted in _of_operands(node, domain)]


def _is_real(value_type: Type | None) -> bool:
    return isinstance(value_type, TensorType) and (value_type.dtype.is_float or value_type.dtype.is_integer)


def _is_defined(node: Node) -> bool:
    """Whether an op is defined for all operands: integers' powers, and floats' whole ones."""
    if node.opcode != "power":
        return False
    exponent = splat_of(node.operands[1])
    return not _is_float(node.type) or (exponent is not None and float(exponent) == math.floor(float(exponent)))


def _is_float(value_type: Type | None) -> bool:
    return isinstance(value_type, TensorType) and value_type.dtype.is_float


def _of_operands(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    """What a value's domain asks of the operands that it is made of; nothing where it holds anyway."""
    if node.opcode in MOVING:
        count = MOVED.get(node.opcode, 1)
        return [(operand, domain) for operand in node.operands[:count]]
    if node.opcode == "select":
        return [(operand, domain) for operand in node.operands[1:]]
    rule = _INVERSES.get(node.opcode)
    if rule is None or domain.is_definite or not all(_is_real(operand.type) for operand in node.operands):
        return []
    return rule(node, domain)


def _constants(node: Apply) -> list[float | None]:
    numbers = [splat_of(operand) for operand in node.operands]
    return [None if number is None else float(number) for number in numbers]


def _of_add(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    if domain.is_nonzero:
        return []
    left, right = node.operands
    a, b = _constants(node)
    if a is not None or b is not None:
        other, constant = (right, a) if b is None else (left, b)
        return [(other, _shifted(domain, -(constant or 0.0)))]
    half = InputDomain(domain.low / 2, domain.high / 2)
    return [(left, half), (right, half)]


def _shifted(domain: InputDomain, by: float) -> InputDomain:
    """An interval moved; one of what is positive with an epsilon stays that."""
    low, high = domain.low + by, domain.high + by
    return InputDomain(0.0 if -2 * MARGIN < low < 0 else low, high)


def _of_subtract(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    if domain.is_nonzero:
        return []
    left, right = node.operands
    a, b = _constants(node)
    if b is not None:
        return [(left, _shifted(domain, b))]
    if a is not None:
        return [(right, InputDomain(a - domain.high, a - domain.low))]
    if math.isfinite(domain.low) and domain.high == math.inf:
        return [(left, InputDomain(low=domain.low + 1)), (right, InputDomain(high=1.0))]
    if math.isfinite(domain.high) and domain.low == -math.inf:
        return [(left, InputDomain(high=1.0)), (right, InputDomain(low=1 - domain.high))]
    return []


def _of_multiply(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    left, right = node.operands
    a, b = _constants(node)
    if a is not None or b is not None:
        other, factor = (right, a) if b is None else (left, b)
        return _scaled(other, domain, 1 / factor) if factor else []
    if domain.is_nonzero:
        return [(left, domain), (right, domain)]
    nearest = min(-domain.low, domain.high)
    if nearest > 0 and domain.high < math.inf:
        within = InputDomain(-math.sqrt(nearest), math.sqrt(nearest))
        return [(left, within), (right, within)]
    if left is right:
        return [(left, NONZERO)] if domain == POSITIVE else []
    return [(left, domain), (right, domain)] if domain == POSITIVE else []


def _scaled(operand: Node, domain: InputDomain, by: float) -> list[tuple[Node, InputDomain]]:
    ends = sorted((domain.low * by, domain.high * by))
    return [(operand, replace(domain, low=ends[0], high=ends[1]))]


def _of_divide(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    left, right = node.operands
    divisor = _constants(node)[1]
    if divisor is not None:
        return _scaled(left, domain, divisor) if divisor and math.isfinite(divisor) else []
    if domain.is_nonzero or (domain.low, domain.high) == (0.0, math.inf):
        return [(left, domain), (right, domain)]
    return []


def _of_negate(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    return _scaled(node.operands[0], domain, -1.0)


def _of_bound(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    """Of maximum and minimum: a constant that is in the domain keeps the result there at its side."""
    numbers = _constants(node)
    is_maximum = node.opcode == "maximum"
    for number, other in zip(numbers, reversed(node.operands), strict=True):
        if number == 0 and domain.is_nonzero:
            return [(other, POSITIVE if is_maximum else InputDomain(high=0.0))]
        if number is not None:
            kept = number > domain.low if is_maximum else number < domain.high
            is_free = (domain.high if is_maximum else domain.low) in (math.inf, -math.inf)
            return [] if kept and is_free else [(other, domain)]
    return [(operand, domain) for operand in node.operands]


def _of_contraction(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    """Sums of products are positive where all their factors are."""
    return [(operand, POSITIVE) for operand in node.operands] if domain == POSITIVE and len(node.operands) == 2 else []


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


@dataclass(frozen=True, slots=True)
class _Growing:
    """A function that grows: its inverse, between which values it stays, and whether it is zero only at zero."""

    inverse: Callable[[float], float]
    low: float = -math.inf
    high: float = math.inf
    keeps_zero: bool = False


_GROWING = {
    "cbrt": _Growing(lambda y: y**3, keeps_zero=True),
    "exponential": _Growing(math.log, low=0.0),
    "exponential-minus-one": _Growing(math.log1p, low=-1.0, keeps_zero=True),
    "log": _Growing(math.exp),
    "log-plus-one": _Growing(math.expm1, keeps_zero=True),
    "logistic": _Growing(_logit, low=0.0, high=1.0),
    "sqrt": _Growing(lambda y: y * y, low=0.0, keeps_zero=True),
    "tanh": _Growing(math.atanh, low=-1.0, high=1.0, keeps_zero=True),
}
_GREATEST = 64.0
"""The maximum bound of a domain to invert: an exponential soon exceeds all floats."""


def _of_growing(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    """What the operand of a growing function must be; nothing where no value of the function is in the domain."""
    function = _GROWING[node.opcode]
    if domain.low >= function.high or domain.high <= function.low:
        return []
    low = -math.inf if domain.low <= function.low else function.inverse(min(domain.low, _GREATEST))
    high = math.inf if domain.high >= function.high else function.inverse(min(domain.high, _GREATEST))
    wanted = InputDomain(low, high, domain.is_nonzero and function.keeps_zero)
    return [] if wanted == ANY else [(node.operands[0], wanted)]


def _of_reduce(node: Apply, domain: InputDomain) -> list[tuple[Node, InputDomain]]:
    graph = node.attributes.get("to_apply")
    root = graph.output if isinstance(graph, Graph) else None
    if root is None or root.opcode not in REDUCERS or len(node.operands) != 2:
        return []
    is_kept = root.opcode in EXTREMES or (domain.low, domain.high) == (0.0, math.inf)
    return [(node.operands[0], domain)] if is_kept and not domain.is_nonzero else []


_INVERSES: dict[str, Callable[[Apply, InputDomain], list[tuple[Node, InputDomain]]]] = {
    **dict.fromkeys(_GROWING, _of_growing),
    "add": _of_add,
    "convolution": _of_contraction,
    "divide": _of_divide,
    "dot": _of_contraction,
    "maximum": _of_bound,
    "minimum": _of_bound,
    "multiply": _of_multiply,
    "negate": _of_negate,
    "reduce": _of_reduce,
    "reduce-window": _of_reduce,
    "subtract": _of_subtract,
}
"""What a domain of a result asks of operands; other ops ask nothing."""
