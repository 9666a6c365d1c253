"""The examples in the documents do what they show.

Of a document's fenced blocks, `python` ones run as doctests, one after the other; `console` ones run each line that
begins with `$ hloom` and compare what it writes; a block under `<!-- file: NAME -->` is written into that file, and one
under `<!-- long -->` takes seconds: it runs in `make test-long` only. All run in one directory, which has the HLO files
that the document links to (those of another folder under their names alone) and nothing else. `...` in an expected
output stands for anything, and one space for any white space.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hloom.cli import main
from tests.helpers.properties import is_long

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.name != "CHANGELOG.md"
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_BLOCK = re.compile(
    r"^(?:<!-- (?:file: (?P<file>\S+)|(?P<long>long)|devices: (?P<devices>\d+)) -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def blocks(text: str) -> Iterator[re.Match[str]]:
    return _BLOCK.finditer(text)


def check_console(body: str) -> None:
    for match in _COMMAND.finditer(body):
        program, *arguments = shlex.split(match["command"], comments=True)
        assert program == "hloom", f"cannot run: {match['command']}"
        result = CliRunner().invoke(main, arguments)
        actual, expected = plain(result.output), plain(match["output"])
        assert doctest.OutputChecker().check_output(expected, actual, FLAGS), f"{match['command']} wrote:\n{actual}"


def plain(text: str) -> str:
    """The lines without what stands at their ends, and without blank ones."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())


def check_python(body: str, names: dict[str, object], where: str) -> None:
    test = doctest.DocTestParser().get_doctest(body, names, where, where, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not report, "".join(report)


def check_on_devices(body: str, devices: int, where: str) -> None:
    """Run a block in a process of its own, where jax has so many devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    code = "import sys; from tests.test_docs import check_python; check_python(sys.stdin.read(), {}, sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, where],
        input=body,
        capture_output=True,
        text=True,
        env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": paths},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


UNRUN = re.compile(
    r"(?:make|git|pip|source|cd|eval|XLA_FLAGS=|model-explorer|python (?:run|train)\.py|hloom --completion|"
    r"(?:dot|reshape|reduce) +\[)"
)
"""How lines begin of blocks that cannot run here: installation, shells, what fit writes, notation."""


def check_commands(body: str) -> None:
    """Of a block of no language, each line is a command of hloom with options that there are, or among `UNRUN`."""
    for line in (line.strip().removeprefix("$ ") for line in body.splitlines() if line.strip()):
        if not line.startswith("hloom ") or line.startswith("hloom --"):
            assert UNRUN.match(line), f"neither run nor known: {line}"
            continue
        _, name, *arguments = shlex.split(line, comments=True)
        command = main.get_command(click.Context(main), name)
        assert command is not None, line
        command.make_parser(click.Context(command)).parse_args(list(arguments))


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as at Python's prompt
    names: dict[str, object] = {}
    text = (ROOT / path).read_text()
    for target in _LINK.findall(text):
        if target.endswith(".hlo"):
            copy = (ROOT / path.parent / target).resolve()
            copied = tmp_path / copy.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(copy, copied)
    for match in blocks(text):
        if match["long"] and not is_long():
            continue
        if match["file"]:
            Path(match["file"]).write_text(match["body"])
        elif match["devices"]:
            check_on_devices(match["body"], int(match["devices"]), str(path))
        elif match["language"] == "console":
            check_console(match["body"])
        elif match["language"] == "python":
            check_python(match["body"], names, str(path))
        elif not match["language"]:
            check_commands(match["body"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_links_lead_somewhere(path: Path):
    for target in _LINK.findall((ROOT / path).read_text()):
        assert os.path.exists(ROOT / path.parent / target), target


def test_the_readme_opens_with_what_it_is_a_picture_and_two_commands():
    text = (ROOT / "README.md").read_text()
    picture, demo, tests = (text.index(marker) for marker in ("![", "make demo", "make test"))
    assert text.index("hloom reads") < picture < demo < tests < 2000


def test_pictures_are_made_from_output():
    picture = (ROOT / "docs" / "images" / "inspect.svg").read_text()
    for word in ("jit__lambda", "opcodes", "calls", "reduce"):
        assert word in picture
