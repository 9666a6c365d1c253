"""Names without their numbers, and the nearest of what is not there.

Covers `names.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.text import HloomError, resolve_name

LAYER = hloom.parse("""ENTRY layer {
  x.3 = f32[4,64] parameter(0)
  h.4 = f32[4,64] tanh(x.3)
  w.1 = f32[64,8] parameter(1)
  ROOT y.5 = f32[4,8] dot(h.4, w.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
ARRAYS = {"x": np.ones((4, 64), np.float32), "w": np.ones((64, 8), np.float32)}

BATCH = {"w": "x", "w.1": "x.3"}
USES: dict[str, Callable[[hloom.Module, str], Any]] = {
    "vjp wrt": lambda module, name: hloom.vjp(module, wrt=name),
    "jvp wrt": lambda module, name: hloom.jvp(module, wrt=[name]),
    "stop": lambda module, name: hloom.vjp(module, wrt=0, stop=[name]),
    "batch of microbatch": lambda module, name: hloom.microbatch(module, 2, batch={BATCH.get(name, name): 0}),
    "quantize only": lambda module, name: hloom.quantize(module, only=[name]),
    "quantize weights": lambda module, name: hloom.quantize(module, {name: "int8"}),
    "prune only": lambda module, name: hloom.prune(module, {name: ARRAYS["w"]}, only=[name]),
    "draw around": lambda module, name: hloom.to_dot(module, around=name),
    "plan pins": lambda module, name: hloom.plan(module, "data=2", pins={name: "[data,-]"}),
    "plan forbidden": lambda module, name: hloom.plan(module, "data=2", forbidden=[f"{name}:data"]),
    "evaluate inputs": lambda module, name: hloom.evaluate(module, {"x": ARRAYS["x"], name: ARRAYS["w"]}),
    "run inputs": lambda module, name: hloom.run(module, {"x": ARRAYS["x"], name: ARRAYS["w"]}),
}


@pytest.mark.parametrize("use", list(USES))
def test_the_number_may_be_left_out(use: str):
    USES[use](LAYER, "w")
    USES[use](LAYER, "w.1")


@pytest.mark.parametrize("use", list(USES))
def test_a_miss_lists_the_nearest(use: str):
    with pytest.raises(HloomError, match=r"w\.1|x\.3"):
        USES[use](LAYER, "ww.1")


def test_the_whole_name_comes_before_numbers():
    assert resolve_name("w", ["w", "w.1"], "e", "parameter") == "w"
    assert resolve_name("%w", ["w.1", "b"], "e", "parameter") == "w.1"


def test_what_may_be_several_is_refused():
    with pytest.raises(HloomError, match=r"'w' may be any of several: w\.1, w\.2\n  give one of these names"):
        resolve_name("w", ["w.1", "w.2"], "e", "parameter")


def test_nothing_near():
    with pytest.raises(HloomError, match=r"^e has no parameter 'w'$"):
        resolve_name("w", map(str, range(9)), "e", "parameter")
