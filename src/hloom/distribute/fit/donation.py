"""Donation: parameters of a step whose memory results can reuse, because the results replace them."""

from __future__ import annotations

from hloom.analysis import ELEMENTWISE, VIEWS
from hloom.ir import InputOutputAlias, Module, Node, Parameter, TensorType
from hloom.passes import register_pass
from hloom.rewrite import Report

MOST_VISITED = 4096
"""How many instructions are followed back from one result."""
PASSING = ELEMENTWISE | VIEWS
"""What a value may pass on its way to the state that replaces it."""


def donate_state(module: Module) -> tuple[Module, int]:
    """A copy in which results take the buffers of the parameters that they update; how many bytes that is.

    A result updates a parameter of its type where elementwise instructions lead from the one to the other; of several
    the nearest. What the module gives away already stays so. The caller must not read a donated argument afterwards.

        w1 = subtract(w, dw); ROOT t = (f32[8,4]) tuple(w1)      ->      input_output_alias={ {0}: (0, {}, may-alias) }
    """
    copy = module.clone()
    known = tuple(copy.attributes.get("input_output_alias") or ())
    given: set[int] = {alias.parameter for alias in known}
    given |= {donor.parameter for donor in copy.attributes.get("buffer_donor") or ()}
    taken = {alias.output_index for alias in known}
    root = copy.entry.output
    if root is None:
        return copy, 0
    results = list(enumerate(root.operands)) if root.opcode == "tuple" else []
    values = [((index,), value) for index, value in results] or [((), root)]
    made: list[InputOutputAlias] = []
    donated = 0
    for index, value in values:
        if index in taken or not isinstance(value.type, TensorType) or not value.type.dims:
            continue
        parameter = _updated(value, given)
        if parameter is not None:
            given.add(parameter.number)
            made.append(InputOutputAlias(index, parameter.number, ()))
            donated += value.type.byte_count
    if made:
        copy.attributes = copy.attributes.changed(input_output_alias=(*known, *made))
    return copy, donated


def donate_in_place(module: Module) -> Report:
    """As `donate_state`, of the module itself."""
    donated, size = donate_state(module)
    report = Report("donate")
    report.notes.append(f"results take the memory of {size:,} bytes of parameters, which must not be read afterwards")
    if size:
        module.attributes = donated.attributes
        report.changes = 1
    return report


def _updated(value: Node, given: set[int]) -> Parameter | None:
    """The nearest parameter of a value's type, not given away, that elementwise instructions lead from."""
    assert isinstance(value.type, TensorType)
    seen, layer = {value}, [value]
    while layer and len(seen) < MOST_VISITED:
        following: list[Node] = []
        for node in layer:
            for operand in node.operands if node.opcode in PASSING else ():
                if operand in seen:
                    continue
                seen.add(operand)
                following.append(operand)
                is_same = isinstance(operand.type, TensorType) and operand.type.with_layout(
                    None
                ) == value.type.with_layout(None)
                if isinstance(operand, Parameter) and is_same and operand.number not in given:
                    return operand
        layer = following
    return None


register_pass("donate", "results take the memory of the parameters that they update", donate_in_place)
