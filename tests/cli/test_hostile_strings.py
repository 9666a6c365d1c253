"""Strings of a program that terminals obey, or that turn the text around them, reach none: in every subcommand.

Covers `output.py`, `tables.py`, `streams.py`; what a pipe or a file gets is not changed, so that it can be read back.
"""

from __future__ import annotations

import json
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from xml.dom.minidom import parseString

import click.testing
import pytest

import hloom
from hloom.cli.main import COMMANDS
from hloom.formats import protobuf
from hloom.formats.hlo import read_proto, write_proto
from hloom.text import HloomError, HloomWarning
from hloom.text.strings import HIDDEN
from tests.cli.conftest import Call

HOSTILE = "a\x1b[2J\x1b]0;pwned\x07\x9b31m\r\x7f\u202egpj\u2066\u2028b"
"""Clears the screen, titles the window, colours, overwrites the line, and turns what follows."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""What rich writes to a terminal itself."""
TEXT = """HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0), metadata={op_name="HERE"}
  w = f32[8,2] parameter(1), frontend_attributes={k="HERE"}
  d = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="f/HERE/g" source_file="HERE" source_line=3}
  zero = f32[] constant(0)
  r = f32[4] reduce(d, zero), dimensions={1}, to_apply=sum, metadata={op_name="HERE"}
  CALL
  ROOT t = (f32[4,2], f32[4]) tuple(d, c)
}
"""
CALLS = {
    "custom call": 'c = f32[4] custom-call(r), custom_call_target="HERE", backend_config="HERE"',
    "plain": "c = f32[4] negate(r)",
}
OPTIONS = {
    "propagate": ("--mesh", "m=2", "--set", "x:0=m"),
    "plan": ("--mesh", "m=2", "--explain"),
    "grep": ("negate or custom-call or dot",),
    "minimize": ("--failing", "true {}"),
    "opt": ("-p", "dce,cse"),
    "compile": ("--for", "cpu", "--opaque-calls"),
    "grad": ("--vjp",),
    "pipeline": ("--devices", "2"),
    "fit": ("--devices", "2"),
    "why-oom": ("--memory", "100B"),
    "memory": ("--budget", "10B"),
    "quantize": ("--only", "w", "--check"),
    "prune": ("--only", "w", "--sparsity", "0.5"),
}
PROGRAM_TEXT = ("print", "opt", "grad", "quantize", "prune", "minimize", "draw", "grep")
"""The subcommands whose standard output is a program, or lines of one, for others to read."""
READERS = [name for name in COMMANDS if name not in ("calibrate", "doctor", "passes")]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda page: True)


@pytest.fixture(params=CALLS)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A module, each of whose strings is hostile, in a file whose name is; beside it `other`, that differs."""
    path = tmp_path / f"{HOSTILE}.hlo"
    path.write_text(hostile_text(CALLS[request.param]), newline="")
    (tmp_path / "other").write_text(hostile_text(CALLS["plain"]).replace("negate", "exponential"), newline="")
    return path


def hostile_text(call: str) -> str:
    return TEXT.replace("CALL", call).replace("HERE", HOSTILE)


def hostile_proto(call: str) -> bytes:
    """A proto in which the names are hostile, too."""
    text = hostile_text(call)
    message = protobuf.HloModuleProto.FromString(write_proto(hloom.parse(text), "hlo_module"))
    message.name += HOSTILE
    for computation in message.computations:
        computation.name += HOSTILE
        for instruction in computation.instructions:
            instruction.name += HOSTILE
    message.entry_computation_name += HOSTILE
    return message.SerializeToString()


def arguments(name: str, path: Path) -> tuple[str | Path, ...]:
    return (name, path, *((path.parent / "other",) if name == "diff" else ()), *OPTIONS.get(name, ()))


@pytest.mark.parametrize("name", READERS)
def test_a_terminal_gets_escapes(call: Call, hostile: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda stream: True)
    monkeypatch.setattr("hloom.cli.input.PATIENCE", 1000.0)  # no progress bar, which moves the cursor
    result = call(*arguments(name, hostile))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    shown = COLOURS.sub("", result.stdout + result.stderr).replace("\r\n", "\n")
    assert not HIDDEN.findall(shown), shown


@pytest.mark.parametrize("name", [name for name in READERS if name not in PROGRAM_TEXT])
def test_reports_and_messages_have_escapes_everywhere(call: Call, hostile: Path, name: str):
    result = call(*arguments(name, hostile))
    assert not HIDDEN.findall(result.stdout + result.stderr)


@pytest.mark.parametrize("name", PROGRAM_TEXT)
def test_messages_have_escapes_everywhere(call: Call, hostile: Path, name: str):
    assert not HIDDEN.findall(call(*arguments(name, hostile)).stderr)


JSON = ("inspect", "draw", "cost", "roofline", "memory", "grep", "diff", "evaluate", "plan", "propagate")


@pytest.mark.parametrize("name", JSON)
def test_json_is_escaped_and_holds_the_strings(call: Call, tmp_path: Path, name: str):
    path = tmp_path / "hostile.hlo"
    path.write_text(hostile_text(CALLS["plain"]), newline="")
    (tmp_path / "other").write_text(hostile_text(CALLS["plain"]).replace("negate", "exponential"), newline="")
    result = call(*arguments(name, path), "--json")
    assert not HIDDEN.findall(result.stdout) and json.loads(result.stdout)


def test_a_pipe_gets_the_bytes_themselves(call: Call, tmp_path: Path):
    """XLA keeps raw bytes in strings, and so does what reads the output of `print`."""
    path = tmp_path / "raw.hlo"
    path.write_text(hostile_text(CALLS["custom call"]), newline="")
    piped = call("print", path).stdout_bytes.decode()
    assert HOSTILE in piped
    assert hloom.print(hloom.parse(piped)) == hloom.print(hloom.load(path)) == piped


def test_what_a_terminal_gets_reads_back_as_well(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "raw.hlo"
    path.write_text(hostile_text(CALLS["custom call"]), newline="")
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda stream: True)
    shown = call("print", path).stdout
    assert not HIDDEN.findall(shown)
    assert hloom.difference(hloom.parse(shown), hloom.load(path)) is None


@pytest.mark.parametrize("suffix", [".svg", ".graphml", ".dot", ".json"])
def test_drawings(call: Call, hostile: Path, tmp_path: Path, suffix: str):
    assert call("draw", hostile, "-o", tmp_path / f"out{suffix}").exit_code == 0
    text = (tmp_path / f"out{suffix}").read_text()
    assert not HIDDEN.findall(text)
    if suffix in (".svg", ".graphml"):
        parseString(text)
    elif suffix == ".json":
        json.loads(text)


@pytest.mark.parametrize("name", ["page", "memory", "roofline"])
def test_pages_and_plots(call: Call, hostile: Path, tmp_path: Path, name: str):
    output = tmp_path / ("out.html" if name == "page" else "out.svg")
    assert call(name, hostile, "-o", output).exit_code == 0
    assert not HIDDEN.findall(output.read_text())


def test_errors_and_warnings():
    error = HloomError(f"no {HOSTILE}", hint=HOSTILE)
    assert str(error).startswith(r"no a\033[2J\033]0;pwned\007\302\23331m\r\177\342\200\256gpj")
    assert not HIDDEN.findall(str(error))
    with pytest.raises(HloomError) as caught:
        hloom.parse(f'ENTRY e {{ x = f32[2] negate("{HOSTILE}" }}')
    assert not HIDDEN.findall(str(caught.value))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warnings.warn(HOSTILE, HloomWarning, stacklevel=1)
    assert not HIDDEN.findall(str(heard[0].message))


def test_names_of_a_proto_are_names():
    """What prints from a proto reads back, whatever the names in it were."""
    module = read_proto(hostile_proto(CALLS["custom call"]))
    assert hloom.print(hloom.parse(hloom.print(module))) == hloom.print(module)


WRITERS = {"output.py", "tables.py", "input.py", "completion.py", "interrupt.py"}
"""The files of the command line that write: reports and notes, tables, progress, the shell's script, one fixed word."""


