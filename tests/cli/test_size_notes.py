"""Every subcommand that shows costs or bytes says what they leave out where dimensions have no size."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import hloom
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
    assert "the counted part fits into" in shown("memory FILE --budget 1MiB", path)
    assert "the counted part fits into" in shown("why-oom FILE --memory 1MiB", path)


ROWS = """
HloModule m

ENTRY e {
  x = f32[SIZE,8] parameter(0)
  w = f32[8,16] parameter(1)
  y = f32[SIZE,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[SIZE,16] tanh(y)
  n = f32[8,16] negate(w)
  ROOT r = (f32[SIZE,16], f32[8,16]) tuple(z, n)
}
"""


def rows_of(command: str, size: str, folder: Path) -> dict[str, str]:
    path = folder / "step.hlo"
    path.write_text(ROWS.replace("SIZE", size))
    path.with_name("other.hlo").write_text(path.read_text().replace("tanh", "cosine").replace("negate", "abs"))
    words = [{"FILE": str(path), "OTHER": str(path.with_name("other.hlo"))}.get(word, word) for word in command.split()]
    lines = [line.split(maxsplit=1) for line in CliRunner().invoke(main, words).output.splitlines()]
    return {words[0]: words[1] for words in reversed(lines) if len(words) == 2}  # the first row of a name counts


@pytest.mark.parametrize(("size", "says"), [("?", "at least"), ("<=100", "at most")])
@pytest.mark.parametrize(
    ("command", "varies", "known"),
    [
        ("cost FILE", ("dot", "tanh", "tuple"), "negate"),
        ("roofline FILE", ("y", "z"), "n"),
        ("roofline FILE --by opcode", ("dot", "tanh"), "negate"),
        ("memory FILE", ("x", "z"), "w"),
    ],
)
def test_rows_of_what_varies(command: str, varies: tuple[str, ...], known: str, size: str, says: str, tmp_path: Path):
    rows = rows_of(command, size, tmp_path)
    assert all(says in rows[name] for name in varies)
    assert says not in rows[known]


def test_changes_of_what_varies(tmp_path: Path):
    rows = rows_of("diff FILE OTHER --by opcode", "?", tmp_path)
    assert "roughly" in rows["cosine"] and "roughly" not in rows["abs"]


def test_rows_in_json(tmp_path: Path):
    rows = {row["opcode"]: row["sizes"] for row in hloom.cost(hloom.parse(ROWS.replace("SIZE", "?"))).by("opcode")}
    assert rows == {"dot": "at least", "tanh": "at least", "tuple": "at least", "negate": ""}
    timings = hloom.roofline(hloom.parse(ROWS.replace("SIZE", "<=4")), "h100").to_json()["instructions"]
    assert {row["name"]: row.get("sizes") for row in timings} == {"y": "at most", "z": "at most", "n": None}
    assert "sizes" not in hloom.cost(hloom.parse(ROWS.replace("SIZE", "4"))).by("opcode").columns
