"""How much memory plans are expected to take, beside what XLA's executables take; and when.

Covers `device_program.py`, `device_reshards.py`, `entry_results.py`.
"""

from __future__ import annotations

import random

import pytest

from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.device_program import device_program
from hloom.distribute.planner.memory_footprint import footprint
from hloom.distribute.planner.memory_profile import MemoryProfiler
from hloom.distribute.planner.plan import plan_of
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.reshard_placement import hoist_reshards
from hloom.distribute.planner.solvers.ilp import plan as ilp
from hloom.formats.hlo import parse
from hloom.ir import Apply, TensorType
from hloom.runtime import partition
from hloom.sharding import Mesh
from tests.distribute.planner.loops import MASKED_SCAN, SCAN
from tests.distribute.planner.test_plan import TWO_LAYERS
from tests.targets.cpu.programs import ATTENTION, CONVOLUTION, LARGEST, SUM

DONATED = ", input_output_alias={ {0}: (1, {}, may-alias) }"
PROGRAMS = {
    "layers": TWO_LAYERS,
    "attention": f"HloModule attention{DONATED}\n{SUM}{LARGEST}\nENTRY main {{{ATTENTION}}}\n",
    "convolution": f"HloModule convolution{DONATED}\n{SUM}\nENTRY main {{{CONVOLUTION}}}\n",
    "loop": SCAN,
    "masked loop": MASKED_SCAN,
}


def other_choice(problem: Problem, seed: int) -> dict[int, int]:
    """A random choice of strategies, the same for isomorphic clusters."""
    source = random.Random(seed)
    picked = {number: source.randrange(len(options)) for number, options in problem.options.items()}
    return {number: picked[problem.representative[number]] for number in problem.options}


@pytest.mark.parametrize("mesh_text", ["x=8", "x=2,y=4"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_take_what_is_expected(name: str, mesh_text: str):
    module, mesh = parse(PROGRAMS[name]), Mesh.parse(mesh_text)
    problem = build_problem(module, mesh)
    choice = ilp(problem).strategies
    specs = hoist_reshards(problem, choice)
    annotated = plan_of(problem, mesh, specs, module).annotate(module)
    taken = partition(annotated, mesh.device_count).memory
    assert footprint(problem, choice, specs) == pytest.approx(taken, rel=0.05)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_profile_has_the_peak_on_one_time_axis(name: str):
    problem = build_problem(parse(PROGRAMS[name]), Mesh.parse("x=2,y=4"))
    profiler = MemoryProfiler(problem, lambda choice: hoist_reshards(problem, choice))
    profiles = [profiler.profile(other_choice(problem, seed)) for seed in range(3)]
    assert len({len(profile.moments) for profile in profiles}) == 1
    for seed, profile in enumerate(profiles):
        choice = other_choice(problem, seed)
        assert profile.bytes == profile.moments.max() == footprint(problem, choice, hoist_reshards(problem, choice))
    count = profiler.simulated
    assert profiler.profile(other_choice(problem, 0)) is profiles[0] and profiler.simulated == count


def test_gathered_slices_are_as_large_as_on_one_device():
    module = parse("""HloModule lookup
ENTRY e {
  table = f32[4096,64] parameter(0)
  rows = s32[512,4] parameter(1)
  found = f32[512,4,64] gather(table, rows), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=2, slice_sizes={1,64}
  ROOT y = f32[512,4,64] tanh(found)
}""")
    problem = build_problem(module, Mesh.parse("x=8"))
    widths: set[int] = set()
    for seed in range(20):
        choice = other_choice(problem, seed)
        program = device_program(problem, choice, problem.specs(choice))
        for node in program.module.entry.nodes:
            if node.opcode == "gather":
                assert isinstance(node, Apply) and isinstance(node.type, TensorType)
                assert node.attributes["slice_sizes"] == (1, node.type.dims[2])
                widths.add(node.type.dims[2])
    assert widths == {8, 64}
