"""Damaged inputs by number: files, and the command line that reads them."""

from __future__ import annotations

import gzip
import io
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from random import Random

import numpy as np
import zstandard

import hloom
from hloom.formats import protobuf
from hloom.formats.hlo import write_proto
from hloom.passes import PASSES
from hloom.rewrite import to_json
from hloom.text import HloomError
from tests.corpus import handwritten
from tests.damage.mutations import (
    MOST_BYTES,
    altered_json,
    altered_message,
    altered_text,
    damaged_bytes,
    damaged_text,
)
from tests.passes.random_modules import module_of, text_of

LARGEST = 8000
"""Longer texts tell nothing more and take longer."""
NAMES = [name for name in PASSES if not name.startswith("test-")]
BOUNDS = ("--steps", "100000", "--memory", "128MiB")
"""What an evaluation may take of what an input may take (`campaign.py`)."""
COMMANDS = (
    ("inspect",), ("inspect", "--json"), ("inspect", "--strict"), ("print",), ("print", "--canonical"),
    ("print", "--short-parsable"), ("print", "--ir"), ("print", "--json"), ("draw",), ("draw", "--json"),
    ("draw", "-o", "out.graphml"), ("cost",), ("cost", "--by", "scope"), ("cost", "--json"), ("roofline",),
    ("roofline", "--json"), ("memory",), ("memory", "--json"), ("memory", "--schedule", "list"),
    ("propagate", "--mesh", "x=2", "--set", "SPEC"), ("propagate", "--mesh", "x=2", "--set", "SPEC", "--all", "--json"),
    ("propagate", "--mesh", "x=2", "--enumerate", "--limit", "20"), ("plan", "--mesh", "x=2", "--seconds", "1"),
    ("plan", "--mesh", "x=2,y=2", "--planner", "recursive", "--seconds", "1", "--json"), ("grad", "--vjp"),
    ("grad", "--jvp"), ("evaluate", *BOUNDS), ("evaluate", "--json", *BOUNDS), ("opt", "-p", "microbatch(2)"),
    *(("opt", "-p", "PASS"),) * 14, ("opt", "-p", "PASS,PASS", "--report"), ("opt", "-p", "PASS", "-o", "-"),
    ("opt", "-p", "PASS", "--json", "-o", "out.hlo.gz"), ("opt", "-p", "PASS", "--steps", "--print-changed"),
)  # fmt: skip
"""What is done with a damaged module; PASS is a pass, SPEC a spec of one of its names."""
STEP = """HloModule step
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4,8] parameter(0)
  w = f32[8,2] parameter(1)
  d = f32[4,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)
  r = f32[4] reduce(d, z), dimensions={1}, to_apply=sum
  ROOT t = (f32[4,2], f32[4]) tuple(d, r)
}
"""
"""A module that is right, where another file is damaged."""


@dataclass(slots=True)
class Damaged:
    """One input: files by name, and the arguments of `hloom`, among which the files' names stand."""

    number: int
    maker: str
    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    piped: bytes | None = None

    @property
    def size(self) -> int:
        """How many bytes are read."""
        return sum(map(len, self.files.values())) + len(self.piped or b"")


def damaged(number: int) -> Damaged:
    """The input of this number, the same every time."""
    random = Random(f"damage {number}")
    maker = random.choice(tuple(KINDS))
    made = KINDS[maker](random)
    made.number, made.maker = number, maker
    return made


@lru_cache(1)
def texts() -> tuple[str, ...]:
    """Modules and fragments that read."""
    return tuple(text for text in handwritten().values() if 0 < len(text) < LARGEST)


@lru_cache(1)
def protos() -> tuple[bytes, ...]:
    """The same as protos, where they can be."""
    made: list[bytes] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what a proto has no place for
        for text in texts():
            try:
                made.append(write_proto(hloom.parse(text), "hlo_module"))
            except HloomError:
                continue
    return tuple(data for data in made if len(data) < MOST_BYTES)


@lru_cache(1)
def rule_files() -> tuple[str, ...]:
    """Files of rules."""
    return tuple(json.dumps(to_json(_RULES[index:]), indent=1) for index in range(len(_RULES)))


