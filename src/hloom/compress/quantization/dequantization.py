"""Programs whose weights come in a narrow type and are dequantised as late as possible.

ENTRY { w = f32[3,64,64] parameter(1) ... while(tuple(..., w)) }       body { ... dot(h, dynamic-slice(w, i)) }
  ->
ENTRY { w = s8[3,64,64] parameter(1)  w.scale = f32[3,1,64] parameter(2) ... while(tuple(..., w, w.scale)) }
body { ... dot(h, multiply(convert(dynamic-slice(w, i)), broadcast(dynamic-slice(w.scale, i)))) }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hloom.compress.quantization.insertion_point import first_of, packed, redirect, replace_node
from hloom.compress.quantization.quantized_value import QuantizedValue, companion_type, dequantize, mask, move
from hloom.compress.quantization.weights import branch_parameters, conditional_of, elements, invariant_indices, loop_of
from hloom.ir import (
    Apply,
    DType,
    FunctionType,
    Module,
    Node,
    Parameter,
    TensorType,
    TupleType,
    Type,
    default_layout,
    map_leaves,
    verify,
    without_layout,
)
from hloom.ops import OPS
from hloom.passes import widen_loop, wider_attributes


def add_companions(
    parameter: Parameter, element: DType, companions: Mapping[str, tuple[DType, tuple[int, ...]]], first: Node | None
) -> dict[str, Parameter]:
    """Give a parameter another element type, and the entry further parameters, the companions, of these shapes.

    They are put before `first`, the entry's first instruction.
    """
    entry = parameter.graph
    entry.set_type(parameter, packed(parameter.array_type.with_dtype(element)))
    made: dict[str, Parameter] = {}
    for name, (companion_element, dims) in companions.items():
        type_ = companion_type(dims, companion_element)
        made[name] = entry.add_parameter(type_, f"{parameter.name}.{name}")
        if first is not None:
            entry.move_before(made[name], first)
    return made


Finish = Callable[[QuantizedValue, list[Apply]], Node]


def dequantize_for(value: QuantizedValue, users: list[Apply]) -> Node:
    """Dequantise a value for some users, in front of the first, and for its graph, where that yields it."""
    node = value.node
    made = dequantize(value, first_of(users))
    redirect(node, users, made)
    if node.is_output:
        node.graph.set_output(made)
    return made


def keep(value: QuantizedValue, users: list[Apply]) -> Node:
    """Leave a value as it is for its users: its companions are not for its own sake."""
    return value.node


def push_down(value: QuantizedValue, finish: Finish = dequantize_for) -> dict[Node, QuantizedValue]:
    """Move a value in its narrow type as far as possible and dequantise it there, or call `finish`.

    Returns, by the nodes that are dequantised, the values that they are.
    """
    dequantized: dict[Node, QuantizedValue] = {}
    pending = [value]
    while pending:
        current = pending.pop()
        node, rest = current.node, list[Apply]()
        for user in node.users:
            if not isinstance(user, Apply) or node not in user.operands:
                continue
            if user.opcode == "conditional":
                pending += _through_branches(current, user)
                continue
            if user.opcode == "tuple":
                further = _through_loop(current, user)
                if further is None:
                    further = _through_branch_operands(current, user)
                pending += further or ()
                if further is None and not _is_passed(node, user):
                    rest.append(user)
                continue
            following = _moved_on(current, user)
            if following is None:
                rest.append(user)
            else:
                pending.append(following)
        if rest or node.is_output:
            made = finish(current, rest)
            dequantized[made] = current
    return dequantized


def _moved_on(value: QuantizedValue, user: Apply) -> QuantizedValue | None:
    """The result of a user that only moves elements of a value, under the user's name; None for other users."""
    if not user.has_row or user.operands.count(value.node) != 1:
        return None
    operand_index = user.operands.index(value.node)
    made = mask(value, user, operand_index) if operand_index else move(value, user)
    if made is not None:
        operands = user.operands
        replace_node(user, made.node)
        for operand in operands if operand_index else ():
            _erase_unused(operand)
    return made


def _erase_unused(zeros: Node) -> None:
    """Take away what a mask gave instead of elements, where nothing else uses it."""
    while zeros.opcode in ("broadcast", "constant") and not zeros.is_used and not zeros.is_output:
        operands = zeros.operands
        zeros.graph.erase(zeros)
        if not operands:
            return
        zeros = operands[0]


def _is_passed(node: Node, root: Node) -> bool:
    """Whether a tuple is what a loop's body yields, and a node the element that it passes on, and no other."""
    graph = node.graph
    if not root.is_output or node.opcode != "get-tuple-element" or node.operands[0] not in graph.parameters:
        return False
    positions = [index for index, element in enumerate(root.operands) if element is node]
    types = root.type.elements if isinstance(root.type, TupleType) else ()
    assert node.type is not None, "it is an array"
    return positions == [node.attributes["index"]] and without_layout(types[positions[0]]) is without_layout(node.type)


