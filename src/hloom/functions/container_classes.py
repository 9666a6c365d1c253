"""The Python classes that contain the program's items: lists and deques, dicts and those of `collections`.

Anything an object has besides its items (the factory of a defaultdict, the maximum length of a deque) belongs to a
separate class: objects that differ in it have different types wherever types are joined.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from functools import lru_cache
from typing import Any, TypeGuard

from hloom.functions.values import ITERATOR, AbstractValue, Ref, Tuple

MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
SEQUENCES = (list, deque)


def is_mapping(cls: type) -> bool:
    """Whether objects of a class hold items under keys."""
    return cls in MAPPINGS or plain_class(cls) is defaultdict


def is_sequence(cls: type) -> bool:
    """Whether objects of a class hold numbered items that may change."""
    return cls in SEQUENCES or plain_class(cls) is deque


def is_container(cls: type) -> bool:
    """Whether objects of a class hold items rather than attributes."""
    return is_mapping(cls) or is_sequence(cls)


def is_dict(value: AbstractValue) -> TypeGuard[Ref]:
    return isinstance(value, Ref) and is_mapping(value.cell.cls)


def is_list(value: AbstractValue) -> TypeGuard[Ref]:
    """Whether a value is a list or a deque."""
    return isinstance(value, Ref) and is_sequence(value.cell.cls)


def is_row(value: AbstractValue) -> TypeGuard[Tuple | Ref]:
    """Whether a value is a tuple, a list or a deque, which may become an array."""
    return isinstance(value, Tuple) or is_list(value)


def is_collection(value: AbstractValue) -> TypeGuard[Ref]:
    return isinstance(value, Ref) and is_container(value.cell.cls)


def is_object(value: AbstractValue) -> TypeGuard[Ref]:
    """Whether a value is an instance of a class that holds attributes."""
    return isinstance(value, Ref) and value.cell.cls is not ITERATOR and not is_container(value.cell.cls)


@lru_cache(maxsize=4096)
def class_with_option(cls: type, option: Any) -> type:
    """The class of the defaultdicts with a factory, or of the deques with a greatest length."""
    return cls if option is None else type(cls.__name__, (cls,), {"hloom_option": option})


def option_of(cls: type) -> Any:
    """The factory of a class of defaultdicts, the greatest length of one of deques; None where there is none."""
    return vars(cls).get("hloom_option")


def plain_class(cls: type) -> type:
    """The class that Python has for such a class."""
    return cls.__bases__[0] if "hloom_option" in vars(cls) else cls


def class_of_container(held: Any) -> type:
    """The class of a container from outside the program."""
    if type(held) is defaultdict:
        return class_with_option(defaultdict, held.default_factory)
    return class_with_option(deque, held.maxlen) if type(held) is deque else type(held)


def rebuilt_container(cls: type, keys: Any, items: list[Any]) -> Any:
    """Python's object of a class, with these items."""
    plain, option = plain_class(cls), option_of(cls)
    if plain is deque:
        return deque(items, option)
    if plain is list:
        return items
    pairs = zip(keys, items, strict=True)
    return defaultdict(option, pairs) if plain is defaultdict else plain(dict(pairs))
