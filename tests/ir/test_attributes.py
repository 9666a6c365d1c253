"""Attributes are immutable, shared, and map what they refer to; rows say how many operands an op takes.

Covers `schema.py`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from hloom.ir import EMPTY, MANY, Attributes, Op
from hloom.ops import OPS
from tests.ir.build import diamond


def test_changed_makes_another():
    attributes = Attributes(dimensions=(0, 1), index=2)
    assert attributes.changed(index=None, k=3) == {"dimensions": (0, 1), "k": 3}
    assert attributes.changed({"control-predecessors": ()}, index=4) == {
        "dimensions": (0, 1),
        "index": 4,
        "control-predecessors": (),
    }
    assert attributes == {"dimensions": (0, 1), "index": 2}
    assert repr(attributes) == "Attributes({'dimensions': (0, 1), 'index': 2})"


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.__setitem__("k", 1),
        lambda a: a.__delitem__("index"),
        lambda a: a.__ior__({}),
        lambda a: a.update(k=1),
        lambda a: a.pop("index"),
        lambda a: a.popitem(),
        lambda a: a.clear(),
        lambda a: a.setdefault("k", 1),
    ],
)
def test_attributes_are_immutable(change: Callable[[Any], object]):
    attributes = Attributes(index=1)
    with pytest.raises(TypeError) as caught:
        change(attributes)
    assert str(caught.value) == "attributes are immutable: use Graph.set_attributes with node.attributes.changed(...)"
    assert attributes == {"index": 1}


def test_equal_attributes_hash_alike():
    one, other = Attributes(a=1, b=2), Attributes(b=2, a=1)
    assert one == other and hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one and isinstance(copy.copy(one), Attributes)


def test_referents_are_found_and_mapped():
    module = diamond()
    graph, x, y = module["reducer"], module.entry["x"], module.entry["y"]
    attributes = Attributes({"to_apply": graph, "dimensions": (0,), "control-predecessors": (x, y)})
    assert attributes.refers and list(attributes.referents()) == [graph, x, y]
    assert attributes.mapped({x: y, graph: module.entry}) == {
        "to_apply": module.entry,
        "dimensions": (0,),
        "control-predecessors": (y, y),
    }
    plain = Attributes(dimensions=(0,))
    assert not plain.refers and list(plain.referents()) == [] and plain.mapped({x: y}) is plain
    assert not EMPTY.refers


@pytest.mark.parametrize(
    ("arity", "step", "accepted"),
    [((2, 2), 1, [2]), ((1, 3), 1, [1, 2, 3]), ((2, MANY), 2, [2, 4, 6]), ((0, MANY), 1, [0, 1, 2, 3, 4, 5, 6])],
)
def test_an_op_accepts_so_many_operands(arity: tuple[int, int | None], step: int, accepted: list[int]):
    op = Op("op", arity, step)
    assert [count for count in range(7) if op.accepts(count)] == accepted


def test_an_op_is_one_object():
    add = OPS["add"]
    assert copy.copy(add) is add and copy.deepcopy([add])[0] is add
    assert (str(add), repr(add)) == ("add", "<op add>")
    with pytest.raises(TypeError):
        add.attributes["sharding"] = None  # type: ignore[index]
