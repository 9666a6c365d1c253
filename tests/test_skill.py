"""skills/hloom/SKILL.md: the commands of its questions run on the files of the repository, and find what they ask for."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hloom.cli import main

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "skills" / "hloom" / "SKILL.md").read_text()
QUESTIONS = dict(re.findall(r"^### (\d+\. [^\n]+)\n.*?^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
BEFORE = {"10": "9", "11": "9"}
"""Questions about the file that another one writes."""


def asked(question: str) -> None:
    for line in QUESTIONS[question].splitlines():
        command, _, filter_ = line.partition(" | jq ")
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.exit_code in (0, 1), result.output
        assert json.loads(result.stdout)["schema_version"]
        if shutil.which("jq"):
            arguments = ["jq", "-c", *shlex.split(filter_)]
            found = subprocess.run(arguments, input=result.stdout, capture_output=True, text=True, check=True)
            assert not {"null", "", "[]"} & set(found.stdout.splitlines()), found.stdout


def test_front_matter():
    _, head, _ = TEXT.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == "hloom" and set(fields) == {"name", "description"}
    assert len(fields["description"]) <= 1024  # what programs that read skills take


def test_there_are_fifteen_questions():
    assert [int(question.split(".")[0]) for question in QUESTIONS] == list(range(1, 16))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question(question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    earlier = BEFORE.get(question.split(".")[0])
    if earlier:
        asked(next(name for name in QUESTIONS if name.startswith(f"{earlier}.")))
    asked(question)
