"""Specs as the entries of jax's PartitionSpec, without jax."""

from __future__ import annotations

import pytest
from hypothesis import given

from hloom.sharding import Mesh, Spec, from_partition, parse_spec, to_partition, unreduced_axes
from hloom.text import HloomError
from tests.helpers.properties import examples
from tests.sharding.meshes import meshes_with_specs


@given(meshes_with_specs(manual=False))
@examples(30)
def test_round_trips(case: tuple[Mesh, Spec]):
    _, spec = case
    assert from_partition(to_partition(spec), spec.rank, unreduced_axes(spec)) == spec


def test_entries():
    assert to_partition(parse_spec("[x,-,y.z]+w")) == ("x", None, ("y", "z"))
    assert unreduced_axes(parse_spec("[x,-,y.z]+w")) == {"w"}
    assert from_partition(["x"], 3) == parse_spec("[x,-,-]")
    assert from_partition([(), ["x", "y"]], 2) == parse_spec("[-,x.y]")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: from_partition(("x", None), 1), "2 entries are too many for an array of rank 1"),
        (
            lambda: from_partition((3,), 1),
            "3 does not say how a dimension is split: None, an axis, or a tuple of axes do",
        ),
        (
            lambda: unreduced_axes(parse_spec("[-]+x:minimum")),
            "[-]+x:minimum: jax's partial results are sums, not partial minimums",
        ),
    ],
)
def test_refused(ask, message: str):
    with pytest.raises(HloomError) as caught:
        ask()
    assert caught.value.message == message
