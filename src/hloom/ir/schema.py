"""The schema of an op row: name, number of operands, attributes, inference rules, traits."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from hloom.ir.axis_map import AxisMap
from hloom.ir.flow import OpFlow
from hloom.ir.traits import Trait
from hloom.ir.types import Type
from hloom.text import HloomError


class Effect(Enum):
    """A side effect of an instruction: why it must not simply be dropped, merged, moved or duplicated.

    STATE: it reads or changes state of the device (random number state). ORDER: it only orders others (tokens).
    COMMUNICATION: other devices wait for it. OUTSIDE: the world outside the program sees it. CALLS: what its graphs do.

    Source: xla/hlo/ir/hlo_instruction.cc, HloInstruction::HasSideEffectNoRecurse, which knows no such classes.
    """

    STATE = "state"
    ORDER = "order"
    COMMUNICATION = "communication"
    OUTSIDE = "outside world"
    CALLS = "what its graphs do"


class TypeProblem(HloomError):
    """Inconsistent operand types and attributes, raised by `infer`; the caller adds the place."""


class TypeNotGiven(TypeProblem):
    """A result type that must be given because operands and attributes do not determine it."""


class AttributeKind(Enum):
    """The kind of an attribute's value; each text format's package has a reader and a writer per kind."""

    INTEGER = auto()
    BOOLEAN = auto()
    FLOAT = auto()
    STRING = auto()
    ENUM = auto()
    INTEGERS = auto()
    BOOLEANS = auto()
    PAIRS = auto()  # {{0,1},{1,0}}
    TYPE = auto()
    TYPES = auto()
    GRAPH = auto()
    GRAPHS = auto()
    NODES = auto()
    WINDOW = auto()
    DIMENSION_LABELS = auto()
    PADDING = auto()
    SLICES = auto()
    PRECISIONS = auto()
    REPLICA_GROUPS = auto()
    ALIASING = auto()
    DOMAIN = auto()
    SPARSITY = auto()
    LITERAL = auto()
    SHARDING = auto()
    FRONTEND = auto()
    STATISTICS = auto()
    ACCURACY = auto()
    ORIGIN = auto()
    BACKEND_CONFIG = auto()
    VERBATIM = auto()
    ANY = auto()  # what the reader of another format makes: any value that can be hashed

    __hash__ = object.__hash__  # readers and writers are looked up by kind all the time; Enum's own hash is Python


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an op.

    `default` is the meaning of an absent attribute; a value equal to it is dropped on reading, and when a rule makes
    the op, unless `written` is set. `carried` marks attributes that do not affect the computed values (placement,
    names, profiles).
    """

    kind: AttributeKind
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    carried: bool = False
    written: bool = False


def required(kind: AttributeKind, *, choices: tuple[str, ...] = ()) -> Attribute:
    """An attribute that must be given."""
    return Attribute(kind, required=True, choices=choices)


def optional(
    kind: AttributeKind,
    default: Any = None,
    *,
    choices: tuple[str, ...] = (),
    carried: bool = False,
    written: bool = False,
) -> Attribute:
    """An optional attribute and its default."""
    return Attribute(kind, default=default, choices=choices, carried=carried, written=written)


COMMON: Mapping[str, Attribute] = MappingProxyType(
    {
        "outer_dimension_partitions": optional(AttributeKind.INTEGERS, carried=True),  # only in texts from 2020
        "parameter_replication": optional(AttributeKind.BOOLEANS, carried=True),
        "sharding": optional(AttributeKind.SHARDING, carried=True),
        "frontend_attributes": optional(AttributeKind.FRONTEND, carried=True),
        "control-predecessors": optional(AttributeKind.NODES),
        "statistics": optional(AttributeKind.STATISTICS, carried=True),
        "origin": optional(AttributeKind.ORIGIN, carried=True),
        "backend_config": optional(AttributeKind.BACKEND_CONFIG),
    }
)
"""The attributes that any node may have, parameters and constants included, in XLA's order; `metadata` is separate."""


MANY: int | None = None
"""As the upper bound of an arity: any number of operands."""


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One row of the op table: everything about an opcode that needs only types and attributes.

    `arity` is the least and the greatest number of operands (None: no limit); beyond the least they come in groups of
    `operand_step`. `attributes` stand in the order in which XLA prints them. `omits_type` says whether HLO text may
    leave the result's type out. `is_known` is false for rows made for opcodes that no table has.

    `infer(*operand types, **attributes)` gives the result's type and raises TypeProblem where XLA refuses. It names
    the attributes it wants as keyword parameters (`-` becomes `_`) and gets their defaults where they are absent;
    `result` among them asks for the type as written, for ops whose operands and attributes do not determine it. Of a
    graph it reads the types of its parameters and of its output alone, and whether it is declared.
    `check(node, surroundings)` says why XLA's verifier refuses a node whose type is right, or None; `verify` alone
    asks. `takes_buffers` marks the ops that may have buffers as operands and results.
    `axes(*operand types, result, **attributes)` gives the axis map, in the same way as `infer`. None says that there
    is no rule, and `because` then says why. `traits` are facts about its meaning; `flow` says which computations it
    calls and which operands it passes on, and is None for an op that computes its result anew.
    """

    name: str
    arity: tuple[int, int | None] = (0, MANY)
    operand_step: int = 1
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    omits_type: bool = False
    is_known: bool = True
    infer: Callable[..., Type] | None = None
    axes: Callable[..., AxisMap] | None = None
    check: Callable[..., str | None] | None = None
    takes_buffers: bool = False
    effect: Effect | None = None
    because: Mapping[str, str] = field(default_factory=dict[str, str])
    traits: frozenset[Trait] = frozenset()
    flow: OpFlow | None = None
    required: tuple[str, ...] = field(init=False)
    """The names of the attributes that every instruction must have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))
        required = tuple([name for name, attribute in self.attributes.items() if attribute.required])
        object.__setattr__(self, "required", required)
        object.__setattr__(self, "because", MappingProxyType(dict(self.because)))

    def accepts(self, operand_count: int) -> bool:
        """Whether this number of operands is valid."""
        least, most = self.arity
        within = least <= operand_count and (most is None or operand_count <= most)
        return within and (operand_count - least) % self.operand_step == 0

    def lacking(self, given: Container[str]) -> str | None:
        """The first required attribute missing from those given; None if all are there."""
        return next((name for name in self.required if name not in given), None)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Op:
        return self
