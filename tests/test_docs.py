"""The examples in the documents do what they show.

Every fenced block runs, or a marker above it says why not:

- `python` blocks run as doctests, one after the other; under `<!-- devices: N -->` in a process with N devices.
- `console` blocks run each line that begins with `$ hloom` and compare what it writes.
- Blocks of no language are commands, which must end well: `hloom` in this process, others in a shell.
- A block under `<!-- file: NAME -->` is written into that file; `<!-- copy: PATH as NAME -->` copies a file.
- Under `<!-- long -->` it takes seconds and runs in `make test-long` only.
- Under `<!-- not run: REASON -->` it does not run. `text` blocks hold notation, and no commands.

All run in one directory, which has the HLO files that the document links to and nothing else. `...` in an expected output
stands for anything, and one space for any white space.
"""

from __future__ import annotations

import doctest
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from hloom.cli import main
from hloom.cli.main import SECTIONS
from tests.helpers.properties import is_long

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.name != "CHANGELOG.md"
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- (?:file: (?P<file>\S+)|(?P<long>long)|devices: (?P<devices>\d+)|not run: (?P<reason>[^>]+)) -->\n *)?"
    r"```(?P<language>\w*)\n(?P<body>.*?)^ *```$|^<!-- copy: (?P<source>\S+) as (?P<copy>\S+) -->",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^ *```", re.MULTILINE)
_COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_NAME = re.compile(r"`(hloom(?:\.[A-Za-z_]\w*)+)")
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


def check_commands(body: str) -> None:
    """Run each line as a command, which must end with 0."""
    for line in filter(None, map(str.strip, body.splitlines())):
        line = line.removeprefix("$ ")
        words = shlex.split(line, comments=True)
        if words[0] == "hloom":
            result = CliRunner().invoke(main, words[1:])
            assert result.exit_code == 0, f"{line} ended with {result.exit_code}:\n{result.output}"
            continue
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=os.environ | {"PATH": path}, check=False
        )
        assert done.returncode == 0, f"{line} ended with {done.returncode}:\n{done.stdout}{done.stderr}"


def check_block(block: re.Match[str], names: dict[str, object], where: str) -> None:
    """Run a block as its language and its marker say."""
    body = textwrap.dedent(block["body"])
    if block["file"]:
        Path(block["file"]).write_text(body)
    elif block["devices"]:
        check_on_devices(body, int(block["devices"]), where)
    elif block["language"] == "console":
        check_console(body)
    elif block["language"] == "python":
        assert ">>>" in body, f"{where}: a python block without a prompt runs nothing:\n{body}"
        check_python(body, names, where)
    elif block["language"] == "text":
        assert not re.search(r"^\s*(?:hloom|\$|>>>) ", body, re.MULTILINE), f"{where}: commands in a block of text:\n{body}"
    else:
        assert not block["language"], f"{where}: no block of {block['language']} is known here"
        check_commands(body)


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
    for block in blocks(text):
        if block["copy"]:
            shutil.copy(ROOT / path.parent / block["source"], block["copy"])
        elif not block["reason"] and (not block["long"] or is_long()):
            check_block(block, names, str(path))


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_every_fenced_block_is_seen(path: Path):
    text = (ROOT / path).read_text()
    assert len(_FENCE.findall(text)) == 2 * sum(not block["copy"] for block in blocks(text))


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_links_lead_somewhere(path: Path):
    for target in _LINK.findall((ROOT / path).read_text()):
        assert os.path.exists(ROOT / path.parent / target), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_names_of_hloom_exist(path: Path):
    for name in sorted(set(_NAME.findall((ROOT / path).read_text()))):
        pkgutil.resolve_name(name)


def test_the_readme_opens_with_what_it_is_a_picture_and_two_commands():
    text = (ROOT / "README.md").read_text()
    picture, demo, tests = (text.index(marker) for marker in ("![", "make demo", "make test"))
    assert text.index("hloom reads") < picture < demo < tests < 2000


def test_the_readme_the_index_and_the_help_have_the_same_five_groups():
    readme, index = (ROOT / "README.md").read_text(), (ROOT / "docs" / "index.md").read_text()
    assert re.findall(r"^\*\*(.*)\*\*$", readme, re.MULTILINE) == list(SECTIONS)
    rows = re.findall(r"^\| ([^|]*?) \| ([a-z, -]*) \|", index, re.MULTILINE)
    assert dict(rows[1:]) == {title: ", ".join(commands) for title, commands in SECTIONS.items()}


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_each_page_begins_with_the_question_that_it_answers(path: Path):
    title, text = path.read_text().split("\n\n", 2)[:2]
    assert title.startswith("# ")
    assert "?" in text or path.name == "index.md"


def test_pictures_are_made_from_output():
    picture = (ROOT / "docs" / "images" / "inspect.svg").read_text()
    for word in ("jit__lambda", "opcodes", "calls", "reduce"):
        assert word in picture