@hloom.rule
def double_transposition(p):
    """transpose(transpose(x)) -> x, where both exchange two dimensions"""
    x = p.value("x", dtype=("f32", "s32"), rank=2)
    first = p.attribute("first")
    outer = p.op("transpose", p.op("transpose", x, dimensions=first), dimensions=first)
    with p.rewrite() as r:
        r.replace({outer: x})


@hloom.rule
def product_of_sum(p):
    """multiply(add(x, y), z) -> add(multiply(x, z), multiply(y, z))"""
    x, y, z = p.value("x"), p.value("y"), p.value("z")
    expression = p.op("multiply", p.op("add", x, y), z)
    with p.rewrite() as r:
        r.replace({expression: r.op("add", r.op("multiply", x, z), r.op("multiply", y, z))})


_RULES = [double_transposition, product_of_sum]


def _either(random: Random, text: str) -> str:
    """JSON with other values or, less often, a damaged text."""
    return altered_json(random, text) if random.random() < 0.7 else damaged_text(random, text)


def _command(random: Random, file: str, text: str) -> list[str]:
    name, *options = random.choice(COMMANDS)
    arguments = [name, file]
    for option in options:
        if option == "SPEC":
            words = [word.strip("%,()") for word in text.split() if word.startswith("%")] or ["x"]
            option = f"{random.choice(words[:50])}:{random.choice((0, 0, 1, 7))}=x"
        while "PASS" in option:
            option = option.replace("PASS", random.choice(NAMES), 1)
        arguments.append(option)
    return arguments


def _module_text(random: Random) -> Damaged:
    text = random.choice(texts())
    text = altered_text(random, text) if random.random() < 0.75 else damaged_text(random, text, texts())
    data = text.encode("utf-8", "surrogateescape")
    if random.random() < 0.1:
        return Damaged(0, "", _command(random, "-", text), piped=data)
    return Damaged(0, "", _command(random, "m.hlo", text), {"m.hlo": data})


def _random_module(random: Random) -> Damaged:
    text = altered_text(random, text_of(module_of(random), random))
    return Damaged(0, "", _command(random, "m.hlo", text), {"m.hlo": text.encode()})


def _proto(random: Random) -> Damaged:
    data = random.choice(protos())
    if random.random() < 0.75:
        message = protobuf.HloModuleProto.FromString(data)
        altered_message(random, message)
        data = message.SerializeToString()
    else:
        data = damaged_bytes(random, data, protos())
    return Damaged(0, "", _command(random, "m.pb", ""), {"m.pb": data})


def _packed(random: Random) -> Damaged:
    data = random.choice(texts()).encode()
    packed = gzip.compress(data, 1) if random.random() < 0.5 else zstandard.compress(data)
    return Damaged(0, "", _command(random, "m.hlo.gz", ""), {"m.hlo.gz": damaged_bytes(random, packed)})


def _bomb(random: Random) -> Damaged:
    """Packed data that grow a thousand times and more."""
    unit = random.choice((b"\0", b" ", b"(", b"ENTRY e { ", b"a = f32[] "))
    packed = _packed_repetition(unit, 10 ** random.randint(3, 7), random.choice(("gz", "zst")))
    return Damaged(0, "", _command(random, "m.hlo", ""), {"m.hlo": packed})


@lru_cache(50)
def _packed_repetition(unit: bytes, count: int, suffix: str) -> bytes:
    data = unit * count
    return gzip.compress(data, 1) if suffix == "gz" else zstandard.compress(data)


_PLAN = json.dumps(
    {
        "mesh": {"x": 2, "y": 2}, "params": {"0": "[x,-]", "1": "[-,y]"},
        "instructions": {"d": "[x,y]", "r": "[x]"}, "results": ["[x,y]", "[x]"],
    }
)  # fmt: skip


def _plan_file(random: Random) -> Damaged:
    given = {"step.hlo": STEP.encode(), "plan.json": _either(random, _PLAN).encode("utf-8", "surrogateescape")}
    return Damaged(0, "", ["plan", "step.hlo", "--mesh", "x=2,y=2", "--seconds", "1", "--like", "plan.json"], given)


