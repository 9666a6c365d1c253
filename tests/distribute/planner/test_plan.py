"""Plans of small modules: what the planner picks, what it expects to cost, and what is refused.

Covers `distribute/planner/strategy_costs.py`.
"""

from __future__ import annotations

import itertools

import pytest

from hloom.distribute.partitioner import reshard_collectives
from hloom.distribute.planner.cost_model import StepCost
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.forecast import predicted_collectives
from hloom.distribute.planner.search import search_plans
from hloom.distribute.planner.solvers.ilp import plan as ilp
from hloom.formats.hlo import parse
from hloom.sharding import Mesh, Spec, parse_spec
from hloom.text import HloomError

TWO_LAYERS = """HloModule two_layers, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }

ENTRY main {
  x = f32[512,4096] parameter(0)
  w = f32[4096,16384] parameter(1)
  v = f32[16384,4096] parameter(2)
  h = f32[512,16384] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[512,16384] tanh(h)
  y = f32[512,4096] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dv = f32[16384,4096] dot(a, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  v1 = f32[16384,4096] subtract(v, dv)
  da = f32[512,16384] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dw = f32[4096,16384] dot(x, da), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  w1 = f32[4096,16384] subtract(w, dw)
  ROOT out = (f32[4096,16384], f32[16384,4096]) tuple(w1, v1)
}
"""


def test_large_weights_are_split_where_the_batch_is_small():
    chosen = search_plans(parse(TWO_LAYERS), Mesh.parse("x=8"))
    plan = chosen.best.plan
    assert (str(plan.parameters[1]), str(plan.parameters[2])) == ("[-,x]", "[x,-]")


def test_the_choice_is_the_best_of_all():
    problem = build_problem(parse(TWO_LAYERS), Mesh.parse("x=2"))
    numbers = list(problem.options)
    counts = [range(len(problem.options[number])) for number in numbers]
    least = min(
        problem.cost(dict(zip(numbers, combination, strict=True)))
        for combination in itertools.islice(itertools.product(*counts), 200_000)
    )
    choice = ilp(problem)
    assert choice.cost <= least + 1e-12
    assert choice.gap < 1e-3


def test_the_ledger_adds_up_to_what_the_tables_say():
    problem = build_problem(parse(TWO_LAYERS), Mesh.parse("x=2,y=4"))
    choice = ilp(problem).strategies
    price = StepCost(work=problem.work_seconds(choice))
    for collective in predicted_collectives(problem, choice):
        price.add_collectives([collective.step], collective.width, collective.times, problem.collectives)
    assert price.seconds(problem.rates) == pytest.approx(problem.cost(choice), rel=1e-2)


def test_the_same_input_gives_the_same_plan():
    plans = [search_plans(parse(TWO_LAYERS), Mesh.parse("x=2,y=4")).best.plan.to_json() for _ in range(2)]
    assert plans[0] == plans[1]


def test_a_pin_holds():
    chosen = search_plans(parse(TWO_LAYERS), Mesh.parse("x=8"), pins={"x": parse_spec("[x,-]")})
    assert chosen.best.plan.parameters[0] == parse_spec("[x,-]")


@pytest.mark.parametrize(
    ("name", "spec", "says"),
    [
        ("z", "[x,-]", "z cannot be pinned: the program has no array of that name that is planned"),
        ("x", "[-,-]+x", "x cannot be pinned to [-,-]+x: no strategy splits it so"),
    ],
)
def test_what_cannot_be_pinned(name: str, spec: str, says: str):
    with pytest.raises(HloomError) as caught:
        search_plans(parse(TWO_LAYERS), Mesh.parse("x=8"), pins={name: parse_spec(spec)})
    assert caught.value.message == says


def test_aliased_outputs_take_the_parameters_specs():
    plan = search_plans(parse(TWO_LAYERS), Mesh.parse("x=8")).best.plan
    root = plan.annotate(parse(TWO_LAYERS)).entry.root
    assert "devices=[1,8]<=[8]" in str(root.attributes["sharding"])


def test_a_replicated_value_is_cut_for_nothing():
    assert reshard_collectives((8, 8), Spec.replicated(2), parse_spec("[x,-]"), Mesh.parse("x=4")) == ()
