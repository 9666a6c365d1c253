"""Which operands TPU instructions may overwrite: the pairs that libtpu writes into their backend configs.

    fusion(%a, %b), backend_config={..."aliasing_operands":{"lists":[{"indices":["0","2"]}]}}

numbers the operands and then the results' arrays: the first array of the result may take the place of operand 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from hloom.analysis.alias_info import AliasInfo, Index, InPlacePair
from hloom.ir import Apply, Node, TupleType, Type

CONCATENATION = "ConcatBitcast"
"""The custom-call target of slices that were copied into one buffer, side by side."""
_LISTS = re.compile(r'"aliasing_operands":\{"lists":\[((?:\{"indices":\[[^\]]*\]\},?)*)\]\}')
_INDICES = re.compile(r'"indices":\[([^\]]*)\]')
_NUMBER = re.compile(r"\d{1,9}")


@dataclass(slots=True)
class TpuAliasInfo(AliasInfo):
    """The rules of `AliasInfo`, unless an instruction's backend config names the pairs."""

    _listed: dict[Node, frozenset[tuple[int, int]] | None] = field(default_factory=dict)

    def pairs(self, node: Apply) -> tuple[InPlacePair, ...]:
        if node.opcode == "custom-call" and node.attributes.get("custom_call_target") == CONCATENATION:
            return tuple(InPlacePair(number, (), ()) for number in range(len(node.operands)))
        return AliasInfo.pairs(self, node)

    def hint(self, user: Apply, operand: Node, numbers: list[int], result: Type | None, index: Index) -> bool | None:
        if user not in self._listed:
            self._listed[user] = _pairs(str(user.attributes.get("backend_config") or ""))
        listed = self._listed[user]
        if listed is None:
            return None
        if user.opcode == "sort" and len(set(operand.users)) > 1:
            return False
        position = len(user.operands) + _leaf_number(user.type, index)
        return any((number, position) in listed for number in numbers)


def _pairs(config: str) -> frozenset[tuple[int, int]] | None:
    match = _LISTS.search(config)
    if match is None:
        return None
    lists = ([int(number) for number in _NUMBER.findall(text)] for text in _INDICES.findall(match[1]))
    return frozenset((one, other) for numbers in lists for one in numbers for other in numbers)


@cache
def _leaf_number(value_type: Type | None, index: Index) -> int:
    """How many arrays of a result come before the one at an index."""
    count = 0
    for number in index:
        if not isinstance(value_type, TupleType):
            break
        count += sum(len(list(element.leaves())) for element in value_type.elements[:number])
        value_type = value_type.elements[number]
    return count
