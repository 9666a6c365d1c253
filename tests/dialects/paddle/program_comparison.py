"""Two programs compared by what they compute: names of new variables, the order of ops and hints do not count."""

from __future__ import annotations

from typing import Any

from hloom.dialects.paddle.protos import PADDLE, attribute_value
from hloom.dialects.paddle.rows import CARRIED
from hloom.dialects.paddle.signatures import signature


def ops_of(data: bytes) -> list[str]:
    """The types of a program's ops, in order of their names."""
    return sorted(op.type for op in PADDLE["ProgramDesc"].FromString(data).blocks[0].ops)


def meaning(data: bytes) -> dict[str, Any]:
    """What each op's last output is computed by: ops, slots, attributes, down to the inputs."""
    held: dict[str, Any] = {}
    read: set[Any] = set()
    block = PADDLE["ProgramDesc"].FromString(data).blocks[0]
    for op in block.ops:
        inputs = [(slot.parameter, [held.get(name, name) for name in slot.arguments]) for slot in op.inputs]
        read |= {name for slot in op.inputs for name in slot.arguments}
        shown = repr((op.type, sorted(slot for slot in inputs if slot[1]), attributes(op)))
        for slot in op.outputs:
            held.update({name: f"{shown}.{slot.parameter}[{position}]" for position, name in enumerate(slot.arguments)})
    return {name: value for name, value in held.items() if "/" not in name and name not in read and _matters(name)}


def attributes(op: Any) -> list[tuple[str, Any]]:
    """What an op's attributes say, defaults included."""
    known = signature(op.type)
    assert known is not None
    values = {name: default for name, (_, default) in known.attributes.items()}
    values |= {attribute.name: attribute_value(attribute) for attribute in op.attrs if attribute.name in values}
    return sorted((name, value) for name, value in values.items() if name not in CARRIED)


def _matters(name: str) -> bool:
    """XShape and its like, `reshape2_0.tmp_1`, go with the ops that yield them."""
    return not name.endswith((".tmp_1", ".tmp_2"))
