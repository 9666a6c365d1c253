"""Numbers and sizes of options, the same in every subcommand: found by looking at all of them.

Covers `quantities.py`.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from hloom.cli import main
from hloom.cli.main import COMMANDS
from hloom.cli.quantities import ByteSize, FiniteNumber, SpaceBudgets
from tests.cli.conftest import Call

CONTEXT = click.Context(main)
SIZES = {"80GiB": 80 << 30, "500MB": 500_000_000, "1.5 k": 1500, "16B": 16, "4096": 4096}
NO_SIZES = ("16", "1e3", "-5", "-1GiB", "nan", "inf", "1e400GB", "9" * 5000 + "GB", "", "16bytes", "1_6B")
LONG = "9" * 5_000
NO_NUMBERS = ("nan", "inf", "-inf", "1e400", "NaN", "infinity", "", "x")


def options(of_type: type) -> list[tuple[str, click.Parameter]]:
    listed: list[tuple[str, click.Parameter]] = []
    for name in COMMANDS:
        command = main.get_command(CONTEXT, name)
        assert command is not None
        listed += [(f"{name} {option.opts[-1]}", option) for option in command.params if isinstance(option.type, of_type)]
    return listed


def test_every_size_is_read_by_one_type():
    named = {
        f"{name} {option.opts[-1]}"
        for name in COMMANDS
        for option in main.get_command(CONTEXT, name).params  # pyright: ignore[reportOptionalMemberAccess]
        if option.metavar == "SIZE" or option.opts[-1] in ("--memory", "--budget", "--bytes-budget")
    }
    assert named == dict(options(ByteSize)).keys() | dict(options(SpaceBudgets)).keys()
    assert len(named) == 7


def test_every_number_is_read_by_one_type():
    assert dict(options(click.FloatRange)).keys() == dict(options(FiniteNumber)).keys()
    assert not dict(options(click.types.FloatParamType)).keys() - dict(options(FiniteNumber)).keys()


@pytest.mark.parametrize(("title", "option"), options(ByteSize), ids=[title for title, _ in options(ByteSize)])
def test_sizes(title: str, option: click.Parameter):
    assert {text: option.type.convert(text, option, CONTEXT) for text in SIZES} == SIZES
    for text in NO_SIZES:
        with pytest.raises(click.BadParameter):
            option.type.convert(text, option, CONTEXT)


@pytest.mark.parametrize(("title", "option"), options(FiniteNumber), ids=[title for title, _ in options(FiniteNumber)])
def test_numbers(title: str, option: click.Parameter):
    assert option.type.convert("1", option, CONTEXT) == 1.0
    for text in NO_NUMBERS:
        with pytest.raises(click.BadParameter):
            option.type.convert(text, option, CONTEXT)


def test_a_small_number_wants_a_unit(call: Call):
    for name, more in (("plan", ("--mesh", "m=2")), ("fit", ("--devices", "2")), ("why-oom", ())):
        result = call(name, "step.hlo", *more, "--memory", "16")
        assert result.exit_code == 2
        assert "'--memory': '16' has no unit: write 16GiB, or 16B" in result.stderr


def test_a_device_holds_something(call: Call):
    result = call("plan", "step.hlo", "--mesh", "m=2", "--memory", "0")
    assert (result.exit_code, "a device cannot hold 0 bytes" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("propagate", ("--set", "x:0=m", "--mesh", f"m={LONG}")),
        ("propagate", ("--mesh", "m=2", "--set", f"x:{LONG}=m")),
        ("plan", ("--mesh", LONG)),
        ("plan", ("--mesh", f"{LONG}x2")),
        ("plan", ("--mesh", "m=2", "--forbid", f"x:{LONG}=m")),
        ("cost", ("--trips", f"w={LONG}")),
        ("fit", ("--devices", "2", "--microbatches", LONG)),
        ("pipeline", ("--devices", "2", "--batch", f"x:{LONG}")),
        ("why-oom", ("--batch", f"x:{LONG}")),
        ("quantize", ("--only", "w", "--format", "int8", "--cache", f"int4:{LONG}")),
        ("grad", ("--wrt", LONG)),
        ("grep", (f"has shape f32[{LONG}]",)),
        ("grep", (f'name ~ "a{{{LONG}}}"',)),
        ("opt", ("-p", f"microbatch(n={LONG})")),
        ("opt", ("-p", LONG)),
    ],
)
def test_numbers_of_thousands_of_digits(call: Call, step: Path, name: str, options: tuple[str, ...]):
    """Python refuses to read them, in words of its own."""
    result = call(name, step, *options)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert "Exceeds the limit" not in result.output and len(result.stderr) < 3_000