def test_one_layer_writes():
    writing = re.compile(r"click\.(echo|secho)\(|\bprint\(|sys\.(stdout|stderr)\.(write|buffer)|\bConsole\(|os\.write\(")
    folder = Path(hloom.__file__).parent / "cli"
    writers = {path.name for path in folder.glob("*.py") if writing.search(path.read_text())}
    assert writers <= WRITERS


@pytest.mark.parametrize("is_terminal", [False, True])
def test_names_of_files_in_a_dump(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool):
    """The names of modules, pipelines and passes come from file names, which hold anything but a slash."""
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda stream: is_terminal)
    monkeypatch.setattr("hloom.cli.input.PATIENCE", 1000.0)
    text = hostile_text(CALLS["plain"])
    stages = ("before_optimizations", f"0001.pipe{HOSTILE}.after_{HOSTILE}.before_x", "0002.pipe.after_x.before_y")
    for number, stage in enumerate((*stages, "cpu_after_optimizations")):
        changed = text if number % 2 else text.replace("negate", "exponential")
        (tmp_path / f"module_0001.jit{HOSTILE}.{stage}.txt").write_text(changed, newline="")
    cases = [("passes", tmp_path, *more) for more in ((), ("--changed",), ("--diff", "1", "2"), ("--json",))]
    cases += [("passes", tmp_path, "--module", HOSTILE), ("passes", tmp_path / HOSTILE), ("fusions", tmp_path)]
    cases += [("memory", tmp_path, "--stage", HOSTILE), ("calibrate", "--name", HOSTILE)]
    for case in cases:
        result = call(*case)
        assert result.exception is None or isinstance(result.exception, SystemExit), case
        shown = COLOURS.sub("", result.stdout + result.stderr).replace("\r\n", "\n")
        assert shown and not HIDDEN.findall(shown), case


MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'`]]>--><svg onload=alert(3)>"
"""What a page or a notebook would run, were it not escaped."""


class Tags(HTMLParser):
    """The elements of a page, and their attributes that run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags += [tag, *(name for name, _ in attrs if name.startswith("on"))]


def test_markup_in_names_is_text(call: Call, tmp_path: Path):
    plain, hostile = (TEXT.replace("CALL", CALLS["custom call"]).replace("HERE", text) for text in ("a", MARKUP))
    shown: list[list[list[str]]] = []
    for text in (plain, hostile):
        path = tmp_path / "step.hlo"
        path.write_text(text)
        pages: list[str] = []
        for name, suffix in (("page", "html"), ("draw", "svg"), ("memory", "svg"), ("roofline", "svg")):
            assert call(name, path, "-o", tmp_path / f"out.{suffix}").exit_code == 0
            pages.append((tmp_path / f"out.{suffix}").read_text())
        module = hloom.load(path)
        reports = (module, hloom.cost(module), hloom.memory(module), hloom.roofline(module, "h100"), module.entry.root)
        pages += [report._repr_html_() for report in (*reports, hloom.inspect(module), hloom.diff(module, module))]
        shown.append([[tag for tag in Tags(page).tags if tag in ("script", "img", "svg") or tag[:2] == "on"] for page in pages])
    assert shown[0] == shown[1]
