"""A module whose shardings no partitioner has applied yet is told from one device's part of it."""

from __future__ import annotations

import pytest

from hloom.analysis import awaits_partitioning
from hloom.formats.hlo import parse

SPLIT = "sharding={devices=[2]<=[2]}"


def module(body: str, name: str = "main", header: str = ""):
    return parse(f"HloModule m{header}\n\nENTRY {name} {{\n  {body}\n}}")


@pytest.mark.parametrize(
    ("body", "is_awaited"),
    [
        ("x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)", False),
        (f"x = f32[4] parameter(0), {SPLIT}\n  ROOT y = f32[4] negate(x)", True),
        ("x = f32[4] parameter(0), sharding={replicated}\n  ROOT y = f32[4] negate(x)", False),
        ('x = f32[4] parameter(0)\n  ROOT y = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape"', True),
        ('x = f32[4] parameter(0)\n  ROOT y = f32[4] custom-call(x), custom_call_target="other"', False),
    ],
)
def test_what_is_split_or_converted_awaits_the_partitioner(body: str, is_awaited: bool):
    assert awaits_partitioning(module(body)) is is_awaited


def test_shardys_meshes_await_it():
    header = ', frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[]>}"}'
    assert awaits_partitioning(module("ROOT x = f32[4] parameter(0)", header=header))


def test_what_the_partitioner_or_the_scheduler_wrote_does_not():
    body = f"x = f32[4] parameter(0), {SPLIT}\n  ROOT y = f32[4] negate(x)"
    assert not awaits_partitioning(module(body, name="main_spmd"))
    assert not awaits_partitioning(module(body, header=", is_scheduled=true"))
