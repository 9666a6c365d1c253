"""Every example of every `--help` does what it shows, on files of the names that it mentions."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from hloom.cli import main
from hloom.cli.main import COMMANDS
from hloom.compress.quantization import save_checkpoint
from hloom.formats.hlo import parse, save
from hloom.rewrite import save_rules
from tests.cli.conftest import ROOT
from tests.cli.test_quantize import DECODE, MODEL, arrays, steps
from tests.distribute.fit.programs import perceptron_text
from tests.inspection.profile.traces import MODULE as TRACED
from tests.inspection.profile.traces import RUNS, TraceWriter
from tests.inspection.why_oom.test_error_text import TPU
from tests.targets.compiler.fake_compiler import fake_compiler

STEP = """HloModule step

region_0.1 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT sum = f32[] add(a, b) }

body.1 {
  state = (s32[], s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] get-tuple-element(state), index=1
  h = f32[64,64] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  tanh = f32[64,64] tanh(h)
  ROOT new = (s32[], s32[], f32[64,64]) tuple(next, n, tanh)
}

cond.1 {
  state = (s32[], s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] get-tuple-element(state), index=1
  ROOT more = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[64,64] parameter(0)
  w.1 = f32[64,64] parameter(1)
  dot.3 = f32[64,64] dot(x, w.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/layer_0/dot" source_file="m.py" source_line=3}
  add.3 = f32[64,64] add(dot.3, dot.3), metadata={op_name="jit(step)/layer_0/add" source_file="m.py" source_line=4}
  zero = f32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0,1}, to_apply=region_0.1
  low = f32[] constant(1)
  high = f32[] constant(4)
  bounded = f32[] clamp(low, total, high)
  trips = s32[] convert(bounded)
  start = s32[] constant(0)
  minus.1 = f32[64,64] negate(add.3)
  minus.2 = f32[64,64] negate(minus.1)
  minus.3 = f32[64,64] negate(minus.2)
  minus.4 = f32[64,64] negate(minus.3)
  minus.5 = f32[64,64] negate(minus.4)
  minus.6 = f32[64,64] negate(minus.5)
  init = (s32[], s32[], f32[64,64]) tuple(start, trips, minus.6)
  while.6 = (s32[], s32[], f32[64,64]) while(init), condition=cond.1, body=body.1
  ROOT out = f32[64,64] get-tuple-element(while.6), index=2
}
"""
TRAINED = re.sub(r"\bx\b", "tokens", perceptron_text(layers=4))
LOSS = """HloModule loss
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[4] parameter(0)
  w.1 = f32[4] parameter(1)
  b.2 = f32[4] parameter(2)
  xw = f32[4] multiply(x, w.1)
  y = f32[4] add(xw, b.2)
  zero = f32[] constant(0)
  ROOT loss = f32[] reduce(y, zero), dimensions={0}, to_apply=sum
}
"""
FUSED = """HloModule jit_step, is_scheduled=true
fused { a = f32[64] parameter(0) n = f32[64] negate(a) ROOT e = f32[64] exponential(n) }
ENTRY main { x = f32[64] parameter(0) ROOT fusion = f32[64] fusion(x), kind=kLoop, calls=fused }
"""
RULE = """import hloom

@hloom.rule
def doubled(p):
    \"\"\"add(x, x) -> multiply(x, 2)\"\"\"
    x = p.value("x")
    total = p.op("add", x, x)
    with p.rewrite() as r:
        r.replace({total: r.op("multiply", x, r.constant(2, like=x))})


my_passes = [doubled]
"""
DEVICE = """[cpu]
title = "a machine"
memory_bytes = 1e9
memory_bandwidth = 1e10
launch_seconds = 1e-6
[cpu.matrix]
f32 = 1e12
[cpu.vector]
f32 = 1e11
[cpu.sources]
memory_bytes = "here"
memory_bandwidth = "here"
launch_seconds = "here"
matrix = "here"
vector = "here"
"""
TRAINING = re.compile(r"hloom (pipeline|fit) ")
"""Commands whose step.hlo is a step of training."""
ANSWER_NO = re.compile(r"hloom (diff|grep .*(> |uses)|passes .*--diff|minimize .*(--xla|--differs|--passes))")
"""Examples whose answer is no for these files: modules that differ, nothing so large, no fault of hloom's or XLA's."""
NEEDS_COMPILER = re.compile(r"hloom (compile|doctor|.* --for )")
"""Examples that ask a target's compiler, which is a fake one here."""
LONG = re.compile(r"hloom (calibrate|fit|pipeline .*h100|plan .*--measure|minimize .*--differs-between)")
"""What takes seconds, for the long tests."""


