"""Functions that die and hang, asked about in forked processes: a program of its own, for jax's threads forbid to fork."""

from __future__ import annotations

import os
import sys
import time

from hloom import parse
from hloom.formats.hlo import print_module
from hloom.inspection.minimize import FunctionPredicate
from hloom.ir import Module

SINE = "ENTRY e { x = f32[] parameter(0) ROOT y = f32[] sine(x) }"
TANH = SINE.replace("sine", "tanh")


def dies(module: Module) -> bool:
    if any(node.opcode == "sine" for node in module.nodes()):
        os._exit(7)
    return True


def hangs(module: Module) -> bool:
    del module
    time.sleep(60)
    return True


def main() -> None:
    for function, text in ((dies, SINE), (dies, TANH), (hangs, TANH)):
        module = parse(text)
        verdict = FunctionPredicate(function, isolated=True, timeout=0.5).check(module, print_module(module))
        sys.stdout.write(f"{function.__name__}: {verdict.shows}, {verdict.reason}\n")


if __name__ == "__main__":
    main()
