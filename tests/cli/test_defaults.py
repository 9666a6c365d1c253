"""An option that is a parameter of the command's function has the function's default, or its help says that default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any

import click
import pytest

import hloom
from hloom import autodiff
from hloom.cli import main
from hloom.cli.main import COMMANDS
from hloom.distribute.pipeline import plan_merged_pipeline
from hloom.distribute.propagation import enumerate_tilings
from hloom.inspection.minimize import CommandPredicate, DiffersFromEvaluator
from hloom.inspection.viz import to_dot

CONTEXT = click.Context(main)
FUNCTIONS: dict[str, Sequence[Callable[..., Any]]] = {
    **{name: [getattr(hloom, name.replace("-", "_"))] for name in COMMANDS if name.replace("-", "_") in dir(hloom)},
    "draw": [to_dot],
    "cost": [hloom.cost, hloom.CostReport.by],
    "roofline": [hloom.roofline, hloom.Roofline.by],
    "grad": [autodiff.grad],
    "minimize": [hloom.minimize, CommandPredicate, DiffersFromEvaluator],
    "pipeline": [plan_merged_pipeline],
    "propagate": [enumerate_tilings],
    "prune": [hloom.prune, hloom.prune_structured],
}
"""The functions whose parameters a command's options are."""
NAMES = {
    "quantize": {"number_format": "weights", "calibrate": "calibration", "smooth": "smoothing", "cache_format": "cache"},
    "prune": {"calibrate": "calibration"},
    "cost": {"trips": "trip_counts"},
    "roofline": {"trips": "trip_counts"},
    "page": {"trips": "trip_counts"},
    "view": {"trips": "trip_counts"},
}
"""Options that have another name than the parameter."""
OPPOSITES = {("quantize", "asymmetric"): "symmetric", ("fit", "no_donate"): "donate"}
"""Flags that turn a parameter off."""
REQUIRED = Parameter.empty
PAIRS = [
    pytest.param(name, option, parameter, id=f"{name} {option.opts[-1]}")
    for name in COMMANDS
    for option in main.get_command(CONTEXT, name).params  # pyright: ignore[reportOptionalMemberAccess]
    for function in FUNCTIONS.get(name, ())
    for parameter in signature(function).parameters.values()
    if isinstance(option, click.Option) and option.name != "module"
    if parameter.default is not REQUIRED and parameter.name == NAMES.get(name, {}).get(option.name or "", option.name)
]


def default_of(name: str, option: click.Option) -> Any:
    """What the command gets where the option is not given, as the function would take it."""
    value = option.get_default(click.Context(main.get_command(CONTEXT, name) or main))
    if value is None or "UNSET" in str(value):
        return () if option.multiple else False if option.is_flag else None
    converted = option.type.convert(value, option, CONTEXT)
    return tuple(converted.split(",")) if option.metavar == "NAMES" else converted


def test_options_were_found():
    assert len(PAIRS) > 45


@pytest.mark.parametrize(("name", "option", "parameter"), PAIRS)
def test_an_option_has_the_default_of_the_function(name: str, option: click.Option, parameter: Parameter):
    made, default = default_of(name, option), parameter.default
    nothing = (None, (), {})
    if made == default or (made in nothing and default in nothing):
        return
    assert made in nothing, f"{made} is not {default}"
    said = f"{default:g}" if isinstance(default, float) else str(default)
    assert f"default: {said}" in (option.help or ""), f"the help does not say {said}"


@pytest.mark.parametrize(("name", "option"), OPPOSITES)
def test_a_flag_turns_off_what_is_on(name: str, option: str):
    parameter = signature(FUNCTIONS[name][0]).parameters[OPPOSITES[name, option]]
    command = main.get_command(CONTEXT, name)
    assert command is not None
    assert parameter.default is True
    assert any(param.name == option and getattr(param, "is_flag", False) for param in command.params)
