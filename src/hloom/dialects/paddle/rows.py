"""The op rows: `paddle.matmul_v2` and so on, made from the signatures when they are first asked for.

An op's operands are the variables of its input slots, slot after slot in the signature's order; `input_slots` and
`output_slots` say how many stand in each. An op with several results yields a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from hloom.dialects.paddle.signatures import REQUIRED, Signature, known_types, signature
from hloom.dialects.paddle.type_inference import inference_of
from hloom.ir import Attribute, AttributeKind, Effect, Op, optional, required
from hloom.ops import OPS

PREFIX = "paddle."

COMMON_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "op_role": "INT",
        "op_role_var": "STRINGS",
        "op_namescope": "STRING",
        "op_callstack": "STRINGS",
        "op_device": "STRING",
        "with_quant_attr": "BOOLEAN",
    }
)
"""The attributes of every op of Paddle, with their types; they say where an op comes from and where it runs."""

_TUNING = "use_mkldnn mkldnn_data_type use_cudnn use_quantizer workspace_size_MB exhaustive_search"
CARRIED = frozenset({*COMMON_TYPES, *_TUNING.split()})
"""The attributes that do not change what an op computes."""

INPUT_SLOTS, OUTPUT_SLOTS, IN_PLACE = "input_slots", "output_slots", "in_place"
VARIABLE, VARIABLES, WRITTEN, UNLISTED, IS_TARGET = "variable", "variables", "written", "unlisted", "is_target"
OURS = (INPUT_SLOTS, OUTPUT_SLOTS, IN_PLACE, VARIABLE, VARIABLES, WRITTEN, UNLISTED, IS_TARGET)
"""Attributes that are not attributes of the op: its slots, and what a program says that its meaning does not need.

`in_place` are pairs of a result and the operand whose variable it is written to. `variable` is the name of the
variable that holds a value, `variables` those of an op's several results. `written` is how an op's slots and
attributes stood in the program that was read; `unlisted` are attributes that no table has.
"""

_COMMUNICATION = ("c_", "send", "recv", "partial_send", "partial_recv", "p_send", "p_recv", "global_", "barrier")
_STATE = ("save", "load", "read", "push_", "pull_", "feed", "fetch")
_OUTSIDE = ("print", "py_func", "while", "conditional_block", "run_program", "assert", *_STATE)
_PURE = ("c_embedding", "c_identity", "read_from_array", "feed")


class _Rows(Mapping[str, Op]):
    """Rows by opcode, made when they are asked for."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Signature, Op]] = {}

    def __getitem__(self, opcode: str) -> Op:
        known = signature(opcode.removeprefix(PREFIX)) if opcode.startswith(PREFIX) else None
        if known is None:
            raise KeyError(opcode)
        cached = self._made.get(opcode)
        if cached is None or cached[0] is not known:
            cached = self._made[opcode] = (known, _row(known))
        return cached[1]

    def __iter__(self) -> Iterator[str]:
        return (PREFIX + type for type in known_types())

    def __len__(self) -> int:
        return len(known_types())


ROWS: Mapping[str, Op] = _Rows()
"""Every known op by opcode."""

PROJECTION = Op(
    "get-tuple-element",
    (1, 1),
    attributes={
        **OPS["get-tuple-element"].attributes,
        VARIABLE: optional(AttributeKind.STRING, carried=True),
    },
    infer=OPS["get-tuple-element"].infer,
)
"""One result of an op with several, and the variable that holds it."""


def type_of(opcode: str) -> str:
    """Paddle's name of an op."""
    return opcode.removeprefix(PREFIX)


def unknown_row(type: str) -> Op:
    """A row for an op that no table has: it may do anything."""
    return Op(PREFIX + type, attributes=_common((), ()), is_known=False)


def attribute_type(type: str, name: str) -> str | None:
    """The type of an op's attribute; None where no table has it."""
    known = signature(type)
    if known is not None and name in known.attributes:
        return known.attributes[name][0]
    return COMMON_TYPES.get(name)


def _row(known: Signature) -> Op:
    own = {name: _attribute(name, default) for name, (_, default) in known.attributes.items()}
    return Op(
        PREFIX + known.type,
        attributes={**_common(known.usual_inputs, known.usual_outputs), **own},
        infer=inference_of(known),
        effect=_effect(known),
    )


def _attribute(name: str, default: object) -> Attribute:
    if default is REQUIRED:
        return required(AttributeKind.ANY)
    return optional(AttributeKind.ANY, default, carried=name in CARRIED)


def _common(inputs: tuple, outputs: tuple) -> dict[str, Attribute]:
    attributes = {
        INPUT_SLOTS: optional(AttributeKind.ANY, inputs),
        OUTPUT_SLOTS: optional(AttributeKind.ANY, outputs),
        IN_PLACE: optional(AttributeKind.ANY, ()),
    }
    carried = (VARIABLE, VARIABLES, WRITTEN, UNLISTED, IS_TARGET, *COMMON_TYPES)
    return attributes | {name: optional(AttributeKind.ANY, carried=True) for name in carried}


def _effect(known: Signature) -> Effect | None:
    type = known.type
    if type in _PURE:
        return None
    if type.startswith(_COMMUNICATION):
        return Effect.COMMUNICATION
    if not known.outputs or type.startswith(_OUTSIDE):
        return Effect.OUTSIDE
    return None
