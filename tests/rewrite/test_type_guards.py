"""Type guards: what counts as a list, an object, a tuple, and as several values."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from hloom.rewrite.type_guards import as_tuple, is_list, is_mapping, is_object, is_tuple


def test_lists_and_tuples_are_told_apart():
    assert is_list([1]) and not is_list((1,))
    assert is_tuple((1,)) and not is_tuple([1])


def test_an_object_is_a_dictionary_and_a_mapping_need_not_be_one():
    view = MappingProxyType({"a": 1})
    assert is_object({}) and not is_object(view)
    assert is_mapping({}) and is_mapping(view) and not is_mapping([("a", 1)])


@pytest.mark.parametrize(
    ("value", "elements"), [((1, 2), (1, 2)), ([1, 2], (1, 2)), ("ab", ("ab",)), (None, (None,)), ((), ())]
)
def test_one_value_is_a_tuple_of_itself(value: object, elements: tuple[object, ...]):
    assert as_tuple(value) == elements
