"""Wherever a name is taken, it may be without its number, and a miss lists the nearest.

Covers `text/names.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import hloom
from hloom.cli import main
from hloom.cli.main import COMMANDS
from hloom.distribute.pipeline import PipelinePlan, Stage

TEXT = """HloModule step

sum.1 { a.1 = f32[] parameter(0) b.1 = f32[] parameter(1) ROOT add.9 = f32[] add(a.1, b.1) }

body.1 {
  state.1 = (s32[], s32[], f32[16,16]) parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  n.1 = s32[] get-tuple-element(state.1), index=1
  h.1 = f32[16,16] get-tuple-element(state.1), index=2
  one.1 = s32[] constant(1)
  next.1 = s32[] add(i.1, one.1)
  tanh.1 = f32[16,16] tanh(h.1)
  ROOT new.1 = (s32[], s32[], f32[16,16]) tuple(next.1, n.1, tanh.1)
}

cond.1 {
  state.2 = (s32[], s32[], f32[16,16]) parameter(0)
  i.2 = s32[] get-tuple-element(state.2), index=0
  n.2 = s32[] get-tuple-element(state.2), index=1
  ROOT more.1 = pred[] compare(i.2, n.2), direction=LT
}

ENTRY main.1 {
  inputs.3 = f32[16,16] parameter(0)
  weight.4 = f32[16,16] parameter(1)
  product.5 = f32[16,16] dot(inputs.3, weight.4), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero.1 = f32[] constant(0)
  trips.1 = s32[] parameter(2)
  start.1 = s32[] constant(0)
  init.1 = (s32[], s32[], f32[16,16]) tuple(start.1, trips.1, product.5)
  loop.6 = (s32[], s32[], f32[16,16]) while(init.1), condition=cond.1, body=body.1
  out.1 = f32[16,16] get-tuple-element(loop.6), index=2
  ROOT loss.7 = f32[] reduce(out.1, zero.1), dimensions={0,1}, to_apply=sum.1
}
"""
PLAIN = """HloModule step
ENTRY main.1 {
  inputs.3 = f32[16,16] parameter(0)
  weight.4 = f32[16,16] parameter(1)
  product.5 = f32[16,16] dot(inputs.3, weight.4), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT bent.6 = f32[16,16] tanh(product.5)
}
"""
NETWORK_TEXT = PLAIN.replace("ROOT bent.6 =", "bent.5 =").replace("\n}", """
  second.6 = f32[16,16] parameter(2)
  ROOT out.7 = f32[16,16] dot(bent.5, second.6), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
DECODE = """HloModule decode
ENTRY main.1 {
  keys.1 = f32[2,8,4] parameter(0)
  row.2 = f32[2,1,4] parameter(1)
  index.3 = s32[] parameter(2)
  zero.4 = s32[] constant(0)
  written.5 = f32[2,8,4] dynamic-update-slice(keys.1, row.2, zero.4, index.3, zero.4)
  query.6 = f32[2,4] parameter(3)
  scores.7 = f32[2,8] dot(query.6, written.5), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={2}
  ROOT new.8 = (f32[2,8], f32[2,8,4]) tuple(scores.7, written.5)
}
"""
X = np.ones((16, 16), np.float32)