@lru_cache(1)
def _devices_text() -> str:
    """The first few devices of the package's own file."""
    text = files("hloom.analysis").joinpath("devices.toml").read_text()
    return text[: max(header.start() for header in re.finditer(r"^\[[^.\]]*\]", text[:LARGEST], re.MULTILINE))]


def _device_file(random: Random) -> Damaged:
    text = (altered_text if random.random() < 0.7 else damaged_text)(random, _devices_text())
    given = {"step.hlo": STEP.encode(), "devices.toml": text.encode("utf-8", "surrogateescape")}
    return Damaged(0, "", ["roofline", "step.hlo", "--devices", "devices.toml"], given)


def _rule_file(random: Random) -> Damaged:
    text = _either(random, random.choice(rule_files()))
    given = {"step.hlo": STEP.encode(), "rules.json": text.encode("utf-8", "surrogateescape")}
    return Damaged(0, "", ["opt", "step.hlo", "-p", "rules.json"], given)


def _arrays(random: Random) -> Damaged:
    archive = io.BytesIO()
    save = random.choice((np.savez, np.savez_compressed))
    save(archive, np.zeros((4, 8), np.float32), np.zeros((8, 2), np.float32))
    given = {"step.hlo": STEP.encode(), "x.npz": damaged_bytes(random, archive.getvalue())}
    return Damaged(0, "", ["evaluate", "step.hlo", "--inputs", "x.npz"], given)


def _mlir(random: Random) -> Damaged:
    text = (altered_text if random.random() < 0.7 else damaged_text)(random, random.choice(_mlir_texts()))
    passes = random.choice(("cse", "dce", "fuse-bias-add-dropout", "simplify", "fold"))
    return Damaged(0, "", ["opt", "m.mlir", "-p", passes], {"m.mlir": text.encode("utf-8", "surrogateescape")})


@lru_cache(1)
def _mlir_texts() -> tuple[str, ...]:
    modules = [path.read_text() for path in sorted((Path(__file__).parents[1] / "dialects").rglob("*.mlir"))]
    return tuple(text for text in modules if "stablehlo" not in text and len(text) < MOST_BYTES)


_OPTIONS = (
    ("propagate", "--mesh", "x=2,y=4", "--set", "x:0=x"), ("propagate", "--mesh", "x=2", "--set", "w=[x,-]"),
    ("plan", "--mesh", "x=2,y=2", "--pin", "x=[x,-]", "--seconds", "1"),
    ("plan", "--mesh", "x=2", "--forbid", "x:1=x", "--seconds", "1"), ("plan", "--mesh", "x=2", "--memory", "1GiB"),
    ("opt", "-p", "fixpoint(simplify,cse),dce"), ("opt", "-p", "unroll,fold", "--trace-misses", "d"),
    ("draw", "--around", "d", "--hops", "2"), ("draw", "--computation", "sum"), ("cost", "--by", "opcode"),
    ("grad", "--wrt", "0,1", "--of", "1"), ("inspect", "--module", "x"), ("memory", "--top", "3"), ("roofline", "--device", "tpu-v5e"),
)  # fmt: skip


def _options(random: Random) -> Damaged:
    name, *options = random.choice(_OPTIONS)
    position = random.randrange(1, len(options), 2)
    options[position] = damaged_text(random, options[position])[:500].replace("\0", "0") or "-"
    return Damaged(0, "", [name, "step.hlo", *options], {"step.hlo": STEP.encode()})


KINDS: dict[str, Callable[[Random], Damaged]] = {
    **{f"text {share}": _module_text for share in range(8)},
    **{f"random module {share}": _random_module for share in range(3)},
    **{f"proto {share}": _proto for share in range(2)},
    "packed": _packed, "bomb": _bomb, "plan": _plan_file, "devices": _device_file, "rules": _rule_file,
    "arrays": _arrays, "mlir": _mlir, "options": _options,
}  # fmt: skip
"""What makes an input of a kind; text has the largest share."""