def examples() -> list[str]:
    """The lines under "Examples:" of the help of hloom and of its subcommands."""
    context = click.Context(main)
    commands = [main, *(main.get_command(context, name) for name in COMMANDS)]
    texts = [command.help or "" for command in commands if command is not None]
    assert all("Examples:" in text for text in texts)
    joined = [re.sub(r"\\\n\s*", "", text.partition("Examples:")[2]) for text in texts]
    return [line.strip() for text in joined for line in text.splitlines() if line.strip()]


def write_inputs(folder: Path, command: str) -> None:
    """Write the files that examples name."""
    step = TRACED if "--profile" in command else TRAINED if TRAINING.match(command) else STEP
    if "x:0" in command:
        step = step.replace("tokens", "x")
    other = step.replace("tanh(", "cosine(")
    texts = {
        "step.hlo": step,
        "old.hlo": step,
        "new.hlo": other,
        "optimised.hlo": FUSED if command.startswith("hloom fusions") else step,
        "train.hlo": step,
        "sharded.hlo": step,
        "loss.hlo": LOSS,
        "model.hlo": MODEL,
        "decode.hlo": DECODE,
        "before.mlir": (ROOT / "tests/dialects/oneflow/oneflow_bias_add_dropout.before.mlir").read_text(),
        "error.txt": TPU,
        "log.json": json.dumps({"error": TPU}),
        "mine.toml": DEVICE,
        "my_passes.py": RULE,
        "check.sh": "#!/bin/sh\ngrep -q dot $1\n",
        "my_check.py": "import sys\nsys.exit('dot' in open(sys.argv[1]).read())\n",
    }
    for dump in ("dump", "old_dump", "new_dump"):
        texts[f"{dump}/module_0001.jit_f.before_optimizations.txt"] = STEP
        texts[f"{dump}/module_0001.jit_f.after_optimizations.txt"] = FUSED
        texts[f"{dump}/module_0007.jit_step.cpu_after_optimizations.txt"] = FUSED
    if command.startswith("hloom passes"):
        for stage, text in (("0000.p.before_a", step), ("0012.p.after_a.before_b", step), ("after_optimizations", other)):
            texts[f"dump/module_0010.jit_step.{stage}.txt"] = text
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "check.sh").chmod(0o755)
    save(parse(STEP), folder / "step.hlo.pb")
    save(parse(STEP), folder / "step.hlo.pb.gz")
    save_rules([runpy.run_path(str(folder / "my_passes.py"))["doubled"]], folder / "my_rules.json")
    weights = {name: array for name, array in arrays().items() if name != "x"}
    for name in ("model.npz", "old.npz", "model.safetensors"):
        save_checkpoint(folder / name, weights)
    np.savez(folder / "batch.npz", **arrays())  # pyright: ignore[reportArgumentType]
    np.savez(folder / "x.npz", **{name: np.ones((64, 64), "f4") for name in ("x", "w.1")})  # pyright: ignore[reportArgumentType]
    steps(folder, 2)
    for trace in ("trace", "old_trace", "new_trace") if "--profile" in command else ():
        traced = TraceWriter()
        (traced.gpu if "h100" in command else traced.cpu)(RUNS)
        traced.program(other if trace == "new_trace" else step, folder / trace)
        traced.write(folder / trace)


def run_line(line: str) -> None:
    """Run a line of a shell: hloom in this process, what else is piped into it or from it as it is."""
    piped: str | None = None
    for part in shell_parts(line):
        if part[0] == "hloom":
            result = CliRunner().invoke(main, part[1:], input=piped)
            allowed = {0, 1} if ANSWER_NO.match(line) else {0}
            assert result.exit_code in allowed, f"{line}: {result.exit_code}\n{result.output}"
            piped = result.stdout
        elif part[0] == "jq":
            raw, expression = part[1] == "-r", part[2 if part[1] == "-r" else 1]
            data = json.loads(Path(part[3]).read_text() if raw else piped or "")
            piped = value = picked(data, expression)
            assert value is not None, line
        elif part[0] == "jax-program":
            piped = STEP
        else:
            assert part == ["less"], line


def shell_parts(line: str) -> list[list[str]]:
    """The commands of a line, which pipes connect."""
    words = shlex.shlex(line, posix=True, punctuation_chars="|")
    words.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "|":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def picked(value: Any, expression: str) -> Any:
    """What jq picks: names, numbers of elements, all elements, and the length."""
    path, _, function = expression.partition(" | ")
    for name, number in re.findall(r"\.?(\w+)|\[(\d*)\]", path):
        value = value[name] if name else value[int(number)] if number else value[0]
    return len(value) if function == "length" else value


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.long] if LONG.match(line) else [], id=line) for line in examples()]
)
def test_an_example_of_the_help(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("webbrowser.open", lambda *_: True)
    if NEEDS_COMPILER.search(line):
        fake_compiler(tmp_path, monkeypatch)
    write_inputs(tmp_path, line)
    run_line(line)
