"""Whether two abstract values are certainly equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.functions.values import AbstractValue, Array, Const, Ref


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
    if isinstance(a, Ref):
        return a.cell is b.cell
    is_composite = isinstance(a, AbstractValue) and bool(a.made_of)
    return is_composite and a.outline == b.outline and all(map(same, a.children, b.children))


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
