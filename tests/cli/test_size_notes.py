"""Every subcommand that shows costs or bytes says what they leave out where dimensions have no size."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from hloom.cli import main

PROGRAM = """
HloModule m

ENTRY e {
  x = f32[SIZE,8] parameter(0)
  w = f32[8,16] parameter(1)
  y = f32[SIZE,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[SIZE,16] tanh(y)
}
"""
COMMANDS = {
    "cost": "cost FILE", "cost by scope": "cost FILE --by scope", "roofline": "roofline FILE", "memory": "memory FILE",
    "inspect": "inspect FILE", "why-oom": "why-oom FILE --quick", "diff": "diff FILE OTHER", "grep": "grep FILE dot",
    "fusions": "fusions FILE",
}  # fmt: skip
OF_BOUNDED = {"plan": "plan FILE --mesh data=2", "fit": "fit FILE --devices 2"}
"""Of a dimension without a bound these are refused."""


def written(folder: Path, size: str) -> Path:
    path = folder / "step.hlo"
    path.write_text(PROGRAM.replace("SIZE", size))
    return path


def shown(command: str, path: Path) -> str:
    other = path.with_name("other.hlo")
    other.write_text(path.read_text().replace("tanh", "negate"))
    words = [{"FILE": str(path), "OTHER": str(other)}.get(word, word) for word in command.split()]
    return " ".join(CliRunner().invoke(main, words).output.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dimension_without_a_bound(name: str, tmp_path: Path):
    text = shown(COMMANDS[name], written(tmp_path, "?"))
    assert "at least" in text and "such as x: f32[?,8]" in text


@pytest.mark.parametrize("name", [*COMMANDS, *OF_BOUNDED])
def test_a_dimension_with_a_bound(name: str, tmp_path: Path):
    text = shown({**COMMANDS, **OF_BOUNDED}[name], written(tmp_path, "<=100"))
    assert "dynamic sizes count at their bounds, such as x: f32[<=100,8]" in text


@pytest.mark.parametrize("name", OF_BOUNDED)
def test_what_is_refused(name: str, tmp_path: Path):
    assert "f32[?,8] has an unbounded dimension" in shown(OF_BOUNDED[name], written(tmp_path, "?"))


@pytest.mark.parametrize("name", [*COMMANDS, *OF_BOUNDED])
def test_sizes_that_are_known(name: str, tmp_path: Path):
    text = shown({**COMMANDS, **OF_BOUNDED}[name], written(tmp_path, "100"))
    assert "at least" not in text and "at most" not in text


def test_a_page(tmp_path: Path):
    path = written(tmp_path, "?")
    CliRunner().invoke(main, ["page", str(path), "-o", str(tmp_path / "page.html")])
    assert "costs and memory are at least what is shown: without the sizes of 3" in (tmp_path / "page.html").read_text()


def test_what_fits_is_what_is_counted(tmp_path: Path):
    path = written(tmp_path, "?")
    assert "what is counted fits into" in shown("memory FILE --budget 1MiB", path)
    assert "what is counted fits into" in shown("why-oom FILE --memory 1MiB", path)
