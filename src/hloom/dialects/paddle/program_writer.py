"""Writing a module of Paddle's ops as a ProgramDesc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hloom.dialects.paddle.program_reader import ATTACHMENT, NOTHING, RENAMED, Written, empty_program
from hloom.dialects.paddle.protos import NUMBERS, PADDLE, natural_type, set_attribute
from hloom.dialects.paddle.rows import (
    IN_PLACE,
    INPUT_SLOTS,
    IS_TARGET,
    OURS,
    OUTPUT_SLOTS,
    PREFIX,
    UNLISTED,
    VARIABLE,
    VARIABLES,
    WRITTEN,
    attribute_type,
    type_of,
)
from hloom.ir import Apply, Module, Node, Parameter, TensorType
from hloom.text import HloomError, Unsupported


def write_program(module: Module) -> bytes:
    """The ProgramDesc of a module of Paddle's ops; what was read comes back as it was, byte for byte.

    Values keep the names of their variables where no two meet; new ones are named after their ops. Raises HloomError
    for ops that are not Paddle's.
    """
    source = module.attachments.get(ATTACHMENT) or empty_program()
    message = PADDLE["ProgramDesc"]()
    message.CopyFrom(source)
    block = message.blocks[0]
    nodes = [node for node in module.entry.nodes if not _is_structure(node)]
    for node in nodes:
        if not (isinstance(node, Parameter) or node.opcode.startswith(PREFIX)):
            raise Unsupported(f"{node!r} is not an op of Paddle's and stands in no ProgramDesc")
    names = _Names(module, block, nodes).settled()
    del block.ops[:]
    for node in nodes:
        if isinstance(node, Apply):
            _write_op(block.ops.add(), node, names)
    _write_variables(source.blocks[0], block, names)
    return message.SerializeToString()


def _is_structure(node: Node) -> bool:
    if node.opcode == "get-tuple-element":
        return True
    return node.opcode == "tuple" and node.is_output


def results_of(node: Node) -> list[Node | None]:
    """The values that an op yields, one by one; None where nothing uses one."""
    count = sum(count for _, count in node.attribute(OUTPUT_SLOTS) or ()) if isinstance(node, Apply) else 1
    if count == 1:
        return [node]
    results: list[Node | None] = [None] * count
    for user in node.users:
        if user.opcode == "get-tuple-element":
            results[user.attributes["index"]] = user
    return results


class _Names:
    """Which variable holds each value: its own one, unless that is written again while the value is still read."""

    def __init__(self, module: Module, block: Any, nodes: list[Node]) -> None:
        module.index_users()
        self.nodes = nodes
        self.taken = {variable.name for variable in block.vars} | {name for op in block.ops for name in _mentioned(op)}
        self.lasting = {variable.name for variable in block.vars if variable.persistable}
        self.renamed: dict[str, str] = module.attachments.get(RENAMED, {})
        self.names: dict[Any, str] = {}

    def settled(self) -> dict[Any, str]:
        for node in self.nodes:
            for index, value in enumerate(results_of(node)):
                self.names[_key(node, index, value)] = self.own_name(node, index, value)
        while (spoiled := self.spoiled()) is not None:
            if self.names[spoiled] in self.lasting or isinstance(spoiled, Parameter):
                raise HloomError(f"variable {self.names[spoiled]} is written while its first value is still read")
            self.names[spoiled] = self.fresh(self.names[spoiled])
        return self.names

    def own_name(self, node: Node, index: int, value: Node | None) -> str:
        if not isinstance(node, Apply):
            return self.renamed.get(node.name, node.name)
        for result, operand in node.attribute(IN_PLACE) or ():
            if result == index:
                return self.names[_value_key(node.operands[operand])]
        listed = node.attributes.get(VARIABLES)
        own = value.attributes.get(VARIABLE) if value is not None else listed[index] if listed else None
        return own if own is not None else self.fresh(type_of(node.opcode))

    def fresh(self, stem: str) -> str:
        number = 0
        while f"{stem}/{number}" in self.taken:
            number += 1
        self.taken.add(f"{stem}/{number}")
        return f"{stem}/{number}"

    def spoiled(self) -> Any:
        """A value that is read after its variable was written again; None where there is none."""
        holds: dict[str, Any] = {}
        for node in self.nodes:
            for operand in node.operands:
                key = _value_key(operand)
                name = self.names[key]
                if holds.setdefault(name, key) is not key and holds[name] != key and name != NOTHING:
                    return key
            for index, value in enumerate(results_of(node)):
                key = _key(node, index, value)
                holds[self.names[key]] = key
        return None


def _key(node: Node, index: int, value: Node | None) -> Any:
    return (node, index) if value is None else _value_key(value)


def _value_key(value: Node) -> Any:
    """A node that yields one value, or an op and which of its results; several nodes may take out the same one."""
    if value.opcode == "get-tuple-element":
        return (value.operands[0], value.attributes["index"])
    return value


def _write_op(message: Any, node: Apply, names: dict[Any, str]) -> None:
    message.type = type_of(node.opcode)
    written = node.attributes.get(WRITTEN)
    if written is None or written.type != message.type:
        written = Written(message.type)
    arguments = iter([names[_value_key(operand)] for operand in node.operands])
    _write_slots(message.inputs, written.inputs, node.attribute(INPUT_SLOTS) or (), arguments)
    results = [_key(node, index, value) for index, value in enumerate(results_of(node))]
    _write_slots(
        message.outputs, written.outputs, node.attribute(OUTPUT_SLOTS) or (), iter([names[key] for key in results])
    )
    for name, value, written_type in _attributes(node, written):
        set_attribute(message.attrs.add(), name, value, written_type)
    if IS_TARGET in node.attributes:
        message.is_target = node.attributes[IS_TARGET]


def _write_slots(messages: Any, order: tuple[str, ...], slots: Any, arguments: Iterator[str]) -> None:
    by_slot: dict[str, list[str]] = {name: [] for name in order}
    for name, count in slots:
        by_slot.setdefault(name, []).extend(next(arguments) for _ in range(count))
    for name, variables in by_slot.items():
        messages.add(parameter=name, arguments=variables)


def _attributes(node: Apply, written: Written) -> Iterator[tuple[str, Any, str]]:
    """The attributes to write: those that were written, in their order, and then the others."""
    type, *pairs = node.attributes.get(UNLISTED, ("",))
    unlisted = dict(pairs) if type == written.type else {}
    left = {name: value for name, value in node.attributes.items() if name not in OURS}
    for name, written_type in written.attributes:
        value = left.pop(name, None)
        if value is None:
            value = unlisted.pop(name, None)
        if value is None:
            value = node.attribute(name)
        if value is not None:
            yield name, value, written_type
    defaults = node.op.attributes
    for name, value in (left | unlisted).items():
        if name in defaults and not defaults[name].required and value == defaults[name].default:
            continue  # as in modules, where equal to its default and absent are one
        yield name, value, attribute_type(written.type, name) or natural_type(value)


def _write_variables(source: Any, block: Any, names: dict[Any, str]) -> None:
    """Take out the variables that no op mentions any more, and describe those that came."""
    before = {name for op in source.ops for name in _mentioned(op)}
    after = {name for op in block.ops for name in _mentioned(op)}
    kept = [
        variable
        for variable in source.vars
        if variable.name in after or variable.name not in before or variable.persistable
    ]
    del block.vars[:]
    block.vars.extend(kept)
    described = {variable.name for variable in kept}
    for key, name in names.items():
        if name in described or name not in after or name in before:
            continue
        described.add(name)
        node, index = key if isinstance(key, tuple) else (key, None)
        type_ = node.type if index is None else getattr(node.type, "elements", ())[index]
        _describe(block.vars.add(), name, type_)


def _describe(message: Any, name: str, type_: Any) -> None:
    message.name = name
    message.type.type = PADDLE["VarType"].Type.Value("LOD_TENSOR")
    tensor = message.type.lod_tensor.tensor
    if isinstance(type_, TensorType):
        tensor.data_type = NUMBERS[type_.dtype]
        tensor.dims.extend(type_.dims)
    else:
        tensor.data_type = PADDLE["VarType"].Type.Value("FP32")


def _mentioned(op: Any) -> Iterator[str]:
    for slot in (*op.inputs, *op.outputs):
        yield from slot.arguments
