"""Whether two abstract values are certainly equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.functions.values import (
    Array,
    Const,
    Derived,
    Fields,
    FunctionClosure,
    Method,
    PartialCall,
    Ref,
    Series,
    Tuple,
    ValueChoice,
)


def same(a: Any, b: Any) -> bool:
    """Whether two values are surely the same, and nothing of them is computed by the run."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Array):
        if a.has_elements or b.has_elements:  # copies that have one node may be changed apart
            return a.identity is b.identity and a.node is b.node
        return a.node is b.node and a.weak == b.weak
    if isinstance(a, Const):
        return same_object(a.value, b.value)
    if isinstance(a, Tuple):
        return a.cls is b.cls and len(a.items) == len(b.items) and all(map(same, a.items, b.items))
    if isinstance(a, Ref):
        return a.cell is b.cell
    if isinstance(a, FunctionClosure):
        return (
            a.code is b.code
            and a.scope is b.scope
            and len(a.defaults) == len(b.defaults)
            and all(map(same, a.defaults, b.defaults))
            and a.keyword_defaults.keys() == b.keyword_defaults.keys()
            and all(same(item, b.keyword_defaults[name]) for name, item in a.keyword_defaults.items())
        )
    if isinstance(a, PartialCall):
        return (
            same(a.function, b.function)
            and len(a.arguments) == len(b.arguments)
            and all(map(same, a.arguments, b.arguments))
            and a.keywords.keys() == b.keywords.keys()
            and all(same(item, b.keywords[name]) for name, item in a.keywords.items())
        )
    if isinstance(a, Method):
        return a.name == b.name and same(a.owner, b.owner)
    if isinstance(a, Derived):
        return a.transformation == b.transformation and a.options == b.options and same(a.function, b.function)
    if isinstance(a, Series):
        return a.rule == b.rule and len(a.parts) == len(b.parts) and all(map(same, a.parts, b.parts))
    if isinstance(a, Fields):
        return a.keys == b.keys and len(a.items) == len(b.items) and all(map(same, a.items, b.items))
    if isinstance(a, ValueChoice):
        return a.tag.node is b.tag.node and len(a.options) == len(b.options) and all(map(same, a.options, b.options))
    return False


def same_object(a: Any, b: Any) -> bool:
    """Whether two Python objects are the same constant."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, (int, str, complex, bytes, bool, np.dtype, slice)):
        return repr(a) == repr(b) if isinstance(a, (complex, slice)) else a == b
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    try:
        return bool(a == b) and hash(a) == hash(b)
    except Exception:
        return False
