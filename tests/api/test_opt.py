"""Passes by name, with options, of every package.

Covers `opt.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hloom
from hloom.cli import main

TWICE = hloom.parse("ENTRY e { x = f32[8] parameter(0) a = f32[8] negate(x) ROOT b = f32[8] negate(a) }")


def test_options_stand_behind_the_name():
    changed, report = hloom.opt(TWICE, ["simplify", "remat(budget=1GiB)"])
    assert changed.entry.root.opcode == "parameter"
    assert "nothing is recomputed" in report.passes[1].notes[0]


def test_passes_of_other_packages_are_known_at_once():
    code = "import hloom; m = hloom.parse('ENTRY e { ROOT x = f32[8] parameter(0) }'); hloom.opt(m, 'remat(1GiB)')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("remats(budget=1)", "passes:1:1: there is no pass named 'remats'\n  remats(budget=1)\n  ^\n  near: remat"),
        ("remat(limit=1)", "passes:1:7: limit is not one of its options\n  remat(limit=1)\n        ^\n  remat takes budget, backend"),
        ("cse(1)", "passes:1:1: 'cse' takes no passes and no options, fixpoint takes passes\n  cse(1)\n  ^"),
        ("remat(budget=1", "passes:1:15: expected ',' or ')', found the end of the text\n  remat(budget=1\n                ^"),
        ("cse dce", "passes:1:5: expected ',' or the end, found 'dce'\n  cse dce\n      ^"),
        ("fixpoint(cse", "passes:1:13: expected ',' or ')', found the end of the text"),
        ("fixpoint", "fixpoint takes passes: fixpoint(simplify,cse)"),
        ("fixpoint(" * 21 + "cse" + ")" * 21, "more than 20 fixpoints, one in another"),
        ("", "expected a pass"),
    ],
)  # fmt: skip
def test_bad_names_and_options(passes: str, message: str):
    with pytest.raises(hloom.HloomError) as caught:
        hloom.opt(TWICE, [passes])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["simplify,cse", "fixpoint(simplify,cse)", "fixpoint(fold, fixpoint(simplify, dce)),cse", "microbatch(n=1),dce"],
)
def test_texts_are_those_of_the_command_line(text: str, tmp_path: Path):
    path = hloom.save(TWICE, tmp_path / "twice.hlo")
    result = CliRunner().invoke(main, ["opt", str(path), "-p", text])
    assert result.output == hloom.print(hloom.opt(path, text)[0])


def test_a_file_of_rules(tmp_path: Path):
    rules = tmp_path / "none.json"
    rules.write_text('{"rules": []}')
    with pytest.raises(hloom.HloomError, match=r"none\.json"):
        hloom.opt(TWICE, f"simplify,{rules}")


@pytest.mark.parametrize("passes", [None, 3, object(), [None]])
def test_what_is_no_pass(passes: Any):
    with pytest.raises(hloom.HloomError, match="is not a pass: give a name, a rule, a list of rules, or a function"):
        hloom.opt(TWICE, passes)


def test_an_iterator_of_passes_is_read_once():
    changed, _ = hloom.opt(TWICE, iter(["simplify", "remat(budget=1GiB)"]))
    assert changed.entry.root.opcode == "parameter"


def test_a_budget_by_what_xla_assigns():
    module = hloom.parse("ENTRY e { x = f32[1024] parameter(0) a = f32[1024] cosine(x) ROOT b = f32[1024] sine(a) }")
    assert hloom.opt(module, "remat(budget=20KB, measure=xla)")[1].changes == 0
    with pytest.raises(hloom.HloomError, match="nothing is known that measures memory by 'scale'"):
        hloom.opt(module, "remat(budget=20KB, measure=scale)")
