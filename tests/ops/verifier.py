"""XLA's verifier, asked in a child: a text takes the place of a program at the end of XLA's own pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

from hloom.runtime.xla import environment

WORKER = Path(__file__).with_name("verifier_worker.py")


def complaint(text: str) -> str:
    """What XLA's verifier says against a module of one parameter and one result, both f32[8]; empty where nothing."""
    child = _child()
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps(text) + "\n")
    child.stdin.flush()
    line = child.stdout.readline()
    assert line, f"XLA dies of this text:\n{text}"
    return json.loads(line)


@cache
def _child() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, str(WORKER)]
    child = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment(1)
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n", "run the child by hand to see why"
    return child
