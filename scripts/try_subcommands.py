"""Run every subcommand of the hloom that is installed on a small program, and say which do not do what they should.

    python scripts/try_subcommands.py FOLDER [--with-jax]

Without jax, the subcommands that need it must say so and exit with 2; all others must succeed. With `--with-jax`, those
are run too. Needs nothing but hloom, so it runs in an environment into which only a wheel was installed.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import click
from click.testing import CliRunner

from hloom.cli import main as hloom

STEP = """HloModule step, entry_computation_layout={(f32[16,8]{1,0}, f32[8,32]{1,0}, f32[32,4]{1,0})->f32[16,4]{1,0}}

ENTRY step {
  x = f32[16,8]{1,0} parameter(0)
  w1 = f32[8,32]{1,0} parameter(1)
  w2 = f32[32,4]{1,0} parameter(2)
  hidden = f32[16,32]{1,0} dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  zeros = f32[16,32]{1,0} broadcast(zero), dimensions={}
  active = f32[16,32]{1,0} maximum(hidden, zeros)
  twice = f32[16,32]{1,0} negate(active)
  same = f32[16,32]{1,0} negate(twice)
  ROOT out = f32[16,4]{1,0} dot(same, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
LOSS = """HloModule loss

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY loss {
  x = f32[8]{0} parameter(0)
  square = f32[8]{0} multiply(x, x)
  zero = f32[] constant(0)
  ROOT total = f32[] reduce(square, zero), dimensions={0}, to_apply=add
}
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """A command line, the exit status that it should have, and words that it should print (to either output)."""

    words: str
    status: int = 0
    prints: str = ""
    needs_jax: bool = False


TRIALS = (
    Trial("inspect step.hlo", prints="step"),
    Trial("print step.hlo", prints="dot("),
    Trial("draw step.hlo -o step.dot"),
    Trial("draw step.hlo --around out --hops 1 -o step.json"),
    Trial("page step.hlo -o step.html"),
    Trial("grep step.hlo dot", prints="hidden"),
    Trial("cost step.hlo --json", prints="flops"),
    Trial("roofline step.hlo --device h100"),
    Trial("fusions step.hlo"),
    Trial("memory step.hlo --budget 1KiB", status=1),
    Trial("why-oom step.hlo --memory 4KiB", prints="remedies"),
    Trial("doctor"),
    Trial("diff step.hlo step.hlo"),
    Trial("passes dump", prints="1"),
    Trial("minimize step.hlo --failing 'grep maximum {}' -o small.hlo"),
    Trial("opt step.hlo -p simplify,cse -o opt.hlo"),
    Trial("grad loss.hlo -o grad.hlo"),
    Trial("quantize step.hlo -o narrow.hlo"),
    Trial("prune step.hlo -o sparse.hlo"),
    Trial("propagate step.hlo --mesh data=2 --set x:0=data"),
    Trial("plan step.hlo --mesh data=2 -o plan.json"),
    Trial("pipeline step.hlo --devices 2"),
    Trial("fit step.hlo --devices 2"),
    Trial("evaluate step.hlo"),
    Trial("compile step.hlo --for h100", status=2, prints="not installed"),
    Trial("run step.hlo", needs_jax=True),
    Trial("opt step.hlo -p simplify --verify -o opt.hlo", needs_jax=True),
    Trial("plan step.hlo --mesh data=2 --measure 1", needs_jax=True),
)
LEFT_OUT = {
    "view": "opens a browser",
    "calibrate": "times this machine for half a minute",
}
"""Subcommands that are not run, and why."""


def main(words: list[str]) -> int:
    folder = Path(words[0])
    has_jax = "--with-jax" in words[1:]
    folder.mkdir(parents=True, exist_ok=True)
    failures = [*_not_listed()]
    with contextlib.chdir(folder):
        _write_inputs()
        for trial in TRIALS:
            problem = _problem(trial, has_jax)
            print(f"{'FAILED' if problem else 'ok':8}hloom {trial.words}")
            failures += [problem] if problem else []
    print(*failures, sep="\n", end="\n" if failures else "")
    print(f"{len(TRIALS)} command lines, {len(failures)} failures")
    return 1 if failures else 0


def _not_listed() -> list[str]:
    """Subcommands that are neither tried nor left out for a reason."""
    context = click.Context(hloom)
    tried = {trial.words.split()[0] for trial in TRIALS}
    return [f"hloom {name} is not tried" for name in hloom.list_commands(context) if name not in tried | set(LEFT_OUT)]


def _write_inputs() -> None:
    Path("step.hlo").write_text(STEP)
    Path("loss.hlo").write_text(LOSS)
    dump = Path("dump")
    dump.mkdir(exist_ok=True)
    for number, name in enumerate(("simplification", "dce")):
        (dump / f"module_0001.step.cpu.{number:04}.pipeline.after_{name}.before_next.txt").write_text(STEP)


def _problem(trial: Trial, has_jax: bool) -> str | None:
    """What is wrong with how a command ended; None where all is well."""
    status, printed = _run(trial.words)
    refuses = trial.needs_jax and not has_jax
    wanted, words = (2, "jax") if refuses else (trial.status, trial.prints)
    if status == wanted and words in printed:
        return None
    expected = f"exit status {wanted}" + (f" and {words!r}" if words else "")
    return f"hloom {trial.words}: exit status {status}, where {expected} was expected:\n{printed[-2000:]}"


def _run(words: str) -> tuple[int | str, str]:
    result = CliRunner().invoke(hloom, shlex.split(words))
    if result.exc_info is None or isinstance(result.exception, SystemExit | None):
        return result.exit_code, result.output
    return "traceback", result.output + "".join(traceback.format_exception(*result.exc_info))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