OPTIONS: dict[str, tuple[str, ...]] = {
    "draw --computation": ("draw", "loop.hlo", "--computation", "{body}"),
    "draw --around": ("draw", "loop.hlo", "--around", "{product}"),
    "page --trips": ("page", "loop.hlo", "-o", "p.html", "--trips", "{loop}=3"),
    "view --trips": ("view", "loop.hlo", "--trips", "{loop}=3"),
    "cost --trips": ("cost", "loop.hlo", "--trips", "{loop}=3"),
    "roofline --trips": ("roofline", "loop.hlo", "--trips", "{loop}=3"),
    "why-oom --batch": ("why-oom", "plain.hlo", "--memory", "1kB", "--batch", "{inputs}:0"),
    "propagate --set": ("propagate", "plain.hlo", "--mesh", "x=2", "--set", "{inputs}:0=x"),
    "plan --pin": ("plan", "plain.hlo", "--mesh", "x=2", "--pin", "{inputs}=[x,-]"),
    "plan --forbid": ("plan", "plain.hlo", "--mesh", "x=2", "--forbid", "{weight}:x"),
    "pipeline --batch": ("pipeline", "plain.hlo", "--devices", "1", "--batch", "{inputs}:0"),
    "pipeline --trips": ("pipeline", "loop.hlo", "--devices", "1", "--batch", "inputs:0", "--trips", "{loop}=3"),
    "fit --batch": ("fit", "plain.hlo", "--devices", "1", "--batch", "{inputs}:0"),
    "opt --trace-misses": ("opt", "plain.hlo", "-p", "simplify", "--trace-misses", "main.{product}"),
    "quantize --only": ("quantize", "plain.hlo", "--only", "{weight}"),
    "quantize --cache-only": ("quantize", "decode.hlo", "--cache", "int8", "--format", "none", "--cache-only", "{keys}"),
    "prune --only": ("prune", "plain.hlo", "--only", "{weight}"),
    "grad --wrt": ("grad", "loop.hlo", "--wrt", "{weight}"),
    "grad --stop": ("grad", "loop.hlo", "--wrt", "weight", "--stop", "{product}"),
}
"""A command line for each option that takes a name."""
NAMELESS = {"plan --planner", "quantize --opcodes", "quantize --choices", "prune --opcodes", "minimize --xla-passes"}
"""Options whose metavar speaks of names, which are not a program's."""
METAVARS = ("NAME:DIM", "NAME=N", "NAME=SPEC", "NAME:DIM=AXIS", "NAMES", "NODE", "C", "AXIS")


def options_with_names() -> list[str]:
    context = click.Context(main)
    listed: list[str] = []
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        listed += [
            f"{name} {option.opts[-1]}"
            for option in command.params
            if isinstance(option.metavar, str) and (option.metavar in METAVARS or option.opts[-1] == "--stop")
        ]
    return [option for option in listed if option not in NAMELESS]


def call(arguments: tuple[str, ...], short: bool) -> Result:
    names = ("inputs.3", "weight.4", "product.5", "loop.6", "body.1", "keys.1")
    given = {name.partition(".")[0]: name.partition(".")[0] if short else name[:-3] + "z" + name[-3:] for name in names}
    return CliRunner().invoke(main, [argument.format(**given) for argument in arguments])


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda *_: True)
    for name, text in (("loop.hlo", TEXT), ("plain.hlo", PLAIN), ("decode.hlo", DECODE)):
        Path(name).write_text(text)