def _through_loop(value: QuantizedValue, state: Apply) -> list[QuantizedValue] | None:
    """The value inside and after a loop that carries it in its narrow type; None if that is impossible.

    The loop's state gets the companions as further elements.
    """
    loop = loop_of(state)
    if loop is None:
        return None
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    indices = invariant_indices(value.node, state, body)
    if len(indices) != state.operands.count(value.node) or not indices:
        return None
    taken = body.parameters[0]
    for index in indices:
        yielded = body.root.operands
        if any(yielded.count(element) > (element is yielded[index]) for element in elements(taken, index)):
            return None
    width = len(state.operands)
    loop, inner = widen_loop(loop, list(value.companions.values()))
    narrow = value.node.type
    assert narrow is not None, "it is an array"
    for holder in (loop.operands[0], loop, taken, body.root, condition.parameters[0]):
        assert isinstance(holder.type, TupleType), "widen_loop makes tuples"
        types: list[Type] = list(holder.type.elements)
        for index in indices:
            types[index] = narrow
        holder.graph.set_type(holder, TupleType(types))
    inside = dict(zip(value.companions, inner, strict=True))
    values: list[QuantizedValue] = []
    for index in indices:
        for whole, companions in ((taken, inside), (loop, value.companions), (condition.parameters[0], None)):
            for element in elements(whole, index):
                whole.graph.set_type(element, narrow)
                if not element.is_used:
                    continue
                held = companions if companions is not None else _tested(element, value, width)
                values.append(QuantizedValue(element, held, value.blocks, value.type))
    return values


def _through_branch_operands(value: QuantizedValue, operands: Apply) -> list[QuantizedValue] | None:
    """The value inside the branches of a conditional that takes it in a tuple; None if it cannot be narrow there.

    The tuple gets the companions as further elements.
    """
    conditional = conditional_of(operands)
    if conditional is None:
        return None
    parameters = branch_parameters(conditional, operands)
    width, graph = len(operands.operands), operands.graph
    indices = [index for index, element in enumerate(operands.operands) if element is value.node]
    graph.set_operands(operands, [*operands.operands, *value.companions.values()])
    for holder in (operands, *parameters):
        assert isinstance(holder.type, TupleType), "a tuple is passed on"
        types = [*holder.type.elements, *(companion.array_type for companion in value.companions.values())]
        for index in indices:
            types[index] = value.node.array_type
        holder.graph.set_type(holder, TupleType(types))
        holder.graph.set_attributes(holder, wider_attributes(holder.attributes, len(value.companions)))
    values: list[QuantizedValue] = []
    for parameter in parameters:
        for element in [element for index in indices for element in elements(parameter, index)]:
            element.graph.set_type(element, value.node.array_type)
            if element.is_used:
                values.append(QuantizedValue(element, _tested(element, value, width), value.blocks, value.type))
    return values


def _through_branches(value: QuantizedValue, conditional: Apply) -> list[QuantizedValue]:
    """The value inside the branches of a conditional that takes it as it is: they take a tuple then."""
    values: list[QuantizedValue] = []
    held = [value.node, *value.companions.values()]
    type_ = TupleType([node.array_type for node in held])
    graph = conditional.graph
    operands = graph.add_apply(OPS["tuple"], held, type_, {}, before=conditional)
    for parameter in branch_parameters(conditional, value.node):
        branch = parameter.graph
        first = next((node for node in branch.nodes if node is not parameter), None)
        parts = [
            branch.add_apply(OPS["get-tuple-element"], [], element, {"index": index}, before=first)
            for index, element in enumerate(type_.elements)
        ]
        branch.replace_uses(parameter, parts[0])
        branch.set_type(parameter, type_)
        for part in parts:
            branch.set_operands(part, [parameter])
        companions = dict(zip(value.companions, parts[1:], strict=True))
        values.append(QuantizedValue(parts[0], companions, value.blocks, value.type))
    redirect(value.node, [conditional], operands)
    return values


def _tested(element: Apply, value: QuantizedValue, width: int) -> dict[str, Node]:
    """The companions as a loop's condition, or a branch, takes them out of a tuple."""
    graph, state = element.graph, element.operands[0]
    return {
        name: graph.add_apply(OPS["get-tuple-element"], [state], companion.type, {"index": index}, before=element)
        for index, (name, companion) in enumerate(value.companions.items(), width)
    }


def finish_program(module: Module, former: tuple[Parameter, ...]) -> None:
    """Make the header fit a program that was rewritten, and verify it; `former` are the parameters that there were."""
    write_entry_layout(module, former)
    module.attributes = module.attributes.changed(is_scheduled=None)
    verify(module)


def write_entry_layout(module: Module, former: tuple[Parameter, ...]) -> None:
    """Make the header's layouts of parameters fit: `former` are the parameters that there were."""
    layout = module.attributes.get("entry_computation_layout")
    if layout is None:
        return
    written: list[Type | None] = []
    for parameter in module.entry.parameters:
        old = layout.parameters[parameter.number] if parameter in former else None
        assert parameter.type is not None, "the module is whole"
        is_same = old is not None and without_layout(old) is without_layout(parameter.type)
        written.append(old if is_same else map_leaves(parameter.type, _laid_out))
    module.attributes = module.attributes.changed(
        entry_computation_layout=FunctionType(written, _result_layout(layout.result, module.entry.root.type))
    )


def _result_layout(old: Type | None, type_: Type | None) -> Type | None:
    """The layouts of results as they were, and the usual ones of those that have another type."""
    if old is None or type_ is None or without_layout(old) is without_layout(type_):
        return old
    if not isinstance(type_, TupleType):
        return map_leaves(type_, _laid_out)
    former = old.elements if isinstance(old, TupleType) else (old,)
    elements = [
        former[index]
        if index < len(former) and without_layout(former[index]) is without_layout(element)
        else map_leaves(element, _laid_out)
        for index, element in enumerate(type_.elements)
    ]
    return TupleType(elements)


def _laid_out(type_: Type) -> Type:
    if not isinstance(type_, TensorType) or type_.layout is not None:
        return type_
    return type_.with_layout(default_layout(type_.rank))
