"""Figures of specs: written as HLO's text and found from it, against jax's own conversions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, times_the_time
from benchmarks.programs import Plan, Program
from hloom.sharding import Mesh, Spec, from_hlo, spec_of, to_partition, to_tiled
from hloom.sharding.hlo_sharding import clear_caches

MESH = Mesh.parse("data=4,expert=8,model=8")
RANK = 3
TIMES = 50
"""How often each spec is converted: a plan of thousands of instructions has some hundred different ones."""


def sharding(plan: Plan) -> Iterator[Figure]:
    """All specs of three axes on three dimensions, as V2's text and back; at first nothing is cached.

    jax caches HLO of specs, but no specs of HLO.
    """
    specs = all_specs()
    program = Program(f"{len(specs)} specs on 4x8x8, {TIMES} times each", "", len(specs) * TIMES)
    named = [peers.jax_sharding(MESH.names, MESH.sizes, to_partition(spec)) for spec in specs]
    writing = [
        Job(lambda _: [str(to_tiled(spec, MESH)) for _ in range(TIMES) for spec in specs], clear_caches),
        Job(
            lambda _: [peers.jax_sharding_text(named_sharding, RANK) for _ in range(TIMES) for named_sharding in named],
            peers.jax_forget,
        ),
    ]
    ours, theirs = take_turns(writing, plan.seconds)
    yield times_the_time("spec to HLO", program, ours, peers.JAX, theirs, None)
    tiled = [to_tiled(spec, MESH) for spec in specs]
    proper = [peers.jax_hlo_sharding(named_sharding, RANK) for named_sharding in named]
    reading = [
        Job(lambda _: [from_hlo(sharding, MESH, RANK) for _ in range(TIMES) for sharding in tiled], clear_caches),
        Job(lambda _: [peers.jax_specs(hlo_sharding, named[0].mesh) for _ in range(TIMES) for hlo_sharding in proper]),
    ]
    ours, theirs = take_turns(reading, plan.seconds)
    yield times_the_time("HLO to spec", program, ours, peers.JAX, theirs, AtMost(1))


def all_specs() -> list[Spec]:
    """Every axis on any dimension or none, in every order."""
    specs: dict[Spec, None] = {}
    for order in permutations(MESH.names):
        for chosen in product(range(RANK + 1), repeat=len(order)):
            pairs = list(zip(order, chosen, strict=True))
            specs[spec_of([[axis for axis, number in pairs if number == dim] for dim in range(RANK)])] = None
    return list(specs)