def test_every_option_that_takes_a_name_is_tried():
    assert sorted(options_with_names()) == sorted(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_takes_a_name_without_its_number(option: str):
    result = call(OPTIONS[option], short=True)
    assert result.exit_code == 0 or "layers" in result.stderr, result.output


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_lists_the_nearest_of_a_name_that_is_not_there(option: str):
    result = call(OPTIONS[option], short=False)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert "near: " in result.stderr, result.output


LOOP, STEP, NETWORK = hloom.parse(TEXT), hloom.parse(PLAIN), hloom.parse(NETWORK_TEXT)
ONE_STAGE = PipelinePlan((Stage(0, 0, (0,)),), 1)
FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "cost trip_counts": lambda n: hloom.cost(LOOP, trip_counts={n.format("loop.6"): 3}),
    "timeline trip_counts": lambda n: hloom.timeline(LOOP, "h100", trip_counts={n.format("loop.6"): 3}),
    "roofline trip_counts": lambda n: hloom.roofline(LOOP, "h100", trip_counts={n.format("loop.6"): 3}),
    "page trip_counts": lambda n: hloom.page(LOOP, "p.html", trip_counts={n.format("loop.6"): 3}),
    "view trip_counts": lambda n: hloom.view(LOOP, "p.html", trip_counts={n.format("loop.6"): 3}),
    "draw selection": lambda n: hloom.draw(LOOP, "p.dot", around=n.format("product.5")),
    "to_dot selection": lambda n: hloom.to_dot(LOOP, around=n.format("product.5")),
    "to_graphml selection": lambda n: hloom.to_graphml(LOOP, computation=n.format("body.1")),
    "to_json selection": lambda n: hloom.to_json(LOOP, around=n.format("product.5")),
    "evaluate inputs": lambda n: hloom.evaluate(STEP, {n.format("inputs.3"): X, n.format("weight.4"): X}),
    "run inputs": lambda n: hloom.run(STEP, {n.format("inputs.3"): X, n.format("weight.4"): X}),
    "grad wrt": lambda n: hloom.grad(LOOP, wrt=n.format("weight.4")),
    "value_and_grad wrt": lambda n: hloom.value_and_grad(LOOP, wrt=[n.format("weight.4")]),
    "vjp wrt": lambda n: hloom.vjp(LOOP, wrt=n.format("weight.4")),
    "jvp wrt": lambda n: hloom.jvp(LOOP, wrt=n.format("weight.4")),
    "microbatch batch": lambda n: hloom.microbatch(STEP, 2, batch={n.format("inputs.3"): 0}),
    "why_oom batch": lambda n: hloom.why_oom(STEP, memory=64, batch=f"{n.format('inputs.3')}:0"),
    "fit batch": lambda n: hloom.fit(STEP, 1, batch=f"{n.format('inputs.3')}:0"),
    "pipeline batch": lambda n: hloom.pipeline(STEP, ONE_STAGE, batch=f"{n.format('inputs.3')}:0"),
    "plan pins": lambda n: hloom.plan(STEP, "x=2", pins={n.format("inputs.3"): "[x,-]"}),
    "plan forbidden": lambda n: hloom.plan(STEP, "x=2", forbidden=[f"{n.format('weight.4')}:x"]),
    "quantize only": lambda n: hloom.quantize(STEP, only=[n.format("weight.4")]),
    "prune only": lambda n: hloom.prune(STEP, {"weight.4": X}, only=[n.format("weight.4")]),
    "prune weights": lambda n: hloom.prune(STEP, {n.format("weight.4"): X}, only=["weight.4"]),
    "prune_structured only": lambda n: hloom.prune_structured(NETWORK, {"weight.4": X, "second.6": X}, only=[n.format("weight.4"), "second.6"]),
    "prune_structured weights": lambda n: hloom.prune_structured(NETWORK, {n.format("weight.4"): X, "second.6": X}, only=["weight.4", "second.6"]),
    "apply passes": lambda n: hloom.opt(STEP, f"microbatch(n=2,batch={n.format('inputs.3')}:0)"),
}
"""A call for each parameter that takes names."""
TAKES_NAMES = {"trip_counts", "selection", "inputs", "wrt", "batch", "pins", "forbidden", "only"}


class Short(str):
    """Formats a name without its number."""

    def format(self, *names: Any, **_: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return str(names[0]).partition(".")[0]


class Wrong(str):
    """Formats a name that is not there."""

    def format(self, *names: Any, **_: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return str(names[0])[:3] + "z" + str(names[0])[3:]


def test_every_parameter_that_takes_a_name_is_tried():
    named = {
        f"{name} {parameter}"
        for name in hloom._OWNERS
        if callable(function := getattr(hloom, name)) and not inspect.isclass(function) and not inspect.ismodule(function)
        for parameter in inspect.signature(function).parameters
        if parameter in TAKES_NAMES
    }
    assert named - set(FUNCTIONS) <= {"jacobian wrt", "hessian wrt", "auto_shard pins"}  # numbers, and what goes to `plan`


@pytest.mark.parametrize("parameter", FUNCTIONS)
def test_a_parameter_takes_a_name_without_its_number(parameter: str):
    FUNCTIONS[parameter](Short())


# Arrays that no parameter is named after are left alone: a checkpoint may hold more.
@pytest.mark.parametrize("parameter", [name for name in FUNCTIONS if name != "prune_structured weights"])
def test_a_parameter_lists_the_nearest_of_a_name_that_is_not_there(parameter: str):
    with pytest.raises(hloom.HloomError, match="near: "):
        FUNCTIONS[parameter](Wrong())
