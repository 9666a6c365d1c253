"""What others ask the model, by specs."""

from __future__ import annotations

import pytest

from hloom.distribute.partitioner import reduction_collectives, reshard_collectives
from hloom.ir import ExplicitDevices
from hloom.sharding import Mesh, Spec, parse_spec
from hloom.text import Unsupported

MESH = Mesh.parse("x=2,y=4")


@pytest.mark.parametrize(
    ("operand", "partial", "natural", "result", "expected"),
    [
        ("[x,y]", ("y",), "[x]", "[x]", [("all-reduce", 4, 32)]),
        ("[x,y]", ("y",), "[x]", "[x.y]", [("reduce-scatter", 4, 32)]),
        ("[x,y]", ("y",), "[x]", "[-]", [("all-reduce", 4, 32), ("all-gather", 2, 64)]),
        ("[x,-]", (), "[x]", "[x]", []),
    ],
)
def test_reductions(operand: str, partial: tuple[str, ...], natural: str, result: str, expected: list):
    specs = [parse_spec(text).dims for text in (operand, natural, result)]
    collectives = reduction_collectives((64,), (partial,) if partial else (), *specs, MESH)
    assert [(collective.opcode, collective.group_size, collective.elements) for collective in collectives] == expected


def test_large_arrays_scale():
    source, target = parse_spec("[x,-]"), parse_spec("[-,x]")
    small = reshard_collectives((64, 64), source, target, MESH)
    large = reshard_collectives((640, 64), source, target, MESH)
    assert [collective.elements for collective in large] == [10 * collective.elements for collective in small]


def test_a_mesh_whose_devices_are_no_partitions_is_refused():
    mesh = Mesh(("x",), (2,), ExplicitDevices((4, 5)))
    with pytest.raises(Unsupported, match=r"the devices of the mesh x=2 are not numbered from 0 to 1"):
        reshard_collectives((8,), Spec((("x",),)), Spec.replicated(1), mesh)
