"""What XLA's verifier asks of results that share a buffer with an operand.

Source: xla/service/hlo_verifier.cc, HandleFusion, HandleCustomCall and CheckAsyncStartAliasConfig.
"""

from __future__ import annotations

from hloom.ir import Apply, BufferType, OutputAlias, Type, compatible, element_at

_UNCHECKED = "xla_skip_custom_call_alias_shape_check"
"""The key in `frontend_attributes` of custom calls whose aliased parts differ in type."""


def alias_problem(node: Apply, *, is_compatible: bool = True, through_buffers: bool = False) -> str | None:
    """Why an `output_to_operand_aliasing` names what is not there, or parts that differ; None where it does not.

    `through_buffers` takes a buffer and its array for the same.
    """
    aliases: tuple[OutputAlias, ...] = node.attributes.get("output_to_operand_aliasing", ())
    for alias in aliases:
        if not 0 <= alias.operand < len(node.operands):
            return f"its alias {alias} names operand {alias.operand} of {len(node.operands)}"
        given = node.operands[alias.operand].type
        if node.type is None or given is None:
            continue
        result, operand = element_at(node.type, alias.output_index), element_at(given, alias.operand_index)
        if result is None or operand is None:
            return f"its alias {alias} names a part that {node.type if result is None else given} lacks"
        if any(key == _UNCHECKED for key, _ in node.attributes.get("frontend_attributes", ())):
            continue
        pair = (_array(result), _array(operand)) if through_buffers else (result, operand)
        if is_compatible and not compatible(*pair):
            return f"its alias {alias} puts {operand} and {result} into one buffer: they differ"
    return None


def _array(type_: Type) -> Type:
    return type_.element if isinstance(type_, BufferType) else type_
